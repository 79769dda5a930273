package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var prunes = []check{
	{"what has ended and is older goes, all else stays", pruneOld},
	{"a tombstone goes with its revisions", pruneTombstone},
	{"a tombstone stays while an event of it does", pruneKeepsEventsOwned},
	{"the memory of a key stays while its run is not over", pruneKeepsMemoryOfLiveRuns},
	{"the memory of a call that nobody finished goes once its run is over, or gone", pruneOpenRequests},
	{"last_run_at outlives the run", pruneKeepsLastRunAt},
	{"a run that stays can still be read when its tombstone is old", pruneKeepsRunsReadable},
	{"at most limit rows of each kind go at once, until nothing is left", pruneInChunks},
}

func (r *rig) prune(before time.Time, limit int) int {
	r.Helper()
	n, err := r.Prune(r.ctx, r.term, before, limit)
	r.ok(err, "prune")
	return n
}

// pruneAll prunes until nothing is left to delete.
func (r *rig) pruneAll(before time.Time) int {
	r.Helper()
	total := 0
	for range 100 {
		n := r.prune(before, 1000)
		if n == 0 {
			return total
		}
		total += n
	}
	r.Fatalf("pruning never ends")
	return total
}

func (r *rig) gone(run schedule.Run) {
	r.Helper()
	_, err := r.GetRun(r.ctx, run.Key)
	r.hold(errors.Is(err, schedule.ErrNotFound), "the run is gone, got %v", err)
}

// event writes one event of s at the rig's now.
func (r *rig) event(s schedule.Schedule, note string) {
	r.Helper()
	r.change(schedule.Change{ScheduleID: s.ScheduleID, Events: []schedule.Event{
		{ScheduleID: s.ScheduleID, Time: r.now, Kind: schedule.EventChanged, Note: note},
	}})
}

func pruneKeepsLastRunAt(r *rig) {
	r.lead()
	one, two := r.create("one"), r.create("two")
	launched := func(s schedule.Schedule, seconds int) schedule.Run {
		return r.bring(r.due(s, seconds), schedule.StatusSuccess, func(st *schedule.Settlement) { st.LaunchedAt = r.now })
	}
	old := []schedule.Run{launched(one, 50), launched(one, 40), launched(two, 45)}
	r.bring(r.due(one, 30), schedule.StatusSkipped)
	r.now = r.now.Add(time.Hour)
	young := launched(two, 10)
	for range 2 { // in pieces, so that the newer goes after the older
		r.prune(r.at(-time.Minute), 2)
	}
	for _, run := range old {
		r.gone(run)
	}
	r.hold(r.row(one).LastRunAt.Equal(old[1].RunAt), "it is that of the newest run that went, %s, got %s", old[1].RunAt, r.row(one).LastRunAt)
	r.hold(r.row(two).LastRunAt.Equal(young.RunAt), "it is that of the run that stayed, %s, got %s", young.RunAt, r.row(two).LastRunAt)
	r.prune(r.at(time.Minute), 10)
	r.hold(r.row(two).LastRunAt.Equal(young.RunAt), "and remains so when that has gone, got %s", r.row(two).LastRunAt)
}

func pruneOld(r *rig) {
	r.lead()
	s := r.create("kept")
	s = r.revise(s)
	var old, stays []schedule.Run
	live := func(i int, status schedule.Status) schedule.Run {
		run := r.slot(s, r.at(-time.Duration(i)*time.Second))
		if status == schedule.StatusPlanned {
			run.FireAt = r.at(1000 * time.Hour)
		}
		return r.bring(run, status)
	}
	for i, status := range schedule.Statuses {
		run := live(i, status)
		if status.Terminal() {
			old = append(old, run)
		} else {
			stays = append(stays, run)
		}
	}
	doneOld, openOld, doneYoung := r.strange("done-old"), r.strange("open-old"), r.strange("done-young")
	r.begin(doneOld, openOld)
	r.finish(doneOld.Key, accepted)
	r.event(s, "old")

	r.now = r.at(48 * time.Hour)
	stays = append(stays, live(100, schedule.StatusSuccess), live(101, schedule.StatusFailed))
	r.begin(doneYoung)
	r.finish(doneYoung.Key, accepted)
	r.event(s, "young")

	n := r.pruneAll(r.at(-24 * time.Hour))
	r.hold(n == len(old)+3, "%d runs, two requests and one event went, got %d", len(old), n)
	for _, run := range old {
		r.gone(run)
	}
	for _, run := range stays {
		equal(r, "runs that stay", r.ledger(run.Key), run)
	}
	events := r.eventsOf(s)
	r.hold(len(events) == 1 && events[0].Note == "young", "the young event stays, got %+v", events)
	r.permits(doneOld, schedule.Granted)
	r.permits(openOld, schedule.Granted)
	r.permits(doneYoung, schedule.Recorded)
	revisions, err := r.ListRevisions(r.ctx, s.ScheduleID, 0, 10)
	r.ok(err, "list revisions")
	r.hold(len(revisions) == 2, "revisions of a schedule that is alive stay, got %d", len(revisions))
}

