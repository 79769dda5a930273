package postgres

// sqlPartitions lists the partitions of ended_runs in their order. An open end is NULL.
const sqlPartitions = `
SELECT p.name, p.bound[1]::timestamptz, p.bound[2]::timestamptz, p.bytes, now()
FROM (
	SELECT c.relname AS name, pg_relation_size(c.oid) AS bytes,
		regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \((?:MINVALUE|''(.*)'')\) TO \((?:MAXVALUE|''(.*)'')\)') AS bound
	FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'ended_runs'::regclass) p
ORDER BY 2 NULLS FIRST, 3`

const sqlAddPartition = `SELECT carillon_add_partition($1, $2)`

const sqlDropPartition = `SELECT carillon_drop_partition($1, $2)`

const sqlNewestOfPartition = `
SELECT max(recorded_at) FROM ended_runs WHERE run_at >= $1 AND run_at < $2`

const sqlHistoryAhead = `
SELECT count(*) FROM (SELECT FROM ended_runs WHERE run_at >= $1 LIMIT $2) r`

// sqlLastRunsOfPartition is sqlPruneLastRuns for a partition. It looks for the newest
// run of each schedule: a partition can have thousands of runs of each.
const sqlLastRunsOfPartition = `
UPDATE schedules s SET last_run_at = l.run_at
FROM (SELECT o.sid, r.run_at FROM schedules o CROSS JOIN LATERAL (
		SELECT r.run_at FROM ended_runs r WHERE r.sid = o.sid AND r.run_at >= $1 AND r.run_at < $2 AND r.launched_at IS NOT NULL
		ORDER BY r.run_at DESC LIMIT 1) r
	WHERE o.last_run_at IS NULL OR o.last_run_at < $2 ORDER BY o.sid) l
WHERE s.sid = l.sid AND ` + launchedLast
