package sim_test

// queueMutants are bugs that a dispatch queue could have.
var queueMutants = []struct {
	name  string
	edits []edit
}{
	{"a queue has any number of runs in flight", []edit{{
		"internal/ledger/queued.go", `Now: req.Now, Free: req.Free, MaxInFlight: int(f.Queue.MaxInFlight),`, `Now: req.Now, Free: req.Free, MaxInFlight: 10_000,`,
	}, {
		"internal/ledger/queued.go", `return max(0, min(req.Free, int(f.Queue.MaxInFlight)-f.InFlight, room))`, `return max(0, min(req.Free, room))`,
	}}},
	{"a queue has one run in flight too many", []edit{{
		"internal/ledger/queued.go", `Now: req.Now, Free: req.Free, MaxInFlight: int(f.Queue.MaxInFlight),`, `Now: req.Now, Free: req.Free, MaxInFlight: int(f.Queue.MaxInFlight) + 1,`,
	}, {
		"internal/ledger/queued.go", `int(f.Queue.MaxInFlight)-f.InFlight, room`, `int(f.Queue.MaxInFlight)+1-f.InFlight, room`,
	}}},
	{"only runs that the executor has count as in flight", []edit{{
		"internal/store/memory/admit.go", `t.ofQueue(req.QueueNo, schedule.QueueDispatching, schedule.QueueRunning)`, `t.ofQueue(req.QueueNo, schedule.QueueRunning)`,
	}}},
	{"a paused queue admits", []edit{{
		"internal/ledger/queued.go", `f.Queue.Unreadable || f.Queue.Pause.Active(req.Now)`, `f.Queue.Unreadable`,
	}}},
	{"a pause of a queue with an end has none", []edit{{
		"internal/ledger/queued.go", `f.Queue.Unreadable || f.Queue.Pause.Active(req.Now)`, `f.Queue.Unreadable || f.Queue.Pause.Paused`,
	}}},
	{"the order of a queue ignores priorities", []edit{{
		"internal/schedule/queued.go", `func QueuePriority(priority int32) int32 { return -priority }`, `func QueuePriority(int32) int32 { return 0 }`,
	}}},
	{"an update of the priority does not move its run", []edit{{
		"registrar/queued.go", `after.Queue.Priority += schedule.QueuePriority(after.Priority) - schedule.QueuePriority(run.Priority)`, ``,
	}}},
	{"the order of a queue ignores positions", []edit{{
		"internal/store/memory/admit.go", `waiting := t.waiting(req.QueueNo)`, "waiting := t.waiting(req.QueueNo)\n\t\t\tslices.SortStableFunc(waiting, func(a, b *schedule.Run) int { return cmp.Or(cmp.Compare(a.Queue.Priority, b.Queue.Priority), slices.Compare(a.Key[8:], b.Key[8:])) })",
	}}},
	{"a run that names a place enters one too late", []edit{{
		"internal/store/memory/enqueue.go", `t.insertAt(runs, waiting, position-1)`, `t.insertAt(runs, waiting, min(position, len(waiting)-1))`,
	}}},
	{"a run that waits again has used an attempt", []edit{{
		"internal/ledger/queued.go", "	r.Queue.State = schedule.QueueWaiting\n	if back.FireAt.After(now) {", "	r.Queue.State = schedule.QueueWaiting\n	r.Attempt++\n	if back.FireAt.After(now) {",
	}}},
	{"a run that waits again goes to the end of its queue", []edit{{
		"internal/ledger/queued.go", "	r.Queue.State = schedule.QueueWaiting\n	if back.FireAt.After(now) {", "	r.Queue.State = schedule.QueueWaiting\n	r.Queue.Position += 1 << 40\n	if back.FireAt.After(now) {",
	}}},
	{"a run that the executor may have waits again", []edit{{
		"launcher/dispatch/push.go", `unsent := !e.Reached || errors.Is(cause, schedule.ErrWithheld)`, `unsent := true`,
	}, {
		"internal/ledger/queued.go", `r.Stage() != schedule.StatusLaunching || r.Deliveries > 0 || lease`, `r.Stage() != schedule.StatusLaunching || lease`,
	}}},
	{"an unknown outcome frees the slot of its run", []edit{{
		"internal/store/memory/admit.go", `InFlight: len(t.ofQueue(req.QueueNo, schedule.QueueDispatching, schedule.QueueRunning)),`,
		`InFlight: len(slices.DeleteFunc(t.ofQueue(req.QueueNo, schedule.QueueDispatching, schedule.QueueRunning), func(r *schedule.Run) bool { return !r.ClaimedUntil.IsZero() })),`,
	}}},
	{"a run without an answer is not sent again", []edit{{
		"internal/ledger/queued.go", `return r, QueueResend, sooner(due, r.ClaimedUntil)`, `return r, QueueLater, sooner(due, r.ClaimedUntil)`,
	}}},
	{"a run of a queue is sent again under another key", []edit{{
		"launcher/dispatch/push.go", `reqs[i] = runs[i].StartRequest()`, "reqs[i] = runs[i].StartRequest()\n			if runs[i].Again {\n				reqs[i].Key[31] ^= 1\n			}",
	}}},
	{"a repeated request makes further runs", []edit{{
		"registrar/enqueue.go", `if f.Earlier == nil {`, `if f.Earlier == nil || f.Earlier.BodyHash == e.hash {`,
	}}},
	{"a request is not kept", []edit{{
		"internal/store/memory/enqueue.go", `t.enqueued[id] = record`, `_ = record`,
	}}},
	{"the id of a request is good for another one", []edit{{
		"registrar/enqueue.go", `if f.Earlier.BodyHash != e.hash {`, `if false {`,
	}}},
	{"the last run of a batch is lost", []edit{{
		"internal/store/memory/enqueue.go", `t.insert(runs[i], decided.Now)`, "if i == 0 || i < len(runs)-1 {\n				t.insert(runs[i], decided.Now)\n			}",
	}}},
	{"a closed queue takes runs", []edit{{
		"registrar/enqueue.go", `case q.Closed:`, `case false:`,
	}}},
	{"a delayed run starts a little early", []edit{{
		"internal/ledger/queued.go", `if r.Queue.State == schedule.QueueDelayed && r.FireAt.After(now) {`, `if r.Queue.State == schedule.QueueDelayed && r.FireAt.After(now.Add(20*time.Millisecond)) {`,
	}, {
		"internal/ledger/queued.go", "	case r.Queue.State == schedule.QueueDelayed:\n		return r.FireAt", "	case r.Queue.State == schedule.QueueDelayed:\n		return r.FireAt.Add(-20 * time.Millisecond)",
	}}},
	{"a run whose delay is over does not wait", []edit{{
		"internal/ledger/queued.go", "		if r.Queue.State == schedule.QueueDelayed {\n			r.Queue.State = schedule.QueueWaiting\n", "		if r.Queue.State == schedule.QueueDelayed {\n",
	}}},
	{"an update changes a run after its admission", []edit{{
		"registrar/queued.go", `if !run.ClaimedAt.IsZero() || run.Status.Terminal() || run.Queue.State.Admitted() {`, `if run.Status.Terminal() {`,
	}, {
		"internal/store/memory/enqueue.go", `if run.Queue.State.Admitted() || !run.ClaimedAt.IsZero() && string(run.Input) != string(after.Input) {`, `if false {`,
	}}},
	{"a retry of a run does not enter its queue at the place of the run", []edit{{
		"internal/ledger/queued.go", `Position: before.Queue.Position,`, `Position: before.Queue.Position + 1,`,
	}}},
	{"a snooze counts as an attempt", []edit{{
		"internal/ledger/attempt.go", `row.Snoozes, row.FireAt = r.Snoozes+1,`, `row.Attempt, row.Snoozes, row.FireAt = r.Attempt+1, r.Snoozes+1,`,
	}}},
	{"an interruption counts as an attempt", []edit{{
		"internal/ledger/attempt.go", `row.Snoozes, row.Interruptions, row.FireAt = r.Snoozes, r.Interruptions+1, stored(r.CompletedAt)`,
		`row.Attempt, row.Snoozes, row.Interruptions, row.FireAt = r.Attempt+1, r.Snoozes, r.Interruptions+1, stored(r.CompletedAt)`,
	}}},
	{"interruptions are not counted", []edit{{
		"internal/ledger/attempt.go", `row.Snoozes, row.Interruptions, row.FireAt = r.Snoozes, r.Interruptions+1, stored(r.CompletedAt)`,
		`row.Snoozes, row.FireAt = r.Snoozes, stored(r.CompletedAt)`,
	}}},
	{"a snoozed run starts again too early", []edit{{
		"internal/ledger/attempt.go", `schedule.Later(r.SnoozeUntil, r.CompletedAt)`, `r.CompletedAt`,
	}}},
	{"a queue whose executor was away stalls for good", []edit{{
		"launcher/dispatch/push.go", `pause := min(mostStall, firstStall<<min(s.level-1, 3))`, `pause := time.Hour`,
	}}},
	{"an admission does not count as a delivery", []edit{{
		"internal/ledger/queued.go", `launch.Run.Deliveries = result.Request.Calls`, `launch.Run.Deliveries = result.Request.Calls - 1`,
	}}},
	{"the cancel of a run in a queue is not carried", []edit{{
		"internal/ledger/queued.go", "	if !r.CancelRequestedAt.IsZero() {\n		return r, QueueCancel, sooner(due, now.Add(CancelAgain))\n	}\n", "",
	}}},
	{"an end of a run has no message", []edit{{
		"internal/store/memory/failures.go", `if m, ok := ledger.MessageOf(r, q.WebhookOf()); ok {`, `if m, ok := ledger.MessageOf(r, q.WebhookOf()); ok && r.Status != schedule.StatusCancelled {`,
	}}},
	{"a failure that is retried is told as one for good", []edit{{
		"internal/ledger/message.go", `case r.Status == schedule.StatusFailed && goesOn:`, `case r.Status == schedule.StatusFailed && goesOn && r.Interruptions > 100:`,
	}}},
	{"a snooze is told as a skip", []edit{{
		"internal/ledger/message.go", `case r.Snoozed() && goesOn:`, `case r.Snoozed() && goesOn && r.Snoozes > 100:`,
	}, {
		"internal/ledger/message.go", `!slices.Contains(queue.Events, event)`, `!slices.Contains(queue.Events, event) && event != schedule.WebhookSkipped`,
	}}},
	{"a run's own webhook is ignored", []edit{{
		"internal/ledger/message.go", `if r.Webhook != "" {`, `if r.Webhook != "" && queue.Target == "" {`,
	}}},
	{"a retry loses the webhook of the run", []edit{{
		"internal/ledger/attempt.go", `Priority: r.Priority, Webhook: r.Webhook,`, `Priority: r.Priority,`,
	}}},
	{"the types of messages of a queue are ignored", []edit{{
		"internal/ledger/message.go", `slices.Contains(queue.Events, event)`, `slices.Contains(schedule.DefaultWebhookEvents, event)`,
	}}},
}
