package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

var settles = []check{
	{"a run moves where its status may become the next, and nowhere else", settleTransitions},
	{"a settlement writes what it says and leaves the rest", settleWritesFields},
	{"a heartbeat moves the timeout of a STARTED run", settleHeartbeat},
	{"a settlement to LAUNCHING renews claimed_until and nothing else", settleRenews},
	{"the error of a launch without an answer shows until the run leaves LAUNCHING", settleUnknown},
	{"completed_at is now unless it is given", settleCompletedAt},
	{"a run that leaves PLANNED waits no more", settleWaiting},
	{"a run whose cancel was asked for still ends as it is reported", settleAfterCancel},
	{"a cancelled run has the given reason, else its cancel's, else cancelled", settleCancelReason},
	{"started_at is set once", settleKeepsStart},
	{"a settlement changes a run as ledger.Settle does", settleByRule},
	{"settlements of one run in one call apply in their order", settleInOrder},
	{"many are settled in one call, each with an answer of its own", settleMany},
	{"last_run_at is the newest slot that was launched", settleLastRunAt},
	{"an outcome settles the run of its key", finishSettles},
	{"an outcome settles no run that is not launching", finishSettlesNone},
	{"runs of one slot that draw the same number in history all end", settleSameNth},
}

// settleTransitions tries every status from every status.
func settleTransitions(r *rig) {
	r.lead()
	s := r.create("moves")
	n := 0
	for _, from := range schedule.Statuses {
		for _, to := range schedule.Statuses {
			n++
			run := r.manual(s, fmt.Sprint(n), r.now)
			if from == schedule.StatusPlanned {
				run.FireAt = r.at(time.Hour) // so that no later claim takes it
			}
			before := r.bring(run, from)
			settlement := schedule.Settlement{Key: run.Key, To: to, RunID: "moved", ClaimedUntil: r.at(time.Hour)}
			if to.Terminal() {
				settlement.Reason = schedule.ReasonAccepted
			}
			may := from.CanBecome(to) && to != schedule.StatusLaunching // only a claim makes LAUNCHING
			switch {
			case from == to && (to == schedule.StatusStarted || to == schedule.StatusLaunching): // a heartbeat, a renewal
				r.hold(r.settle(settlement)[0], "%s is settled to itself", from)
				r.hold(r.ledger(run.Key).Status == to, "it stays %s", to)
				continue
			case from == to && to == schedule.StatusEnqueued: // accepted twice: either answer will do
				r.settle(settlement)
				r.hold(r.ledger(run.Key).Status == to, "it stays %s", to)
				continue
			}
			moved := r.settle(settlement)[0]
			r.hold(moved == may, "%s → %s moves: %v, got %v", from, to, may, moved)
			if may {
				r.hold(r.ledger(run.Key).Status == to, "%s became %s", from, to)
			} else {
				equal(r, fmt.Sprintf("rows after %s → %s", from, to), r.ledger(run.Key), before)
			}
		}
	}
}

func settleWritesFields(r *rig) {
	r.lead()
	s := r.create("fields")
	want := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	r.now = r.at(time.Second)
	r.settle(schedule.Settlement{
		Key: want.Key, To: schedule.StatusEnqueued, RunID: "run-1", TraceID: "trace-1", LaunchedAt: r.at(-time.Millisecond), TimeoutAt: r.at(time.Minute),
	})
	want.Status, want.RunID, want.TraceID, want.UpdatedAt = schedule.StatusEnqueued, "run-1", "trace-1", r.now
	want.LaunchedAt, want.TimeoutAt, want.ClaimedUntil = r.at(-time.Millisecond), r.at(time.Minute), time.Time{}
	equal(r, "accepted runs", r.ledger(want.Key), want)

	r.now = r.at(time.Second)
	r.settle(schedule.Settlement{Key: want.Key, To: schedule.StatusStarted, StartedAt: r.now})
	want.Status, want.StartedAt, want.UpdatedAt = schedule.StatusStarted, r.now, r.now
	equal(r, "started runs keep what the settlement does not name", r.ledger(want.Key), want)

	r.now = r.at(time.Second)
	r.settle(schedule.Settlement{
		Key: want.Key, To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, ErrorCode: "E7", ErrorMessage: awkward, CompletedAt: r.at(-time.Microsecond),
	})
	want.Status, want.Reason, want.ErrorCode, want.ErrorMessage = schedule.StatusFailed, schedule.ReasonWorkflowFailed, "E7", awkward
	want.CompletedAt, want.UpdatedAt = r.at(-time.Microsecond), r.now
	want.FailureClass, want.Dead = schedule.ClassTransient, new(true)
	equal(r, "failed runs", r.ledger(want.Key), want)
}

