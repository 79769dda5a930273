package ledger_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

var queueNow = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// queuedRun is a run of queue 7 that waits: edit changes that.
func queuedRun(n byte, edit func(*schedule.Run)) schedule.Run {
	r := schedule.Run{
		Key: schedule.Key{n}, ScheduleID: "jobs", Revision: 1, UserID: "ana", Status: schedule.StatusEnqueued, Trigger: schedule.TriggerJob,
		RunAt: queueNow.Add(-time.Minute), FireAt: queueNow.Add(-time.Minute), Attempt: 1, MaxAttempts: 1, OverlapPolicy: schedule.OverlapAllow,
		Queue: schedule.QueuePlace{No: 7, State: schedule.QueueWaiting, Position: int64(n), EnqueuedAt: queueNow.Add(-time.Minute)},
	}
	if edit != nil {
		edit(&r)
	}
	return r
}

func dispatching(r *schedule.Run) {
	r.Queue.State, r.ClaimedAt, r.TimeoutAt, r.Deliveries = schedule.QueueDispatching, queueNow.Add(-time.Second), queueNow.Add(time.Minute), 1
}

func running(r *schedule.Run) {
	dispatching(r)
	r.Status, r.Queue.State, r.LaunchedAt = schedule.StatusStarted, schedule.QueueRunning, r.ClaimedAt
}

func TestTheStageOfARunOfAQueueFollowsItsState(t *testing.T) {
	stages := []struct {
		state  schedule.QueueState
		status schedule.Status
		stage  schedule.Status
	}{
		{schedule.QueueDelayed, schedule.StatusEnqueued, schedule.StatusPlanned},
		{schedule.QueueWaiting, schedule.StatusEnqueued, schedule.StatusPlanned},
		{schedule.QueueChained, schedule.StatusEnqueued, schedule.StatusPlanned},
		{schedule.QueueDispatching, schedule.StatusEnqueued, schedule.StatusLaunching},
		{schedule.QueueRunning, schedule.StatusStarted, schedule.StatusStarted},
		{schedule.QueueDispatching, schedule.StatusFailed, schedule.StatusFailed},
	}
	for _, s := range stages {
		r := queuedRun(1, func(r *schedule.Run) { r.Status, r.Queue.State = s.status, s.state })
		if got := r.Stage(); got != s.stage {
			t.Errorf("%s and %s: stage %s, want %s", s.status, s.state, got, s.stage)
		}
	}
	r := queuedRun(1, nil)
	for _, step := range []struct {
		stage, status schedule.Status
		state         schedule.QueueState
	}{
		{schedule.StatusLaunching, schedule.StatusEnqueued, schedule.QueueDispatching},
		{schedule.StatusEnqueued, schedule.StatusStarted, schedule.QueueRunning},
		{schedule.StatusStarted, schedule.StatusStarted, schedule.QueueRunning},
		{schedule.StatusSuccess, schedule.StatusSuccess, schedule.QueueRunning},
	} {
		if r.Enter(step.stage); r.Status != step.status || r.Queue.State != step.state {
			t.Errorf("entered %s: %s and %s, want %s and %s", step.stage, r.Status, r.Queue.State, step.status, step.state)
		}
	}
}

// admission is an admission of three free calls from a queue of five slots, in which runs 1 to
// 4 wait: edit changes that. want are the keys that start, the ends and what blocks the rest.
type admission struct {
	name  string
	edit  func(*admissionCase)
	start []byte
	ends  []schedule.Reason
	block ledger.BlockedBy
	again bool // others can start at once
}

// admissionCase is a queue with the runs that wait in it.
type admissionCase struct {
	req schedule.AdmitRequest
	*ledger.QueueFacts
	waiting []ledger.WaitingFacts
}

