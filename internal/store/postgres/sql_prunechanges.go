package postgres

// Changes are kept for a time after their commit. A row does not say when that was: at is
// the start of its transaction, which may have stayed open for long. So each prune also
// records a snapshot. A change that a snapshot of some age sees was committed before it,
// and a reader with a newer position has read it.

// sqlSnapshot records at most one snapshot in 30 seconds. taken_at is later than the
// snapshot, so the snapshot is never younger than it seems.
const sqlSnapshot = `
INSERT INTO change_snapshots (taken_at, server_generation, snapshot)
SELECT clock_timestamp(), ` + serverGeneration + `, pg_current_snapshot()::text
WHERE NOT EXISTS (SELECT FROM change_snapshots WHERE taken_at > clock_timestamp() - interval '30 seconds')`

// sqlPruneChanges keeps ends for one minute and other changes for one hour.
const sqlPruneChanges = `
DELETE FROM changes WHERE ctid = ANY(ARRAY(
	SELECT c.ctid FROM (VALUES (1, 60), (2, 60), (3, 1), (4, 60)) AS k(kind, minutes)
	CROSS JOIN LATERAL (` + snapshotOfAge + `k.minutes * interval '1 minute' ORDER BY s.taken_at DESC LIMIT 1) s
	CROSS JOIN LATERAL (
		SELECT c.ctid FROM changes c
		WHERE c.kind = k.kind AND c.at < s.taken_at AND pg_visible_in_snapshot(c.xid, s.snapshot)
		ORDER BY c.at LIMIT $1) c))`

// snapshotOfAge: after a restart of the server the numbers of a snapshot may be used
// again.
const snapshotOfAge = `
SELECT s.taken_at, s.snapshot::pg_snapshot FROM change_snapshots s
WHERE s.server_generation = ` + serverGeneration + ` AND s.taken_at < clock_timestamp() - `

// sqlPruneSnapshots keeps the newest snapshot that is older than an hour.
const sqlPruneSnapshots = `
DELETE FROM change_snapshots WHERE server_generation <> ` + serverGeneration + ` OR taken_at < (
	SELECT max(s.taken_at) FROM (` + snapshotOfAge + `interval '1 hour') s)`
