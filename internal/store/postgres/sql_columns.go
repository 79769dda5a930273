package postgres

// The columns of a run in the order of runRow.targets: of the view schedule_runs (r), of
// open_runs (o) and of ended_runs (e), the latter with its schedule (s). The tables
// have codes where the view has words; runRow reads both.
const (
	runColumns = `
r.idempotency_key, r.schedule_id, r.revision, r.run_at, r.fire_at, r.status, r.reason, r.trigger,
r.overlap_key, r.overlap_policy, r.exclusive, r.max_queued, r.waiting_since,
r.attempt, r.retry_of, r.deliveries, r.input, r.priority, r.run_id, r.trace_id,
r.epoch, r.claimed_at, r.claimed_until, r.cancel_requested_at, r.cancel_reason,
r.launched_at, r.started_at, r.completed_at, r.timeout_at, r.error_code, r.error_message, r.failed_attempts,
r.created_at, r.updated_at`

	openColumns = `
o.idempotency_key, ` + scheduleOfOpen + ` AS schedule_id,` + openColumnsAfterSchedule

	// scheduleOfOpen is a subquery, not a join: a plan that was made while schedules were
	// few would read all of them, and the open runs of each.
	scheduleOfOpen = `(SELECT s.schedule_id FROM schedules s WHERE s.sid = o.sid)`

	// openColumnsAfterSchedule are for statements that get schedule_id from elsewhere.
	openColumnsAfterSchedule = `
o.revision, o.run_at, o.fire_at, o.status, NULL::text AS reason, o.trigger,
o.overlap_key, o.policy, o.policy <> 1 AS exclusive, o.max_queued, o.waiting_since,
o.attempt, o.retry_of, o.deliveries, o.input, o.priority, o.run_id, o.trace_id,
o.epoch, o.claimed_at, o.send_after, o.cancel_requested_at, o.cancel_reason,
o.launched_at, o.started_at, NULL::timestamptz AS completed_at, o.timeout_at, o.error_code, o.error_message, o.failed_attempts,
o.created_at, o.updated_at`

	endedColumns = `
e.idempotency_key, s.schedule_id, e.revision, e.run_at, e.fire_at, e.status, e.reason, e.trigger,
e.overlap_key, e.policy, e.policy <> 1 AS exclusive, e.max_queued, NULL::timestamptz AS waiting_since,
e.attempt, e.retry_of, e.deliveries, e.input, e.priority, e.run_id, e.trace_id,
e.epoch, e.claimed_at, NULL::timestamptz AS send_after, e.cancel_requested_at, e.cancel_reason,
e.launched_at, e.started_at, e.completed_at, e.timeout_at, e.error_code, e.error_message, e.failed_attempts,
e.created_at, e.recorded_at AS updated_at`

	// What comes from the revision (d), or from a report. Hot statements leave these out:
	// the cached definition has the former, and no claim needs the latter.
	identityColumns      = ownerColumns + `, r.exit_code, r.log_url`
	openIdentityColumns  = ownerColumns + `, o.exit_code, o.log_url`
	endedIdentityColumns = ownerColumns + `, e.exit_code, e.log_url`
	ownerColumns         = `, d.user_id, d.workflow_id, d.version`

	joinRevision = `
LEFT JOIN schedule_revisions d ON d.schedule_id = r.schedule_id AND d.revision = r.revision`

	fromOpen = `
FROM open_runs o`
	joinOpenRevision = `
LEFT JOIN schedule_revisions d ON d.schedule_id = ` + scheduleOfOpen + ` AND d.revision = o.revision`

	fromEnded = `
FROM ended_runs e JOIN schedules s ON s.sid = e.sid`
	joinEndedRevision = `
LEFT JOIN schedule_revisions d ON d.schedule_id = s.schedule_id AND d.revision = e.revision`
)
