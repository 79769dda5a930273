package storetest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// beginSome begins a few keys and ends their calls in one way or another.
func (h *history) beginSome() {
	var runs []schedule.Run
	var reqs []schedule.BeginRequest
	for _, run := range h.inStatus(schedule.Statuses...) {
		if h.random.IntN(6) == 0 {
			runs = append(runs, run)
			reqs = append(reqs, h.beginRequest(run, func(req *schedule.BeginRequest) { req.Lease = 5 * time.Second }))
		}
	}
	for i, got := range h.begin(reqs...) {
		if !runs[i].Status.InFlight() {
			got.Reason = schedule.ReasonNone // what it ended with, or nothing
		}
		h.say("begin %s: %s(%s), sent %v, %s", h.called(runs[i]), word(got.Permission), got.Reason, got.Sent, answered(&got.Request.Outcome))
		if got.Permission != schedule.Granted && got.Permission != schedule.GrantedAgain {
			continue
		}
		key := reqs[i].Key
		switch h.random.IntN(4) {
		case 0:
			h.finish(key, accepted)
		case 1:
			h.releaseHeld(key, got.Request.Lease.Until, 1, "release")
		case 2:
			h.releaseHeld(key, got.Request.Lease.Until, got.Request.Calls-1, "release")
		}
	}
	if run, any := pick(h, h.inStatus(schedule.StatusLaunching)); any && h.random.IntN(3) == 0 {
		closed, request := h.closeKey(run.Key)
		h.say("close %s: %v, done %v, sent %v, %s", h.called(run), closed, request.Done, request.Calls > 0, answered(&request.Outcome))
	}
}

func (h *history) reclaimSome() {
	if h.random.IntN(4) == 0 {
		h.lead()
	}
	limit := 1 + h.random.IntN(5)
	keys := keysOfLaunches(h.reclaim(func(req *claimRequest) { req.Limit, req.Lease = limit, 10*time.Second }))
	slices.SortFunc(keys, compareKeys)
	h.say("reclaim %d as epoch %d: %s", limit, h.term.Epoch, h.nameAll(keys))
}

func (h *history) sweepSome() {
	var ended []string
	for _, e := range h.sweep(func(req *schedule.SweepRequest) { req.CancelWait, req.RetryFor = 15*time.Second, 40*time.Second }) {
		ended = append(ended, fmt.Sprintf("%s:%s→%s(%s)", h.called(e.Run), e.Before, e.Run.Status, e.Run.Reason))
	}
	slices.Sort(ended)
	h.say("sweep: %v", ended)
}

// changeOne pauses, resumes, edits, deletes or revives a schedule.
func (h *history) changeOne() {
	name, _ := pick(h, []string{"allow", "skip", "queue", "replace"})
	got, err := h.GetSchedule(h.ctx, h.id(name))
	h.ok(err, "get schedule")
	row := *got
	row.UpdatedAt = h.now
	next := h.now.Truncate(10 * time.Second).Add(10 * time.Second)
	c := schedule.Change{ScheduleID: row.ScheduleID, Row: &row, DropPlannedAfter: h.now, Now: h.now}
	kind := schedule.EventChanged
	switch h.random.IntN(4) {
	case 0:
		kind = schedule.EventPaused
		row.Pause = schedule.Pause{Paused: true, By: "op", Until: h.at(time.Duration(5+h.random.IntN(30)) * time.Second)}
		row.NextRunAt, row.PlanAt = next, row.Pause.Until
		c.EndDue.To, c.EndDue.Reason = schedule.StatusSkipped, schedule.ReasonPaused
	case 1:
		kind = schedule.EventDeleted
		row.DeletedAt, row.NextRunAt, row.PlanAt = h.now, time.Time{}, time.Time{}
		c.EndDue.To, c.EndDue.Reason, c.EndRest = schedule.StatusCancelled, schedule.ReasonDeleted, true
	default: // an edit, which also revives and resumes
		row.Revision++
		row.RevisedAt, row.DeletedAt, row.Pause = h.now, time.Time{}, schedule.Pause{}
		row.NextRunAt, row.PlanAt = next, next
		c.NewRevision = true
	}
	c.Events = []schedule.Event{{ScheduleID: row.ScheduleID, Time: h.now, Kind: kind, Revision: row.Revision}}
	h.change(c)
	h.say("%s %s", kind, name)
}

func (h *history) addOne() {
	schedules, err := h.ListSchedules(h.ctx, schedule.ScheduleFilter{UserID: h.user, Now: h.now, Limit: 10})
	h.ok(err, "list schedules")
	if s, any := pick(h, schedules); any {
		run := h.manual(s, fmt.Sprint(h.turn), h.now.Truncate(time.Second))
		run.Trigger, _ = pick(h, schedule.Triggers[2:5])
		run.Priority = int32(h.random.IntN(3))
		h.add(run)
		h.say("add %s, priority %d", h.called(run), run.Priority)
	}
}