func settleHeartbeat(r *rig) {
	r.lead()
	s := r.create("alive")
	want := r.bring(r.slot(s, r.now), schedule.StatusStarted, func(st *schedule.Settlement) {
		st.RunID, st.StartedAt, st.TimeoutAt = "run-1", r.now, r.at(time.Minute)
	})
	for range 3 {
		r.now = r.at(30 * time.Second)
		r.hold(r.settle(schedule.Settlement{Key: want.Key, To: schedule.StatusStarted, TimeoutAt: r.at(time.Minute)})[0], "a heartbeat moves")
		want.TimeoutAt, want.UpdatedAt = r.at(time.Minute), r.now
		equal(r, "runs", r.ledger(want.Key), want)
	}
}

func settleRenews(r *rig) {
	r.lead()
	s := r.create("renewed")
	want := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	r.now = r.at(time.Second)
	r.hold(r.settle(schedule.Settlement{Key: want.Key, To: schedule.StatusLaunching, ClaimedUntil: r.at(time.Hour)})[0], "a renewal moves")
	got := r.ledger(want.Key)
	want.ClaimedUntil, want.UpdatedAt = r.at(time.Hour), got.UpdatedAt
	equal(r, "runs", got, want)
}

func settleUnknown(r *rig) {
	r.lead()
	s := r.create("unknown")
	for _, to := range []schedule.Status{schedule.StatusEnqueued, schedule.StatusStarted, schedule.StatusSuccess} {
		run := r.manual(s, string(to), r.now)
		r.bring(run, schedule.StatusLaunching)
		r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusLaunching, ErrorCode: "outcome_unknown", ErrorMessage: "connection reset"})
		got := r.ledger(run.Key)
		r.hold(got.ErrorCode == "outcome_unknown" && got.ErrorMessage == "connection reset", "it says why, got %q %q", got.ErrorCode, got.ErrorMessage)
		r.settle(schedule.Settlement{Key: run.Key, To: to})
		got = r.ledger(run.Key)
		r.hold(got.Status == to && got.ErrorCode == "" && got.ErrorMessage == "", "a run that is %s has no error, got %q %q", to, got.ErrorCode, got.ErrorMessage)
	}
}

func settleCompletedAt(r *rig) {
	r.lead()
	s := r.create("ends")
	for i, to := range []schedule.Status{schedule.StatusSuccess, schedule.StatusFailed, schedule.StatusSkipped, schedule.StatusCancelled} {
		run := r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), to)
		r.hold(run.CompletedAt.Equal(r.now), "%s: completed_at is now, got %v", to, run.CompletedAt)
	}
	run := r.bring(r.slot(s, r.at(-10*time.Second)), schedule.StatusEnqueued)
	r.hold(run.CompletedAt.IsZero(), "ENQUEUED has not ended, got %v", run.CompletedAt)
}

func settleWaiting(r *rig) {
	r.lead()
	s := r.create("waits", withPolicy(schedule.OverlapQueue))
	for i, to := range []schedule.Status{schedule.StatusSkipped, schedule.StatusFailed, schedule.StatusCancelled} {
		run := r.slot(s, r.at(-time.Duration(i)*time.Second), func(run *schedule.Run) { run.WaitingSince = r.at(-time.Minute) })
		r.add(run)
		r.hold(r.settle(schedule.Settlement{Key: run.Key, To: to, Reason: schedule.ReasonGrantRevoked})[0], "a row that waits becomes %s", to)
		r.hold(r.ledger(run.Key).WaitingSince.IsZero(), "it waits no more")
	}
}

func settleAfterCancel(r *rig) {
	r.lead()
	s := r.create("cancelled")
	reasons := map[schedule.Status]schedule.Reason{schedule.StatusSuccess: schedule.ReasonNone, schedule.StatusFailed: schedule.ReasonWorkflowFailed}
	for i, to := range []schedule.Status{schedule.StatusSuccess, schedule.StatusFailed} {
		run := r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), schedule.StatusStarted)
		r.askCancel(run.Key, schedule.ReasonCancelled, r.now)
		r.hold(r.settle(schedule.Settlement{Key: run.Key, To: to, Reason: reasons[to]})[0], "STARTED becomes %s", to)
		got := r.ledger(run.Key)
		r.hold(got.Status == to && got.Reason == reasons[to], "it is as it was reported, got %s(%s)", got.Status, got.Reason)
	}
}

