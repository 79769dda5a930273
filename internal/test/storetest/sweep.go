package storetest

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

const cancelWait = 30 * time.Second

var sweeps = []check{
	{"runs without a sign of life past timeout_at end FAILED(timeout)", sweepTimeout},
	{"a launch that could never be delivered ends FAILED(launch_unavailable)", sweepUnavailable},
	{"a launch whose outcome never became known ends FAILED(lost) at its bound", sweepLost},
	{"a launch is not given up while a call of it is open", sweepOpenCall},
	{"what an earlier leader may have sent is tried once more before it is given up", sweepTriedAgain},
	{"a launch that is given up keeps the error of its last attempt", sweepKeepsError},
	{"a cancel that nobody confirmed ends the run anyway, and an event says so", sweepCancels},
	{"a cancel without a reason ends the run as cancelled", sweepCancelWithoutReason},
	{"what has not been in flight, or has ended, is not touched", sweepOnlyInFlight},
	{"at most Limit runs are ended in one call", sweepLimit},
	{"a full sweep takes what is due longest first", sweepOrder},
	{"runs that do not end yet do not delay the runs behind them", sweepBehind},
	{"a run is looked at when the lease of its claim is over, and named if it stays open", sweepNamesOpen},
}

func (r *rig) sweep(edits ...func(*schedule.SweepRequest)) []schedule.Ended {
	r.Helper()
	return r.sweepOnce(edits...).Ended
}

func (r *rig) sweepOnce(edits ...func(*schedule.SweepRequest)) ledger.Swept {
	r.Helper()
	req := schedule.SweepRequest{Term: r.term, Now: r.now, CancelWait: cancelWait, RetryFor: retryFor, Limit: 1000}
	for _, edit := range edits {
		edit(&req)
	}
	swept, err := r.Sweep(r.ctx, req)
	r.ok(err, "sweep")
	return swept
}

// swept fails unless exactly run was ended, so, and the ledger agrees.
func (r *rig) swept(ended []schedule.Ended, run schedule.Run, status schedule.Status, reason schedule.Reason) {
	r.Helper()
	r.hold(len(ended) == 1, "one run is ended, got %d", len(ended))
	r.hold(ended[0].Before == run.Status, "it was %s before, got %s", run.Status, ended[0].Before)
	got := r.ledger(run.Key)
	equal(r, "runs as the sweep reports them", bodily(ended[0].Run), bodily(got))
	r.hold(got.Status == status && got.Reason == reason, "it is %s(%s), got %s(%s)", status, reason, got.Status, got.Reason)
	r.hold(got.CompletedAt.Equal(r.now), "it ended now, got %v", got.CompletedAt)
	r.hold(len(r.sweep()) == 0, "it is ended once")
}

func sweepTimeout(r *rig) {
	r.lead()
	s := r.create("silent")
	for i, status := range []schedule.Status{schedule.StatusEnqueued, schedule.StatusStarted} {
		run := r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), status, func(st *schedule.Settlement) { st.TimeoutAt = r.at(time.Minute) })
		r.now = r.at(time.Minute - time.Second)
		equal(r, "ended in time", r.sweep(), nil)
		r.now = r.at(2 * time.Second)
		r.swept(r.sweep(), run, schedule.StatusFailed, schedule.ReasonTimeout)
	}
}

func sweepUnavailable(r *rig) {
	r.lead()
	s := r.create("unreachable")
	never := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	claimed := r.now
	r.now = claimed.Add(retryFor - time.Second)
	equal(r, "ended before the retry time is over", r.sweep(), nil)
	r.now = claimed.Add(retryFor + time.Second)
	r.swept(r.sweep(), never, schedule.StatusFailed, schedule.ReasonLaunchUnavailable)

	unsent := r.bring(r.slot(s, r.now.Truncate(time.Second)), schedule.StatusLaunching)
	r.granted(r.beginRequest(unsent))
	r.release(unsent.Key, false)
	r.now = r.at(retryFor + time.Second)
	r.swept(r.sweep(), unsent, schedule.StatusFailed, schedule.ReasonLaunchUnavailable)
}

// sweepLost has launches that may have reached the executor: it may still report,
// but nobody waits for that any longer than for an executor that is away.
func sweepLost(r *rig) {
	r.lead()
	s := r.create("lost", func(s *schedule.Schedule) { s.RunTimeoutMS = 7_200_000 })
	for name, release := range map[string]bool{"sent, outcome unknown": true, "its sender died with the call open": false} {
		run := r.bring(r.manual(s, name, r.now), schedule.StatusLaunching)
		r.granted(r.beginRequest(run))
		if release {
			r.release(run.Key, true)
		}
		r.now = r.at(retryFor - time.Second)
		equal(r, name+": ended before the retry time is over", r.sweep(), nil)
		r.now = r.at(2 * time.Second)
		r.swept(r.sweep(), run, schedule.StatusFailed, schedule.ReasonLost)
	}
}

