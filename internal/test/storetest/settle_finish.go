package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// finishRun begins a call of a run and finishes it. meanwhile runs while the call is open.
func (r *rig) finishRun(run schedule.Run, done schedule.FinishRequest, meanwhile ...func()) schedule.Finished {
	r.Helper()
	r.begin(r.beginRequest(run))
	for _, act := range meanwhile {
		act()
	}
	done.Key = run.Key
	finished, err := r.Finish(r.ctx, []schedule.FinishRequest{done}, r.now)
	r.ok(err, "finish")
	return finished[0]
}

func finishSettles(r *rig) {
	r.lead()
	failure := schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, ErrorCode: "E"}
	for name, tc := range map[string]struct {
		done   schedule.FinishRequest
		cancel schedule.Reason // requested before
		want   schedule.Run    // of it only what is set
	}{
		"accepted": {
			schedule.FinishRequest{Outcome: accepted, LaunchedAt: r.now, RunTimeout: time.Hour},
			"",
			schedule.Run{Status: schedule.StatusEnqueued, RunID: accepted.RunID, LaunchedAt: r.now, TimeoutAt: r.at(time.Hour), Deliveries: 1},
		},
		"failed": {
			schedule.FinishRequest{Outcome: failure, LaunchedAt: r.now, Deliveries: 3},
			"",
			schedule.Run{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, ErrorCode: "E", LaunchedAt: r.now, CompletedAt: r.now, Deliveries: 3},
		},
		"found-by-key": {
			schedule.FinishRequest{Outcome: schedule.Outcome{Status: schedule.StatusSuccess, TraceID: "t"}},
			"",
			schedule.Run{Status: schedule.StatusSuccess, TraceID: "t", LaunchedAt: r.at(-time.Second), CompletedAt: r.now, Deliveries: 1},
		},
		"failed-after-a-cancel": {
			schedule.FinishRequest{Outcome: failure, LaunchedAt: r.now},
			schedule.ReasonCancelled,
			schedule.Run{Status: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, ErrorCode: "E", LaunchedAt: r.now, CompletedAt: r.now, Deliveries: 1},
		},
		"refused": {
			schedule.FinishRequest{Outcome: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused}, Unsent: true},
			"",
			schedule.Run{Status: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, CompletedAt: r.now},
		},
	} {
		run := r.bring(r.add(r.slot(r.create(name), r.at(-time.Second)))[0], schedule.StatusLaunching)
		meanwhile := func() {
			if tc.cancel != "" {
				r.askCancel(run.Key, tc.cancel, r.now)
			}
		}
		finished := r.finishRun(run, tc.done, meanwhile)
		equal(r, name, finished, schedule.Finished{Outcome: tc.done.Outcome, Settled: true})
		got := r.ledger(run.Key)
		launchedAt := tc.want.LaunchedAt
		if tc.done.LaunchedAt.IsZero() && !launchedAt.IsZero() {
			launchedAt = got.NotLaunchedBefore()
			r.hold(!launchedAt.IsZero(), "%s: the run has a time before its call", name)
		}
		equal(r, name+": run", schedule.Run{
			Status: got.Status, Reason: got.Reason, RunID: got.RunID, TraceID: got.TraceID, ErrorCode: got.ErrorCode,
			LaunchedAt: got.LaunchedAt, CompletedAt: got.CompletedAt, TimeoutAt: tc.want.TimeoutAt, Deliveries: got.Deliveries,
		}, schedule.Run{
			Status: tc.want.Status, Reason: tc.want.Reason, RunID: tc.want.RunID, TraceID: tc.want.TraceID, ErrorCode: tc.want.ErrorCode,
			LaunchedAt: launchedAt, CompletedAt: tc.want.CompletedAt, TimeoutAt: tc.want.TimeoutAt, Deliveries: tc.want.Deliveries,
		})
		if !tc.want.TimeoutAt.IsZero() {
			equal(r, name+": timeout_at", got.TimeoutAt, tc.want.TimeoutAt)
		}
	}
}

func finishSettlesNone(r *rig) {
	r.lead()
	end := schedule.FinishRequest{Outcome: schedule.Outcome{Status: schedule.StatusSuccess}, LaunchedAt: r.now, WakeLeader: true}
	other := schedule.ManualKey("elsewhere", "key")
	r.hold(!r.finishRun(schedule.Run{Key: other, FireAt: r.now}, end).Settled, "a key without a run settles nothing")
	for _, status := range []schedule.Status{schedule.StatusStarted, schedule.StatusSuccess, schedule.StatusCancelled} {
		run := r.bring(r.add(r.slot(r.create(string(status)), r.at(-time.Second)))[0], schedule.StatusLaunching)
		r.begin(r.beginRequest(run))
		r.settle(schedule.Settlement{Key: run.Key, To: status, RunID: "reported"})
		before := r.ledger(run.Key)
		failed := schedule.FinishRequest{Key: run.Key, Outcome: schedule.Outcome{Status: schedule.StatusEnqueued}, LaunchedAt: r.now}
		finished, err := r.Finish(r.ctx, []schedule.FinishRequest{failed}, r.now)
		r.ok(err, "finish")
		r.hold(!finished[0].Settled, "a run that is %s is not settled by an acceptance", status)
		equal(r, string(status), r.ledger(run.Key), before)
	}
}