func settleCancelReason(r *rig) {
	r.lead()
	s := r.create("cancelled")
	for i, c := range []struct{ cancel, given, want schedule.Reason }{
		{schedule.ReasonReplaced, "", schedule.ReasonReplaced},
		{schedule.ReasonReplaced, schedule.ReasonDeleted, schedule.ReasonDeleted},
		{"", "", schedule.ReasonCancelled},
	} {
		run := r.bring(r.due(s, i), schedule.StatusStarted)
		if c.cancel != "" {
			r.askCancel(run.Key, c.cancel, r.now)
		}
		r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusCancelled, Reason: c.given})
		got := r.ledger(run.Key).Reason
		r.hold(got == c.want, "of the cancel %q, given %q: it is CANCELLED(%s), got %q", c.cancel, c.given, c.want, got)
	}
}

func settleKeepsStart(r *rig) {
	r.lead()
	s := r.create("alive")
	for i, from := range []schedule.Status{schedule.StatusEnqueued, schedule.StatusStarted} {
		started := r.now
		run := r.bring(r.due(s, 1+i), from, func(st *schedule.Settlement) { st.StartedAt = started })
		r.now = r.at(time.Minute)
		r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusStarted, StartedAt: r.now})
		r.hold(r.ledger(run.Key).StartedAt.Equal(started), "from %s: it started at %s, got %s", from, started, r.ledger(run.Key).StartedAt)
	}
}

// settleByRule compares the store with ledger.Settle: from each status to each status,
// with empty and full settlements, on new runs and on runs with attempts, an open call
// and a cancel.
func settleByRule(r *rig) {
	r.lead()
	s := r.create("ruled")
	n := 0
	for _, from := range schedule.Statuses {
		for _, to := range schedule.Statuses {
			for _, full := range []bool{false, true} {
				for _, lived := range []bool{false, true} {
					if from.Terminal() && (!full || lived) {
						continue // it never moves: once is enough
					}
					n++
					run := r.toSettle(s, fmt.Sprint(n), from, lived)
					settlement := schedule.Settlement{Key: run.Key, To: to}
					if full {
						settlement = r.fullSettlement(run.Key, to)
					}
					r.now = r.at(time.Millisecond)
					want, may := ledger.Settle(run, schedule.KeyLease{}, &settlement, r.now)
					if may && want.Status.Terminal() {
						ledger.Conclude(&want, nil)
					}
					moved := r.settle(settlement)[0]
					what := fmt.Sprintf("%s to %s, settlement full: %t, run lived: %t", from, to, full, lived)
					r.hold(moved == may, "%s: moved is %t, got %t", what, may, moved)
					equal(r, what+": runs", r.ledger(run.Key), want)
				}
			}
		}
	}
}

// toSettle returns a run with a status. With lived it has a failed attempt, an open call, a
// cancel and times.
func (r *rig) toSettle(s schedule.Schedule, requestID string, status schedule.Status, lived bool) schedule.Run {
	r.Helper()
	run := r.manual(s, requestID, r.now)
	if status == schedule.StatusPlanned {
		run.FireAt = r.at(time.Hour) // so that no later claim takes it
	}
	if !lived || status == schedule.StatusPlanned {
		return r.bring(run, status)
	}
	run = r.bring(run, schedule.StatusLaunching)
	r.granted(r.beginRequest(run))
	r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusLaunching, ErrorCode: "executor_timeout", ErrorMessage: "no answer", ClaimedUntil: r.at(time.Second)})
	r.askCancel(run.Key, schedule.ReasonReplaced, r.now)
	if status != schedule.StatusLaunching {
		r.settle(schedule.Settlement{
			Key: run.Key, To: status, RunID: "first", TraceID: "first", ErrorCode: "E1", ErrorMessage: "first",
			LaunchedAt: r.at(-3 * time.Second), StartedAt: r.at(-2 * time.Second), TimeoutAt: r.at(time.Hour),
		})
	}
	return r.ledger(run.Key)
}

func (r *rig) fullSettlement(key schedule.Key, to schedule.Status) schedule.Settlement {
	return schedule.Settlement{
		Key: key, To: to, Reason: schedule.ReasonLost, RunID: "second", TraceID: "second", ErrorCode: "E2", ErrorMessage: "second",
		LaunchedAt: r.at(-20 * time.Millisecond), StartedAt: r.at(-10 * time.Millisecond), CompletedAt: r.at(-time.Millisecond),
		TimeoutAt: r.at(2 * time.Hour), ClaimedUntil: r.at(3 * time.Hour), Deliveries: 3,
		Attempt: &schedule.LaunchAttempt{At: r.now, Result: schedule.LaunchUnknown},
	}
}

func settleInOrder(r *rig) {
	r.lead()
	s := r.create("quick")
	run := r.bring(r.due(s, 1), schedule.StatusLaunching)
	moved := r.settle(
		schedule.Settlement{Key: run.Key, To: schedule.StatusEnqueued, RunID: "run-1"},
		schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess},
		schedule.Settlement{Key: run.Key, To: schedule.StatusFailed},
	)
	equal(r, "answers", moved, []bool{true, true, false})
	got := r.ledger(run.Key)
	r.hold(got.Status == schedule.StatusSuccess && got.RunID == "run-1", "both were written, got %s %q", got.Status, got.RunID)
}

