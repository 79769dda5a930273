package main

import "github.com/carillon/carillon/internal/test/mutant"

type change = mutant.Edit

// bug is one that somebody might write, and a dose that provokes it.
type bug struct {
	name    string
	dose    string
	faults  int
	changes []change
}

// bugs are those that the checker must find. If one guard backs up another, both are
// removed: a bug without a visible effect proves nothing.
var bugs = []bug{
	{"the fence is dropped, and a lost term goes on", "mutant-stops", 4, []change{
		{"internal/store/postgres/sql.go", "SELECT 1 FROM leaders WHERE shard = $1 AND holder = $2 AND epoch = $3 FOR KEY SHARE`", "SELECT 1 WHERE $1::int IS NOT NULL AND $2::text IS NOT NULL AND $3::bigint IS NOT NULL`"},
		{"worker/leader/term.go", "	t.distrust(fmt.Errorf(\"%w: %w\", ErrTermLost, err))\n", "	_ = fmt.Errorf(\"%w: %w\", ErrTermLost, err)\n"},
	}},
	{"rows are inserted after the cursor was committed", "mutant-kills", 8, []change{
		{"internal/store/postgres/plan.go", "	if len(rows) == 0 {\n		return nil\n	}\n	// Rows", "	if len(rows) >= 0 {\n		return nil\n	}\n	// Rows"},
		{
			"internal/store/postgres/plan.go", "		return schedule.PlanResult{}, fmt.Errorf(\"plan: %w\", err)\n	}\n",
			"		return schedule.PlanResult{}, fmt.Errorf(\"plan: %w\", err)\n	}\n	if len(result.Rows) > 0 {\n		time.Sleep(150 * time.Millisecond)\n" +
				"		err = s.transact(ctx, func(tx pgx.Tx) error {\n			result.Inserted, err = insertRuns(ctx, tx, result.Rows, req.Now)\n			return err\n		})\n" +
				"		if err != nil {\n			return schedule.PlanResult{}, err\n		}\n	}\n",
		},
	}},
	{"overlap is not judged when a slot is claimed", "mutant-calm", 1, []change{
		{"internal/plan/decide.go", "Exclusive: d.OverlapPolicy.Exclusive(),", "Exclusive: false,"},
	}},
	{"what is due and alone is skipped for an overlap", "mutant-stops", 2, []change{
		{"internal/ledger/overlap.go", "		if j.busy {\n			j.set(r, schedule.VerdictSkip, schedule.ReasonOverlap)", "		if !j.busy {\n			j.set(r, schedule.VerdictSkip, schedule.ReasonOverlap)"},
	}},
	{"the newest of a queue goes first", "mutant-calm", 1, []change{
		{"internal/ledger/overlap.go", "	j.first = overlapRow{runs[0], 0}\n", "	j.first = overlapRow{runs[len(runs)-1], len(runs) - 1}\n"},
	}},
	{"an edit ends a pause", "mutant-calm", 2, []change{
		{"registrar/upsert.go", "	paused := value(in.Paused, current.Pause.Active(now))\n", "	paused := value(in.Paused, false)\n"},
	}},
	{"an edit leaves planned slots behind", "mutant-calm", 1, []change{
		{"internal/ledger/planned.go", "	case slot && !c.DropPlannedAfter.IsZero() && ", "	case slot && c.Row == nil && "},
	}},
	{"jitter is drawn anew", "mutant-calm", 1, []change{
		{"internal/plan/jitter.go", "int64(key.Fraction(uint64(a+b+1)))", "time.Now().UnixNano()%(a+b+1)"},
	}},
	{"armed runs are sent at once", "mutant-calm", 1, []change{
		{"launcher/timers.go", "{ return at.Sub(t.now()) }", "{ return at.Sub(t.now()) - 200*time.Millisecond }"},
	}},
	{"an unknown outcome counts as a failure", "mutant-calm", 1, []change{
		{"launcher/end.go", "	notSent := errors.Is(err, ErrNotSent)\n", "	if true {\n		s.finish(schedule.Outcome{Status: schedule.StatusFailed}, time.Time{})\n		return\n	}\n	notSent := errors.Is(err, ErrNotSent)\n"},
	}},
	{"what has no answer is not sent again", "mutant-kills", 3, []change{
		{"worker/fire.go", "keys := state.SendAgain(now, r.n, r.capacity)", "keys := []schedule.Key(nil)"},
	}},
	{"a status may be left for any other", "mutant-calm", 1, []change{
		{"internal/ledger/end.go", "	return from.CanBecome(to) || from == schedule.StatusStarted && to == schedule.StatusStarted\n", "	return from != schedule.StatusPlanned || to.Terminal()\n"},
	}},
	{"a pause is not looked at when a key is sent again", "mutant-calm", 2, []change{
		{"internal/ledger/begin.go", "	case req.Trigger.ObeysPause() && f.Pause.Active(now):", "	case false:"},
		{"internal/ledger/begin.go", "	case f.Deleted:", "	case false:"},
	}},
	{"no slot has any grace", "mutant-kills", 4, []change{
		{"internal/plan/jitter.go", "	return now.Sub(runAt) > grace && now.Sub(t.Slot(runAt).FireAt) > grace\n", "	return now.Sub(runAt) > 0 && now.Sub(t.Slot(runAt).FireAt) > 0\n"},
	}},
	{"missed slots are dropped without a word", "mutant-outage", 1, []change{
		{"internal/plan/recovery.go", "	for _, x := range r.tt.Without(s.from, s.until, r.s.Planned) {\n", "	for _, x := range r.tt.Without(s.from, s.until, r.s.Planned)[:0] {\n"},
	}},
	{"an epoch comes back", "mutant-kills", 6, []change{
		{"internal/store/postgres/sql_leader.go", "UPDATE leaders SET holder = $2, epoch = 1 + (SELECT max(epoch) FROM leaders),\n", "UPDATE leaders SET holder = $2, epoch = 1 + (SELECT max(epoch) FROM leaders) % 3,\n"},
	}},
	{"a backlog is worked off at once", "mutant-backlog", 1, []change{
		{"internal/plan/recovery.go", "	limit := max(1, r.cfg.MaxCatchup)\n", "	limit := max(1000, r.cfg.MaxCatchup)\n"},
	}},
	{"the same upsert makes another revision", "mutant-calm", 1, []change{
		{"registrar/upsert.go", "	if current.Equal(&d) && paused == current.Pause.Active(now) {\n", "	if false {\n"},
		{"registrar/upsert.go", "	if !current.Equal(&d) {\n", "	if true {\n"},
	}},
	{"a trigger's request_id does not name its run", "mutant-calm", 1, []change{
		{"registrar/trigger.go", "	key := schedule.ManualKey(in.ScheduleID, in.RequestID)\n", "	key := schedule.ManualKey(in.ScheduleID, in.RequestID+rand.Text())\n"},
	}},
	{"a refused connection counts as a delivery", "mutant-executor", 2, []change{
		{"launcher/end.go", "	if !s.called.at.IsZero() && !errors.Is(err, ErrNotSent) {\n", "	if !s.called.at.IsZero() {\n"},
	}},
	{"a launch is tried for as long as a run may take", "mutant-executor", 2, []change{
		{"internal/schedule/launchtime.go", "	return Later(fireAt, now).Add(LaunchFor(d, retryFor))\n", "	return Later(fireAt, now).Add(LaunchFor(d, retryFor) + 2*d.RunTimeout())\n"},
	}},
	{"a success does not end a failure", "mutant-calm", 1, []change{
		{"internal/ledger/followup.go", "} else if f := failures[r.Key]; f != nil {", "} else if f := failures[r.Key]; f != nil && f.Failures < 0 {"},
		{"internal/ledger/followup.go", "	return success.compare(Decided{f.LastRunAt, f.LastEndedAt}) < 0", "	return success.RunAt.IsZero() || f.Failures > 0"},
	}},
	{"retention forgets what has just ended", "mutant-calm", 1, []change{
		{"worker/tick.go", "	before := t.now().Add(-t.cfg.Retention)\n", "	before := t.now().Add(-time.Second)\n"},
	}},
}