func (h *history) cancelOne() {
	if run, any := pick(h, h.inStatus(schedule.Statuses...)); any {
		got, moved := h.changeRun(run.Key, func(in schedule.RunInput) schedule.RunChange {
			if in.Run.Status == schedule.StatusPlanned {
				return schedule.RunChange{Settle: &schedule.Settlement{Key: run.Key, To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled}}
			}
			return schedule.RunChange{AskCancel: schedule.ReasonCancelled}
		})
		h.say("cancel %s: %v, %s(%s), asked %s", h.called(run), moved, got.Status, got.Reason, h.clock(got.CancelRequestedAt))
	}
}

func (h *history) retryOne() {
	run, any := pick(h, h.inStatus(schedule.StatusFailed, schedule.StatusSkipped, schedule.StatusSuccess))
	if !any {
		return
	}
	var inFlight int
	got, moved := h.changeRun(run.Key, func(in schedule.RunInput) schedule.RunChange {
		inFlight = in.InFlight
		next := h.retryOf(*in.Schedule, run, "again")
		next.OverlapPolicy, next.Exclusive = schedule.OverlapQueue, true
		return schedule.RunChange{Insert: &next}
	})
	h.say("retry %s beside %d in flight: %v, %s", h.called(run), inFlight, moved, h.called(got))
}

func (h *history) look() {
	gauges, next := h.counts()
	m := h.load()
	cancels, err := h.CancelRequests(h.ctx, m.state.CancelsDue(h.now, 100, func(schedule.Key) time.Time { return time.Time{} }))
	h.ok(err, "read requested cancels")
	keys := keysOf(cancels)
	h.say("look: %+v, next at %s, cancels [%s]", gauges, h.clock(next), h.nameAll(keys))
}

// counts are what LoadOpen shows: what is in flight, waits and is due, and the next
// fire_at.
func (h *history) counts() (g schedule.Gauges, next time.Time) {
	open, err := h.LoadOpen(h.ctx, h.term, time.Time{}, h.at(1000*time.Hour))
	h.ok(err, "load open runs")
	for i := range open.Runs {
		switch run := &open.Runs[i]; {
		case run.Status.InFlight():
			g.InFlight++
		case !run.WaitingSince.IsZero():
			g.Waiting++
		case !run.FireAt.After(h.now):
			g.Due++
		case next.IsZero() || run.FireAt.Before(next):
			next = run.FireAt
		}
	}
	return g, next
}

// dump writes down what has changed in ledger, schedules and events.
func (h *history) dump() {
	for _, run := range h.inStatus(schedule.Statuses...) {
		h.show(h.called(run), fmt.Sprintf("@%d %s(%s) fire %s wait %s sent %d failed %d epoch %d claim %s until %s cancel %s(%s) life %s %s %s bound %s %s%s",
			run.Revision, run.Status, run.Reason, h.clock(run.FireAt), h.clock(run.WaitingSince), run.Deliveries, run.FailedAttempts, run.Epoch,
			h.clock(run.ClaimedAt), h.clock(run.ClaimedUntil), h.clock(run.CancelRequestedAt), run.CancelReason,
			h.clock(run.LaunchedAt), h.clock(run.StartedAt), h.clock(run.CompletedAt), h.clock(run.TimeoutAt), run.RunID, run.ErrorCode))
	}
	for _, name := range []string{"allow", "queue", "replace", "skip"} {
		s := h.row(schedule.Schedule{Definition: schedule.Definition{ScheduleID: h.id(name)}})
		h.show(name, fmt.Sprintf("@%d next %s plan %s paused %v until %s last %s deleted %s, %d events", s.Revision,
			h.clock(s.NextRunAt), h.clock(s.PlanAt), s.Pause.Paused, h.clock(s.Pause.Until), h.clock(s.LastRunAt), h.clock(s.DeletedAt), len(h.eventsOf(s))))
	}
}

func (h *history) show(of, line string) {
	if h.shown[of] != line {
		h.shown[of] = line
		h.lines = append(h.lines, "    "+of+line)
	}
}

// compare fails at the first line that is not as recorded.
func (h *history) compare(path string) {
	if os.Getenv("CARILLON_RECORD_HISTORIES") != "" {
		_, here, _, _ := runtime.Caller(0)
		text := strings.Join(h.lines, "\n") + "\n"
		h.ok(os.WriteFile(filepath.Join(filepath.Dir(here), path), []byte(text), 0o644), "record")
		return
	}
	raw, err := recorded.ReadFile(path)
	h.ok(err, "read what was recorded")
	want := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	for i, line := range h.lines {
		if i >= len(want) || line != want[i] {
			before := h.lines[max(0, i-10):i]
			then := "nothing"
			if i < len(want) {
				then = want[i]
			}
			h.Fatalf("line %d of %s differs, after\n%s\nrecorded: %s\nanswered: %s", i+1, path, strings.Join(before, "\n"), then, line)
		}
	}
	h.hold(len(h.lines) == len(want), "%s has %d lines, got %d", path, len(want), len(h.lines))
}

// answered is an outcome as the histories were recorded. They have no results.
func answered(o *schedule.Outcome) string {
	return fmt.Sprintf("{Status:%s Reason:%s RunID:%s TraceID:%s ErrorCode:%s ErrorMessage:%s FailureClass:%s SnoozeFor:%s}",
		o.Status, o.Reason, o.RunID, o.TraceID, o.ErrorCode, o.ErrorMessage, o.FailureClass, o.SnoozeFor)
}
