package storetest

import (
	"encoding/json"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// requestChecks are what Begin looks up in the ledger and in the schedule.
var requestChecks = []check{
	{"a planned run is withheld, and one that was accepted or has ended answers so", beginNotLaunching},
	{"a request for another run than the key's is a conflict", beginConflictOfRun},
	{"a run whose cancel was asked for is refused, and ends", beginCancelled},
	{"a slot of a paused schedule is refused from its fire_at on", beginPaused},
	{"a cancel without a reason is refused as cancelled", beginCancelledWithoutReason},
	{"any run of a deleted schedule is refused from its fire_at on", beginDeleted},
	{"once a call has begun a failed check withholds and is not final", beginWithheldAfterCall},
	{"a call that was given up unsent counts as not begun", beginRefusedAfterUnsentCall},
	{"what is recorded is answered even when a check would fail", beginRecordedBeforeChecks},
	{"a key that the ledger does not know is checked against its schedule only", beginWithoutRun},
}

// refused fails unless req is refused with the outcome, and stays so.
func (r *rig) refused(req schedule.BeginRequest, status schedule.Status, reason schedule.Reason) {
	r.Helper()
	got := r.permits(req, schedule.Refused)
	r.hold(got.Reason == reason, "the reason is %s, got %q", reason, got.Reason)
	want := schedule.Outcome{Status: status, Reason: reason}
	equal(r, "outcomes", got.Request.Outcome, want)
	r.hold(got.Request.Done, "the key is done")
	if got.Settled {
		run := r.ledger(req.Key)
		r.hold(run.Status == status && run.Reason == reason && run.CompletedAt.Equal(r.now) && run.Deliveries == 0, "the run has ended so, got %+v", run)
	}
	again := r.permits(req, schedule.Recorded)
	equal(r, "recorded outcomes", again.Request.Outcome, want)
}

// withheld fails unless req is withheld for the reason, with nothing recorded.
func (r *rig) withheld(req schedule.BeginRequest, reason schedule.Reason) {
	r.Helper()
	for range 2 {
		got := r.permits(req, schedule.Withheld)
		r.hold(got.Reason == reason, "the reason is %q, got %q", reason, got.Reason)
	}
}

func (r *rig) pause(s schedule.Schedule, until time.Time) schedule.Schedule {
	r.Helper()
	return r.rewrite(s, func(s *schedule.Schedule) { s.Pause = schedule.Pause{Paused: true, Until: until} })
}

func (r *rig) resume(s schedule.Schedule) {
	r.Helper()
	r.rewrite(s, func(s *schedule.Schedule) { s.Pause = schedule.Pause{} })
}

func beginNotLaunching(r *rig) {
	r.lead()
	s := r.create("moved")
	for i, status := range schedule.Statuses {
		if status == schedule.StatusLaunching {
			continue
		}
		run := r.slot(s, r.at(-time.Duration(i)*time.Second))
		if status == schedule.StatusPlanned {
			run.FireAt = r.at(time.Second)
		}
		reason := map[schedule.Status]schedule.Reason{
			schedule.StatusSuccess: schedule.ReasonAccepted, schedule.StatusFailed: schedule.ReasonLost,
			schedule.StatusSkipped: schedule.ReasonOverlap, schedule.StatusCancelled: schedule.ReasonReplaced,
		}[status]
		run = r.bring(run, status, func(st *schedule.Settlement) { st.Reason, st.RunID = reason, "run" })
		if status == schedule.StatusPlanned {
			r.withheld(r.beginRequest(run), schedule.ReasonNone)
			continue
		}
		want := schedule.Outcome{Status: status, Reason: reason, RunID: "run"}
		if status.InFlight() {
			want.Status = schedule.StatusEnqueued
		}
		equal(r, string(status), r.permits(r.beginRequest(run), schedule.Recorded).Request.Outcome, want)
	}
	r.granted(r.beginRequest(r.bring(r.slot(s, r.at(-time.Minute)), schedule.StatusLaunching)))
}

func beginCancelled(r *rig) {
	r.lead()
	s := r.create("cancelled")
	for i, reason := range []schedule.Reason{schedule.ReasonCancelled, schedule.ReasonReplaced} {
		run := r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), schedule.StatusLaunching)
		r.askCancel(run.Key, reason, r.now)
		r.refused(r.beginRequest(run), schedule.StatusCancelled, reason)
	}
	ahead := r.bring(r.slot(s, r.at(-10*time.Second)), schedule.StatusLaunching)
	r.askCancel(ahead.Key, schedule.ReasonCancelled, r.now)
	r.refused(r.beginRequest(ahead, func(req *schedule.BeginRequest) { req.FireAt = r.at(time.Second) }), schedule.StatusCancelled, schedule.ReasonCancelled)
}

