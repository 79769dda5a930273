package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestOnlyASuccessThatNobodyNeedsHasNoRow(t *testing.T) {
	plain := schedule.Run{Key: schedule.Key{1}, Status: schedule.StatusSuccess, Queue: schedule.QueuePlace{No: 1}}
	with := func(edit func(*schedule.Run)) schedule.Run {
		r := plain
		edit(&r)
		return r
	}
	hold := func(scope schedule.UniqueScope) *schedule.UniqueHold {
		return &schedule.UniqueHold{RunKey: plain.Key, Scope: scope}
	}
	for name, c := range map[string]struct {
		run      schedule.Run
		history  schedule.History
		webhook  string
		hold     *schedule.UniqueHold
		returned bool
		counted  bool
	}{
		"a success":                            {run: plain, history: schedule.HistoryFailed, counted: true},
		"a success of a queue that keeps all":  {run: plain},
		"a failure":                            {run: with(func(r *schedule.Run) { r.Status = schedule.StatusFailed }), history: schedule.HistoryFailed},
		"a snooze":                             {run: with(func(r *schedule.Run) { r.Status, r.Reason = schedule.StatusSkipped, schedule.ReasonSnoozed }), history: schedule.HistoryFailed},
		"a cancelled run":                      {run: with(func(r *schedule.Run) { r.Status = schedule.StatusCancelled }), history: schedule.HistoryFailed},
		"a run outside of queues":              {run: with(func(r *schedule.Run) { r.Queue.No = 0 }), history: schedule.HistoryFailed},
		"a run of a slot":                      {run: with(func(r *schedule.Run) { r.Epoch = 7 }), history: schedule.HistoryFailed},
		"a run that a caller waits for":        {run: with(func(r *schedule.Run) { r.Queue.KeepHistory = true }), history: schedule.HistoryFailed},
		"a member of a group":                  {run: with(func(r *schedule.Run) { r.Queue.GroupNo = 3 }), history: schedule.HistoryFailed},
		"a retry":                              {run: with(func(r *schedule.Run) { r.RetryOf = schedule.Key{2} }), history: schedule.HistoryFailed},
		"a run that somebody wanted to cancel": {run: with(func(r *schedule.Run) { r.CancelRequestedAt = time.Unix(1, 0) }), history: schedule.HistoryFailed},
		"a run with a message of its queue":    {run: plain, history: schedule.HistoryFailed, webhook: "billing"},
		"a run with a message of its own":      {run: with(func(r *schedule.Run) { r.Webhook = "own" }), history: schedule.HistoryFailed},
		"a queue that tells only of failures":  {run: plain, history: schedule.HistoryFailed, webhook: "billing|run.failed", counted: true},
		"a run with a result":                  {run: plain, history: schedule.HistoryFailed, returned: true},
		"a unique key of a period":             {run: plain, history: schedule.HistoryFailed, hold: hold(schedule.UniquePeriod)},
		"a unique key of the open run":         {run: plain, history: schedule.HistoryFailed, hold: hold(schedule.UniqueOpen), counted: true},
	} {
		if got := ledger.CountedOnly(&c.run, c.history, c.webhook, c.hold, c.returned); got != c.counted {
			t.Errorf("%s is only counted: %t, want %t", name, got, c.counted)
		}
	}
}

func TestEachEndIsCountedInTheMinuteOfItsStartAndInThatOfItsEnd(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	run := func(entered, admitted, launched, ended time.Duration) schedule.Run {
		return schedule.Run{
			FireAt: noon.Add(entered), ClaimedAt: noon.Add(admitted), LaunchedAt: noon.Add(launched), CompletedAt: noon.Add(ended),
			Queue: schedule.QueuePlace{No: 4, EnqueuedAt: noon.Add(entered)},
		}
	}
	runs := []schedule.Run{
		run(0, 10*time.Second, 11*time.Second, 20*time.Second),
		run(0, 50*time.Second, 50*time.Second, 70*time.Second),
		run(0, 40*time.Second, 0, -time.Second), // a clock that is late
	}
	runs[2].LaunchedAt = time.Time{}
	got := ledger.CountMinutes(len(runs), func(i int) (*schedule.Run, string) { return &runs[i], "w" })
	want := []ledger.MinuteCount[string]{
		{QueueNo: 4, Minute: noon.Add(-time.Minute), Of: "w", Ended: true, Runs: 1},
		{QueueNo: 4, Minute: noon, Of: "w", Runs: 3, WaitMS: 100_000},
		{QueueNo: 4, Minute: noon, Of: "w", Ended: true, Runs: 1, RunMS: 9000},
		{QueueNo: 4, Minute: noon.Add(time.Minute), Of: "w", Ended: true, Runs: 1, RunMS: 20_000},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("counts (- want, + got):\n%s", d)
	}
}