// admit decides as a store does: it reads the chosen runs, and gives them in any order.
func (c *admissionCase) admit() ledger.Dispatched {
	if c.Heads = nil; c.Room(&c.req) > 0 && len(c.waiting) > 0 {
		var h ledger.Head
		for i := range c.waiting {
			h.Runs = append(h.Runs, ledger.Waiting(&c.waiting[i].Run))
		}
		c.Heads = []ledger.Head{h}
	}
	choice := ledger.ChooseRuns(&c.req, c.QueueFacts)
	var found []ledger.WaitingFacts
	for _, key := range choice.Keys() {
		for i := range c.waiting {
			if c.waiting[i].Run.Key == key {
				found = append([]ledger.WaitingFacts{c.waiting[i]}, found...)
			}
		}
	}
	return ledger.AdmitRuns(&c.req, c.QueueFacts, choice, found)
}

func TestAnAdmissionStartsTheFirstRunsThatMayBeSent(t *testing.T) {
	grantID := func(f *admissionCase, i int) {
		d := *f.waiting[i].Definition
		d.ExecutionGrantID = "g1"
		f.waiting[i].Definition = &d
	}
	cases := []admission{
		{name: "as many as calls are free", start: []byte{1, 2, 3}, block: ledger.BlockedByCalls},
		{name: "as many as slots are free", edit: func(f *admissionCase) { f.InFlight = 4 }, start: []byte{1}, block: ledger.BlockedByFull},
		{name: "none while the queue is full", edit: func(f *admissionCase) { f.InFlight = 6 }, block: ledger.BlockedByFull},
		{name: "none while the queue is paused", edit: func(f *admissionCase) { f.Queue.Pause.Paused = true }, block: ledger.BlockedByPause},
		{name: "a pause ends by itself", edit: func(f *admissionCase) {
			f.Queue.Pause = schedule.Pause{Paused: true, Until: queueNow}
		}, start: []byte{1, 2, 3}, block: ledger.BlockedByCalls},
		{name: "none while the queue stalls", edit: func(f *admissionCase) { f.Stall.Until = queueNow.Add(1) }, block: ledger.BlockedByStall},
		{name: "none of a queue with a damaged definition", edit: func(f *admissionCase) { f.Queue.Unreadable = true }, block: ledger.BlockedByPause},
		{
			name: "a run without its grant ends, and the next ones start", edit: func(f *admissionCase) { grantID(f, 0) },
			start: []byte{2, 3}, again: true, ends: []schedule.Reason{schedule.ReasonGrantDenied}, block: ledger.BlockedByCalls,
		},
		{
			name: "a run without a definition ends, and the next ones start", edit: func(f *admissionCase) { f.waiting[1].Definition = nil },
			start: []byte{1, 3}, again: true, ends: []schedule.Reason{schedule.ReasonLaunchRefused}, block: ledger.BlockedByCalls,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req := schedule.AdmitRequest{QueueNo: 7, Now: queueNow, Free: 3, Holder: 9, RetryFor: time.Minute, Lease: func(schedule.Key) time.Duration { return 3 * time.Second }}
			f := &admissionCase{req: req, QueueFacts: &ledger.QueueFacts{Queue: &schedule.Queue{No: 7, QueueDefinition: schedule.QueueDefinition{QueueID: "q", MaxInFlight: 5}}}}
			for n := byte(1); n <= 4; n++ {
				f.waiting = append(f.waiting, ledger.WaitingFacts{Run: queuedRun(n, nil), Definition: &schedule.Definition{UserID: "ana", WorkflowID: "w", Version: 1}})
			}
			if c.edit != nil {
				c.edit(f)
			}
			out := f.admit()
			var start []byte
			for _, d := range out.Dispatches {
				start = append(start, d.Run.Key[0])
				lease := schedule.KeyLease{Holder: 9, Until: queueNow.Add(3 * time.Second)}
				if d.Run.Stage() != schedule.StatusLaunching || d.Run.Deliveries != 1 || !d.Run.ClaimedAt.Equal(queueNow) || d.Begun.Permission != schedule.Granted ||
					d.Begun.Request.Lease != lease || !d.Begun.CheckedAt.Equal(queueNow) || !d.Run.TimeoutAt.Equal(queueNow.Add(time.Minute)) {
					t.Errorf("admitted as %+v with %+v", d.Run, d.Begun)
				}
			}
			var ends []schedule.Reason
			for _, s := range out.Ended {
				ends = append(ends, s.Reason)
			}
			if !slices.Equal(start, c.start) || !slices.Equal(ends, c.ends) || out.Block == nil || out.Block.What != c.block || out.Again != c.again {
				t.Errorf("start %v, ends %v, block %+v, again %v; want %v, %v, %v, %v", start, ends, out.Block, out.Again, c.start, c.ends, c.block, c.again)
			}
		})
	}
}

