package plan_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

func TestPlanningAhead(t *testing.T) {
	checkDecisions(t, []decideCase{
		{
			name:   "slots up to the lookahead become rows, the last one included",
			cursor: "12:00:00", now: "11:59:00",
			want: `
				plan 12:00:00
				cursor 12:01:00
				look again 12:00:00`,
		},
		{
			name:   "a slot beyond the lookahead is left for later",
			cursor: "12:00:00", now: "11:58:59.999",
			want: `
				cursor 12:00:00
				look again 11:59:00`,
		},
		{
			name:   "with jitter the horizon reaches further, so that a slot brought forward is planned in time",
			cursor: "12:00:00", now: "11:29:00",
			change: func(s *schedule.Schedule) { s.CronExpr, s.JitterMS = "0 * * * *", 1_800_000 },
			want: `
				plan 12:00:00 at 11:41:54.525
				cursor 13:00:00
				look again 12:29:00`,
		},
		{
			name:   "beyond lookahead and jitter together it is left for later",
			cursor: "12:00:00", now: "11:28:59.999",
			change: func(s *schedule.Schedule) { s.CronExpr, s.JitterMS = "0 * * * *", 1_800_000 },
			want: `
				cursor 12:00:00
				look again 11:29:00`,
		},
		{
			name:   "exhausted: the slot at end_at is the last, and one event records it",
			cursor: "12:00:00", now: "11:59:30",
			change: func(s *schedule.Schedule) { s.EndAt = clock("12:00:00") },
			want: `
				plan 12:00:00
				event exhausted
				cursor
				look again`,
		},
		{
			name: "exhausted before: no second event",
			now:  "12:30:00",
			want: `
				cursor
				look again`,
		},
		{
			name:   "once is exhausted when it is planned",
			cursor: "12:00:00", now: "11:59:30",
			change: func(s *schedule.Schedule) { s.OnceAt = clock("12:00:00") },
			want: `
				plan 12:00:00
				event exhausted
				cursor
				look again`,
		},
		{
			name:   "a cursor that is no slot under newer zone data plans no slot",
			cursor: "11:59:30", now: "11:59:00",
			want: `
				plan 12:00:00
				cursor 12:01:00
				look again 12:00:00`,
		},
		{
			name:   "a recovery after failures is recorded",
			cursor: "12:00:00", now: "11:58:00",
			change: func(s *schedule.Schedule) { s.PlanFailures = 4 },
			want: `
				event plan_recovered count 4
				cursor 12:00:00
				look again 11:59:00`,
		},
	})
}

func TestPauses(t *testing.T) {
	until := func(text string) func(*schedule.Schedule) {
		return func(s *schedule.Schedule) {
			s.Pause = schedule.Pause{Paused: true, By: "ann", Note: "moving house", Until: clock(text)}
		}
	}
	checkDecisions(t, []decideCase{
		{
			name:   "a pause without an end plans nothing until it is resumed",
			cursor: "12:00:00", now: "12:30:00", change: until(""),
			want: `
				cursor 12:00:00
				look again`,
		},
		{
			name:   "a pause plans nothing until its end",
			cursor: "12:00:00", now: "12:29:59.999", change: until("12:30:00"),
			want: `
				cursor 12:00:00
				look again 12:30:00`,
		},
		{
			name:   "a pause ends by itself, and the slot at its end fires",
			cursor: "12:00:00", now: "12:30:00", change: until("12:30:00"),
			want: `
				plan 12:30:00
				plan 12:31:00
				event pause_ended 12:30:00: moving house
				ends the pause
				cursor 12:32:00
				look again 12:31:00`,
		},
		{
			name:   "slots during the pause are not missed, slots since then follow grace and catch-up",
			cursor: "12:00:00", now: "12:33:10", change: until("12:30:30"),
			want: `
				plan 12:33:00
				plan 12:34:00
				event pause_ended 12:30:30: moving house
				event missed 12:31:00 to 12:32:00 count 2: catchup_policy is none
				ends the pause
				cursor 12:35:00
				look again 12:34:00`,
		},
		{
			name:   "slots since its end are caught up",
			cursor: "12:00:00", now: "12:33:10",
			change: func(s *schedule.Schedule) {
				until("12:30:30")(s)
				s.CatchupPolicy = schedule.CatchupLatest
			},
			want: `
				catchup 12:32:00 at 12:33:10
				plan 12:33:00
				plan 12:34:00
				event pause_ended 12:30:30: moving house
				event coalesced 12:31:00 to 12:31:00 count 1: catchup_policy is latest
				ends the pause
				cursor 12:35:00
				look again 12:34:00`,
		},
		{
			name:   "the cursor moves back to the end of a pause shorter than the lookahead",
			cursor: "12:05:00", now: "12:02:00", change: until("12:01:30"),
			want: `
				plan 12:02:00
				plan 12:03:00
				event pause_ended 12:01:30: moving house
				ends the pause
				cursor 12:04:00
				look again 12:03:00`,
		},
		{
			name:   "a pause that outlives the schedule leaves nothing",
			cursor: "12:00:00", now: "12:30:00",
			change: func(s *schedule.Schedule) {
				until("12:30:00")(s)
				s.EndAt = clock("12:20:00")
			},
			want: `
				event pause_ended 12:30:00: moving house
				event exhausted
				ends the pause
				cursor
				look again`,
		},
	})
}

