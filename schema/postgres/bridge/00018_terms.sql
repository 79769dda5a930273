-- +goose Up
-- Who led a shard, from when to when, and why it ended. ended_at is the last
-- proof of life; NULL = it leads. ttl_ms: leaders.expires_at less it is the last
-- renewal. A term in which the database did not answer for a while has several
-- rows of one epoch.
CREATE TABLE leader_terms (
    shard        integer NOT NULL,
    epoch        bigint NOT NULL,
    started_at   timestamptz NOT NULL,
    first_bucket integer NOT NULL,
    last_bucket  integer NOT NULL,
    worker_id    text NOT NULL,
    host         text NOT NULL,
    ttl_ms       bigint NOT NULL,
    ended_at     timestamptz,
    end_reason   text,
    end_detail   text,
    PRIMARY KEY (shard, epoch, started_at)
);
CREATE INDEX leader_terms_started ON leader_terms (started_at);
CREATE INDEX leader_terms_open ON leader_terms (shard) WHERE ended_at IS NULL;

-- Every server process, whatever its roles. Not workers: those are candidates
-- for leadership.
CREATE TABLE processes (
    process_id text PRIMARY KEY,
    host       text NOT NULL,
    version    text NOT NULL,
    roles      text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL
);

-- When the first call that may have reached the executor was recorded; NULL =
-- created_at. Of no account unless sent.
ALTER TABLE execution_requests ADD COLUMN sent_at timestamptz;

-- +goose Down
ALTER TABLE execution_requests DROP COLUMN sent_at;
DROP TABLE processes;
DROP TABLE leader_terms;
