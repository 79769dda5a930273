package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var redrives = []check{
	{"a dead run is redriven once: it comes with its schedule and definition, and is dead no more", redriveOnce},
	{"a redrive reads its filter's dead runs a page at a time, oldest first", redriveFiltered},
	{"of many who redrive the same runs, or retry them one by one, each run is redriven once", redriveRace},
	{"a redrive that is refused writes nothing", redriveRefused},
	{"the tombstone of a deleted schedule comes along", redriveDeleted},
	{"the tombstone of a deleted queue comes along", redriveQueueDeleted},
	{"a redriven run is claimed at its fire_at", redriveAtRate},
	{"redriven runs wait for their overlap key, and max_queued does not count them", redriveWaits},
	{"a redriven run whose grant was revoked is SKIPPED when it is claimed", redriveRevoked},
	{"a retry that came too late is dead, and can be redriven", redriveMissed},
	{"dead runs are counted by schedule, of very many the newest", redriveCounts},
}

// dead makes dead runs of s, one a second from the rig's now on.
func (r *rig) dead(s schedule.Schedule, n int, edits ...func(*schedule.Settlement)) (runs []schedule.Run) {
	r.Helper()
	for range n {
		runs = append(runs, r.failed(s, append([]func(*schedule.Settlement){func(e *schedule.Settlement) { e.FailureClass = schedule.ClassLogic }}, edits...)...))
		r.now = r.at(time.Second)
	}
	return runs
}

// redrive retries what a filter finds, as requestID.
func (r *rig) redrive(f schedule.RunFilter, requestID string, edits ...func(*schedule.Run)) (found []schedule.RunInput, page schedule.RunPage) {
	r.Helper()
	if f.Limit == 0 {
		f.Limit = 100
	}
	page, err := r.RedriveRuns(r.ctx, f, func(in []schedule.RunInput) (schedule.RedriveChange, error) {
		found = in
		change := schedule.RedriveChange{Now: r.now}
		for i := range in {
			next := r.retryOf(*in[i].Schedule, in[i].Run, requestID)
			for _, edit := range edits {
				edit(&next)
			}
			change.Runs = append(change.Runs, next)
		}
		return change, nil
	})
	r.ok(err, "redrive")
	return found, page
}

// deadOf are the listed dead runs of a schedule, newest first.
func (r *rig) deadOf(s schedule.Schedule) []schedule.Run {
	r.Helper()
	runs, err := r.ListRuns(r.ctx, schedule.RunFilter{ScheduleID: s.ScheduleID, Dead: true, Now: r.now, Limit: 100})
	r.ok(err, "list dead runs")
	return runs
}

func redriveOnce(r *rig) {
	r.lead()
	s := r.create("redriven")
	dead := r.dead(s, 2)
	r.hold(len(r.deadOf(s)) == 2, "both are listed as dead")
	entry := r.entry("redrive", r.now)
	event := schedule.Event{ScheduleID: s.ScheduleID, Time: r.now, Kind: schedule.EventRetried, Actor: r.user, Count: 2}
	var next []schedule.Run
	page, err := r.RedriveRuns(r.ctx, schedule.RunFilter{ScheduleID: s.ScheduleID, Limit: 2}, func(in []schedule.RunInput) (schedule.RedriveChange, error) {
		r.hold(len(in) == 2, "both are found, got %d", len(in))
		next = nil
		for i := range in {
			equal(r, "the dead run", in[i].Run, dead[i])
			r.hold(in[i].Schedule != nil && in[i].Schedule.ScheduleID == s.ScheduleID && in[i].Definition != nil && in[i].Definition.Equal(&s.Definition), "its schedule and definition come along")
			next = append(next, r.retryOf(s, in[i].Run, "1"))
		}
		return schedule.RedriveChange{Runs: next, Events: []schedule.Event{event}, Audit: []schedule.AuditEntry{entry}, Now: r.now}, nil
	})
	r.ok(err, "redrive")
	equal(r, "the page", page, schedule.RunPage{Found: 2, RunAt: dead[1].RunAt, Key: dead[1].Key})
	for i, run := range dead {
		after := r.ledger(run.Key)
		r.hold(after.Dead != nil && !*after.Dead, "run %d is dead no more", i)
		run.Dead = after.Dead
		equal(r, "the rest of it", after, run)
		equal(r, "the new run", r.ledger(next[i].Key), next[i])
	}
	events := r.eventsOf(s)
	r.hold(len(events) == 1 && events[0].Count == 2, "the event is kept, got %v", events)
	equal(r, "audit", r.trail(schedule.AuditFilter{Target: entry.Target}), []schedule.AuditEntry{entry})
	r.hold(len(r.deadOf(s)) == 0, "none is listed as dead")
	again, page := r.redrive(schedule.RunFilter{ScheduleID: s.ScheduleID}, "2")
	r.hold(len(again) == 0 && page == schedule.RunPage{}, "a repeat finds none, got %v", page)
	r.rewrite(s, func(s *schedule.Schedule) { s.Pause = schedule.Pause{Paused: true} })
	r.hold(len(r.claim().Launches) == 2, "the new runs are claimed, also of a paused schedule")
}