func TestAPauseOfItsQueueWithholdsARunUntilItIsSent(t *testing.T) {
	paused := &schedule.Queue{No: 7, Pause: schedule.Pause{Paused: true, Until: queueNow.Add(time.Minute)}}
	for name, c := range map[string]struct {
		calls int32
		queue *schedule.Queue
		now   time.Time
		want  schedule.Permission
	}{
		"nothing was sent":             {0, paused, queueNow, schedule.Withheld},
		"a call may have arrived":      {1, paused, queueNow, schedule.GrantedAgain},
		"the pause is over":            {0, paused, queueNow.Add(time.Minute), schedule.Granted},
		"the queue is not paused":      {0, &schedule.Queue{No: 7}, queueNow, schedule.Granted},
		"the schedule is paused alone": {0, nil, queueNow, schedule.Granted},
	} {
		t.Run(name, func(t *testing.T) {
			r := queuedRun(1, func(r *schedule.Run) { dispatching(r); r.Deliveries = c.calls })
			req := schedule.BeginRequest{
				Key: r.Key, ScheduleID: r.ScheduleID, ScheduledFor: r.RunAt, Trigger: r.Trigger, Version: 1, FireAt: r.FireAt, Lease: time.Second,
				Grant: schedule.GrantUse{WorkflowID: "w", UserID: "ana"},
			}
			f := ledger.BeginFacts{
				Run: &r, Definition: &schedule.Definition{UserID: "ana", WorkflowID: "w", Version: 1}, Queue: c.queue,
				Pause: schedule.Pause{Paused: true}, Deleted: true,
			}
			if got := ledger.Begin(&req, &f, c.now); got.Permission != c.want {
				t.Errorf("permission %d, want %d (%s)", got.Permission, c.want, got.Reason)
			}
		})
	}
}

func TestAfterAStallOneRunIsAProbe(t *testing.T) {
	c := admissionCase{
		req: schedule.AdmitRequest{Now: queueNow, Free: 10, Lease: func(schedule.Key) time.Duration { return time.Second }},
		QueueFacts: &ledger.QueueFacts{
			Queue: &schedule.Queue{No: 7, QueueDefinition: schedule.QueueDefinition{MaxInFlight: 5}},
			Stall: schedule.QueueStall{QueueNo: 7, Level: 2, Until: queueNow, Reason: "away"},
		},
	}
	if room := c.Room(&c.req); room != 1 {
		t.Fatalf("room for %d", room)
	}
	for n := byte(1); n <= 3; n++ {
		c.waiting = append(c.waiting, ledger.WaitingFacts{Run: queuedRun(n, nil), Definition: &schedule.Definition{}})
	}
	out := c.admit()
	if len(out.Dispatches) != 1 || out.StallLevel != 2 || out.Again || out.Stall == nil || out.Stall.Level != 2 || !out.Stall.Until.Equal(queueNow.Add(5*time.Second)) {
		t.Errorf("got %+v, stall %+v", out, out.Stall)
	}
}