func beginPaused(r *rig) {
	r.lead()
	s := r.create("paused")
	slot := r.bring(r.slot(s, r.at(-time.Second)), schedule.StatusLaunching)
	caughtUp := r.bring(r.slot(s, r.at(-2*time.Second), func(run *schedule.Run) { run.Trigger = schedule.TriggerCatchup }), schedule.StatusLaunching)
	byHand := r.bring(r.manual(s, "m", r.now), schedule.StatusLaunching)
	armed := r.bring(r.slot(s, r.at(-3*time.Second)), schedule.StatusLaunching)
	until := r.at(time.Minute)
	r.pause(s, until)

	r.refused(r.beginRequest(slot), schedule.StatusSkipped, schedule.ReasonPaused)
	r.refused(r.beginRequest(caughtUp), schedule.StatusSkipped, schedule.ReasonPaused)
	r.granted(r.beginRequest(byHand))
	ahead := r.beginRequest(armed, func(req *schedule.BeginRequest) { req.FireAt = r.at(time.Second) })
	r.withheld(ahead, schedule.ReasonPaused)
	r.now = until
	r.granted(ahead) // the pause is over: it holds exactly while now < until
}

func beginConflictOfRun(r *rig) {
	r.lead()
	s := r.create("one", func(s *schedule.Schedule) { s.Input = json.RawMessage(`{"b": 1, "a": [2]}`) })
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	same := r.beginRequest(run, func(req *schedule.BeginRequest) { req.Input = json.RawMessage(`{"a":[2],"b":1}`) })
	for name, edit := range map[string]func(*schedule.BeginRequest){
		"schedule": func(req *schedule.BeginRequest) { req.ScheduleID = r.id("other") },
		"instant":  func(req *schedule.BeginRequest) { req.ScheduledFor = r.at(time.Second) },
		"trigger":  func(req *schedule.BeginRequest) { req.Trigger = schedule.TriggerManual },
		"version":  func(req *schedule.BeginRequest) { req.Version++ },
		"workflow": func(req *schedule.BeginRequest) { req.Grant.WorkflowID = r.id("other") },
		"grant":    func(req *schedule.BeginRequest) { req.Grant.GrantID = "other" },
		"input":    func(req *schedule.BeginRequest) { req.Input = nil },
	} {
		other := same
		edit(&other)
		got := r.permits(other, schedule.Conflict)
		r.hold(got.Request.Key == run.Key, "another %s: a conflict shows the key, got %+v", name, got.Request)
	}
	r.granted(same)
	r.finish(run.Key, schedule.Outcome{Status: schedule.StatusSuccess})
	r.permits(same, schedule.Recorded)
	same.Input = nil
	r.permits(same, schedule.Conflict)
}

func beginCancelledWithoutReason(r *rig) {
	r.lead()
	run := r.bring(r.slot(r.create("cancelled"), r.now), schedule.StatusLaunching)
	r.askCancel(run.Key, schedule.ReasonReplaced, r.now)
	r.dropCancelReason(run.Key)
	r.refused(r.beginRequest(run), schedule.StatusCancelled, schedule.ReasonCancelled)
}

