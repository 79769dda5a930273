-- +goose Up
-- Every running process, with any role. A process with the role launcher holds a lock
-- on the file <database>.instance-<instance_no>. If that lock is free, the process is
-- gone, and others take its keys over at once.
ALTER TABLE instances ADD COLUMN version TEXT NOT NULL DEFAULT '';
-- JSON. Empty: it has not started yet, or has left.
ALTER TABLE instances ADD COLUMN roles TEXT NOT NULL DEFAULT '[]';
-- JSON. The formats that it understands besides those of every release.
ALTER TABLE instances ADD COLUMN features TEXT NOT NULL DEFAULT '[]';
-- Why its launches would fail; '' = healthy.
ALTER TABLE instances ADD COLUMN unhealthy TEXT NOT NULL DEFAULT '';

INSERT INTO instances (instance_id, host, version, roles, unhealthy, started_at, seen_at)
SELECT COALESCE(p.process_id, w.worker_id), COALESCE(p.host, w.host), COALESCE(p.version, ''),
    '["' || replace(COALESCE(p.roles, 'worker'), ',', '","') || '"]', COALESCE(w.unfit, ''), COALESCE(p.started_at, w.started_at), max(COALESCE(p.seen_at, 0), COALESCE(w.seen_at, 0))
FROM processes p FULL JOIN workers w ON w.worker_id = p.process_id
WHERE true
ON CONFLICT (instance_id) DO UPDATE SET version = excluded.version, roles = excluded.roles, unhealthy = excluded.unhealthy;
DROP TABLE processes;
DROP TABLE workers;

UPDATE leader_terms SET end_reason = 'unhealthy' WHERE end_reason = 'unfit';

-- +goose Down
UPDATE leader_terms SET end_reason = 'unfit' WHERE end_reason = 'unhealthy';

CREATE TABLE workers (
    worker_id  TEXT PRIMARY KEY,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    -- host:pid of the worker, and why its launches would fail; '' = healthy.
    host       TEXT NOT NULL DEFAULT '',
    unfit      TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO workers (worker_id, started_at, seen_at, host, unfit)
SELECT instance_id, started_at, seen_at, host, unhealthy FROM instances WHERE roles LIKE '%"worker"%';

CREATE TABLE processes (
    process_id TEXT NOT NULL PRIMARY KEY,
    host       TEXT NOT NULL,
    version    TEXT NOT NULL,
    roles      TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO processes (process_id, host, version, roles, started_at, seen_at)
SELECT instance_id, host, version, replace(replace(replace(roles, '["', ''), '"]', ''), '","', ','), started_at, seen_at FROM instances WHERE roles <> '[]';

ALTER TABLE instances DROP COLUMN version;
ALTER TABLE instances DROP COLUMN roles;
ALTER TABLE instances DROP COLUMN features;
ALTER TABLE instances DROP COLUMN unhealthy;
