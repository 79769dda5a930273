-- +goose Up
-- Ranges of past slots that are run, or run again (docs/backfill.md). The
-- leader goes through a range bit by bit; cursor_at is how far it is.
CREATE TABLE backfills (
    backfill_id     text COLLATE "C" PRIMARY KEY,
    schedule_id     text COLLATE "C" NOT NULL,
    request_id      text NOT NULL,
    request_hash    bytea NOT NULL,
    user_id         text COLLATE "C" NOT NULL,
    revision        bigint NOT NULL,
    overlap_key     text COLLATE "C" NOT NULL, -- user_id/overlap_key of that revision
    shard           integer NOT NULL, -- its bucket
    from_at         timestamptz NOT NULL, -- the range, until before to_at
    to_at           timestamptz NOT NULL,
    reprocess       text NOT NULL CHECK (reprocess IN ('missed','failed','all')),
    slot_order      text NOT NULL CHECK (slot_order IN ('oldest_first','newest_first')),
    overlap_policy  text NOT NULL,
    concurrency     integer NOT NULL,
    rate_per_minute integer NOT NULL, -- 0 = as the runs before end
    note            text,
    created_by      text,
    state           text NOT NULL CHECK (state IN ('running','paused','finished','cancelled')),
    reason          text,
    state_note      text,
    changed_by      text,
    cursor_at       timestamptz NOT NULL,
    next_at         timestamptz, -- the next start is not to be before
    slots           bigint NOT NULL,
    to_run          bigint NOT NULL,
    passed_over     bigint NOT NULL,
    put_down        bigint NOT NULL,
    succeeded       bigint NOT NULL,
    failed          bigint NOT NULL,
    skipped         bigint NOT NULL,
    cancelled       bigint NOT NULL,
    unfinished      boolean NOT NULL, -- the leader must look
    looked_at       timestamptz NOT NULL, -- when it last did
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    ended_at        timestamptz
);

CREATE INDEX backfills_unfinished ON backfills (looked_at, backfill_id) WHERE unfinished;
CREATE INDEX backfills_created ON backfills (created_at DESC, backfill_id DESC);
CREATE INDEX backfills_schedule ON backfills (schedule_id, created_at DESC, backfill_id DESC);
CREATE INDEX backfills_user ON backfills (user_id, created_at DESC, backfill_id DESC);
CREATE INDEX backfills_ended ON backfills (ended_at) WHERE ended_at IS NOT NULL; -- for retention

-- Which run stands for which slot of a backfill. It is settled once its end is
-- counted in the backfill's row.
CREATE TABLE backfill_runs (
    backfill_id     text COLLATE "C" NOT NULL,
    run_at          timestamptz NOT NULL,
    idempotency_key bytea NOT NULL CHECK (octet_length(idempotency_key) = 32),
    settled         boolean NOT NULL,
    PRIMARY KEY (backfill_id, run_at)
);

CREATE INDEX backfill_runs_unsettled ON backfill_runs (backfill_id, run_at) WHERE NOT settled;
CREATE INDEX backfill_runs_key ON backfill_runs (idempotency_key);

-- +goose Down
DROP TABLE backfill_runs;
DROP TABLE backfills;