func settleMany(r *rig) {
	r.lead()
	equal(r, "answers to nothing", r.settle(), nil)
	s := r.create("many")
	var settlements []schedule.Settlement
	var want []bool
	for i := range 40 {
		status := []schedule.Status{schedule.StatusLaunching, schedule.StatusEnqueued, schedule.StatusSuccess}[i%3]
		run := r.bring(r.slot(s, r.at(-time.Duration(i)*time.Millisecond*1000)), status)
		settlements = append(settlements, schedule.Settlement{Key: run.Key, To: schedule.StatusEnqueued, RunID: fmt.Sprint("run-", i)})
		if status == schedule.StatusEnqueued {
			settlements[i].To = schedule.StatusFailed
		}
		want = append(want, status != schedule.StatusSuccess)
	}
	settlements = append(settlements, schedule.Settlement{Key: schedule.ManualKey("nobody", "knows"), To: schedule.StatusSuccess})
	want = append(want, false)
	slices.Reverse(settlements) // no order that a store may lean on
	slices.Reverse(want)
	equal(r, "answers", r.settle(settlements...), want)
	for i, settlement := range settlements {
		if want[i] {
			got := r.ledger(settlement.Key)
			r.hold(got.Status == settlement.To && got.RunID == settlement.RunID, "each has its own run_id, got %s %q", got.Status, got.RunID)
		}
	}
}

func settleLastRunAt(r *rig) {
	r.lead()
	s := r.create("last")
	other := r.create("other")
	slot := func(seconds int) schedule.Run { return r.due(s, seconds) }
	launchedAs := func(run schedule.Run, to schedule.Status) {
		r.bring(run, to, func(st *schedule.Settlement) { st.LaunchedAt = r.now })
	}
	last := func() time.Time { return r.row(s).LastRunAt }

	r.bring(slot(50), schedule.StatusSkipped)
	r.hold(last().IsZero(), "a slot that was skipped is no launch, got %s", last())
	launchedAs(slot(30), schedule.StatusEnqueued)
	r.hold(last().Equal(r.at(-30*time.Second)), "it is the run_at that was launched, got %s", last())
	launchedAs(slot(40), schedule.StatusSuccess)
	r.hold(last().Equal(r.at(-30*time.Second)), "it never goes back, got %s", last())
	launchedAs(slot(20), schedule.StatusFailed)
	r.hold(last().Equal(r.at(-20*time.Second)), "it goes on, got %s", last())
	launchedAs(slot(10), schedule.StatusCancelled)
	r.hold(last().Equal(r.at(-10*time.Second)), "a run that was answered and cancelled was launched, got %s", last())
	r.bring(slot(5), schedule.StatusFailed)
	r.hold(last().Equal(r.at(-10*time.Second)), "one that was never called was not, got %s", last())
	equal(r, "other schedules", r.row(other), other)
	want := s
	want.LastRunAt = r.at(-10 * time.Second)
	equal(r, "schedules", r.row(s), want)
	peeked, err := r.PeekSchedule(r.ctx, s.ScheduleID)
	if err != nil {
		r.Fatal(err)
	}
	want.LastRunAt = peeked.LastRunAt // it may be older
	equal(r, "without the look for it", *peeked, want)
}

// settleSameNth ends runs of one slot with keys that differ in their last byte only, in
// one call and in later ones.
func settleSameNth(r *rig) {
	s := r.create("crowd", func(s *schedule.Schedule) { s.OverlapPolicy = schedule.OverlapAllow })
	slot := r.slot(s, r.now)
	runs := []schedule.Run{slot}
	for i := range 20 {
		runs = append(runs, r.manual(s, "crowd", r.now, func(run *schedule.Run) { run.Key[len(run.Key)-1] = byte(i) }))
	}
	r.lead()
	r.add(runs...)
	r.claim()
	ends := make([]schedule.Settlement, len(runs))
	for i := range runs {
		ends[i] = schedule.Settlement{Key: runs[i].Key, To: schedule.StatusSuccess, LaunchedAt: r.now}
	}
	for _, batch := range [][]schedule.Settlement{ends[:18], ends[18:19], ends[19:]} {
		r.hold(!slices.Contains(r.settle(batch...), false), "every run of the slot ends")
	}
	for i := range runs {
		r.hold(r.ledger(runs[i].Key).Status == schedule.StatusSuccess, "run %d of the slot is SUCCESS", i)
	}
	r.hold(len(r.runsOf(s)) == len(runs), "history has each run of the slot once")
}
