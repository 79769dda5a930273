package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var slots = []check{
	{"the lag is what is due and unclaimed, and what is to be planned", func(r *rig) {
		lag := func() schedule.Lag {
			l, err := r.Lag(r.ctx, r.now)
			r.ok(err, "lag")
			return l
		}
		equal(r, "lag of an empty ledger", lag(), schedule.Lag{})
		s := r.create("s", planAt(r.at(-time.Minute)))
		r.create("later", planAt(r.at(time.Second)))
		r.add(r.slot(s, r.at(-2*time.Second)), r.slot(s, r.at(-time.Second)), r.slot(s, r.at(time.Second)))
		equal(r, "lag", lag(), schedule.Lag{Due: 2, OldestDue: r.at(-2 * time.Second), Unplanned: 1, OldestPlan: r.at(-time.Minute)})
		r.lead()
		r.claim()
		equal(r, "lag after a claim", lag(), schedule.Lag{Unplanned: 1, OldestPlan: r.at(-time.Minute)})
	}},
	{"upkeep is what no sweep looked at and what is open after its end", upkeepOf},
	{"all that is known of an instant is read at once", func(r *rig) {
		at := r.at(time.Minute)
		s := r.create("s")
		own := r.slot(s, at)
		other := r.manual(s, "by-hand", at.Add(300*time.Millisecond))
		r.add(own, other, r.slot(s, at.Add(time.Second)), r.slot(s, at.Add(-time.Second)))
		f := r.readSlot(s, at)
		equal(r, "schedule", f.Schedule.ScheduleID, s.ScheduleID)
		equal(r, "runs", keysOf(f.Runs), []schedule.Key{own.Key, other.Key})
		equal(r, "revisions", revisionsOf(f), []int64{1})
		equal(r, "what is in flight", len(f.Blocking), 0)
	}},
	{"of an unknown schedule nothing is known, of a deleted one everything", func(r *rig) {
		_, err := r.ReadSlot(r.ctx, schedule.SlotQuery{ScheduleID: r.id("none"), At: r.now, Now: r.now})
		r.hold(errors.Is(err, schedule.ErrNotFound), "an unknown schedule is ErrNotFound, got %v", err)
		s := r.create("gone")
		s = r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
		r.hold(!r.readSlot(s, r.now).Schedule.Alive(), "a tombstone is read")
	}},
	{"the revisions around an instant are read, and the oldest", func(r *rig) {
		s := r.create("s", func(s *schedule.Schedule) { s.CreatedAt = r.now })
		for range 5 {
			r.now = r.at(time.Minute)
			s = r.revise(s, func(s *schedule.Schedule) { s.Priority++ })
		}
		// Revision n was made n-1 minutes after noon; an instant at which one is
		// made belongs to the one before.
		equal(r, "revisions", revisionsOf(r.readSlot(s, noon.Add(3*time.Minute))), []int64{4, 3, 2, 1})
		equal(r, "revisions", revisionsOf(r.readSlot(s, noon.Add(time.Hour))), []int64{6, 5, 1})
	}},
	{"the deeds around an instant are read in their order, and the ranges that hold it", func(r *rig) {
		s := r.create("s")
		log := func(kind schedule.EventKind, at time.Duration, edits ...func(*schedule.Event)) {
			e := schedule.Event{Time: r.at(at), Kind: kind, Note: at.String()}
			for _, edit := range edits {
				edit(&e)
			}
			r.change(schedule.Change{ScheduleID: s.ScheduleID, Events: []schedule.Event{e}})
		}
		span := func(from, to time.Duration) func(*schedule.Event) {
			return func(e *schedule.Event) {
				e.From, e.To, e.Count, e.Reason = r.at(from), r.at(to), 1, schedule.ReasonMissed
			}
		}
		log(schedule.EventCreated, -time.Hour)
		for i := range 4 {
			log(schedule.EventPaused, time.Duration(i-4)*time.Minute)
		}
		log(schedule.EventReportIgnored, -time.Second)
		log(schedule.EventResumed, 0)
		log(schedule.EventMissed, time.Minute, span(-time.Minute, 0))
		log(schedule.EventMissed, time.Minute+time.Second, span(time.Second, time.Hour))
		log(schedule.EventDeleted, time.Hour)
		var notes []string
		for _, e := range r.readSlot(s, r.now).Events {
			notes = append(notes, string(e.Kind)+" "+e.Note)
		}
		equal(r, "events", notes, []string{
			"created -1h0m0s", "paused -3m0s", "paused -2m0s", "paused -1m0s", "resumed 0s", "missed 1m0s", "deleted 1h0m0s",
		})
	}},
	{"what stood in a slot's way is found after it has ended", func(r *rig) {
		s := r.create("s", withPolicy(schedule.OverlapSkip))
		first := r.bring(r.slot(s, r.now), schedule.StatusStarted)
		r.now = r.at(10 * time.Second)
		late := r.add(r.slot(s, r.now))[0]
		r.claim()
		equal(r, "verdict", r.ledger(late.Key).Reason, schedule.ReasonOverlap)
		equal(r, "blocking, while it runs", keysOf(r.readSlot(s, late.RunAt).Blocking), []schedule.Key{first.Key})
		r.now = r.at(10 * time.Second)
		r.settle(schedule.Settlement{Key: first.Key, To: schedule.StatusSuccess, CompletedAt: r.now})
		next := r.bring(r.slot(s, r.now), schedule.StatusStarted)
		equal(r, "blocking, when another runs", keysOf(r.readSlot(s, late.RunAt).Blocking), []schedule.Key{first.Key})
		equal(r, "in flight before a slot that is near", keysOf(r.readSlot(s, r.at(schedule.BlockingAhead)).Blocking), []schedule.Key{next.Key})
		equal(r, "in flight long before a slot", len(r.readSlot(s, r.at(schedule.BlockingAhead+time.Second)).Blocking), 0)
	}},
	{"what a slot waited for is found after it has run itself", func(r *rig) {
		s := r.create("s", withPolicy(schedule.OverlapQueue))
		first := r.bring(r.slot(s, r.now), schedule.StatusStarted)
		r.now = r.at(10 * time.Second)
		waited := r.add(r.slot(s, r.now))[0]
		r.claim()
		equal(r, "waits", r.ledger(waited.Key).WaitingSince.IsZero(), false)
		r.now = r.at(10 * time.Second)
		r.settle(schedule.Settlement{Key: first.Key, To: schedule.StatusSuccess, CompletedAt: r.now})
		equal(r, "in its way, when it runs by then", len(r.readSlot(s, first.RunAt).Blocking), 0)
		r.claim()
		equal(r, "status", r.ledger(waited.Key).Status, schedule.StatusLaunching)
		equal(r, "what it waited for", keysOf(r.readSlot(s, waited.RunAt).Blocking), []schedule.Key{first.Key})
	}},
	{"what stood in a slot's way is found where it was another schedule's, that has left the key since", func(r *rig) {
		shared := func(s *schedule.Schedule) { s.OverlapKey = "shared" }
		a := r.create("a", withPolicy(schedule.OverlapSkip), shared)
		b := r.create("b", withPolicy(schedule.OverlapSkip), shared)
		first := r.bring(r.slot(a, r.now), schedule.StatusStarted)
		late := r.add(r.slot(b, r.now))[0]
		r.claim()
		equal(r, "blocking", keysOf(r.readSlot(b, late.RunAt).Blocking), []schedule.Key{first.Key})
		r.revise(a, func(s *schedule.Schedule) { s.OverlapKey = "own" })
		equal(r, "blocking, after it left", keysOf(r.readSlot(b, late.RunAt).Blocking), []schedule.Key{first.Key})
	}},
	{"runs that a client put into a queue are no runs of a slot, and block none", func(r *rig) {
		j := r.jobs("q")
		s := r.revise(j.of, withPolicy(schedule.OverlapSkip))
		first := r.bring(r.slot(s, r.now), schedule.StatusStarted)
		r.now = r.at(10 * time.Second)
		j.put("a", "b")
		job := j.admits(1, "a")[0]
		late := r.add(r.slot(s, r.now))[0]
		r.claim()
		equal(r, "verdict", r.ledger(late.Key).Reason, schedule.ReasonOverlap)
		slot := func(what string) {
			r.Helper()
			f := r.readSlot(s, late.RunAt)
			equal(r, "runs, "+what, keysOf(f.Runs), []schedule.Key{late.Key})
			equal(r, "blocking, "+what, keysOf(f.Blocking), []schedule.Key{first.Key})
		}
		slot("while a job runs")
		r.now = r.at(time.Second)
		r.settle(schedule.Settlement{Key: job.Key, To: schedule.StatusSuccess, CompletedAt: r.now})
		slot("when it has ended")
	}},
}

