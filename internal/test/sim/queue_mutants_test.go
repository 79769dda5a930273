package sim_test

// queueMutants are bugs that a dispatch queue could have.
var queueMutants = []seededBug{
	{"retries in a queue without a policy wait as those of schedules", []edit{{
		"internal/store/memory/failures.go", `facts = &ledger.AttemptFacts{Setting: t.opts.QueuedRetry}`, `facts = &ledger.AttemptFacts{}`,
	}}},
	{"a queue has any number of runs in flight", []edit{{
		"internal/ledger/admission.go", `Now: req.Now, Free: free, MaxInFlight: int(f.Queue.MaxInFlight),`, `Now: req.Now, Free: free, MaxInFlight: 10_000,`,
	}}},
	{"a queue has one run in flight too many", []edit{{
		"internal/ledger/admission.go", `Now: req.Now, Free: free, MaxInFlight: int(f.Queue.MaxInFlight),`, `Now: req.Now, Free: free, MaxInFlight: int(f.Queue.MaxInFlight) + 1,`,
	}}},
	{"only runs that the executor has count as in flight", []edit{{
		"internal/store/memory/admit.go", `s.ofQueue(q.No, schedule.QueueDispatching, schedule.QueueRunning)`, `s.ofQueue(q.No, schedule.QueueRunning)`,
	}}},
	{"a paused queue admits", []edit{{
		"internal/ledger/admission.go", `f.Queue.Unreadable || f.Queue.Pause.Active(req.Now)`, `f.Queue.Unreadable`,
	}}},
	{"a pause of a queue with an end has none", []edit{{
		"internal/ledger/admission.go", `f.Queue.Unreadable || f.Queue.Pause.Active(req.Now)`, `f.Queue.Unreadable || f.Queue.Pause.Paused`,
	}}},
	{"the order of a queue ignores priorities", []edit{{
		"internal/schedule/queued.go", `func QueuePriority(priority int32) int32 { return -priority }`, `func QueuePriority(int32) int32 { return 0 }`,
	}}},
	{"an update of the priority does not move its run", []edit{{
		"internal/schedule/queued.go", `r.Queue.Priority += QueuePriority(priority) - QueuePriority(r.Priority)`, ``,
	}}},
	{"the order of a queue ignores positions", []edit{{
		"internal/store/memory/admit.go", `for _, r := range s.waiting(queueNo) {`, "waiting := s.waiting(queueNo)\n\tslices.SortStableFunc(waiting, func(a, b *schedule.Run) int { return cmp.Or(cmp.Compare(a.Queue.Priority, b.Queue.Priority), slices.Compare(a.Key[8:], b.Key[8:])) })\n\tfor i, r := range waiting {\n\t\tr = &schedule.Run{Key: r.Key, Queue: r.Queue}\n\t\tr.Queue.Position = int64(i)",
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
		"internal/store/memory/admit.go", `len(s.ofQueue(q.No, schedule.QueueDispatching, schedule.QueueRunning))`,
		`len(slices.DeleteFunc(s.ofQueue(q.No, schedule.QueueDispatching, schedule.QueueRunning), func(r *schedule.Run) bool { return !r.ClaimedUntil.IsZero() }))`,
	}}},
	{"a run without an answer is not sent again", []edit{{
		"internal/ledger/queued.go", `return r, QueueResend, sooner(due, r.ClaimedUntil)`, `return r, QueueLater, sooner(due, r.ClaimedUntil)`,
	}}},
	{"a run of a queue is sent again under another key", []edit{{
		"launcher/dispatch/push.go", `reqs[i] = runs[i].request()`, "reqs[i] = runs[i].request()\n			if runs[i].Again {\n				reqs[i].Key[31] ^= 1\n			}",
	}}},
	{"a repeated request makes further runs", []edit{{
		"registrar/entry.go", `if f.Earlier == nil {`, `if f.Earlier == nil || f.Earlier.BodyHash == e.hash {`,
	}}},
	{"a request is not kept", []edit{{
		"internal/store/memory/enqueue.go", `t.enqueued[id] = record`, `_ = record`,
	}}},
	{"the id of a request is good for another one", []edit{{
		"registrar/entry.go", `if f.Earlier.BodyHash != e.hash {`, `if false {`,
	}}},
	{"the last run of a batch is lost", []edit{{
		"internal/store/memory/enqueue.go", `t.insert(runs[i], decided.Now)`, "if i == 0 || i < len(runs)-1 {\n				t.insert(runs[i], decided.Now)\n			}",
	}}},
	{"a closed queue takes runs", []edit{{
		"registrar/entry.go", `case q.Closed:`, `case false:`,
	}}},
	{"a delayed run starts a little early", []edit{{
		"internal/ledger/queued.go", `case r.Queue.State == schedule.QueueDelayed && !r.FireAt.After(now):`, `case r.Queue.State == schedule.QueueDelayed && !r.FireAt.After(now.Add(20*time.Millisecond)):`,
	}, {
		"internal/ledger/queued.go", `return sooner(r.FireAt, r.StartBy)`, `return sooner(r.FireAt.Add(-20*time.Millisecond), r.StartBy)`,
	}}},
	{"a run whose delay is over does not wait", []edit{{
		"internal/ledger/queued.go", "		r.Queue.State = schedule.QueueWaiting\n		return r, QueueReady,", "		return r, QueueReady,",
	}}},
	{"an update changes a run after its admission", []edit{{
		"registrar/queued.go", `if run.Status.Terminal() || run.Queue.State.Admitted() || dispatched && (in.Input != nil || in.Limits != nil) {`, `if run.Status.Terminal() || dispatched && in.Key.IsZero() {`,
	}, {
		"internal/store/memory/enqueue.go", "if run == nil || run.Status.Terminal() || run.Queue.State.Admitted() ||\n\t\t!run.ClaimedAt.IsZero() && (string(run.Input) != string(after.Input) || run.Queue.Limits != after.Queue.Limits) {", `if run == nil {`,
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
		"internal/ledger/admission.go", `launch.Run.Deliveries = result.Request.Calls`, `launch.Run.Deliveries = result.Request.Calls - 1`,
	}}},
	{"the cancel of a run in a queue is not carried", []edit{{
		"internal/ledger/queued.go", "	if !r.CancelRequestedAt.IsZero() {\n		return r, QueueCancel, sooner(due, now.Add(CancelAgain))\n	}\n", "",
	}}},
	{"the retry policy of a queue is ignored", []edit{{
		"internal/ledger/attempt.go", `case f.Queue != none:`, `case false:`,
	}}},
	{"a run in a queue does not have as many attempts as the queue says", []edit{{
		"internal/schedule/retry.go", `case q != nil && q.Retry != none:`, `case false:`,
	}}},
	{"a run that has expired is admitted", []edit{{
		"internal/ledger/begin.go", `if f.Run.Deliveries == 0 && isPast(f.Run.StartBy, now) {`, `if false {`,
	}, {
		"internal/ledger/queued.go", `passed(r.StartBy, now):`, `false:`,
	}}},
	{"a run that waits is never due to expire", []edit{{
		"internal/ledger/queued.go", "	case r.Queue.State == schedule.QueueWaiting:\n		return r.StartBy\n", "	case r.Queue.State == schedule.QueueWaiting:\n		return time.Time{}\n",
	}}},
	{"a chained run expires as if it had not waited for its predecessor", []edit{{
		"internal/store/memory/jobgroups.go", `r.StartBy = ledger.WaitsFrom(r, schedule.Later(r.FireAt, now))`, ``,
	}}},
	{"a heartbeat moves the deadline", []edit{{
		"internal/ledger/end.go", `s.TimeoutAt, s.DeadlineAt = now.Add(runTimeout), r.DeadlineAt`, `s.TimeoutAt = now.Add(runTimeout)`,
	}, {
		"internal/ledger/end.go", `cmp.Or(r.DeadlineAt, stored(s.DeadlineAt))`, `stored(s.DeadlineAt)`,
	}}},
	{"a limit has one run too many", []edit{{
		"internal/ledger/admit.go", `if used >= l.Max {`, `if used > l.Max {`,
	}}},
	{"what an admission has taken of a limit does not count", []edit{{
		"internal/ledger/admit.go", `used := l.Used + a.used[ref]`, `used := l.Used`,
	}}},
	{"an end keeps the uses of its run", []edit{{
		"internal/store/memory/transaction.go", `if !r.Queue.State.Admitted() {`, `if r.Queue.State != "" && !r.Queue.State.Admitted() {`,
	}}},
	{"a run that waits again keeps its uses", []edit{{
		"internal/store/memory/transaction.go", `if !r.Queue.State.Admitted() {`, `if r.Queue.State == "" {`,
	}}},
	{"a use is free while the outcome of its call is unknown", []edit{{
		"internal/store/memory/transaction.go", `if !r.Queue.State.Admitted() {`, `if !r.Queue.State.Admitted() || r.Deliveries > 1 {`,
	}}},
	{"a use is not written", []edit{{
		"internal/store/memory/uses.go", `putUndone(t, t.uses, key, uses, true)`, `_, _ = key, uses`,
	}}},
	{"only the first limit of a run counts", []edit{{
		"internal/ledger/admission.go", "	for _, ref := range r.Limits {\n		if l := c.visit.Limits[ref]; l != nil {\n			d.Uses", "	for _, ref := range r.Limits[:min(1, len(r.Limits))] {\n		if l := c.visit.Limits[ref]; l != nil {\n			d.Uses",
	}}},
	{"all keys of a limit count together", []edit{{
		"internal/store/memory/limits.go", "				if u.Key == ref.Key {\n					used++", "				if u.Key == ref.Key || ref.ID != \"\" {\n					used++",
	}}},
	{"a full limit keeps all runs of its queue waiting", []edit{{
		"internal/ledger/admit.go", "		case a.blocked(r) != nil:\n			heap.Pop(&a.heads)", "		case a.blocked(r) != nil:\n			return nil, false",
	}}},
	{"the attempt after a failure uses no limit", []edit{{
		"internal/ledger/queued.go", `, Limits: before.Queue.Limits,`, `,`,
	}}},
	{"a run does not use the limits of its queue", []edit{{
		"registrar/limituse.go", `schedule.MergeLimits(q.Limits, own)`, `schedule.MergeLimits(own)`,
	}}},
	{"an update loses the limits of the queue", []edit{{
		"registrar/queued.go", `limits := mergeLimits(&c, "limits", q, own)`, `limits := mergeLimits(&c, "limits", &schedule.Queue{Closed: q.Closed}, own)`,
	}}},
	{"a rate is not stored", []edit{{
		"internal/store/memory/uses.go", `putUndone(t, t.starts, limitKey{start.LimitNo, start.Key}, at(start.Next), true)`, `_ = start`,
	}}},
	{"the rate of a queue is not stored", []edit{{
		"internal/store/memory/uses.go", `putUndone(t, t.queueStarts, queueNo, at(out.NextStart), true)`, `_ = queueNo`,
	}}},
	{"a rate has one start too many at once", []edit{{
		"internal/ledger/rate.go", `at := r.Next.Add(-time.Duration(r.Burst-1) * r.interval())`, `at := r.Next.Add(-time.Duration(r.Burst) * r.interval())`,
	}}},
	{"a run under a rate is sent at its admission", []edit{{
		"launcher/dispatch/push.go", `		d.await(ctx, at)
`, ``,
	}}},
	{"every start may be that of a promoted run", []edit{{
		"internal/ledger/admit.go", `if a.v.PromoteAfter <= 0 || a.lastAged {
		return nil`, `if a.v.PromoteAfter <= 0 {
		return nil`,
	}}},
	{"a run is promoted at once", []edit{{
		"internal/ledger/admit.go", `case a.v.Now.Sub(r.Since) < a.v.PromoteAfter || a.started[r.Key]:`, `case a.started[r.Key]:`,
	}}},
	{"an end of a run has no message", []edit{{
		"internal/store/memory/failures.go", `if m, ok := ledger.MessageOf(r, webhook); ok {`, `if m, ok := ledger.MessageOf(r, webhook); ok && r.Status != schedule.StatusCancelled {`,
	}}},
	{"a failure that is retried is told as one for good", []edit{{
		"internal/ledger/message.go", `case r.Status == schedule.StatusFailed && goesOn:`, `case r.Status == schedule.StatusFailed && goesOn && r.Interruptions > 100:`,
	}}},
	{"a snooze is told as a skip", []edit{{
		"internal/ledger/message.go", `case r.Snoozed() && goesOn, `, `case r.Snoozed() && goesOn && r.Snoozes > 100, `,
	}, {
		"internal/ledger/message.go", `!slices.Contains(events, event)`, `!slices.Contains(events, event) && event != schedule.WebhookSkipped`,
	}}},
	{"a run's own webhook is ignored", []edit{{
		"internal/ledger/message.go", `if r.Webhook != "" {`, `if r.Webhook != "" && queue.Target == "" {`,
	}}},
	{"a retry loses the webhook of the run", []edit{{
		"internal/ledger/attempt.go", `Priority: r.Priority, Webhook: r.Webhook,`, `Priority: r.Priority,`,
	}}},
	{"the types of messages of a queue are ignored", []edit{{
		"internal/ledger/message.go", `slices.Contains(events, event)`, `slices.Contains(schedule.DefaultWebhookEvents, event)`,
	}}},
	{"a group ends while it is not sealed", []edit{{
		"internal/ledger/jobgroup.go", `return g.State == schedule.GroupRunning && g.Sealed && first == nil`, `return g.State == schedule.GroupRunning && first == nil`,
	}}},
	{"a group ends with its last but one member", []edit{{
		"internal/ledger/jobgroup.go", `return g.State == schedule.GroupRunning && g.Sealed && first == nil`, `return g.State == schedule.GroupRunning && g.Sealed && (first == nil || g.Members > 1 && first.Seq == g.Members)`,
	}}},
	{"the end of a member does not end its group", []edit{{
		"internal/store/memory/failures.go", "	t.settleGroups()\n", "",
	}}},
	{"a group stops before the attempts of its member are used up", []edit{{
		"internal/ledger/jobgroup.go", `|| goesOn || r.Status == schedule.StatusSuccess`, `|| goesOn && r.Status != schedule.StatusFailed || r.Status == schedule.StatusSuccess`,
	}}},
	{"a snooze stops a group", []edit{{
		"internal/ledger/jobgroup.go", `|| goesOn || r.Status == schedule.StatusSuccess`, `|| goesOn && !r.Snoozed() || r.Status == schedule.StatusSuccess`,
	}}},
	{"a group that stops cancels the members before the failure", []edit{{
		"internal/ledger/jobgroup.go", `from = r.Queue.GroupSeq + 1`, `from = 1`,
	}}},
	{"a group that stops goes on", []edit{{
		"internal/ledger/jobgroup.go", `|| g.OnFailure != schedule.GroupStop ||`, `|| g.OnFailure == schedule.GroupStop ||`,
	}}},
	{"all members of a sequential group start together", []edit{{
		"internal/ledger/jobgroup.go", `if g.Mode == schedule.GroupSequential && (open || i > 0) {`, `if g.Mode == schedule.GroupSequential && open && i > 0 {`,
	}}},
	{"members that are added do not wait for those before them", []edit{{
		"internal/ledger/jobgroup.go", `if g.Mode == schedule.GroupSequential && (open || i > 0) {`, `if g.Mode == schedule.GroupSequential && i > 0 {`,
	}}},
	{"the next member is never let go", []edit{{
		"internal/ledger/jobgroup.go", `return StateOfEntry(first.FireAt, now), true`, `return "", false`,
	}}},
	{"a retry is no member of its group", []edit{{
		"internal/ledger/queued.go", `GroupNo: before.Queue.GroupNo, GroupSeq: before.Queue.GroupSeq,`, ``,
	}}},
	{"a cancel of a group leaves its members", []edit{{
		"internal/ledger/jobgroup.go", `end, request, _ = RequestCancel(r, schedule.ReasonCancelled, now)`, `_, request, _ = RequestCancel(r, schedule.ReasonCancelled, now)`,
	}}},
	{"a cancelled group is PARTIAL", []edit{{
		"internal/ledger/jobgroup.go", `case !g.CancelRequestedAt.IsZero():
		g.State = schedule.GroupCancelled`, `case !g.CancelRequestedAt.IsZero() && g.Members > 100:
		g.State = schedule.GroupCancelled`,
	}}},
	{"a group with a failed member is complete", []edit{{
		"internal/ledger/jobgroup.go", `case counts.Over() > counts.Succeeded:`, `case counts.Over() > counts.Succeeded+counts.Failed:`,
	}}},
	{"a failed attempt of a member counts", []edit{{
		"internal/store/memory/jobgroups.go", `case last[seq] == nil || laterOf(r, last[seq]):`, `case last[seq] == nil || laterOf(last[seq], r):`,
	}}},
	{"the end of a group has no message", []edit{{
		"internal/store/memory/jobgroups.go", `if m, ok := ledger.GroupMessage(g, webhook); ok {`, `if m, ok := ledger.GroupMessage(g, webhook); ok && g.State != schedule.GroupPartial {`,
	}}},
	{"no run follows the end of a group", []edit{{
		"internal/store/memory/jobgroups.go", `if run, ok := ledger.GroupCompletion(g); ok && t.queueOf(g.QueueNo).Alive() {`, `if run, ok := ledger.GroupCompletion(g); ok && g.State != schedule.GroupCancelled {`,
	}}},
}