func TestRowsCarryTheirRevision(t *testing.T) {
	t.Parallel()
	s := scheduled(func(s *schedule.Schedule) {
		s.CronExpr, s.Revision, s.Priority, s.OverlapKey = "* * * * *", 7, 3, "shared"
		s.OverlapPolicy, s.MaxQueued, s.NextRunAt = schedule.OverlapQueue, 5, clock("12:00:00")
		s.Webhook = "billing"
	})
	d, err := plan.Decide(&schedule.PlanCandidate{Schedule: s}, clock("11:59:00"), config)
	if err != nil {
		t.Fatal(err)
	}
	want := schedule.Run{
		Key: schedule.SlotKey("s", clock("12:00:00")), ScheduleID: "s", Revision: 7, UserID: "u", WorkflowID: "w", Version: 1,
		RunAt: clock("12:00:00"), FireAt: clock("12:00:00"), Status: schedule.StatusPlanned, Trigger: schedule.TriggerSchedule,
		OverlapKey: "u/shared", OverlapPolicy: schedule.OverlapQueue, Exclusive: true, MaxQueued: 5, Attempt: 1, MaxAttempts: 1, Priority: 3, Webhook: "billing",
	}
	if !slices.EqualFunc(d.Rows, []schedule.Run{want}, sameRun) {
		t.Errorf("got  %+v\nwant %+v", d.Rows, want)
	}
	manual := plan.NewRow(&s, plan.Slot{Key: want.Key}, schedule.TriggerManual, schedule.OverlapAllow)
	if manual.Exclusive || manual.OverlapPolicy != schedule.OverlapAllow || manual.Trigger != schedule.TriggerManual {
		t.Errorf("a run by hand under allow: got %+v", manual)
	}
}

func TestAScheduleThatCannotBePlannedIsQuarantined(t *testing.T) {
	t.Parallel()
	now, cause := clock("12:00:00"), errors.New("zone Atlantis is gone")
	s := scheduled(func(s *schedule.Schedule) { s.CronExpr, s.Timezone = "* * * * *", "Atlantis/Capital" })
	if _, err := plan.Decide(&schedule.PlanCandidate{Schedule: s}, now, config); err == nil {
		t.Error("a schedule in an unknown zone was planned")
	}
	if _, err := plan.Decide(&schedule.PlanCandidate{Unreadable: cause}, now, config); !errors.Is(err, cause) {
		t.Errorf("an unreadable row: got %v, want its cause", err)
	}
	backoff := []time.Duration{
		10 * time.Second, 10 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute,
		8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour,
	}
	for i, want := range backoff {
		s.PlanFailures = i
		d := plan.Quarantine(&schedule.PlanCandidate{Schedule: s}, now, cause)
		if got := d.PlanAt.Sub(now); got != want || d.Failures != i+1 {
			t.Errorf("failure %d: try again in %s as failure %d, want %s", i+1, got, d.Failures, want)
		}
		if len(d.Events) != 1 || d.Events[0].Kind != schedule.EventPlanFailed || d.Events[0].Note != cause.Error() {
			t.Errorf("failure %d: got events %+v", i+1, d.Events)
		}
	}
	s.PlanFailures = 1_000_000
	if got := plan.Quarantine(&schedule.PlanCandidate{Schedule: s}, now, cause).PlanAt.Sub(now); got != time.Hour {
		t.Errorf("after very many failures: try again in %s, want 1h", got)
	}
}