func sweepOpenCall(r *rig) {
	r.lead()
	s := r.create("open")
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	r.now = r.at(retryFor)
	r.granted(r.beginRequest(run))
	r.now = r.at(lease - time.Second)
	equal(r, "ended with a call open", r.sweep(), nil)
	r.now = r.at(2 * time.Second)
	r.swept(r.sweep(), run, schedule.StatusFailed, schedule.ReasonLost)
}

// sweepTriedAgain: with the next attempt the executor is asked by key, where it
// can answer. What was certainly never sent need not wait for that.
func sweepTriedAgain(r *rig) {
	r.lead()
	s := r.create("handed over")
	sent := r.bring(r.manual(s, "sent", r.now), schedule.StatusLaunching)
	r.granted(r.beginRequest(sent))
	r.release(sent.Key, true)
	unsent := r.bring(r.manual(s, "unsent", r.now), schedule.StatusLaunching)
	r.lead()
	r.now = r.at(retryFor + time.Second)
	r.swept(r.sweep(), unsent, schedule.StatusFailed, schedule.ReasonLaunchUnavailable)
	equal(r, "handed to the new leader", keysOfLaunches(r.reclaim()), []schedule.Key{sent.Key})
	equal(r, "ended while it is tried", r.sweep(), nil)
	r.settle(schedule.Settlement{Key: sent.Key, To: schedule.StatusLaunching, ClaimedUntil: r.now})
	r.swept(r.sweep(), sent, schedule.StatusFailed, schedule.ReasonLost)
}

func sweepKeepsError(r *rig) {
	r.lead()
	s := r.create("why")
	told := r.bring(r.manual(s, "told", r.now), schedule.StatusLaunching)
	r.settle(schedule.Settlement{Key: told.Key, To: schedule.StatusLaunching, ErrorCode: "executor_unreachable", ErrorMessage: "refused"})
	untold := r.bring(r.manual(s, "untold", r.now), schedule.StatusLaunching)
	r.now = r.at(retryFor + time.Second)
	ended := r.sweep()
	r.hold(len(ended) == 2, "both are given up, got %d", len(ended))
	got := r.ledger(told.Key)
	r.hold(got.ErrorCode == "executor_unreachable" && got.ErrorMessage == "refused", "the last error stays, got %q %q", got.ErrorCode, got.ErrorMessage)
	got = r.ledger(untold.Key)
	r.hold(got.ErrorCode == string(schedule.CodeLaunchTimeout), "without an error it says that the time was over, got %q", got.ErrorCode)
	for _, e := range ended {
		equal(r, "runs as the sweep reports them", bodily(e.Run), bodily(r.ledger(e.Run.Key)))
	}
}

func sweepCancels(r *rig) {
	r.lead()
	s := r.create("stuck")
	for i, status := range schedule.InFlight {
		run := r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), status, func(st *schedule.Settlement) { st.TimeoutAt = r.at(time.Hour) })
		r.askCancel(run.Key, schedule.ReasonReplaced, r.now)
		asked := r.now
		r.now = asked.Add(cancelWait - time.Second)
		equal(r, "ended while the cancel may still be confirmed", r.sweep(), nil)
		r.now = asked.Add(cancelWait + time.Second)
		r.swept(r.sweep(), run, schedule.StatusCancelled, schedule.ReasonReplaced)

		events := r.eventsOf(s)
		r.hold(len(events) == i+1, "one event per cancel, got %d after %d", len(events), i+1)
		last := events[i]
		want := schedule.Event{
			ScheduleID: s.ScheduleID, Time: r.now, Kind: schedule.EventCancelTimedOut, From: run.RunAt, To: run.RunAt, Count: 1,
			Reason: schedule.ReasonReplaced, Note: run.Key.String(), Revision: run.Revision,
		}
		want.ID = last.ID
		equal(r, "events", last, want)
	}
}

func sweepCancelWithoutReason(r *rig) {
	r.lead()
	run := r.bring(r.slot(r.create("stuck"), r.now), schedule.StatusStarted, func(st *schedule.Settlement) { st.TimeoutAt = r.at(time.Hour) })
	r.askCancel(run.Key, schedule.ReasonReplaced, r.now)
	r.dropCancelReason(run.Key)
	r.now = r.at(cancelWait + time.Second)
	r.swept(r.sweep(), run, schedule.StatusCancelled, schedule.ReasonCancelled)
}