func TestARunWaitsAgainOnlyIfTheExecutorCertainlyDoesNotHaveIt(t *testing.T) {
	unsent := func(r *schedule.Run) { dispatching(r); r.Deliveries = 0 }
	cases := []struct {
		name  string
		edit  func(*schedule.Run)
		lease time.Time
		back  schedule.PutBack
		want  schedule.QueueState // "": it stays
	}{
		{"nothing was sent", unsent, time.Time{}, schedule.PutBack{}, schedule.QueueWaiting},
		{"nothing was sent, and it is to wait for a while", unsent, time.Time{}, schedule.PutBack{FireAt: queueNow.Add(1000)}, schedule.QueueDelayed},
		{"an earlier call may have arrived", dispatching, time.Time{}, schedule.PutBack{}, ""},
		{"a call is open", unsent, queueNow.Add(time.Second), schedule.PutBack{}, ""},
		{"its cancel is requested", func(r *schedule.Run) { unsent(r); r.CancelRequestedAt = queueNow }, time.Time{}, schedule.PutBack{}, ""},
		{"it waits already", nil, time.Time{}, schedule.PutBack{}, ""},
		{"the executor has it", running, time.Time{}, schedule.PutBack{}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := queuedRun(3, c.edit)
			after, ok := ledger.PutBack(before, schedule.KeyLease{Until: c.lease}, &c.back, queueNow)
			if ok != (c.want != "") || ok && (after.Queue.State != c.want || after.Queue.Position != 3 || after.Stage() != schedule.StatusPlanned || !after.TimeoutAt.IsZero()) {
				t.Errorf("%v %+v, want %q", ok, after, c.want)
			}
			if !ok && !after.UpdatedAt.Equal(before.UpdatedAt) {
				t.Error("it has changed")
			}
		})
	}
}