func redriveFiltered(r *rig) {
	r.lead()
	s := r.create("one")
	other := r.create("other", func(s *schedule.Schedule) { s.WorkflowID, s.UserID = r.id("w2"), r.id("bob") })
	of := r.dead(s, 2, func(e *schedule.Settlement) { e.ErrorCode = "E1" })
	of = append(of, r.dead(s, 1, func(e *schedule.Settlement) { e.ErrorCode, e.FailureClass = "E2", schedule.ClassInternal })...)
	of = append(of, r.dead(other, 1, because(schedule.ReasonTimeout))...)
	r.bring(r.slot(s, r.at(-time.Hour)), schedule.StatusSuccess)
	r.failed(r.retrying("retried", func(s *schedule.Schedule) { s.UserID = r.id("bob") })) // its retry follows: it is not dead
	look := func(name string, f schedule.RunFilter, want ...int) {
		r.Helper()
		if f.Limit == 0 {
			f.Limit = 10
		}
		var keys, wanted []schedule.Key
		_, err := r.RedriveRuns(r.ctx, f, func(in []schedule.RunInput) (schedule.RedriveChange, error) {
			keys = nil
			for i := range in {
				keys = append(keys, in[i].Run.Key)
			}
			return schedule.RedriveChange{Now: r.now}, nil
		})
		r.ok(err, name)
		for _, i := range want {
			wanted = append(wanted, of[i].Key)
		}
		equal(r, name, keys, wanted)
		f.Dead, f.Ascending, f.Now = true, true, r.now
		listed, err := r.ListRuns(r.ctx, f)
		r.ok(err, name)
		equal(r, name+", listed", keysOf(listed), wanted)
	}
	look("all", schedule.RunFilter{}, 0, 1, 2, 3)
	look("a schedule", schedule.RunFilter{ScheduleID: s.ScheduleID}, 0, 1, 2)
	look("a workflow", schedule.RunFilter{WorkflowID: other.WorkflowID}, 3)
	look("an owner", schedule.RunFilter{UserID: r.user}, 0, 1, 2)
	look("a reason", schedule.RunFilter{Reason: schedule.ReasonTimeout}, 3)
	look("an error code", schedule.RunFilter{ErrorCode: "E1"}, 0, 1)
	look("a class", schedule.RunFilter{Class: schedule.ClassInternal}, 2)
	look("a time", schedule.RunFilter{From: of[1].RunAt, To: of[3].RunAt}, 1, 2)
	look("keys", schedule.RunFilter{AnyOf: []schedule.Key{of[3].Key, of[0].Key, schedule.ManualKey("s", "none")}}, 0, 3)
	look("no key", schedule.RunFilter{AnyOf: []schedule.Key{}})
	look("several", schedule.RunFilter{ScheduleID: s.ScheduleID, ErrorCode: "E1", From: of[1].RunAt}, 1)
	look("a page", schedule.RunFilter{Limit: 2}, 0, 1)
	look("the next page", schedule.RunFilter{Limit: 2, AfterRunAt: of[1].RunAt, AfterKey: of[1].Key}, 2, 3)
	look("a page behind the last", schedule.RunFilter{AfterRunAt: of[3].RunAt, AfterKey: of[3].Key})
	r.hold(len(r.deadOf(s)) == 3, "none was redriven")
}

