package storetest

import (
	"errors"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func backfillFeed(r *rig) {
	r.lead()
	s := r.create("s")
	b := r.ask(r.backfill(s, "one"))
	done := r.bring(r.slot(s, r.at(-2*time.Hour)), schedule.StatusSuccess)
	row := r.backfilled(s, r.at(-time.Hour))
	slots := []time.Time{done.RunAt, row.RunAt}
	var seen schedule.BackfillCandidate
	result := r.feed(func(c *schedule.BackfillCandidate) schedule.BackfillDecision {
		seen = *c
		d := put(row)(c)
		d.Backfill.Cursor, d.More = r.now, true
		d.Events = []schedule.Event{{ScheduleID: s.ScheduleID, Time: r.now, Kind: schedule.EventBackfillFinished}}
		return d
	}, slots...)
	equal(r, "the candidate's backfill", seen.Backfill, b)
	r.hold(seen.Schedule != nil && seen.Schedule.ScheduleID == s.ScheduleID && seen.Definition != nil && seen.Definition.CronExpr == s.CronExpr, "it comes with its schedule and definition")
	equal(r, "its slots", seen.Slots, slots)
	equal(r, "their standings", seen.SlotStates, []schedule.SlotState{{Rows: true, Success: true}, {}})
	r.hold(result.Candidates == 1 && result.Inserted == 1 && result.More, "the result says so: %+v", result)
	equal(r, "the row's status", r.ledger(row.Key).Status, schedule.StatusPlanned)
	after := r.gotBackfill(b.BackfillID)
	r.hold(after.Cursor.Equal(r.now) && after.Inserted == 1 && after.Waiting == 1, "place and counts are written: %+v", after)
	events := r.eventsOf(s)
	equal(r, "the last event", events[len(events)-1].Kind, schedule.EventBackfillFinished)

	// The same rows again change nothing; the slot may be settled.
	again := r.feed(func(c *schedule.BackfillCandidate) schedule.BackfillDecision {
		r.hold(len(c.Unsettled) == 1 && c.Unsettled[0].Key == row.Key && c.Unsettled[0].Run != nil && c.Unsettled[0].RunAt.Equal(row.RunAt), "the slot is unsettled: %+v", c.Unsettled)
		d := as(c)
		d.Rows = []schedule.Run{row}
		d.Slots = []schedule.BackfillSlot{{RunAt: row.RunAt, Key: row.Key, Settled: true}}
		return d
	})
	r.hold(again.Inserted == 0, "a key that is there is left as it is")
	r.feed(func(c *schedule.BackfillCandidate) schedule.BackfillDecision {
		r.hold(len(c.Unsettled) == 0, "a settled slot does not come again: %+v", c.Unsettled)
		return as(c)
	})
}

func backfillFenced(r *rig) {
	r.lead()
	s := r.create("s")
	r.ask(r.backfill(s, "one"))
	old := r.term
	r.lead()
	row := r.backfilled(s, r.at(-time.Hour))
	_, err := r.tryFeed(old, put(row))
	r.hold(errors.Is(err, schedule.ErrFenced), "the old term is fenced out, got %v", err)
	_, err = r.GetRun(r.ctx, row.Key)
	r.hold(errors.Is(err, schedule.ErrNotFound), "and writes nothing, got %v", err)
}

func backfillTurns(r *rig) {
	r.lead()
	s := r.create("s")
	for _, request := range []string{"a", "b", "c"} {
		r.ask(r.backfill(s, request))
	}
	var order []string
	for range 6 {
		r.now = r.at(time.Second)
		_, err := r.FeedBackfills(r.ctx, schedule.FeedRequest{Term: r.term, Now: r.now, Limit: 1}, schedule.BackfillFeeder{
			Window: func(*schedule.BackfillCandidate) []time.Time { return nil },
			Decide: func(candidates []schedule.BackfillCandidate, _ int) []schedule.BackfillDecision {
				order = append(order, candidates[0].Backfill.BackfillID)
				return []schedule.BackfillDecision{as(&candidates[0])}
			},
		})
		r.ok(err, "feed one")
	}
	equal(r, "the second round", order[3:], order[:3])
	r.hold(order[0] != order[1] && order[1] != order[2] && order[0] != order[2], "each has its turn: %v", order)
}

func backfillBusy(r *rig) {
	r.lead()
	exclusive := func(s *schedule.Schedule) { s.OverlapPolicy = schedule.OverlapQueue }
	create := func(name string, edits ...func(*schedule.Schedule)) schedule.Schedule {
		s := r.create(name, append([]func(*schedule.Schedule){exclusive}, edits...)...)
		r.ask(r.backfill(s, "one", func(b *schedule.Backfill) { b.OverlapPolicy = s.OverlapPolicy }))
		return s
	}
	allowing := func(s *schedule.Schedule) { s.OverlapPolicy = schedule.OverlapAllow }
	free, flying, waiting, soon, later := create("free"), create("flying"), create("waiting"), create("soon"), create("later")
	allowed, beside := create("allowed", allowing), create("beside")
	r.bring(r.slot(flying, r.at(-time.Hour)), schedule.StatusStarted)
	r.bring(r.slot(allowed, r.at(-time.Hour)), schedule.StatusStarted)
	r.add(r.slot(soon, r.at(time.Second)), r.slot(later, r.at(time.Second+time.Microsecond)))
	r.add(r.slot(waiting, r.at(-time.Hour), func(run *schedule.Run) { run.WaitingSince = r.now }))
	r.add(r.slot(beside, r.at(0), func(run *schedule.Run) { run.OverlapPolicy, run.Exclusive = schedule.OverlapAllow, false }))
	got := make(map[string]bool)
	r.feed(func(c *schedule.BackfillCandidate) schedule.BackfillDecision {
		got[c.Backfill.ScheduleID] = c.Busy
		return as(c)
	})
	equal(r, "which keys are busy", got, map[string]bool{
		free.ScheduleID: false, flying.ScheduleID: true, waiting.ScheduleID: true, soon.ScheduleID: true, later.ScheduleID: false,
		allowed.ScheduleID: false, // a backfill under allow waits for nothing
		beside.ScheduleID:  false, // and nothing waits for a run under allow that is not in flight
	})
}

// fed is a backfill with a run in flight and one that is planned.
func (r *rig) fed() (b schedule.Backfill, flying, planned schedule.Run) {
	r.Helper()
	r.lead()
	s := r.create("s")
	b = r.ask(r.backfill(s, "one"))
	flying, planned = r.backfilled(s, r.at(-2*time.Hour)), r.backfilled(s, r.at(-time.Hour), func(run *schedule.Run) { run.FireAt = r.at(time.Minute) })
	r.feed(put(flying, planned))
	r.hold(len(r.claim().Launches) == 1, "one is claimed")
	r.hold(r.settle(schedule.Settlement{Key: flying.Key, To: schedule.StatusStarted})[0], "it has started")
	return r.gotBackfill(b.BackfillID), flying, planned
}

func backfillPause(r *rig) {
	b, flying, planned := r.fed()
	r.hold(b.InFlight == 1 && b.Waiting == 1 && b.Inserted == 2, "one flies and one waits: %+v", b.BackfillCounts)
	b.State = schedule.BackfillPaused
	after := r.changeBackfill(b, schedule.BackfillChange{Row: &b, DropPlanned: true})
	r.hold(after.InFlight == 1 && after.Waiting == 1, "the slot still counts: %+v", after.BackfillCounts)
	_, err := r.GetRun(r.ctx, planned.Key)
	r.hold(errors.Is(err, schedule.ErrNotFound), "the planned row is gone: %v", err)
	equal(r, "the run in flight", r.ledger(flying.Key).Status, schedule.StatusStarted)
	r.feed(func(c *schedule.BackfillCandidate) schedule.BackfillDecision {
		r.hold(len(c.Unsettled) == 2 && c.Unsettled[1].Run == nil && c.Unsettled[1].Key == planned.Key, "its slot comes without a run: %+v", c.Unsettled)
		return as(c)
	})
}

func backfillCancel(r *rig) {
	b, flying, planned := r.fed()
	b.State, b.EndedAt = schedule.BackfillCancelled, r.now
	r.changeBackfill(b, schedule.BackfillChange{Row: &b, EndPlanned: schedule.ReasonCancelled})
	run := r.ledger(planned.Key)
	r.hold(run.Status == schedule.StatusCancelled && run.Reason == schedule.ReasonCancelled && run.CompletedAt.Equal(r.now), "the planned row has ended: %+v", run)
	r.hold(r.ledger(flying.Key).CancelRequestedAt.IsZero(), "the other goes on")
	r.changeBackfill(b, schedule.BackfillChange{Row: &b, AskCancel: schedule.ReasonCancelled})
	run = r.ledger(flying.Key)
	r.hold(run.CancelRequestedAt.Equal(r.now) && run.CancelReason == schedule.ReasonCancelled, "until its cancel is asked for: %+v", run)
	after := r.gotBackfill(b.BackfillID)
	r.hold(after.Cancelled == 1 && after.InFlight == 1, "both are counted as they stand: %+v", after.BackfillCounts)
}

func backfillCounts(r *rig) {
	b, flying, _ := r.fed()
	r.hold(r.settle(schedule.Settlement{Key: flying.Key, To: schedule.StatusFailed, Reason: schedule.ReasonTimeout})[0], "it fails")
	equal(r, "failed, before it is settled", r.gotBackfill(b.BackfillID).Failed, 1)
	r.feed(func(c *schedule.BackfillCandidate) schedule.BackfillDecision {
		r.hold(c.Backfill.Failed == 0, "the row itself says nothing of it yet")
		d := as(c)
		d.Backfill.Failed = 1
		d.Slots = []schedule.BackfillSlot{{RunAt: flying.RunAt, Key: flying.Key, Settled: true}}
		return d
	})
	after := r.gotBackfill(b.BackfillID)
	equal(r, "counts once it is settled", after.BackfillCounts, schedule.BackfillCounts{Slots: 24, ToRun: 20, Inserted: 2, Failed: 1, Waiting: 1})
	rows, err := r.ListBackfills(r.ctx, schedule.BackfillFilter{ScheduleID: b.ScheduleID})
	r.ok(err, "list")
	equal(r, "the list's counts", rows[0].BackfillCounts, after.BackfillCounts)
}

func backfillPrune(r *rig) {
	b, _, _ := r.fed()
	before := r.at(time.Hour)
	count := func() (n int) {
		n, err := r.Prune(r.ctx, r.term, before, 1000)
		r.ok(err, "prune")
		return n
	}
	exists := func() bool {
		_, err := r.GetBackfill(r.ctx, b.BackfillID)
		return err == nil
	}
	count()
	r.hold(exists(), "what runs stays")
	b.State, b.EndedAt = schedule.BackfillCancelled, r.now
	r.changeBackfill(b, schedule.BackfillChange{Row: &b})
	count()
	r.hold(exists(), "what has runs that are not counted stays")
	b.Open = false
	r.changeBackfill(b, schedule.BackfillChange{Row: &b})
	before = r.at(-time.Hour)
	count()
	r.hold(exists(), "what ended since stays")
	before = r.at(time.Hour)
	count()
	r.hold(!exists(), "what has ended goes")
}
