package plan_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// lunch is the current time in these tests; the schedule has a slot every hour.
var lunch = time.Date(2026, 3, 2, 12, 30, 0, 0, time.UTC)

func hour(n int) time.Time { return time.Date(2026, 3, 2, n, 0, 0, 0, time.UTC) }

// morning is a backfill of the missed slots in [06:00, 12:00).
func morning() *schedule.BackfillCandidate {
	d := schedule.Definition{
		ScheduleID: "s", UserID: "u", WorkflowID: "w", Version: 1, CronExpr: "0 * * * *", Timezone: "UTC", DST: schedule.DSTVixie,
		OverlapPolicy: schedule.OverlapAllow, OverlapKey: "s", MaxQueued: 100,
	}
	created := lunch.Add(-24 * time.Hour)
	return &schedule.BackfillCandidate{
		Schedule:   &schedule.Schedule{Definition: d, Revision: 2, CreatedAt: created, NextRunAt: hour(13)},
		Definition: &d,
		Backfill: schedule.Backfill{
			BackfillID: "b", ScheduleID: "s", RequestID: "r", Revision: 2, OverlapKey: "u/s", From: hour(6), To: hour(12), Cursor: hour(6),
			Reprocess: schedule.ReprocessMissed, Order: schedule.OldestFirst, OverlapPolicy: schedule.OverlapAllow, Concurrency: 3,
			State: schedule.BackfillRunning, Open: true, CreatedAt: lunch.Add(-time.Minute),
		},
	}
}

// feedNow decides on candidates with no loaded slots.
func feedNow(pending int, candidates ...*schedule.BackfillCandidate) []schedule.BackfillDecision {
	feeder := plan.Feeder(lunch, plan.FeedConfig{Ahead: time.Second, Portion: 100, Pending: 50})
	var all []schedule.BackfillCandidate
	for _, c := range candidates {
		c.Slots = feeder.Window(c)
		c.SlotStates = make([]schedule.SlotState, len(c.Slots))
		all = append(all, *c)
	}
	return feeder.Decide(all, pending)
}

func TestABackfillInsertsTheNextSlots(t *testing.T) {
	t.Parallel()
	exclusive := func(c *schedule.BackfillCandidate) {
		c.Backfill.OverlapPolicy, c.Backfill.Concurrency = schedule.OverlapQueue, 1
	}
	for _, tc := range []struct {
		name    string
		edit    func(*schedule.BackfillCandidate)
		pending int
		want    []time.Time
	}{
		{name: "as many as may be under way, oldest first", want: []time.Time{hour(6), hour(7), hour(8)}},
		{
			name: "newest first from the other end",
			edit: func(c *schedule.BackfillCandidate) {
				c.Backfill.Order, c.Backfill.Cursor = schedule.NewestFirst, hour(12)
			},
			want: []time.Time{hour(11), hour(10), hour(9)},
		},
		{name: "no more than launches are left for backfills", pending: 48, want: []time.Time{hour(6), hour(7)}},
		{name: "nothing while paused", edit: func(c *schedule.BackfillCandidate) { c.Backfill.State = schedule.BackfillPaused }},
		{name: "nothing while the overlap key is busy", edit: func(c *schedule.BackfillCandidate) { exclusive(c); c.Busy = true }},
		{name: "one where at most one may be in flight", edit: exclusive, want: []time.Time{hour(6)}},
		{
			name: "nothing before the next start by the rate",
			edit: func(c *schedule.BackfillCandidate) {
				c.Backfill.RatePerMinute, c.Backfill.NextAt = 10, lunch.Add(2*time.Second)
			},
		},
		{
			name: "one when the rate leaves six seconds between two",
			edit: func(c *schedule.BackfillCandidate) { c.Backfill.RatePerMinute = 10 }, want: []time.Time{hour(6)},
		},
		{
			name: "no slot that the planner has yet to plan",
			edit: func(c *schedule.BackfillCandidate) { c.Schedule.NextRunAt = hour(7) }, want: []time.Time{hour(6)},
		},
		{
			name: "that slot too, if the schedule is paused",
			edit: func(c *schedule.BackfillCandidate) { c.Schedule.NextRunAt, c.Schedule.Pause.Paused = hour(7), true },
			want: []time.Time{hour(6), hour(7), hour(8)},
		},
		{
			name: "no slot of an open catch-up",
			edit: func(c *schedule.BackfillCandidate) {
				c.Schedule.Backlog = schedule.Backlog{From: hour(8), Until: hour(10)}
			},
			want: []time.Time{hour(6), hour(7)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := morning()
			c.Backfill.CreatedBy = "ada"
			if tc.edit != nil {
				tc.edit(c)
			}
			d := feedNow(tc.pending, c)[0]
			var got []time.Time
			for _, row := range d.Rows {
				got = append(got, row.RunAt)
				if row.Trigger != schedule.TriggerBackfill || row.Key != schedule.SlotKey("s", row.RunAt) || row.FireAt.Before(lunch) || row.Revision != 2 || row.RequestedBy != "ada" {
					t.Errorf("the row is %+v", row)
				}
			}
			if len(got) != len(tc.want) || int64(len(got)) != d.Backfill.Inserted {
				t.Fatalf("it inserted %v and counted %d, want %v", got, d.Backfill.Inserted, tc.want)
			}
			for i := range got {
				if !got[i].Equal(tc.want[i]) {
					t.Errorf("it inserted %v, want %v", got, tc.want)
				}
			}
		})
	}
}