func redriveRace(r *rig) {
	r.lead()
	s, other := r.create("one"), r.create("other")
	dead := append(r.dead(s, 20), r.dead(other, 20)...)
	made := make(map[schedule.Key]int)
	var mu sync.Mutex
	r.crowd(6, func(i int) {
		requestID := fmt.Sprintf("caller-%d", i)
		if i < 2 { // retry one by one
			for n := range dead {
				run := dead[(n*7+i*20)%len(dead)]
				next := r.retryOf(s, run, requestID)
				next.ScheduleID, next.OverlapKey = run.ScheduleID, run.OverlapKey
				_, _, err := r.ChangeRun(r.ctx, run.Key, next.Key, func(in schedule.RunInput) (schedule.RunChange, error) {
					if !in.Run.IsDead() {
						return schedule.RunChange{Now: r.now}, nil
					}
					return schedule.RunChange{Insert: &next, Redriven: true, Now: r.now}, nil
				})
				if err != nil {
					r.Errorf("retry: %v", err)
				}
			}
			return
		}
		for {
			page, err := r.RedriveRuns(r.ctx, schedule.RunFilter{Limit: 7}, func(in []schedule.RunInput) (schedule.RedriveChange, error) {
				change := schedule.RedriveChange{Now: r.now}
				for i := range in {
					change.Runs = append(change.Runs, r.retryOf(*in[i].Schedule, in[i].Run, requestID))
				}
				return change, nil
			})
			if err != nil {
				r.Errorf("redrive: %v", err)
				return
			}
			if page.Found == 0 {
				return
			}
		}
	})
	for _, s := range []schedule.Schedule{s, other} {
		r.hold(len(r.deadOf(s)) == 0, "none is dead any more")
		for _, run := range r.runsOf(s) {
			if run.Trigger == schedule.TriggerRetry {
				mu.Lock()
				made[run.RetryOf]++
				mu.Unlock()
			}
		}
	}
	for _, run := range dead {
		r.hold(made[run.Key] == 1, "run %s was redriven %d times", run.Key, made[run.Key])
	}
}

func redriveRefused(r *rig) {
	r.lead()
	s := r.create("refused")
	dead := r.dead(s, 1)
	next, refusal := r.retryOf(s, dead[0], "1"), errors.New("no")
	_, err := r.RedriveRuns(r.ctx, schedule.RunFilter{Limit: 10}, func([]schedule.RunInput) (schedule.RedriveChange, error) {
		return schedule.RedriveChange{Runs: []schedule.Run{next}, Now: r.now}, refusal
	})
	r.hold(errors.Is(err, refusal), "the error comes back as it is, got %v", err)
	r.untouched(dead[0])
	r.gone(next)
}

func redriveDeleted(r *rig) {
	r.lead()
	s := r.create("deleted")
	dead := r.dead(s, 1)
	r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	_, err := r.RedriveRuns(r.ctx, schedule.RunFilter{ScheduleID: s.ScheduleID, Limit: 10}, func(in []schedule.RunInput) (schedule.RedriveChange, error) {
		r.hold(len(in) == 1 && in[0].Schedule != nil && !in[0].Schedule.Alive(), "the tombstone comes along")
		return schedule.RedriveChange{Now: r.now}, nil
	})
	r.ok(err, "redrive")
	r.untouched(dead[0])
}

func redriveQueueDeleted(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	j.fails("a")
	gone := j.queue
	gone.DeletedAt = r.now
	r.putQueue(gone)
	_, err := r.RedriveRuns(r.ctx, schedule.RunFilter{ScheduleID: run.ScheduleID, Limit: 10}, func(in []schedule.RunInput) (schedule.RedriveChange, error) {
		r.hold(len(in) == 1 && in[0].Queue != nil && in[0].Queue.No == j.queue.No && !in[0].Queue.Alive(), "the tombstone comes along")
		return schedule.RedriveChange{Now: r.now}, nil
	})
	r.ok(err, "redrive")
}

