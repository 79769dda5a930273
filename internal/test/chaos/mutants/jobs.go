package main

import "slices"

// allBugs are those of slots and those of dispatch queues.
func allBugs() []bug { return slices.Concat(bugs, jobBugs) }

// jobBugs are bugs of dispatch queues.
var jobBugs = []bug{
	{"a queue has one run in flight too many", "mutant-jobs", 1, []change{
		{"internal/ledger/admission.go", "MaxInFlight: int(f.Queue.MaxInFlight),", "MaxInFlight: int(f.Queue.MaxInFlight) + 1,"},
	}},
	{"launchers admit without the lock of the queue", "mutant-jobs", 1, []change{
		{"internal/store/postgres/admit.go", "`SELECT CASE WHEN pg_try_advisory_xact_lock(1667330673, $1) THEN", "`SELECT CASE WHEN (SELECT $1::int > 0 FROM pg_sleep(0.02)) THEN"},
		{"internal/store/postgres/admit.go", "	return nil\n}\n\n// PutBack lets", "	_, err = tx.Exec(ctx, `SELECT pg_sleep(0.02)`)\n	return err\n}\n\n// PutBack lets"},
	}},
	{"the order of a queue ignores positions", "mutant-jobs", 1, []change{
		{"internal/store/postgres/fronts.go", "o.position_key, o.idempotency_key LIMIT $2 FOR UPDATE OF o`", "o.idempotency_key DESC LIMIT $2 FOR UPDATE OF o`"},
	}},
	{"a paused queue admits", "mutant-jobs", 1, []change{
		{"internal/ledger/admission.go", "f.Queue.Unreadable || f.Queue.Pause.Active(req.Now)", "f.Queue.Unreadable"},
	}},
	{"a limit has one run too many", "mutant-jobs", 1, []change{
		{"internal/ledger/admit.go", "if used >= l.Max {", "if used > l.Max {"},
	}},
	{"a use is not written", "mutant-jobs", 1, []change{
		{"internal/store/tables/uses.go", "	if len(uses) == 0 {\n", "	if len(uses) < 2 {\n"},
	}},
	{"an end keeps the uses of its run", "mutant-jobs", 1, []change{
		{"internal/store/postgres/end.go", "dialect.SettleUses(ctx, queries{tx}, passes, len(over),", "dialect.SettleUses(ctx, queries{tx}, passes, len(over)-1,"},
	}},
	{"the last run of a batch is lost", "mutant-jobs", 1, []change{
		{"internal/store/tables/enqueue.go", "		if err := d.InsertQueued(ctx, q, runs, decided.Now); err != nil {", "		if err := d.InsertQueued(ctx, q, runs[:max(1, len(runs)-1)], decided.Now); err != nil {"},
	}},
	{"a repeated request makes further runs", "mutant-jobs", 1, []change{
		{"internal/store/tables/enqueue.go", "	if req.RequestID != \"\" {\n		if err := noteEnqueued(", "	if req.RequestID == \"none\" {\n		if err := noteEnqueued("},
	}},
	{"a run ends without its retry", "mutant-jobs", 1, []change{
		{"internal/store/postgres/attempts.go", "		if next := attempts[r]; next != nil {\n			runs", "		if next := attempts[r]; next != nil && next.Attempt == 1 {\n			runs"},
	}},
	{"a class that is not in retry.on is retried", "mutant-jobs", 3, []change{
		{"internal/ledger/attempt.go", "if !policy.On.Has(r.FailureClass) {", "if false {"},
	}},
	{"a snooze counts as an attempt", "mutant-jobs", 3, []change{
		{"internal/ledger/attempt.go", "row.Snoozes, row.FireAt = r.Snoozes+1,", "row.Attempt, row.Snoozes, row.FireAt = r.Attempt+1, r.Snoozes+1,"},
	}},
	{"an update is answered and not written", "mutant-jobs", 1, []change{
		{"internal/store/postgres/queued.go", "UPDATE open_runs SET input = $2, priority", "UPDATE open_runs SET input = CASE WHEN $2::text IS NULL THEN input ELSE input END, priority"},
	}},
	{"all members of a sequential group start together", "mutant-jobs", 1, []change{
		{"internal/ledger/jobgroup.go", "if g.Mode == schedule.GroupSequential && (open || i > 0) {", "if g.Mode == schedule.GroupSequential && open && i > 0 {"},
	}},
	{"a group stops before the attempts of its member are used up", "mutant-jobs-groups", 2, []change{
		{"internal/ledger/jobgroup.go", "|| goesOn || r.Status == schedule.StatusSuccess", "|| goesOn && r.Status != schedule.StatusFailed || r.Status == schedule.StatusSuccess"},
	}},
	{"a group with a failed member is complete", "mutant-jobs-groups", 2, []change{
		{"internal/ledger/jobgroup.go", "case counts.Over() > counts.Succeeded:", "case counts.Over() > counts.Succeeded+counts.Failed+counts.Cancelled:"},
	}},
	{"a run of a queue is sent again under another key", "mutant-jobs", 3, []change{
		{"launcher/dispatch/push.go", "reqs[i] = runs[i].request()", "reqs[i] = runs[i].request()\n			if runs[i].Again {\n				reqs[i].Key[31] ^= 1\n			}"},
	}},
	{"the lease of a call is over before the call", "mutant-jobs", 1, []change{
		{"internal/ledger/begin.go", "Until: stored(now.Add(req.Lease))}", "Until: stored(now.Add(req.Lease / 100))}"},
	}},
	{"a run without an answer is not sent again", "mutant-jobs", 3, []change{
		{"internal/ledger/queued.go", "return r, QueueResend, sooner(due, r.ClaimedUntil)", "return r, QueueLater, sooner(due, r.ClaimedUntil)"},
	}},
	{"a success without a row is not counted", "mutant-jobs", 1, []change{
		{"internal/store/tables/minutes.go", "	if n == 0 {\n		return nil\n	}\n	counts :=", "	if n < 2 {\n		return nil\n	}\n	counts :="},
	}},
	{"a queue that keeps only failures keeps none", "mutant-jobs", 1, []change{
		{"internal/ledger/minutes.go", "case history != schedule.HistoryFailed, r.Status != schedule.StatusSuccess, !r.IsJob():", "case history != schedule.HistoryFailed, !r.IsJob():"},
	}},
	{"a failure frees the key of an ordered limit", "mutant-jobs-ordered", 2, []change{
		{"internal/ledger/kept.go", "if !u.Ordered || run == nil ||", "if u.LimitNo > 0 || run == nil ||"},
	}},
	{"the cancel of all runs of a queue leaves one out", "mutant-jobs", 1, []change{
		{"internal/store/postgres/cancel.go", "change, err := decide(found)", "change, err := decide(found[:max(0, len(found)-1)])"},
	}},
	{"runs go before reservations", "mutant-jobs-reserved", 2, []change{
		{"internal/ledger/admission.go", "Reservations: f.Reserving(req.Now),", "Reservations: f.Reserving(req.Now)[:0],"},
	}},
	{"a reservation does not count in max_in_flight", "mutant-jobs-reserved", 2, []change{
		{"internal/ledger/reservation.go", "r.Granted() && !r.Over(now) {\n			n++", "r.Granted() && !r.Over(now) {\n			n += 0"},
	}},
	{"a reservation ends before its time", "mutant-jobs-reserved", 2, []change{
		{"internal/ledger/reservation.go", "Add(time.Duration(r.HoldMS) * time.Millisecond)", "Add(time.Duration(r.HoldMS) * time.Millisecond / 4)"},
	}},
	{"an error in an answer of RunBatch counts as accepted", "mutant-jobs", 1, []change{
		{"launcher/executor/grpc/batch.go", "		return nil, true, true, status.Error(codes.Code(a.Msg.GetCode()), a.Msg.GetMessage())", "		return a.Msg.GetOutcome(), true, true, nil"},
	}},
	{"a worker gets more runs than it has slots", "mutant-jobs", 1, []change{
		{"internal/ledger/pull.go", "used < int(req.Slots)", "used <= int(req.Slots)"},
	}},
	{"a run in an answer that was lost is not given again", "mutant-jobs", 1, []change{
		{"internal/ledger/pull.go", "if h.QueueNo == f.Queue.No && !h.Cancel {", "if h.QueueNo == f.Queue.No && h.Cancel {"},
	}},
}
