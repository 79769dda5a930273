package sim_test

// mutants are bugs that a scheduler could have: each breaks a promise, and the
// checker has to say so. Those of the ledger break the ledger in memory, in the
// same place in which SQL would be broken.
var mutants = []seededBug{
	{"whoever led once may write", []edit{{
		"internal/store/memory/leader.go", `row == nil || row.Holder != term.Holder || row.Epoch != term.Epoch`, `row == nil`,
	}}},
	{"a takeover does not raise the epoch", []edit{{
		"internal/store/memory/leader.go", `return epoch + 1`, `return max(epoch, 1)`,
	}}},
	{"a renewal that fails is ignored", []edit{{
		"worker/leader/term.go", "t.lose(err)\n\t\t\treturn", "continue",
	}, {
		"worker/leader/term.go", `t.lose(fmt.Errorf("no renewal in time: %w", context.DeadlineExceeded))`, ``,
	}}},
	{"trust counts from a renewal's answer, not from its start", []edit{{
		"worker/leader/term.go", `since = began`, `_, since = began, time.Now()`,
	}}},
	{"overlap is judged without what is in flight", []edit{{
		"internal/ledger/overlap.go", `busy: len(g.inFlight) > 0`, `busy: false`,
	}}},
	{"overlap is judged without what is in flight, and no index stands behind it", []edit{{
		"internal/ledger/overlap.go", `busy: len(g.inFlight) > 0`, `busy: false`,
	}, {
		"internal/store/memory/claim.go", `if !r.Exclusive || !c.exclusiveInFlight(r.OverlapKey) {`, `if true {`,
	}}},
	{"a row is inserted after its run is sent: the launcher goes on without its record", []edit{{
		"launcher/begin.go", "				s.end(schedule.StartReply{}, fmt.Errorf(\"record key %s: %w\", s.req.Key, err))\n",
		`				holder, _ := l.presence.Await(context.Background())
				b := &begun{checkedAt: s.now(), lease: &lease{key: s.req.Key, until: []time.Time{{}}}}
				b.lease.holder.Store(holder)
				b.Permission, b.Request.Key, b.Request.Calls = schedule.Granted, s.req.Key, 1
				s.begun(b)
`,
	}}},
	{"a term makes the retries of another shard due", []edit{{
		"worker/launch.go", "func() { term.recovered(retries) }", "func() { w.terms[0].recovered(retries) }",
	}}},
	{"a row that is only planned is sent", []edit{{
		"worker/claim.go", "	m := &t.memory\n	claim := &ledger.Claim{",
		`	m := &t.memory
	for run := range m.state.All() {
		if run.Status == schedule.StatusPlanned && run.WaitingSince.IsZero() && !run.FireAt.After(now) {
			req := (&schedule.Launch{
				Run:        schedule.Run{Key: run.Key, ScheduleID: run.ScheduleID, Revision: run.Revision, RunAt: run.RunAt, FireAt: run.FireAt, Trigger: run.Trigger},
				Definition: &schedule.Definition{WorkflowID: "w", Version: 1, UserID: schedule.Owner(run.OverlapKey)},
			}).StartRequest()
			t.calling(req.FireAt, func() { t.Launcher.StartAll(t.calls, []schedule.StartRequest{req}, func(int, schedule.StartReply, error) {}) })
		}
	}
	claim := &ledger.Claim{`,
	}, {
		"internal/ledger/begin.go", `case r.Stage() != schedule.StatusLaunching:`, `case r.Status != schedule.StatusLaunching && r.Status != schedule.StatusPlanned:`,
	}}},
	{"a deploy ends a pause", []edit{{
		"registrar/upsert.go", `paused := value(in.Paused, current.Pause.Active(now))`, `paused := value(in.Paused, false)`,
	}}},
	{"jitter is drawn by the clock, not from the key", []edit{{
		"internal/plan/jitter.go", `key.Fraction(uint64(a+b+1))`, `uint64(time.Now().UnixMicro())%uint64(a+b+1)`,
	}}},
	{"a change sets the cursor back", []edit{{
		"registrar/upsert.go", "s.NextRunAt, _ = tt.Next(now)\n\ts.PlanAt = now", "s.NextRunAt, _ = tt.Next(now.Add(-3 * time.Second))\n\ts.PlanAt = now",
	}}},
	{"the cursor moves past a slot that was not planned", []edit{{
		"internal/plan/decide.go", "p.out.NextRunAt = at\n}", "if p.out.NextRunAt = at; ok {\n\t\tp.out.NextRunAt, _ = p.tt.Next(at)\n\t}\n}",
	}}},
	{"a backfill has more runs under way than it may", []edit{{
		"internal/plan/backfill.go", `capacity := int(b.Concurrency)`, `capacity := int(b.Concurrency) + 1`,
	}}},
	{"two backfills of one range run its slots beside each other", []edit{{
		"internal/plan/backfill.go", `state.OnWay = state.OnWay || f.given.slots[f.slotOf(f.c.Slots[i])]`, ``,
	}}},
	{"a paused backfill goes on", []edit{{
		"internal/plan/backfill.go", `case b.State == schedule.BackfillPaused:`, `case false:`,
	}, {
		"internal/plan/backfill.go", `b.State != schedule.BackfillRunning || b.OverlapPolicy`, `b.State.Ended() || b.OverlapPolicy`,
	}}},
	{"a backfill goes past a slot that it had no capacity for", []edit{{
		"internal/plan/backfill.go", "\t\tif !f.mayStart() {\n\t\t\treturn\n\t\t}\n\t\tkey :=", "\t\tif !f.mayStart() {\n\t\t\tf.advance(at)\n\t\t\treturn\n\t\t}\n\t\tkey :=",
	}}},
	{"a slot that was missed is not recorded", []edit{{
		"internal/plan/recovery.go", `r.record(schedule.EventMissed, schedule.ReasonMissed, missed, "catchup_policy is none")`, ``,
	}}},
	{"a status may move backwards", []edit{{
		"internal/ledger/end.go", `if !may {`, `if false {`,
	}}},
	{"a claim reads no changes", []edit{{
		"internal/ledger/claim.go", "	c.State.Apply(changes)\n	if err := c.checkSwept", "	_ = changes\n	if err := c.checkSwept",
	}}},
	{"a claim reads no changes and does not look whether its row is still planned", []edit{{
		"internal/ledger/claim.go", "	c.State.Apply(changes)\n	if err := c.checkSwept", "	_ = changes\n	if err := c.checkSwept",
	}, {
		"internal/store/memory/claim.go", `planned := func(r *schedule.Run) bool { return r.Status == schedule.StatusPlanned }`, `planned := func(*schedule.Run) bool { return true }`,
	}}},
	{"a claim that may have been committed is taken as failed", []edit{{
		"worker/claim.go", `m.state.Discard() // whether it was committed is not known`, ``,
	}}},
	{"a run that has ended is kept in flight", []edit{{
		"internal/ledger/changes.go", "if r := s.runs[key]; r != nil {\n			s.forget(r)", "if r := s.runs[key]; r != nil && r.flight == nil {\n			s.forget(r)",
	}}},
	{"a takeover does not load runs that wait", []edit{{
		"internal/store/memory/claim.go", `range eachOf(&s.live.waiting, &s.live.launching, &s.live.started, &s.live.queued) {`, `range eachOf(&s.live.launching, &s.live.started, &s.live.queued) {`,
	}}},
	{"a takeover does not load runs in flight", []edit{{
		"internal/store/memory/claim.go", `range eachOf(&s.live.waiting, &s.live.launching, &s.live.started, &s.live.queued) {`, `range eachOf(&s.live.waiting, &s.live.queued) {`,
	}}},
	{"seen_until passes a missed slot without a verdict", []edit{{
		"internal/ledger/state.go", `until = min(until, r.fireAt-1)`, `_ = r`,
	}}},
	{"a run ends without a change", []edit{{
		"internal/store/memory/changes.go", "	case after.Status.Terminal():\n		t.noteRun(runEnded, after)", "	case after.Status.Terminal():",
	}}},
	{"a run is inserted without a change", []edit{{
		"internal/store/memory/transaction.go", `if t.planUntil.IsZero() || !row.FireAt.After(t.planUntil) {`, `if false {`,
	}}},
	{"a schedule is changed without a change", []edit{{
		"internal/store/memory/changes.go", `t.changed.schedules[after.ScheduleID] = true`, ``,
	}}},
	{"a position forgets transactions that are open", []edit{{
		"internal/store/memory/changes.go", `return snapshot{l.last(), l.next, l.open}.position()`, `return snapshot{l.last(), l.next, nil}.position()`,
	}}},
	{"a run is sent again with another input", []edit{{
		"worker/launch.go", `reqs[i] = l.StartRequest()`, "reqs[i] = l.StartRequest()\n\t\tif l.Again {\n\t\t\treqs[i].Input = []byte(`{\"again\":true}`)\n\t\t}",
	}}},
	{"changes that were deleted are not missed", []edit{{
		"internal/store/memory/changes.go", `if n < l.deleted || n > l.last() {`, `if n = max(n, l.deleted); err != nil {`,
	}}},
	{"rows are pruned as soon as they have ended", []edit{{
		"worker/tick.go", `before := t.now().Add(-t.cfg.Retention)`, `before := t.now()`,
	}}},
	{"what has no answer is not sent again", []edit{{
		"worker/fire.go", `keys := state.SendAgain(now, r.n, r.capacity)`, `keys := []schedule.Key(nil)`,
	}}},
	{"a run is sent again under another key", []edit{{
		"worker/launch.go", `reqs[i] = l.StartRequest()`, "reqs[i] = l.StartRequest()\n\t\tif l.Again {\n\t\t\treqs[i].Key[31] ^= 1\n\t\t}",
	}}},
	{"an unknown outcome counts as failed", []edit{{
		"internal/retry/retry.go", `Key: req.Key, To: schedule.StatusLaunching, ClaimedUntil: nextAttempt(`, `Key: req.Key, To: schedule.StatusFailed, Reason: schedule.ReasonLaunchUnavailable, ClaimedUntil: nextAttempt(`,
	}}},
	{"the executor is called a little early", []edit{{
		"launcher/timers.go", `{ return at.Sub(t.now()) }`, `{ return at.Sub(t.now()) - 20*time.Millisecond }`,
	}}},
	{"pause and deletion are not looked at before a run is sent", []edit{{
		"internal/ledger/begin.go", `case req.Trigger.ObeysPause() && f.Pause.Active(now):`, `case req.Trigger.FromSpec() && f.Pause.Active(now) && now.IsZero():`,
	}, {
		"internal/ledger/begin.go", `case f.Deleted:`, `case f.Deleted && now.IsZero():`,
	}}},
	{"nobody looks at grants", []edit{{
		"internal/grant/denial.go", `case use.GrantID == "" && !use.Required:`, `case use.WorkflowID != "":`,
	}}},
	{"only the claim looks at grants", []edit{{
		"internal/ledger/begin.go", `if reason != schedule.ReasonNone {`, `if reason != schedule.ReasonNone && req.Grant.Required && req.Grant.GrantID == "" {`,
	}}},
	{"a grant is judged by now, though the run is called later", []edit{{
		"internal/schedule/grant.go", `if fireAt.After(now) {`, `if fireAt.IsZero() {`,
	}}},
	{"a revoked grant that is created again holds again", []edit{{
		"internal/store/memory/grants.go", "if there.SameTerms(&row) {\n\t\t\treturn nil", "if there.SameTerms(&row) && there.RevokedAt.IsZero() {\n\t\t\treturn nil\n\t\t} else if there.SameTerms(&row) {\n\t\t\tt.setGrant(&row)\n\t\t\treturn nil",
	}}},
	{"a run is skipped for its grant, and the word is another", []edit{{
		"internal/grant/denial.go", `return schedule.ReasonGrantRevoked,`, `return schedule.ReasonGrantExpired,`,
	}}},
	{"a key that is closed is sent all the same", []edit{{
		"launcher/begin.go", `b.Permission == schedule.Granted || b.Permission == schedule.GrantedAgain`, `b.Permission != schedule.Busy && b.Permission != schedule.Conflict && b.Permission != schedule.Withheld`,
	}}},
	{"the holder of a key is ignored", []edit{{
		"internal/ledger/begin.go", `case f.held(known.Lease, now):`, `case false:`,
	}}},
	{"a holder that lives is overruled", []edit{{
		"internal/ledger/begin.go", `return h != nil && h.LockFree && h.Generation`, `return h != nil && h.Generation`,
	}}},
	{"a lock that a restart has freed is a proof", []edit{{
		"internal/ledger/begin.go", ` && h.Generation == h.ServerGeneration`, ``,
	}}},
	{"a cancel counts as confirmed while the call is on its way", []edit{{
		"launcher/cancel.go", `return known.Done, nil`, `return true, nil`,
	}}},
	{"the executor is away, and nobody gives up before the run timeout", []edit{{
		"internal/schedule/launchtime.go", `return Later(fireAt, now).Add(LaunchFor(d, retryFor))`, `return Later(fireAt, now).Add(LaunchFor(d, retryFor) + d.RunTimeout())`,
	}}},
	{"launch_timeout_ms is ignored", []edit{{
		"internal/schedule/launchtime.go", `if d.LaunchTimeoutMS > 0 {`, `if false {`,
	}}},
	{"the time to launch a run that waited counts from its slot", []edit{{
		"internal/schedule/launchtime.go", `return Later(fireAt, now).Add(`, `return fireAt.Add(`,
	}}},
	{"a call without an answer is given up only after twice its time", []edit{{
		"internal/ledger/bound.go", `r.Deliveries > 0 && (r.Epoch < epoch || r.ClaimedUntil.After(now))`, `r.Deliveries > 0`,
	}, {
		"internal/ledger/end.go", `if s.GivesUp && launchOver(&r, lease, now) {`, `if false && launchOver(&r, lease, now) {`,
	}}},
	{"a run past its launch time is asked for again at once", []edit{{
		"internal/retry/retry.go", `GivesUp: tried(cause) || errors.Is(cause, schedule.ErrOverdue),`, ``,
	}, {
		"internal/retry/retry.go", "	if now.Before(givenUp) && at.After(givenUp) {\n		return givenUp", "	if at.After(givenUp) {\n		return schedule.Later(givenUp, now)",
	}}},
	{"an attempt that fails after the launch time ends no run", []edit{{
		"internal/ledger/end.go", `if s.GivesUp && launchOver(&r, lease, now) {`, `if false && launchOver(&r, lease, now) {`,
	}}},
	{"an attempt that fails ends its run while its launch time lasts", []edit{{
		"internal/ledger/bound.go", `return passed(r.TimeoutAt, stored(now)) && !lease`, `return !lease`,
	}}},
	{"a run of a deleted schedule makes the next one of its id fail, though it had ended before", []edit{{
		"internal/ledger/followup.go", `(c.Created || !c.Row.Alive())`, `false`,
	}}},
	{"a missing workflow is final before the run is due", []edit{{
		"launcher/call.go", `case definite && early:`, `case definite && early && s.loaded:`,
	}}},
	{"a refused connection counts as a delivery", []edit{{
		"launcher/end.go", `if !s.called.at.IsZero() && !errors.Is(err, ErrNotSent) {`, `if !s.called.at.IsZero() {`,
	}}},
	{"a key that is given back forgets its earlier calls", []edit{{
		"launcher/end.go", `e := &schedule.LaunchError{Code: code, Deliveries: s.before,`, `e := &schedule.LaunchError{Code: code, Deliveries: 0,`,
	}, {
		"launcher/end.go", `e.Reached, e.Deliveries, e.Err = true, s.before+1,`, `e.Reached, e.Err = true,`,
	}}},
	{"a run that is reported before its launcher has the answer was never delivered", []edit{{
		"internal/ledger/end.go", `if s.Unsent {`, `if r.Deliveries = s.Deliveries; s.Unsent {`,
	}}},
	{"a redelivery moves the first time that a run was sent", []edit{{
		"internal/store/memory/requests.go", `case first.IsZero():`, `case first.IsZero() || now.After(first):`,
	}}},
	{"a schedule fails by the run that ended last, not by its newest slot", []edit{{
		"internal/ledger/followup.go", `cmp.Or(d.RunAt.Compare(other.RunAt), d.EndedAt.Compare(other.EndedAt))`, `cmp.Or(d.EndedAt.Compare(other.EndedAt), d.RunAt.Compare(other.RunAt))`,
	}}},
	{"a skipped run ends a failure", []edit{{
		"internal/ledger/followup.go", `return r.Status != schedule.StatusSuccess && (r.Status != schedule.StatusFailed || retried)`, `return r.Status == schedule.StatusCancelled || retried`,
	}}},
	{"a run ends without its retry", []edit{{
		"internal/store/memory/failures.go", `next = ledger.Conclude(r, facts); next == nil {`, `next = ledger.Conclude(r, facts); next == nil || next.Attempt <= 9 {`,
	}}},
	{"a run ends with two retries", []edit{{
		"internal/store/memory/failures.go", `t.insert(t.next[i], t.next[i].CreatedAt)`, "t.insert(t.next[i], t.next[i].CreatedAt)\n\t\tt.next[i].Key[31] ^= 1\n\t\tt.insert(t.next[i], t.next[i].CreatedAt)",
	}}},
	{"a run is retried although its cancel was requested", []edit{{
		"internal/ledger/attempt.go", `(r.Attempt < r.MaxAttempts || r.StartsAgain()) && r.CancelRequestedAt.IsZero()`, `r.Attempt < r.MaxAttempts`,
	}, {
		"internal/ledger/attempt.go", `case !r.CancelRequestedAt.IsZero():`, `case false:`,
	}}},
	{"a class that is not in retry.on is retried", []edit{{
		"internal/ledger/attempt.go", `if !policy.On.Has(r.FailureClass) {`, `if false {`,
	}}},
	{"the class that the executor reports is ignored", []edit{{
		"internal/ledger/attempt.go", `schedule.ClassOf(r.Reason, r.FailureClass)`, `schedule.ClassOf(r.Reason, "")`,
	}}},
	{"a retry starts at once", []edit{{
		"internal/ledger/attempt.go", `stored(r.CompletedAt.Add(policy.Wait(facts.place(r), row.Key)))`, `r.CompletedAt`,
	}}},
	{"a renewed budget goes on with the backoff of the one before", []edit{{
		"internal/ledger/attempt.go", `before = max(r.MaxAttempts-f.Planned.Retry.Attempts(), 0)`, `before = 0`,
	}}},
	{"an edit changes how many attempts a run has", []edit{{
		"internal/ledger/attempt.go", `row.Attempt++`, `row.Attempt, row.MaxAttempts = row.Attempt+1, facts.InForce.Retry.Attempts()`,
	}}},
	{"a run has one attempt too many", []edit{{
		"internal/plan/decide.go", `MaxAttempts: d.Retry.Attempts()`, `MaxAttempts: d.Retry.Attempts() + 1`,
	}}},
	{"a retry by hand has automatic ones", []edit{{
		"internal/ledger/redrive.go", `case o.Renew:`, `default:`,
	}}},
	{"a retry by hand leaves its run dead", []edit{{
		"internal/store/memory/runs.go", `if c.Redriven && run.IsDead() {`, `if false {`,
	}}},
	{"a retry starts during a pause", []edit{{
		"internal/ledger/run.go", `return (r.automatic || r.trigger == schedule.TriggerEvent) && s.stopped && !s.deleted`, `return false && r.automatic && s.stopped && !s.deleted`,
	}, {
		"internal/ledger/begin.go", `case f.Run != nil && f.Run.IsAutomaticRetry() && f.Pause.Active(now):`, `case false:`,
	}}},
	{"a retry follows although the schedule was deleted", []edit{{
		"internal/store/memory/failures.go", `s := t.schedules[r.ScheduleID]; s != nil && s.Alive() {`, `s := t.schedules[r.ScheduleID]; s != nil {`,
	}}},
	{"a retry starts after the catch-up window", []edit{{
		"internal/ledger/attempt.go", `if !r.Queue.In() && retriesSlot(r) {`, `if false {`,
	}}},
	{"a retry that waits starts after the catch-up window", []edit{{
		"internal/ledger/run.go", `return r.startBy != 0 && max(r.fireAt, now) > r.startBy`, `return false`,
	}, {
		"internal/ledger/begin.go", `case f.Run != nil && isPast(f.Run.StartBy, now):`, `case false:`,
	}}},
	{"a retry is called for the first time after the catch-up window", []edit{{
		"internal/ledger/begin.go", `case f.Run != nil && isPast(f.Run.StartBy, now):`, `case false:`,
	}}},
	{"a retry that waits counts in max_queued", []edit{{
		"internal/ledger/overlap.go", `case j.waiting-j.retries >= int(r.maxQueued) && !r.isRetry():`, `case j.waiting >= int(r.maxQueued) && !r.isRetry():`,
	}}},
	{"a retry is skipped where a slot would be", []edit{{
		"internal/ledger/overlap.go", `if j.busy && r.automatic {`, `if false {`,
	}}},
	{"a failure that is retried makes its schedule fail", []edit{{
		"internal/ledger/followup.go", `_, retried := r.RetriedBy()`, "_, retried := r.RetriedBy()\n\t\tretried = retried && r.Key.IsZero()",
	}}},
	{"a takeover leaves the term before it open", []edit{{
		"internal/store/memory/terms.go", `t.endTerm(row, expires.Add(-row.ttl), schedule.TermEnd{Reason: reason})`, `_ = reason`,
	}}},
	{"a term that was cut off ends with its expiry, which overlaps the next", []edit{{
		"internal/store/memory/terms.go", `t.endTerm(row, expires.Add(-row.ttl), schedule.TermEnd{Reason: reason})`, `t.endTerm(row, expires, schedule.TermEnd{Reason: reason})`,
	}}},
	{"a term that is resigned ends with its first renewal", []edit{{
		"internal/store/memory/terms.go", "default:\n\t\t\tt.endTerm(row, now, end)", "default:\n\t\t\tt.endTerm(row, row.StartedAt, end)",
	}}},
	{"a takeover writes no term", []edit{{
		"internal/store/memory/terms.go", `t.terms = append(t.terms, &termRow{first: first,`, `_ = append(t.terms, &termRow{first: first,`,
	}}},
}