// pruneKeepsMemoryOfLiveRuns: a run that is sent again must be answered as it
// was the first time, however long that took.
func pruneKeepsMemoryOfLiveRuns(r *rig) {
	r.lead()
	s := r.create("live")
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	r.granted(r.beginRequest(run))
	r.finish(run.Key, accepted)
	r.now = r.at(1000 * time.Hour)
	r.pruneAll(r.now)
	r.permits(r.beginRequest(run), schedule.Recorded)
	r.succeed(run)
	r.now = r.at(time.Hour)
	r.pruneAll(r.now)
	r.gone(run)
	r.permits(r.beginRequest(run), schedule.Granted)
}

// pruneOpenRequests has launches that were given up without an answer: what is
// still in flight may be sent again, what has ended never will be.
func pruneOpenRequests(r *rig) {
	r.lead()
	s := r.create("unanswered")
	launch := func(i int) schedule.Run {
		run := r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), schedule.StatusLaunching)
		r.granted(r.beginRequest(run))
		return run
	}
	var live []schedule.Run
	for i, status := range schedule.InFlight {
		run := launch(i)
		if status != schedule.StatusLaunching {
			r.settle(schedule.Settlement{Key: run.Key, To: status})
		}
		live = append(live, run)
	}
	ended, called := launch(10), r.strange("called by hand")
	r.granted(called)
	released := r.strange("released")
	r.granted(released)
	r.release(released.Key, true)
	r.now = r.at(48 * time.Hour)
	held := r.strange("held")
	held.Lease = 96 * time.Hour
	r.granted(held)
	r.settle(schedule.Settlement{Key: ended.Key, To: schedule.StatusFailed})

	n := r.pruneAll(r.at(-24 * time.Hour))
	r.hold(n == 2, "what is kept of two keys went, got %d rows", n)
	r.permits(r.beginRequest(ended), schedule.Recorded) // its run has ended and is not old enough
	r.permits(called, schedule.Granted)
	r.permits(released, schedule.Granted)
	for _, run := range live {
		closed, request := r.closeKey(run.Key)
		r.hold(!closed && request.Calls > 0, "the key of a run in flight is remembered, got %+v", request)
	}
	r.now = r.at(48 * time.Hour)
	r.pruneAll(r.at(-24 * time.Hour))
	r.permits(held, schedule.Busy)
}

func pruneTombstone(r *rig) {
	r.lead()
	old := r.create("old", func(s *schedule.Schedule) { s.DeletedAt = r.at(-time.Second) })
	young := r.create("young", func(s *schedule.Schedule) { s.DeletedAt = r.now })
	alive := r.create("alive")
	n := r.pruneAll(r.now)
	r.hold(n > 0, "something went")
	_, err := r.GetSchedule(r.ctx, old.ScheduleID)
	r.hold(errors.Is(err, schedule.ErrNotFound), "the old tombstone is gone, got %v", err)
	revisions, err := r.ListRevisions(r.ctx, old.ScheduleID, 0, 10)
	r.ok(err, "list revisions")
	r.hold(len(revisions) == 0, "so are its revisions, got %d", len(revisions))
	for _, s := range []schedule.Schedule{young, alive} {
		equal(r, "schedules that stay", r.row(s), s)
	}
}

// An id that is free again may be another owner's: what stands in its log of
// events would be read by that one.
func pruneKeepsEventsOwned(r *rig) {
	r.lead()
	s := r.create("deleted", func(s *schedule.Schedule) { s.DeletedAt = r.at(-time.Hour) })
	r.event(s, "reported late")
	r.pruneAll(r.at(-time.Minute))
	_, err := r.GetSchedule(r.ctx, s.ScheduleID)
	r.ok(err, "the tombstone stays with its event")
	r.pruneAll(r.at(time.Minute))
	_, err = r.GetSchedule(r.ctx, s.ScheduleID)
	r.hold(errors.Is(err, schedule.ErrNotFound), "and goes with it, got %v", err)
}

func pruneKeepsRunsReadable(r *rig) {
	r.lead()
	s := r.create("deleted")
	run := r.bring(r.slot(s, r.now), schedule.StatusStarted)
	r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	r.now = r.at(1000 * time.Hour)
	r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusStarted})
	r.pruneAll(r.at(-time.Hour))
	got := r.ledger(run.Key)
	r.hold(got.Status == schedule.StatusStarted && got.UserID == s.UserID, "it is as it was, got %s of %q", got.Status, got.UserID)
	r.hold(r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess})[0], "it can still end")
}

func pruneInChunks(r *rig) {
	r.lead()
	s := r.create("many")
	for i := range 5 {
		r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), schedule.StatusSuccess)
		r.event(s, fmt.Sprint(i))
	}
	r.now = r.at(time.Hour)
	var went []int
	for range 4 {
		went = append(went, r.prune(r.now, 2))
	}
	equal(r, "rows that went per call", went, []int{4, 4, 2, 0})
}