func TestABackfillsSlotThatGaveWayOrWasTakenBackComesAgain(t *testing.T) {
	t.Parallel()
	c := morning()
	c.Backfill.Cursor, c.Backfill.Inserted, c.Backfill.Slots = hour(12), 3, 6
	gave := schedule.Run{Key: schedule.SlotKey("s", hour(6)), RunAt: hour(6), Status: schedule.StatusSkipped, Reason: schedule.ReasonOverlap, Attempt: 1}
	failed := schedule.Run{Key: schedule.SlotKey("s", hour(8)), RunAt: hour(8), Status: schedule.StatusFailed, Reason: schedule.ReasonTimeout}
	taken := schedule.BackfillKey("s", "r", hour(7))
	c.Unsettled = []schedule.BackfillSlot{{RunAt: hour(6), Key: gave.Key, Run: &gave}, {RunAt: hour(7), Key: taken}, {RunAt: hour(8), Key: failed.Key, Run: &failed}}
	d := feedNow(0, c)[0]
	if len(d.Rows) != 2 || d.Rows[0].Key != schedule.RetryKey(gave.Key, "r") || d.Rows[0].Attempt != 2 || d.Rows[0].RetryOf != gave.Key || d.Rows[1].Key != taken {
		t.Errorf("it inserted %+v", d.Rows)
	}
	if b := d.Backfill; b.Failed != 1 || b.Skipped != 0 || b.Inserted != 3 || b.State != schedule.BackfillRunning {
		t.Errorf("backfill: %+v", b)
	}
	if len(d.Slots) != 2 || !d.Slots[0].Settled || d.Slots[0].Key != failed.Key || d.Slots[1].Key != d.Rows[0].Key || d.Slots[1].Settled {
		t.Errorf("its slots are %+v", d.Slots)
	}
}

// Another run may have taken the slot while the row was removed or had given way.
func TestABackfillsSlotThatAnotherRanMeanwhileIsNotRunAgain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		reprocess schedule.Reprocess
		state     schedule.SlotState
		rows      int
		skipped   int64
	}{
		{"on its way: it is left for the next time", schedule.ReprocessAll, schedule.SlotState{Rows: true, OnWay: true}, 0, 0},
		{"a success: it is no longer missed", schedule.ReprocessMissed, schedule.SlotState{Rows: true, Success: true}, 0, 1},
		{"failed: it is no longer missed", schedule.ReprocessMissed, schedule.SlotState{Rows: true, Failed: true}, 0, 1},
		{"failed: it is still to be run", schedule.ReprocessFailed, schedule.SlotState{Rows: true, Failed: true}, 1, 0},
		{"a success: all are to be run", schedule.ReprocessAll, schedule.SlotState{Rows: true, Success: true}, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := morning()
			c.Backfill.Reprocess, c.Backfill.Cursor, c.Backfill.Inserted, c.Backfill.Slots = tc.reprocess, hour(12), 1, 6
			c.Unsettled = []schedule.BackfillSlot{{RunAt: hour(7), Key: schedule.SlotKey("s", hour(7))}}
			feeder := plan.Feeder(lunch, plan.FeedConfig{Ahead: time.Second, Portion: 100, Pending: 50})
			c.Slots, c.SlotStates = feeder.Window(c), []schedule.SlotState{tc.state}
			d := feeder.Decide([]schedule.BackfillCandidate{*c}, 0)[0]
			finished := d.Backfill.State == schedule.BackfillFinished
			if len(c.Slots) != 1 || len(d.Rows) != tc.rows || d.Backfill.Skipped != tc.skipped || finished != (tc.skipped == 1) {
				t.Errorf("of %v it inserted %+v, backfill %+v", c.Slots, d.Rows, d.Backfill)
			}
		})
	}
}

