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

// sqlLastRunsOfPartition is sqlPruneLastRuns for a partition.
const sqlLastRunsOfPartition = `
UPDATE schedules s SET last_run_at = l.run_at
FROM (SELECT r.sid, max(r.run_at) AS run_at FROM ended_runs r
	WHERE r.run_at >= $1 AND r.run_at < $2 AND r.launched_at IS NOT NULL GROUP BY r.sid ORDER BY r.sid) l
WHERE s.sid = l.sid AND ` + launchedLast
