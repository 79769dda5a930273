package storetest

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func finishKeepsOutcome(r *rig) {
	full := schedule.Outcome{
		Status: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, RunID: "run-ü", TraceID: "trace", ErrorCode: "E1", ErrorMessage: awkward,
	}
	reported := full
	reported.FailureClass = schedule.ClassLogic                     // only runs of the ledger keep it
	reported.SnoozeFor = time.Hour                                  // see below
	reported.ExitCode, reported.Result = new(int32), r.brought("x") // see results
	reported.Commit = committing(`{}`)                              // see commits
	r.everyFieldSet(reflect.ValueOf(reported), "Outcome")
	outcomes := []schedule.Outcome{full, {Status: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed, SnoozeFor: 30 * 24 * time.Hour}}
	for _, status := range []schedule.Status{schedule.StatusEnqueued, schedule.StatusSuccess, schedule.StatusFailed, schedule.StatusSkipped, schedule.StatusCancelled} {
		outcomes = append(outcomes, schedule.Outcome{Status: status})
	}
	for i, outcome := range outcomes {
		req := r.strange(fmt.Sprint("outcome-", i))
		r.granted(req)
		r.finish(req.Key, outcome)
		got := r.permits(req, schedule.Recorded).Request
		equal(r, "outcomes", got.Outcome, outcome)
		r.hold(got.RequestHash == req.RequestHash && got.Key == req.Key, "the row is the key's, got %+v", got)
		r.inUTC("ExecutionRequest", got)
	}
}

func finishMany(r *rig) {
	_, err := r.Finish(r.ctx, nil, r.now)
	r.ok(err, "finish nothing")
	var done []schedule.FinishRequest
	var reqs []schedule.BeginRequest
	for i := range 7 {
		req := r.strange(fmt.Sprint("many-", i))
		reqs = append(reqs, req)
		done = append(done, schedule.FinishRequest{Key: req.Key, Outcome: schedule.Outcome{Status: schedule.StatusSuccess, RunID: fmt.Sprint(i)}})
	}
	done = append(done, schedule.FinishRequest{Key: reqs[0].Key, Outcome: schedule.Outcome{Status: schedule.StatusFailed}}) // named twice: the first stays
	open := r.strange("open")
	r.begin(append(reqs, open)...)
	refused := schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused}
	r.finish(reqs[3].Key, refused)
	finished, err := r.Finish(r.ctx, done, r.now)
	r.ok(err, "finish many, one of them again")
	for i, req := range reqs {
		want := done[i].Outcome
		if i == 3 {
			want = refused
		}
		equal(r, "outcomes", r.permits(req, schedule.Recorded).Request.Outcome, want)
		equal(r, "what stands", finished[i], schedule.Finished{Outcome: want})
	}
	r.permits(open, schedule.Busy)
}

// finishTwice: two calls of a key were open at once, and each got its answer.
func finishTwice(r *rig) {
	r.lead()
	end := schedule.Outcome{Status: schedule.StatusSuccess, RunID: "run"}
	refusal := schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused}
	failure := schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, ErrorCode: "E"}
	unheard := schedule.Outcome{Status: schedule.StatusSuccess, Reason: schedule.ReasonAccepted}
	for name, tc := range map[string]struct {
		answers []schedule.Outcome
		settle  []bool // the run
		stands  schedule.Outcome
		settled schedule.Status // of the run
		events  int
	}{
		"accepted-then-success":   {[]schedule.Outcome{accepted, end}, []bool{true, true}, end, schedule.StatusSuccess, 0},
		"accepted-then-failure":   {[]schedule.Outcome{accepted, failure}, []bool{true, true}, failure, schedule.StatusFailed, 0},
		"success-then-accepted":   {[]schedule.Outcome{end, accepted}, []bool{true, false}, end, schedule.StatusSuccess, 0},
		"accepted-then-refused":   {[]schedule.Outcome{accepted, refusal}, []bool{true, false}, accepted, schedule.StatusEnqueued, 0},
		"accepted-then-accepted":  {[]schedule.Outcome{accepted, unheard}, []bool{true, false}, accepted, schedule.StatusEnqueued, 0},
		"success-then-success":    {[]schedule.Outcome{end, end}, []bool{true, false}, end, schedule.StatusSuccess, 0},
		"success-then-failure":    {[]schedule.Outcome{end, failure}, []bool{true, false}, end, schedule.StatusSuccess, 1},
		"accepted-twice-then-end": {[]schedule.Outcome{accepted, accepted, end}, []bool{true, false, true}, end, schedule.StatusSuccess, 0},
	} {
		run := r.bring(r.add(r.slot(r.create(name), r.at(-time.Second)))[0], schedule.StatusLaunching)
		r.begin(r.beginRequest(run))
		for i, answer := range tc.answers {
			finished, err := r.Finish(r.ctx, []schedule.FinishRequest{{Key: run.Key, Outcome: answer, LaunchedAt: r.now}}, r.now)
			r.ok(err, "finish")
			r.hold(finished[0].Settled == tc.settle[i], "%s: answer %d has settled the run: %v, want %v", name, i, finished[0].Settled, tc.settle[i])
			if i == len(tc.answers)-1 {
				equal(r, name+": what stands", finished[0].Outcome, tc.stands)
			}
		}
		events := len(r.eventsOf(schedule.Schedule{Definition: schedule.Definition{ScheduleID: run.ScheduleID}}))
		r.hold(events == tc.events, "%s: %d answers that come too late leave an event, got %d", name, tc.events, events)
		got := r.ledger(run.Key)
		r.hold(got.Status == tc.settled, "%s: the run is %s, want %s", name, got.Status, tc.settled)
		r.hold(got.Status.Terminal() == !got.CompletedAt.IsZero(), "%s: completed_at is %s", name, got.CompletedAt)
	}
}

