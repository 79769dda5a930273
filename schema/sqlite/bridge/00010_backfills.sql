-- +goose Up
-- Ranges of past slots that are run, or run again (docs/backfill.md). The
-- leader goes through a range bit by bit; cursor_at is how far it is.
CREATE TABLE backfills (
    backfill_id     TEXT PRIMARY KEY,
    schedule_id     TEXT NOT NULL,
    request_id      TEXT NOT NULL,
    request_hash    BLOB NOT NULL,
    user_id         TEXT NOT NULL,
    revision        INTEGER NOT NULL,
    overlap_key     TEXT NOT NULL,           -- user_id/overlap_key of that revision
    shard           INTEGER NOT NULL,        -- its bucket
    from_at         INTEGER NOT NULL,        -- the range, until before to_at
    to_at           INTEGER NOT NULL,
    reprocess       TEXT NOT NULL CHECK (reprocess IN ('missed','failed','all')),
    slot_order      TEXT NOT NULL CHECK (slot_order IN ('oldest_first','newest_first')),
    overlap_policy  TEXT NOT NULL,
    concurrency     INTEGER NOT NULL,
    rate_per_minute INTEGER NOT NULL,        -- 0 = as the runs before end
    note            TEXT,
    created_by      TEXT,
    state           TEXT NOT NULL CHECK (state IN ('running','paused','finished','cancelled')),
    reason          TEXT,
    state_note      TEXT,
    changed_by      TEXT,
    cursor_at       INTEGER NOT NULL,
    next_at         INTEGER,                 -- the next start is not to be before
    slots           INTEGER NOT NULL,
    to_run          INTEGER NOT NULL,
    passed_over     INTEGER NOT NULL,
    put_down        INTEGER NOT NULL,
    succeeded       INTEGER NOT NULL,
    failed          INTEGER NOT NULL,
    skipped         INTEGER NOT NULL,
    cancelled       INTEGER NOT NULL,
    unfinished      INTEGER NOT NULL,        -- the leader must look
    looked_at       INTEGER NOT NULL,        -- when it last did
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    ended_at        INTEGER
) STRICT;

CREATE INDEX backfills_unfinished ON backfills (looked_at, backfill_id) WHERE unfinished;
CREATE INDEX backfills_created ON backfills (created_at DESC, backfill_id DESC);
CREATE INDEX backfills_schedule ON backfills (schedule_id, created_at DESC, backfill_id DESC);
CREATE INDEX backfills_user ON backfills (user_id, created_at DESC, backfill_id DESC);
CREATE INDEX backfills_ended ON backfills (ended_at) WHERE ended_at IS NOT NULL; -- for retention

-- Which run stands for which slot of a backfill. It is settled once its end is
-- counted in the backfill's row.
CREATE TABLE backfill_runs (
    backfill_id     TEXT NOT NULL,
    run_at          INTEGER NOT NULL,
    idempotency_key BLOB NOT NULL CHECK (length(idempotency_key) = 32),
    settled         INTEGER NOT NULL,
    PRIMARY KEY (backfill_id, run_at)
) STRICT;

CREATE INDEX backfill_runs_unsettled ON backfill_runs (backfill_id, run_at) WHERE NOT settled;
CREATE INDEX backfill_runs_key ON backfill_runs (idempotency_key);

-- +goose Down
DROP TABLE backfill_runs;
DROP TABLE backfills;
