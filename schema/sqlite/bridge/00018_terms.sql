-- +goose Up
-- Who led a shard, from when to when, and why it ended. ended_at is the last
-- proof of life; NULL = it leads. ttl_ms: leaders.expires_at less it is the last
-- renewal. A term in which the database did not answer for a while has several
-- rows of one epoch.
CREATE TABLE leader_terms (
    shard        INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    first_bucket INTEGER NOT NULL,
    last_bucket  INTEGER NOT NULL,
    worker_id    TEXT NOT NULL,
    host         TEXT NOT NULL,
    ttl_ms       INTEGER NOT NULL,
    ended_at     INTEGER,
    end_reason   TEXT,
    end_detail   TEXT,
    PRIMARY KEY (shard, epoch, started_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX leader_terms_started ON leader_terms (started_at);
CREATE INDEX leader_terms_open ON leader_terms (shard) WHERE ended_at IS NULL;

-- Every server process, whatever its roles. Not workers: those are candidates
-- for leadership.
CREATE TABLE processes (
    process_id TEXT NOT NULL PRIMARY KEY,
    host       TEXT NOT NULL,
    version    TEXT NOT NULL,
    roles      TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- When the first call that may have reached the executor was recorded; NULL =
-- created_at. Of no account unless sent.
ALTER TABLE execution_requests ADD COLUMN sent_at INTEGER;

-- +goose Down
ALTER TABLE execution_requests DROP COLUMN sent_at;
DROP TABLE processes;
DROP TABLE leader_terms;
