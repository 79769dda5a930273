package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var quotas = []check{
	{"an owner gets no more schedules than the limit says, and nothing of what is over is written", quotaRefuses},
	{"of many that create at once exactly as many succeed as there are places", quotaRaces},
	{"an owner gets no more queues than the limit says, and a refused one is not written", quotaOfQueues},
	{"of many that create queues at once exactly as many succeed as there are places", quotaOfQueuesRaces},
	{"runs that wait in queues count for their owner, also those of deleted schedules, and those in flight do not", quotaWaiting},
}

// creation is a new schedule as a registrar would write it.
func (r *rig) creation(name string, edits ...func(*schedule.Schedule)) schedule.Change {
	s := r.schedule(name, edits...)
	return schedule.Change{Row: &s, Created: true, NewRevision: true, ChangedBy: s.UserID}
}

func quotaRefuses(r *rig) {
	limited := schedule.ChangeRequest{OwnerLimit: 2}
	other := func(s *schedule.Schedule) { s.UserID = r.id("other") }
	r.ok(r.tryChange(limited, r.creation("first"), r.creation("second")), "create as many as may be")
	r.ok(r.tryChange(limited, r.creation("elsewhere", other)), "create for another owner")
	err := r.tryChange(limited, r.creation("third"), r.creation("elsewhere-too", other))
	if !errors.Is(err, schedule.ErrExhausted) {
		r.Fatalf("the third of two ends with %v, want ErrExhausted", err)
	}
	for _, name := range []string{"third", "elsewhere-too"} {
		if _, err := r.GetSchedule(r.ctx, r.id(name)); !errors.Is(err, schedule.ErrNotFound) {
			r.Errorf("%s was written, though the change was refused: %v", name, err)
		}
	}

	first := r.stored("first")
	first.Priority = 7
	r.ok(r.tryChange(schedule.ChangeRequest{OwnerLimit: 1}, schedule.Change{Row: &first}), "edit under a limit that was lowered")
	first.DeletedAt = r.now
	r.ok(r.tryChange(limited, schedule.Change{Row: &first}, r.creation("third")), "replace one by another in one change")
	first.DeletedAt = time.Time{}
	if err := r.tryChange(limited, schedule.Change{Row: &first, Created: true}); !errors.Is(err, schedule.ErrExhausted) {
		r.Errorf("a tombstone comes back over the limit: %v", err)
	}
	r.ok(r.tryChange(schedule.ChangeRequest{}, r.creation("fourth")), "create without a limit")
}

// stored is a schedule as it is kept.
func (r *rig) stored(name string) schedule.Schedule {
	r.Helper()
	s, err := r.GetSchedule(r.ctx, r.id(name))
	r.ok(err, "get schedule")
	return *s
}

func quotaRaces(r *rig) {
	const places, crowd, each = 20, 6, 8
	var created atomic.Int64
	r.crowd(crowd, func(i int) {
		for j := range each {
			err := r.tryChange(schedule.ChangeRequest{OwnerLimit: places}, r.creation(fmt.Sprint("raced-", i, "-", j)))
			switch {
			case err == nil:
				created.Add(1)
			case !errors.Is(err, schedule.ErrExhausted):
				r.Errorf("create: %v", err)
			}
		}
	})
	rows, err := r.ListSchedules(r.ctx, schedule.ScheduleFilter{UserID: r.user, Now: r.now, Limit: 1000})
	r.ok(err, "list schedules")
	if len(rows) != places || created.Load() != places {
		r.Errorf("%d were created and %d are there, want %d", created.Load(), len(rows), places)
	}
}

// tryQueue stores a queue whose owner may have so many.
func (r *rig) tryQueue(limit int, q schedule.Queue) error {
	_, err := r.ChangeQueue(r.ctx, q.QueueID, func(*schedule.Queue) (schedule.QueueChange, error) {
		events := []schedule.QueueEvent{{QueueID: q.QueueID, Time: r.now, Kind: schedule.QueueCreated}}
		return schedule.QueueChange{After: &q, Events: events, OwnerLimit: limit}, nil
	})
	return err
}

func quotaOfQueues(r *rig) {
	first := r.queue("first")
	r.ok(r.tryQueue(2, first), "the first of two")
	r.ok(r.tryQueue(2, r.queue("second")), "the second of two")
	r.ok(r.tryQueue(2, r.queue("elsewhere", func(q *schedule.Queue) { q.UserID = r.id("other") })), "one of another owner")
	third := r.queue("third")
	if err := r.tryQueue(2, third); !errors.Is(err, schedule.ErrExhausted) {
		r.Fatalf("the third of two ends with %v, want ErrExhausted", err)
	}
	if _, err := r.GetQueue(r.ctx, third.QueueID); !errors.Is(err, schedule.ErrNotFound) {
		r.Errorf("it was written, though the change was refused: %v", err)
	}
	log, err := r.ListQueueEvents(r.ctx, third.QueueID, 0, 10)
	r.hold(err == nil && len(log) == 0, "its log is empty, got %v, %v", log, err)
	first.DeletedAt = r.now
	r.ok(r.tryQueue(0, first), "delete one")
	r.ok(r.tryQueue(2, third), "the third instead of the deleted one")
	first.DeletedAt = time.Time{}
	if err := r.tryQueue(2, first); !errors.Is(err, schedule.ErrExhausted) {
		r.Errorf("a deleted queue comes back over the limit: %v", err)
	}
}

func quotaOfQueuesRaces(r *rig) {
	const places, crowd, each = 7, 4, 4
	var created atomic.Int64
	r.crowd(crowd, func(i int) {
		for j := range each {
			err := r.tryQueue(places, r.queue(fmt.Sprint("raced-", i, "-", j)))
			switch {
			case err == nil:
				created.Add(1)
			case !errors.Is(err, schedule.ErrExhausted):
				r.Errorf("create: %v", err)
			}
		}
	})
	rows, err := r.ListQueues(r.ctx, schedule.QueueFilter{UserID: r.user, Limit: 1000})
	r.ok(err, "list queues")
	own := 0
	for i := range rows {
		if rows[i].UserID == r.user {
			own++
		}
	}
	r.hold(own == places && created.Load() == places, "%d were created and %d are there, want %d", created.Load(), own, places)
}

func quotaWaiting(r *rig) {
	j, others := r.jobs("q", maxInFlight(2)), r.jobs("others")
	waiting := func(limit, want int) {
		r.Helper()
		n, err := r.CountWaitingOf(r.ctx, r.user, limit)
		r.ok(err, "count")
		r.hold(n == want, "%d runs of the owner wait, got %d", want, n)
	}
	waiting(10, 0)
	others.of = r.create("foreign", func(s *schedule.Schedule) {
		s.UserID = r.id("other")
		s.CronExpr, s.NextRunAt, s.PlanAt = "", time.Time{}, time.Time{}
	})
	others.put("foreign-1", "foreign-2")
	runs := j.put("a", "b", "c")
	j.enqueue(0, j.job("later", 0, delayed(r.at(time.Hour))))
	r.slot(r.create("elsewhere"), r.now) // it is in no queue
	waiting(10, 4)
	waiting(3, 3)
	j.admits(1, "a")
	waiting(10, 3)
	j.accept(runs[0])
	waiting(10, 3)
	j.of.DeletedAt = r.now
	r.change(schedule.Change{Row: &j.of})
	waiting(10, 3)
	j.cancel(j.ledger(runs[1].Key))
	waiting(10, 2)
}