func beginDeleted(r *rig) {
	r.lead()
	s := r.create("deleted")
	slot := r.bring(r.slot(s, r.at(-time.Second)), schedule.StatusLaunching)
	byHand := r.bring(r.manual(s, "m", r.now), schedule.StatusLaunching)
	armed := r.bring(r.slot(s, r.at(-3*time.Second)), schedule.StatusLaunching)
	r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })

	r.refused(r.beginRequest(slot), schedule.StatusCancelled, schedule.ReasonDeleted)
	r.refused(r.beginRequest(byHand), schedule.StatusCancelled, schedule.ReasonDeleted)
	ahead := r.beginRequest(armed, func(req *schedule.BeginRequest) { req.FireAt = r.at(time.Second) })
	r.withheld(ahead, schedule.ReasonDeleted)
	r.now = r.at(time.Second)
	r.refused(ahead, schedule.StatusCancelled, schedule.ReasonDeleted)
}

func beginWithheldAfterCall(r *rig) {
	r.lead()
	s := r.create("called")
	paused := r.bring(r.slot(s, r.at(-time.Second)), schedule.StatusLaunching)
	cancelled := r.bring(r.slot(s, r.at(-2*time.Second)), schedule.StatusLaunching)
	r.begin(r.beginRequest(paused), r.beginRequest(cancelled))
	r.release(paused.Key, true)
	r.askCancel(cancelled.Key, schedule.ReasonCancelled, r.now)
	s = r.pause(s, time.Time{})
	r.now = r.at(lease + time.Second)

	r.withheld(r.beginRequest(paused), schedule.ReasonPaused)
	got := r.permits(r.beginRequest(cancelled), schedule.Withheld)
	r.hold(got.Reason != schedule.ReasonNone, "a reason is given")
	r.resume(s)
	again := r.permits(r.beginRequest(paused), schedule.GrantedAgain)
	r.hold(again.Sent, "the first call may have reached the executor")
}

// beginRefusedAfterUnsentCall has an executor that could not be reached: nothing
// of the run has left, so pause, deletion and cancel are final as before.
func beginRefusedAfterUnsentCall(r *rig) {
	r.lead()
	s := r.create("unsent")
	run := r.bring(r.slot(s, r.at(-time.Second)), schedule.StatusLaunching)
	cancelled := r.bring(r.slot(s, r.at(-2*time.Second)), schedule.StatusLaunching)
	for _, run := range []schedule.Run{run, cancelled} {
		r.granted(r.beginRequest(run))
		r.release(run.Key, false)
	}
	closed, recorded := r.closeKey(cancelled.Key)
	r.hold(closed && recorded.Done, "its key can be closed, got %+v", recorded)
	r.permits(r.beginRequest(cancelled), schedule.Recorded)
	r.pause(s, time.Time{})
	r.refused(r.beginRequest(run), schedule.StatusSkipped, schedule.ReasonPaused)
}

func beginRecordedBeforeChecks(r *rig) {
	r.lead()
	s := r.create("done")
	run := r.bring(r.slot(s, r.at(-time.Second)), schedule.StatusLaunching)
	r.granted(r.beginRequest(run))
	r.finish(run.Key, accepted)
	r.pause(s, time.Time{})
	equal(r, "outcomes on a paused schedule", r.permits(r.beginRequest(run), schedule.Recorded).Request.Outcome, accepted)
	r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess})
	ended := schedule.Outcome{Status: schedule.StatusSuccess, RunID: accepted.RunID}
	equal(r, "outcomes of an ended run", r.permits(r.beginRequest(run), schedule.Recorded).Request.Outcome, ended)
}

func beginWithoutRun(r *rig) {
	alive := r.create("alive")
	paused := r.create("paused", func(s *schedule.Schedule) { s.Pause.Paused = true })
	deleted := r.create("deleted", func(s *schedule.Schedule) { s.DeletedAt = r.now })
	r.granted(r.beginRequest(r.slot(alive, r.now)))
	r.granted(r.beginRequest(r.manual(paused, "m", r.now)))
	r.refused(r.beginRequest(r.slot(paused, r.now)), schedule.StatusSkipped, schedule.ReasonPaused)
	r.refused(r.beginRequest(r.slot(deleted, r.now)), schedule.StatusCancelled, schedule.ReasonDeleted)
	r.granted(r.strange("without-schedule"))
}