func TestASweepOfAQueueDoesWhatIsDue(t *testing.T) {
	away := func(r *schedule.Run) { dispatching(r); r.ClaimedUntil = queueNow }
	cases := []struct {
		name   string
		edit   func(*schedule.Run)
		lease  time.Duration // from now; 0: none
		full   bool          // no call is free
		gone   bool          // the queue is deleted
		want   ledger.QueueStep
		reason schedule.Reason // of its end; "": any
		due    time.Duration   // from now; 0: never
		next   bool            // due with the next sweep
	}{
		{name: "a delay is over", edit: func(r *schedule.Run) { r.Queue.State, r.FireAt = schedule.QueueDelayed, queueNow }, want: ledger.QueueReady},
		{name: "a delay is not over", edit: func(r *schedule.Run) { r.Queue.State, r.FireAt = schedule.QueueDelayed, queueNow.Add(time.Hour) }, due: time.Hour},
		{name: "a waiting run waits for an admission", edit: nil},
		{name: "a run waits in a deleted queue", gone: true, want: ledger.QueueEnd, reason: schedule.ReasonDeleted},
		{name: "a run is chained in a deleted queue", gone: true, edit: func(r *schedule.Run) { r.Queue.State = schedule.QueueChained }, want: ledger.QueueEnd},
		{name: "a run is delayed in a deleted queue", gone: true, edit: func(r *schedule.Run) { r.Queue.State, r.FireAt = schedule.QueueDelayed, queueNow.Add(time.Hour) }, want: ledger.QueueEnd},
		{name: "a run of a deleted queue is running", gone: true, edit: func(r *schedule.Run) { running(r); r.TimeoutAt = queueNow.Add(time.Hour) }, due: time.Hour},
		{name: "a waiting run expires later", edit: func(r *schedule.Run) { r.StartBy = queueNow.Add(time.Hour) }, due: time.Hour},
		{name: "a waiting run has expired", edit: func(r *schedule.Run) { r.StartBy = queueNow }, want: ledger.QueueEnd, reason: schedule.ReasonExpired},
		{name: "a delayed run expires after its delay", edit: func(r *schedule.Run) {
			r.Queue.State, r.FireAt, r.StartBy = schedule.QueueDelayed, queueNow.Add(time.Hour), queueNow.Add(2*time.Hour)
		}, due: time.Hour},
		{name: "a delay is over, and the run expires later", edit: func(r *schedule.Run) {
			r.Queue.State, r.FireAt, r.StartBy = schedule.QueueDelayed, queueNow, queueNow.Add(time.Hour)
		}, want: ledger.QueueReady, due: time.Hour},
		{name: "a run that was put back until it has expired", edit: func(r *schedule.Run) {
			r.Queue.State, r.FireAt, r.StartBy = schedule.QueueDelayed, queueNow.Add(time.Hour), queueNow
		}, want: ledger.QueueEnd, reason: schedule.ReasonExpired},
		{name: "a chained run does not expire", edit: func(r *schedule.Run) { r.Queue.State, r.StartBy = schedule.QueueChained, queueNow }},
		{name: "an admitted run does not expire", edit: func(r *schedule.Run) { running(r); r.StartBy, r.TimeoutAt = queueNow, queueNow.Add(time.Hour) }, due: time.Hour},
		{name: "a running run reaches its deadline", edit: func(r *schedule.Run) { running(r); r.TimeoutAt, r.DeadlineAt = queueNow, queueNow }, want: ledger.QueueEnd, reason: schedule.ReasonDeadline},
		{name: "a call is open", edit: dispatching, lease: 2 * time.Second, due: 2 * time.Second},
		{name: "a call is open, and the launch is given up soon", edit: func(r *schedule.Run) { dispatching(r); r.TimeoutAt = queueNow.Add(time.Second) }, lease: 2 * time.Second, due: time.Second},
		{name: "its process has died", edit: dispatching, lease: -1, want: ledger.QueueResend, due: 3 * time.Second},
		{name: "its pause is over", edit: away, want: ledger.QueueResend, due: 3 * time.Second},
		{name: "its pause is over, but no call is free", edit: away, full: true, want: ledger.QueueHeld, next: true},
		{name: "its pause is not over", edit: func(r *schedule.Run) { dispatching(r); r.ClaimedUntil = queueNow.Add(7 * time.Second) }, due: 7 * time.Second},
		{name: "the launch time is over", edit: func(r *schedule.Run) { dispatching(r); r.TimeoutAt = queueNow }, want: ledger.QueueEnd},
		{name: "a running run has time", edit: func(r *schedule.Run) { running(r); r.TimeoutAt = queueNow.Add(time.Hour) }, due: time.Hour},
		{name: "a running run gave no sign of life", edit: func(r *schedule.Run) { running(r); r.TimeoutAt = queueNow }, want: ledger.QueueEnd},
		{name: "a cancel is to be sent", edit: func(r *schedule.Run) {
			running(r)
			r.TimeoutAt, r.CancelRequestedAt = queueNow.Add(time.Hour), queueNow
		}, want: ledger.QueueCancel, due: 5 * time.Second},
		{name: "a cancel was not confirmed", edit: func(r *schedule.Run) {
			running(r)
			r.TimeoutAt, r.CancelRequestedAt = queueNow.Add(time.Hour), queueNow.Add(-time.Minute)
		}, want: ledger.QueueEnd},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req := &schedule.QueueSweep{SweepRequest: schedule.SweepRequest{Now: queueNow, CancelWait: 30 * time.Second, RetryFor: time.Minute}}
			var lease schedule.KeyLease
			if c.lease != 0 {
				lease.Until = queueNow.Add(c.lease)
			}
			q := &schedule.Queue{}
			if c.gone {
				q.DeletedAt = queueNow
			}
			after, step, due := ledger.SweepQueued(req, queuedRun(1, c.edit), q, lease, !c.full)
			var want time.Time
			if c.due != 0 || c.next {
				want = queueNow.Add(c.due)
			}
			if step != c.want || !due.Equal(want) {
				t.Errorf("step %d, due %v; want %d, %v", step, due, c.want, want)
			}
			if step == ledger.QueueEnd && !after.Status.Terminal() {
				t.Errorf("it ends as %s", after.Status)
			}
			if c.reason != "" && after.Reason != c.reason {
				t.Errorf("it ends with reason %s, want %s", after.Reason, c.reason)
			}
		})
	}
}