func redriveAtRate(r *rig) {
	r.lead()
	s := r.create("spaced")
	r.dead(s, 3)
	n := 0
	r.redrive(schedule.RunFilter{ScheduleID: s.ScheduleID}, "1", func(run *schedule.Run) {
		run.FireAt = r.at(time.Duration(n) * time.Minute)
		n++
	})
	for i := range 3 {
		r.hold(len(r.claim().Launches) == 1, "run %d is claimed at its fire_at", i)
		r.hold(len(r.claim().Launches) == 0, "the next one is not")
		r.now = r.at(time.Minute)
	}
}

func redriveWaits(r *rig) {
	r.lead()
	s := r.create("queue", withPolicy(schedule.OverlapQueue), func(s *schedule.Schedule) { s.MaxQueued = 1 })
	r.dead(s, 3)
	flying := r.bring(r.due(s, 0), schedule.StatusStarted)
	r.redrive(schedule.RunFilter{ScheduleID: s.ScheduleID}, "1")
	slot := r.slot(s, r.at(-10*time.Second))
	r.add(slot)
	r.hold(len(r.claim().Launches) == 0, "nothing is launched while a run is in flight")
	waiting := 0
	for _, run := range r.runsOf(s) {
		if run.Status == schedule.StatusPlanned && !run.WaitingSince.IsZero() {
			waiting++
		}
	}
	r.hold(waiting == 4, "three redriven runs and the slot wait, got %d", waiting)
	for range 4 {
		r.settleOne(flying, schedule.StatusSuccess)
		launched := r.claim().Launches
		r.hold(len(launched) == 1, "one after another is launched")
		flying = r.ledger(launched[0].Run.Key)
	}
}

func redriveRevoked(r *rig) {
	r.lead()
	g := r.give("of-redriven")
	s := r.create("revoked", func(s *schedule.Schedule) { s.ExecutionGrantID = g.GrantID })
	dead := r.dead(s, 1)
	r.revoke(g)
	r.redrive(schedule.RunFilter{ScheduleID: s.ScheduleID}, "1")
	r.hold(len(r.claim().Launches) == 0, "it is not launched")
	got := r.ledger(schedule.RetryKey(dead[0].Key, "1"))
	r.hold(got.Status == schedule.StatusSkipped && got.Reason == schedule.ReasonGrantRevoked, "it is SKIPPED(grant_revoked), got %+v", got)
}

func redriveMissed(r *rig) {
	r.lead()
	s := r.retrying("late", func(s *schedule.Schedule) { s.CatchupWindowMS = 30_000 })
	next := r.next(r.failed(s))
	r.now = r.at(time.Minute)
	r.hold(len(r.claim().Launches) == 0, "a retry after the catch-up window is not launched")
	got := r.ledger(next.Key)
	r.hold(got.Status == schedule.StatusSkipped && got.Reason == schedule.ReasonMissed && got.IsDead(), "it is SKIPPED(missed) and dead, got %+v", got)
	found, _ := r.redrive(schedule.RunFilter{ScheduleID: s.ScheduleID}, "1")
	r.hold(len(found) == 1 && found[0].Run.Key == next.Key, "it is redriven, got %v", found)
}

func redriveCounts(r *rig) {
	r.lead()
	s, other := r.create("one"), r.create("other")
	r.dead(other, 1)
	since := r.now
	r.dead(s, 3)
	r.dead(other, 1)
	counted := func(since time.Time, limit int) []schedule.DeadCount {
		r.Helper()
		counts, err := r.CountDead(r.ctx, since, limit)
		r.ok(err, "count dead runs")
		return counts
	}
	equal(r, "all", counted(time.Unix(0, 0), 100), []schedule.DeadCount{{ScheduleID: s.ScheduleID, Runs: 3}, {ScheduleID: other.ScheduleID, Runs: 2}})
	equal(r, "of the last seconds", counted(since, 100), []schedule.DeadCount{{ScheduleID: s.ScheduleID, Runs: 3}, {ScheduleID: other.ScheduleID, Runs: 1}})
	equal(r, "the newest", counted(since, 2), []schedule.DeadCount{{ScheduleID: s.ScheduleID, Runs: 1}, {ScheduleID: other.ScheduleID, Runs: 1}})
	r.redrive(schedule.RunFilter{ScheduleID: s.ScheduleID}, "1")
	equal(r, "after a redrive", counted(time.Unix(0, 0), 100), []schedule.DeadCount{{ScheduleID: other.ScheduleID, Runs: 2}})
}
