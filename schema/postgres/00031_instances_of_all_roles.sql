-- +goose Up
-- Every running process, with any role. A process with the role launcher holds
-- pg_advisory_lock(1667330672, instance_no) for its session. If that lock is free,
-- the process is gone, and others take its keys over at once.
ALTER TABLE instances ADD COLUMN version text NOT NULL DEFAULT '';
-- Empty: it has not started yet, or has left.
ALTER TABLE instances ADD COLUMN roles text[] NOT NULL DEFAULT '{}';
-- The formats that it understands besides those of every release.
ALTER TABLE instances ADD COLUMN features text[] NOT NULL DEFAULT '{}';
-- Why its launches would fail; '' = healthy.
ALTER TABLE instances ADD COLUMN unhealthy text NOT NULL DEFAULT '';

INSERT INTO instances (instance_id, host, version, roles, unhealthy, started_at, seen_at)
SELECT COALESCE(p.process_id, w.worker_id), COALESCE(p.host, w.host), COALESCE(p.version, ''),
    COALESCE(string_to_array(p.roles, ','), '{worker}'), COALESCE(w.unfit, ''), COALESCE(p.started_at, w.started_at), greatest(p.seen_at, w.seen_at)
FROM processes p FULL JOIN workers w ON w.worker_id = p.process_id
ON CONFLICT (instance_id) DO UPDATE SET version = excluded.version, roles = excluded.roles, unhealthy = excluded.unhealthy;
DROP TABLE processes;
DROP TABLE workers;

UPDATE leader_terms SET end_reason = 'unhealthy' WHERE end_reason = 'unfit';

-- +goose Down
UPDATE leader_terms SET end_reason = 'unfit' WHERE end_reason = 'unhealthy';

CREATE TABLE workers (
    worker_id  text PRIMARY KEY,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    -- host:pid of the worker, and why its launches would fail; '' = healthy.
    host       text NOT NULL DEFAULT '',
    unfit      text NOT NULL DEFAULT ''
);
INSERT INTO workers (worker_id, started_at, seen_at, host, unfit)
SELECT instance_id, started_at, seen_at, host, unhealthy FROM instances WHERE 'worker' = ANY(roles);

CREATE TABLE processes (
    process_id text PRIMARY KEY,
    host       text NOT NULL,
    version    text NOT NULL,
    roles      text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL
);
INSERT INTO processes (process_id, host, version, roles, started_at, seen_at)
SELECT instance_id, host, version, array_to_string(roles, ','), started_at, seen_at FROM instances WHERE roles <> '{}';

ALTER TABLE instances DROP COLUMN version, DROP COLUMN roles, DROP COLUMN features, DROP COLUMN unhealthy;