func TestAFailedJobGoesBackToItsPlaceInTheQueue(t *testing.T) {
	r := queuedRun(5, func(r *schedule.Run) {
		running(r)
		r.Status, r.Reason, r.CompletedAt, r.MaxAttempts, r.Priority, r.Queue.Priority = schedule.StatusFailed, schedule.ReasonWorkflowFailed, queueNow, 3, 9, -9
	})
	planned := &schedule.Definition{Retry: schedule.RetryPolicy{MaxAttempts: 3}}
	next := ledger.Conclude(&r, &ledger.AttemptFacts{Planned: planned}) // its schedule is deleted
	if next == nil {
		t.Fatal("it has no next attempt")
	}
	want := schedule.QueuePlace{No: 7, State: schedule.QueueDelayed, Priority: -9, Position: 5, EnqueuedAt: queueNow}
	if next.Queue != want || next.Attempt != 2 || next.Status != schedule.StatusEnqueued || !next.FireAt.After(queueNow) || !next.ClaimedAt.IsZero() {
		t.Errorf("next is %+v", next)
	}
}

func TestAJobOfAScheduleWithoutARetryPolicyHasTheDefaults(t *testing.T) {
	without := &schedule.Definition{}
	for attempt, wait := range map[int32]time.Duration{1: 10 * time.Second, 2: 20 * time.Second, 4: 80 * time.Second} {
		r := queuedRun(5, func(r *schedule.Run) {
			running(r)
			r.Status, r.Reason, r.CompletedAt, r.Attempt, r.MaxAttempts = schedule.StatusFailed, schedule.ReasonWorkflowFailed, queueNow, attempt, 5
		})
		next := ledger.Conclude(&r, &ledger.AttemptFacts{Planned: without, InForce: without})
		if next == nil {
			t.Fatalf("attempt %d of 5 has no next attempt", attempt)
		}
		if got := next.FireAt.Sub(queueNow); got < wait*9/10 || got > wait*11/10 {
			t.Errorf("attempt %d waits %v after the failure, want %v within 10 %%", attempt+1, got, wait)
		}
	}
}

// TestPositionsLieBetweenTheirNeighbours: Between says whether there is room, and then gives
// what a list with these neighbours needs.
func TestPositionsLieBetweenTheirNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := ledger.NoPlace, ledger.NoPlace
		if rapid.Bool().Draw(t, "has before") {
			before = rapid.Int64Range(-1<<40, 1<<40).Draw(t, "before")
		}
		if rapid.Bool().Draw(t, "has after") {
			after = rapid.Int64Range(max(before, -1<<40), 1<<41).Draw(t, "after")
		}
		n := rapid.IntRange(1, 50).Draw(t, "n")
		positions, fits := ledger.Between(before, after, n)
		if bounded := before != ledger.NoPlace && after != ledger.NoPlace; fits != (!bounded || after-before > int64(n)) {
			t.Fatalf("fits = %v for %d between %d and %d", fits, n, before, after)
		}
		if !fits {
			return
		}
		all := positions
		if before != ledger.NoPlace {
			all = append([]int64{before}, all...)
		}
		if after != ledger.NoPlace {
			all = append(all, after)
		}
		for i := range all[1:] {
			if all[i] >= all[i+1] {
				t.Fatalf("not ascending: %v", all)
			}
		}
		if len(positions) != n {
			t.Fatalf("%d positions, want %d", len(positions), n)
		}
	})
}