func TestTwoBackfillsOfOneOverlapKeyTakeTurns(t *testing.T) {
	t.Parallel()
	first, second := morning(), morning()
	for _, c := range []*schedule.BackfillCandidate{first, second} {
		c.Backfill.OverlapPolicy, c.Backfill.Concurrency = schedule.OverlapSkip, 1
	}
	got := feedNow(0, first, second)
	if len(got[0].Rows) != 1 || len(got[1].Rows) != 0 {
		t.Errorf("they inserted %d and %d, want one between them", len(got[0].Rows), len(got[1].Rows))
	}
}

// Rows that one backfill inserts are in flight for the next one in the same pass.
func TestTwoBackfillsOfOneRangeRunEachSlotOnce(t *testing.T) {
	t.Parallel()
	for _, reprocess := range schedule.Reprocesses {
		first, second := morning(), morning()
		second.Backfill.BackfillID, second.Backfill.RequestID, second.Backfill.Concurrency = "c", "q", 5
		first.Backfill.Reprocess, second.Backfill.Reprocess = reprocess, reprocess
		d := feedNow(0, first, second)
		if len(d[0].Rows) != 3 || len(d[1].Rows) != 3 || d[1].Backfill.PassedOver != 3 {
			t.Fatalf("%s: the first puts %d slots down, the second %d and passes %d over, want 3 each", reprocess, len(d[0].Rows), len(d[1].Rows), d[1].Backfill.PassedOver)
		}
		for i, row := range d[1].Rows {
			if !row.RunAt.Equal(hour(9 + i)) {
				t.Errorf("%s: the second puts down %s, want %s", reprocess, row.RunAt, hour(9+i))
			}
		}
	}
}

func TestABackfillThatCannotGoOnEndsOrWaitsForSomebody(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		edit   func(*schedule.BackfillCandidate)
		state  schedule.BackfillState
		reason schedule.Reason
	}{
		{name: "its schedule is gone", edit: func(c *schedule.BackfillCandidate) { c.Schedule = nil }, state: schedule.BackfillCancelled, reason: schedule.ReasonDeleted},
		{name: "its schedule is deleted", edit: func(c *schedule.BackfillCandidate) { c.Schedule.DeletedAt = lunch }, state: schedule.BackfillCancelled, reason: schedule.ReasonDeleted},
		{name: "its schedule was deleted and created again", edit: func(c *schedule.BackfillCandidate) { c.Schedule.CreatedAt = lunch }, state: schedule.BackfillCancelled, reason: schedule.ReasonDeleted},
		{name: "its definition cannot be read", edit: func(c *schedule.BackfillCandidate) { c.Definition = nil }, state: schedule.BackfillPaused},
		{name: "its zone no longer exists", edit: func(c *schedule.BackfillCandidate) { c.Definition.Timezone = "Atlantis" }, state: schedule.BackfillPaused},
		{name: "all is done", edit: func(c *schedule.BackfillCandidate) { c.Backfill.Cursor = hour(12) }, state: schedule.BackfillFinished},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := morning()
			tc.edit(c)
			b := feedNow(0, c)[0].Backfill
			if b.State != tc.state || b.Reason != tc.reason || b.State.Ended() == b.Open {
				t.Errorf("it is %s(%s), open %t, %s", b.State, b.Reason, b.Open, b.StateNote)
			}
		})
	}
}
