package sim_test

// slotQueueMutants are bugs that runs of schedules in dispatch queues could have.
var slotQueueMutants = []seededBug{
	{"a slot enters its queue before it is due", []edit{{
		"internal/ledger/entry.go", `{ return r.fireAt > j.now && j.enters(r) }`, `{ return false && j.enters(r) }`,
	}}},
	{"slots wait for a free launch to enter their queues", []edit{{
		"internal/ledger/share.go", `entries.take(maxEntries)`, `entries.take(p.Limit)`,
	}}},
	{"a run is launched without a free launch, because another one of its group goes into a queue", []edit{{
		"internal/ledger/judge.go", `if !mayLaunch && `, `if false && `,
	}}},
	{"a closed queue takes slots", []edit{{
		"internal/ledger/entry.go", `case q.Closed:`, `case false:`,
	}}},
	{"a slot that its queue refuses blocks its overlap group", []edit{{
		"internal/ledger/entry.go", `if len(g.waiting)+len(g.due) == left {`, `if true {`,
	}}},
	{"the end of a run in a queue does not free its overlap group", []edit{{
		"internal/store/memory/changes.go", `if r.IsJob() { // nobody leads it`, `if r.Queue.In() {`,
	}}},
	{"a retry in a queue is not in flight for its overlap group", []edit{{
		"internal/ledger/queued.go", `if next.Epoch = before.Epoch; next.Epoch != 0 {`, `if before.Epoch != 0 {`,
	}}},
	{"a leader that takes over does not know runs in queues", []edit{{
		"internal/store/memory/claim.go", `if !r.IsJob() && !yield(r) {`, `if !r.Queue.In() && !yield(r) {`,
	}}},
	{"catch-up goes before others in a queue", []edit{{
		"internal/schedule/queued.go", `return QueuePriority(r.Priority) + behindOthers`, `return QueuePriority(r.Priority)`,
	}}},
	{"a retry of catch-up goes before others in a queue", []edit{{
		"internal/ledger/queued.go", `next.Queue.Priority = before.Queue.Priority`, ``,
	}}},
	{"a run that was replaced waits in a paused queue", []edit{{
		"internal/ledger/queued.go", `case !r.CancelRequestedAt.IsZero(): // a newer slot replaces it`, `case false:`,
	}}},
	{"a slot in a queue has not the limits of its schedule", []edit{{
		"internal/ledger/entry.go", `schedule.JoinLimits(q.Limits, d.Limits)`, `schedule.JoinLimits(q.Limits)`,
	}}},
	{"a slot in a queue has one attempt", []edit{{
		"internal/ledger/entry.go", `r.AttemptsBefore + d.Retry.QueuedAttempts(q, req.JobAttempts)`, `r.AttemptsBefore + d.Retry.Attempts()`,
	}}},
	{"a run is admitted although its grant does not allow it by another clock", []edit{{
		"internal/ledger/admission.go", `		if !d.sendable() {`, `		if false {`,
	}}},
}
