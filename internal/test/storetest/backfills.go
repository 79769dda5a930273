package storetest

import (
	"errors"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var backfills = []check{
	{"a backfill comes back as it was asked for, and a second look by its id finds the first", backfillRoundtrip},
	{"what decide refuses is not written, and comes back as it is", backfillRefused},
	{"lists are newest first, narrowed by schedule, owner and state, page by page", backfillLists},
	{"others of the schedule and of its owner are counted until they have ended", backfillQuotas},
	{"a slot stands as all of its rows do, but for runs by hand", backfillStandings},
	{"a feed writes place, rows, slots and events together", backfillFeed},
	{"a feed of a term that is over writes nothing", backfillFenced},
	{"who was looked at last comes last", backfillTurns},
	{"what is in flight, waits or falls due soon makes an overlap key busy", backfillBusy},
	{"a pause takes planned rows back, and leaves those in flight", backfillPause},
	{"a cancel ends planned rows, and asks for the cancel of those in flight if it is to", backfillCancel},
	{"an unsettled run counts as it stands, a settled one as the row says", backfillCounts},
	{"retention takes a backfill once it has ended and nothing of it is open", backfillPrune},
}

// backfill is one of s's last day, running, with the slots a minute apart.
func (r *rig) backfill(s schedule.Schedule, request string, edits ...func(*schedule.Backfill)) schedule.Backfill {
	b := schedule.Backfill{
		BackfillID: schedule.BackfillID(s.ScheduleID, request), ScheduleID: s.ScheduleID, RequestID: request, RequestHash: [32]byte{1, 2},
		UserID: s.UserID, Revision: s.Revision, OverlapKey: s.QualifiedOverlapKey(), From: r.at(-24 * time.Hour), To: r.now,
		Reprocess: schedule.ReprocessMissed, Order: schedule.OldestFirst, OverlapPolicy: schedule.OverlapAllow, Concurrency: 3, RatePerMinute: 60,
		Note: "why", CreatedBy: "ada", State: schedule.BackfillRunning, Cursor: r.at(-24 * time.Hour), NextAt: r.now,
		BackfillCounts: schedule.BackfillCounts{Slots: 24, ToRun: 20}, Open: true, CreatedAt: r.now, UpdatedAt: r.now,
	}
	for _, edit := range edits {
		edit(&b)
	}
	return b
}

// ask stores a backfill.
func (r *rig) ask(b schedule.Backfill) schedule.Backfill {
	r.Helper()
	return r.changeBackfill(b, schedule.BackfillChange{Row: &b})
}

func (r *rig) changeBackfill(b schedule.Backfill, c schedule.BackfillChange) schedule.Backfill {
	r.Helper()
	c.Now = r.now
	after, err := r.ChangeBackfill(r.ctx, schedule.BackfillRef{ScheduleID: b.ScheduleID, BackfillID: b.BackfillID},
		func(schedule.BackfillInput) (schedule.BackfillChange, error) { return c, nil })
	r.ok(err, "change a backfill")
	return *after
}

// feed lets decide make the decision on every candidate.
func (r *rig) feed(decide func(*schedule.BackfillCandidate) schedule.BackfillDecision, slots ...time.Time) schedule.FeedResult {
	r.Helper()
	out, err := r.tryFeed(r.term, decide, slots...)
	r.ok(err, "feed")
	return out
}

func (r *rig) tryFeed(term schedule.Term, decide func(*schedule.BackfillCandidate) schedule.BackfillDecision, slots ...time.Time) (schedule.FeedResult, error) {
	return r.FeedBackfills(r.ctx, schedule.FeedRequest{Term: term, Now: r.now, Ahead: time.Second, Limit: 10}, schedule.BackfillFeeder{
		Window: func(*schedule.BackfillCandidate) []time.Time { return slots },
		Decide: func(candidates []schedule.BackfillCandidate, _ int) (out []schedule.BackfillDecision) {
			for i := range candidates {
				out = append(out, decide(&candidates[i]))
			}
			return out
		},
	})
}

// as leaves a candidate as it is.
func as(c *schedule.BackfillCandidate) schedule.BackfillDecision {
	return schedule.BackfillDecision{Backfill: c.Backfill}
}

// put puts rows down as slots of every candidate.
func put(rows ...schedule.Run) func(*schedule.BackfillCandidate) schedule.BackfillDecision {
	return func(c *schedule.BackfillCandidate) schedule.BackfillDecision {
		d := as(c)
		d.Rows = rows
		for i := range rows {
			d.Slots = append(d.Slots, schedule.BackfillSlot{RunAt: rows[i].RunAt, Key: rows[i].Key})
			d.Backfill.Inserted++
		}
		return d
	}
}

func (r *rig) backfilled(s schedule.Schedule, runAt time.Time, edits ...func(*schedule.Run)) schedule.Run {
	return r.slot(s, runAt, append([]func(*schedule.Run){func(run *schedule.Run) {
		run.Trigger, run.FireAt = schedule.TriggerBackfill, r.now
	}}, edits...)...)
}

func (r *rig) gotBackfill(id string) schedule.Backfill {
	r.Helper()
	b, err := r.GetBackfill(r.ctx, id)
	r.ok(err, "get a backfill")
	return *b
}

func backfillRoundtrip(r *rig) {
	s := r.create("s")
	b := r.backfill(s, "one")
	var before schedule.BackfillInput
	ref := schedule.BackfillRef{ScheduleID: s.ScheduleID, BackfillID: b.BackfillID}
	_, err := r.ChangeBackfill(r.ctx, ref, func(in schedule.BackfillInput) (schedule.BackfillChange, error) {
		before = in
		return schedule.BackfillChange{Row: &b, Now: r.now, Events: []schedule.Event{{Kind: schedule.EventBackfillAsked, Count: 20}}}, nil
	})
	r.ok(err, "ask")
	r.hold(before.Backfill == nil && before.Schedule != nil && before.Schedule.ScheduleID == s.ScheduleID, "there was none yet: %+v", before)
	equal(r, "the backfill", r.gotBackfill(b.BackfillID), stored(b))
	events := r.eventsOf(s)
	equal(r, "the last event", events[len(events)-1].Kind, schedule.EventBackfillAsked)

	changed := b
	changed.State, changed.Reason, changed.StateNote, changed.ChangedBy = schedule.BackfillCancelled, schedule.ReasonCancelled, "enough", "bob"
	changed.Cursor, changed.NextAt, changed.EndedAt, changed.Open = r.at(-time.Hour), time.Time{}, r.at(time.Second), false
	changed.BackfillCounts = schedule.BackfillCounts{Slots: 24, ToRun: 20, PassedOver: 1, Inserted: 15, Succeeded: 5, Failed: 4, Skipped: 3, Cancelled: 3}
	r.changeBackfill(b, schedule.BackfillChange{Row: &changed})
	equal(r, "the backfill as changed", r.gotBackfill(b.BackfillID), stored(changed))
	_, err = r.GetBackfill(r.ctx, "none")
	r.hold(errors.Is(err, schedule.ErrNotFound), "an unknown id is ErrNotFound, got %v", err)
}

func backfillRefused(r *rig) {
	s := r.create("s")
	b := r.backfill(s, "one")
	refusal := errors.New("no")
	_, err := r.ChangeBackfill(r.ctx, schedule.BackfillRef{ScheduleID: s.ScheduleID, BackfillID: b.BackfillID},
		func(schedule.BackfillInput) (schedule.BackfillChange, error) {
			return schedule.BackfillChange{Row: &b, Now: r.now}, refusal
		})
	r.hold(err == refusal, "the refusal comes back as it is, got %v", err) //nolint:errorlint // not wrapped
	_, err = r.GetBackfill(r.ctx, b.BackfillID)
	r.hold(errors.Is(err, schedule.ErrNotFound), "nothing is written, got %v", err)
}

func backfillLists(r *rig) {
	s, other := r.create("s"), r.create("other", func(s *schedule.Schedule) { s.UserID = r.id("else") })
	var ids []string
	for i, request := range []string{"a", "b", "c"} {
		b := r.ask(r.backfill(s, request, func(b *schedule.Backfill) { b.CreatedAt = r.at(time.Duration(i/2) * time.Second) }))
		ids = append(ids, b.BackfillID)
	}
	elsewhere := r.ask(r.backfill(other, "d", func(b *schedule.Backfill) {
		b.State, b.Open, b.EndedAt, b.CreatedAt = schedule.BackfillFinished, false, r.now, r.at(-time.Minute)
	}))
	list := func(f schedule.BackfillFilter) (got []string) {
		rows, err := r.ListBackfills(r.ctx, f)
		r.ok(err, "list backfills")
		for _, b := range rows {
			got = append(got, b.BackfillID)
		}
		return got
	}
	first, second := max(ids[0], ids[1]), min(ids[0], ids[1]) // of the same instant
	equal(r, "the schedule's", list(schedule.BackfillFilter{ScheduleID: s.ScheduleID}), []string{ids[2], first, second})
	equal(r, "the schedule's of another owner", list(schedule.BackfillFilter{ScheduleID: s.ScheduleID, UserID: r.id("else")}), nil)
	equal(r, "the owner's", list(schedule.BackfillFilter{UserID: r.id("else")}), []string{elsewhere.BackfillID})
	equal(r, "all, finished", list(schedule.BackfillFilter{State: schedule.BackfillFinished}), []string{elsewhere.BackfillID})
	equal(r, "all", list(schedule.BackfillFilter{}), []string{ids[2], first, second, elsewhere.BackfillID})
	equal(r, "the second page", list(schedule.BackfillFilter{BeforeAt: r.now, BeforeID: first, Limit: 1}), []string{second})
}

func backfillQuotas(r *rig) {
	s, sibling := r.create("s"), r.create("sibling")
	ended := func(b *schedule.Backfill) { b.State, b.EndedAt = schedule.BackfillCancelled, r.now } // open still: its runs go on
	r.ask(r.backfill(s, "running"))
	r.ask(r.backfill(s, "paused", func(b *schedule.Backfill) { b.State = schedule.BackfillPaused }))
	r.ask(r.backfill(s, "ended", ended))
	r.ask(r.backfill(sibling, "elsewhere"))
	_, err := r.ChangeBackfill(r.ctx, schedule.BackfillRef{ScheduleID: s.ScheduleID, BackfillID: "new"},
		func(in schedule.BackfillInput) (schedule.BackfillChange, error) {
			equal(r, "how many have not ended", [2]int{in.OfSchedule, in.OfOwner}, [2]int{2, 3})
			return schedule.BackfillChange{}, nil
		})
	r.hold(errors.Is(err, schedule.ErrNotFound), "none was written, so there is none: %v", err)
}

func backfillStandings(r *rig) {
	s := r.create("s")
	at := func(n int) time.Time { return r.at(time.Duration(-n) * time.Hour) }
	r.bring(r.slot(s, at(1)), schedule.StatusSuccess)
	r.bring(r.slot(s, at(2)), schedule.StatusFailed)
	r.bring(r.backfilled(s, at(2), func(run *schedule.Run) { run.Key = schedule.BackfillKey(s.ScheduleID, "b", at(2)) }), schedule.StatusSuccess)
	r.bring(r.slot(s, at(3)), schedule.StatusSkipped)
	r.bring(r.slot(s, at(4)), schedule.StatusStarted)
	r.bring(r.manual(s, "by-hand", at(5)), schedule.StatusSuccess)
	r.bring(r.slot(r.create("other"), at(6)), schedule.StatusSuccess)
	r.add(r.slot(s, at(7)))
	got, err := r.SlotStates(r.ctx, s.ScheduleID, []time.Time{at(7), at(6), at(5), at(4), at(3), at(2), at(1)})
	r.ok(err, "standings")
	equal(r, "the standings", got, []schedule.SlotState{
		{Rows: true, OnWay: true}, {}, {}, {Rows: true, OnWay: true}, {Rows: true}, {Rows: true, Success: true, Failed: true}, {Rows: true, Success: true},
	})
	got, err = r.SlotStates(r.ctx, s.ScheduleID, nil)
	r.hold(err == nil && len(got) == 0, "no slots have no standings: %v, %v", got, err)
}