func sweepOnlyInFlight(r *rig) {
	r.lead()
	s := r.create("calm")
	var rows []schedule.Run
	for i, status := range schedule.Statuses {
		if status.InFlight() {
			continue
		}
		run := r.slot(s, r.at(-time.Duration(i)*time.Second))
		if status == schedule.StatusPlanned {
			run.FireAt = r.at(time.Hour)
		}
		rows = append(rows, r.bring(run, status))
	}
	r.now = r.at(1000 * time.Hour)
	equal(r, "ended", r.sweep(), nil)
	for _, run := range rows {
		equal(r, string(run.Status)+" rows", r.ledger(run.Key), run)
	}
}

func sweepLimit(r *rig) {
	r.lead()
	s := r.create("many")
	var want []schedule.Key
	for i := range 5 {
		run := r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), schedule.StatusStarted, func(st *schedule.Settlement) { st.TimeoutAt = r.at(time.Minute) })
		want = append(want, run.Key)
	}
	r.now = r.at(time.Hour)
	var got []schedule.Key
	for range 4 {
		ended := r.sweep(func(req *schedule.SweepRequest) { req.Limit = 2 })
		r.hold(len(ended) <= 2, "at most two are ended, got %d", len(ended))
		for _, e := range ended {
			got = append(got, e.Run.Key)
		}
	}
	slices.SortFunc(got, compareKeys)
	slices.SortFunc(want, compareKeys)
	equal(r, "ended in four calls", got, want)
}

// sweepOrder has two runs past each bound, the younger one brought first, and
// sweeps that take two at a time.
func sweepOrder(r *rig) {
	r.lead()
	s := r.create("many")
	timeout := func(d time.Duration) func(*schedule.Settlement) {
		return func(st *schedule.Settlement) { st.TimeoutAt = r.at(d) }
	}
	var want []schedule.Key
	bring := func(name string, to schedule.Status, edits ...func(*schedule.Settlement)) schedule.Key {
		run := r.bring(r.manual(s, name, r.now), to, edits...)
		want = append(want, run.Key)
		return run.Key
	}
	bring("young timeout", schedule.StatusEnqueued, timeout(2*time.Minute))
	bring("old timeout", schedule.StatusStarted, timeout(time.Minute))
	bring("old launch", schedule.StatusLaunching)
	r.now = r.at(time.Second)
	bring("young launch", schedule.StatusLaunching)
	cancelled := bring("old cancel", schedule.StatusStarted, timeout(time.Minute)) // past two bounds
	alsoCancelled := bring("young cancel", schedule.StatusStarted, timeout(time.Hour))
	r.now = r.at(lease + time.Second)
	equal(r, "ended before the first bound", r.sweep(), nil)
	r.askCancel(cancelled, schedule.ReasonCancelled, r.now)
	r.now = r.at(time.Second)
	r.askCancel(alsoCancelled, schedule.ReasonCancelled, r.now)
	want = []schedule.Key{want[4], want[5], want[1], want[0], want[2], want[3]} // by cancel, else by timeout

	r.now = r.at(retryFor + time.Minute)
	var got []schedule.Key
	for range 4 {
		for _, e := range r.sweep(func(req *schedule.SweepRequest) { req.Limit = 2 }) {
			got = append(got, e.Run.Key)
		}
	}
	equal(r, "ended, in order", got, want)
}

// sweepBehind has more launches with an open call past their bound than one sweep may end.
func sweepBehind(r *rig) {
	r.lead()
	s := r.create("many")
	var open []schedule.BeginRequest
	for i := range 5 {
		open = append(open, r.beginRequest(r.bring(r.manual(s, string(rune('a'+i)), r.now), schedule.StatusLaunching)))
	}
	r.now = r.at(time.Second)
	behind := r.bring(r.manual(s, "behind", r.now), schedule.StatusLaunching)
	r.now = r.at(retryFor)
	r.begin(open...)
	r.now = r.at(time.Second)
	var ended []schedule.Ended
	for more, sweeps := true, 0; more; sweeps++ {
		r.hold(sweeps < 5, "sweeps of two runs come to an end")
		swept := r.sweepOnce(func(req *schedule.SweepRequest) { req.Limit = 2 })
		ended, more = append(ended, swept.Ended...), swept.More
	}
	r.hold(len(ended) == 1 && ended[0].Run.Key == behind.Key, "the last launch is ended, got %d", len(ended))
}

// sweepNamesOpen has runs whose bounds are far away. A leader that does not know them
// learns of them by the first sweep after the lease of their claim.
func sweepNamesOpen(r *rig) {
	r.lead()
	s := r.create("long")
	var want []schedule.Key
	for i, status := range schedule.InFlight {
		run := r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), status, func(st *schedule.Settlement) { st.TimeoutAt = r.at(time.Hour) })
		want = append(want, run.Key)
	}
	r.now = r.at(lease + time.Second)
	swept := r.sweepOnce()
	equal(r, "ended", swept.Ended, nil)
	got := slices.SortedFunc(slices.Values(swept.Open), compareKeys)
	slices.SortFunc(want, compareKeys)
	equal(r, "named", got, want)
}