func (r *rig) readSlot(s schedule.Schedule, at time.Time) schedule.SlotFacts {
	r.Helper()
	f, err := r.ReadSlot(r.ctx, schedule.SlotQuery{ScheduleID: s.ScheduleID, At: at, Now: r.now})
	r.ok(err, "read slot")
	return f
}

func revisionsOf(f schedule.SlotFacts) (numbers []int64) {
	for i := range f.Revisions {
		numbers = append(numbers, f.Revisions[i].Revision)
	}
	return numbers
}

// upkeeper is a store that shows what background work has left undone.
type upkeeper interface {
	Upkeep(ctx context.Context, now time.Time) (schedule.Upkeep, error)
}

func upkeepOf(r *rig) {
	store, ok := r.Store.(upkeeper)
	if !ok {
		r.Skip("this store has no metrics")
	}
	upkeep := func() schedule.Upkeep {
		r.Helper()
		u, err := store.Upkeep(r.ctx, r.now)
		r.ok(err, "upkeep")
		u.DeadRows = 0
		return u
	}
	equal(r, "upkeep of an empty ledger", upkeep(), schedule.Upkeep{SeenUntil: map[int]time.Time{}})
	r.lead()
	s := r.create("s", withPolicy(schedule.OverlapAllow))
	r.bring(r.due(s, 1), schedule.StatusSuccess)
	r.bring(r.due(s, 2), schedule.StatusStarted, func(st *schedule.Settlement) { st.TimeoutAt = r.at(time.Second) })
	seen := map[int]time.Time{r.term.Shard: r.now}
	equal(r, "upkeep after a claim", upkeep(), schedule.Upkeep{SeenUntil: seen})
	r.now = r.at(time.Minute)
	equal(r, "upkeep within a minute of the timeout", upkeep(), schedule.Upkeep{SeenUntil: seen})
	r.now = r.at(2 * time.Second)
	equal(r, "upkeep a minute after the timeout", upkeep(), schedule.Upkeep{Unswept: 1, SeenUntil: seen})
}