func (r *rig) closeKey(key schedule.Key) (bool, schedule.ExecutionRequest) {
	r.Helper()
	closed, recorded, err := r.CloseKey(r.ctx, key, schedule.ReasonCancelled, r.now)
	r.ok(err, "close a key")
	return closed, recorded
}

func closeUnused(r *rig) {
	req := r.strange("unused")
	want := schedule.Outcome{Status: schedule.StatusCancelled, Reason: schedule.ReasonCancelled}
	closed, recorded := r.closeKey(req.Key)
	r.hold(closed, "nobody began it: it is closed")
	r.hold(recorded.Done && recorded.Key == req.Key, "the row is shown, got %+v", recorded)
	equal(r, "outcomes", recorded.Outcome, want)
	// Whatever the request is, its key answers from there.
	equal(r, "outcomes of a later send", r.permits(req, schedule.Recorded).Request.Outcome, want)
	again, recorded := r.closeKey(req.Key)
	r.hold(!again, "it is closed once")
	equal(r, "outcomes after closing twice", recorded.Outcome, want)
}

func closeUsed(r *rig) {
	begun, done := r.strange("begun"), r.strange("done")
	r.begin(begun, done)
	r.finish(done.Key, accepted)
	closed, recorded := r.closeKey(begun.Key)
	r.hold(!closed && !recorded.Done && recorded.Key == begun.Key && recorded.Lease.Until.Equal(r.at(lease)), "an open call is not closed, got %+v", recorded)
	closed, recorded = r.closeKey(done.Key)
	r.hold(!closed && recorded.Done, "a key that is done is not closed, got %+v", recorded)
	equal(r, "outcomes", recorded.Outcome, accepted)

	r.release(begun.Key, true)
	closed, _ = r.closeKey(begun.Key)
	r.hold(!closed, "a call of unknown outcome has begun and is not closed")
	r.permits(begun, schedule.GrantedAgain)
}

// beginRace has a hundred begin one key at once.
func beginRace(r *rig) {
	req := r.strange("contended")
	const callers = 100
	answers := make([]schedule.Permission, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			got, err := r.Begin(r.ctx, []schedule.BeginRequest{req}, r.now)
			if err != nil {
				r.Errorf("begin: %v", err)
				return
			}
			answers[i] = got[0].Permission
		})
	}
	wg.Wait()
	count := map[string]int{}
	for _, p := range answers {
		count[word(p)]++
	}
	equal(r, "answers", count, map[string]int{"granted": 1, "busy": callers - 1})
}

// closeRace has one begin a key while another closes it, many times.
func closeRace(r *rig) {
	for i := range 20 {
		req := r.strange(fmt.Sprint("raced-", i))
		var granted, closed bool
		var wg sync.WaitGroup
		wg.Go(func() {
			got, err := r.Begin(r.ctx, []schedule.BeginRequest{req}, r.now)
			if err != nil {
				r.Errorf("begin: %v", err)
				return
			}
			granted = got[0].Permission == schedule.Granted
		})
		wg.Go(func() {
			var err error
			if closed, _, err = r.CloseKey(r.ctx, req.Key, schedule.ReasonCancelled, r.now); err != nil {
				r.Errorf("close: %v", err)
			}
		})
		wg.Wait()
		r.hold(granted != closed, "exactly one gets the key, granted %v, closed %v", granted, closed)
	}
}
