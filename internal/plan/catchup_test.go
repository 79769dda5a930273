package plan_test

import (
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

// All tables: every minute, grace 60 s, lookahead 60 s, portions of 3.

func catchup(p schedule.CatchupPolicy) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) { s.CatchupPolicy = p }
}

func TestWithinTheGraceASlotSimplyFires(t *testing.T) {
	var cases []decideCase
	for _, p := range schedule.CatchupPolicies {
		cases = append(cases,
			decideCase{
				name:   string(p) + ": exactly at the grace it fires normally",
				change: catchup(p), cursor: "12:00:00", now: "12:01:00",
				want: `
					plan 12:00:00
					plan 12:01:00
					plan 12:02:00
					cursor 12:03:00
					look again 12:02:00`,
			},
			decideCase{
				name: string(p) + ": jitter counts for the slot: it is late from fire_at on",
				change: func(s *schedule.Schedule) { // 12:00:00 fires at 12:05:25.432
					s.CatchupPolicy, s.CronExpr, s.JitterMS, s.ScheduleID = p, "0 * * * *", 600_000, "jittered"
				},
				cursor: "12:00:00", now: "12:06:25.432",
				want: `
					plan 12:00:00 at 12:05:25.432
					cursor 13:00:00
					look again 12:49:00`,
			})
	}
	checkDecisions(t, cases)
}

func TestCatchupNone(t *testing.T) {
	checkDecisions(t, []decideCase{
		{
			name:   "just past the grace it is missed",
			cursor: "12:00:00", now: "12:01:00.001",
			want: `
				plan 12:01:00
				plan 12:02:00
				event missed 12:00:00 to 12:00:00 count 1: catchup_policy is none
				cursor 12:03:00
				look again 12:02:00`,
		},
		{
			name:   "missed slots are one event with range and count",
			cursor: "12:00:00", now: "12:10:30",
			want: `
				plan 12:10:00
				plan 12:11:00
				event missed 12:00:00 to 12:09:00 count 10: catchup_policy is none
				cursor 12:12:00
				look again 12:11:00`,
		},
		{
			name:   "rows that were planned in time and found too late are skipped, of any age",
			cursor: "12:01:00", now: "12:10:30", late: "05-01 11:59:00, 12:00:00",
			want: `
				late 05-01 11:59:00 skipped missed
				late 12:00:00 skipped missed
				plan 12:10:00
				plan 12:11:00
				event missed 12:01:00 to 12:09:00 count 9: catchup_policy is none
				cursor 12:12:00
				look again 12:11:00`,
		},
		{
			name:   "exhausted during the outage: all remaining slots are missed",
			change: func(s *schedule.Schedule) { s.EndAt = clock("12:04:30") },
			cursor: "12:00:00", now: "18:00:00",
			want: `
				event missed 12:00:00 to 12:04:00 count 5: catchup_policy is none
				event exhausted
				cursor
				look again`,
		},
	})
}

func TestCatchupFireImmediately(t *testing.T) {
	checkDecisions(t, []decideCase{
		{
			name: "the oldest fire first, a portion per tick, and on-time slots do not wait", change: catchup("fire_immediately"),
			cursor: "12:00:00", now: "12:10:30",
			want: `
				catchup 12:00:00 at 12:10:30
				catchup 12:01:00 at 12:10:30
				catchup 12:02:00 at 12:10:30
				plan 12:10:00
				plan 12:11:00
				backlog 12:03:00 until 12:10:00 of revision 1, next portion 12:10:30.5
				cursor 12:12:00
				look again 12:10:30.5`,
		},
		{
			name: "the next tick fires the next portion", change: catchup("fire_immediately"),
			cursor: "12:12:00", now: "12:10:31", backlog: "12:03:00 12:10:00 1", portion: "12:10:30.5",
			want: `
				catchup 12:03:00 at 12:10:31
				catchup 12:04:00 at 12:10:31
				catchup 12:05:00 at 12:10:31
				backlog 12:06:00 until 12:10:00 of revision 1, next portion 12:10:31.5
				cursor 12:12:00
				look again 12:10:31.5`,
		},
		{
			name: "the last portion closes the backlog", change: catchup("fire_immediately"),
			cursor: "12:12:00", now: "12:10:33", backlog: "12:09:00 12:10:00 1", portion: "12:10:32.5",
			want: `
				catchup 12:09:00 at 12:10:33
				cursor 12:12:00
				look again 12:11:00`,
		},
		{
			name: "a second decision in the same tick fires no second portion", change: catchup("fire_immediately"),
			cursor: "12:12:00", now: "12:10:30", backlog: "12:03:00 12:10:00 1", portion: "12:10:30.5",
			want: `
				backlog 12:03:00 until 12:10:00 of revision 1, next portion 12:10:30.5
				cursor 12:12:00
				look again 12:10:30.5`,
		},
		{
			name: "late rows are part of the portion", change: catchup("fire_immediately"),
			cursor: "12:02:00", now: "12:10:30", late: "12:00:00, 12:01:00",
			want: `
				late 12:00:00 fires at 12:10:30 as catchup
				late 12:01:00 fires at 12:10:30 as catchup
				catchup 12:02:00 at 12:10:30
				plan 12:10:00
				plan 12:11:00
				backlog 12:03:00 until 12:10:00 of revision 1, next portion 12:10:30.5
				cursor 12:12:00
				look again 12:10:30.5`,
		},
		{
			name: "more late rows than a portion take the next ticks, and the range waits for them", change: catchup("fire_immediately"),
			cursor: "12:04:00", now: "12:10:30", late: "12:00:00, 12:01:00, 12:02:00, 12:03:00",
			want: `
				late 12:00:00 fires at 12:10:30 as catchup
				late 12:01:00 fires at 12:10:30 as catchup
				late 12:02:00 fires at 12:10:30 as catchup
				late 12:03:00 fires at 12:10:31 as catchup
				plan 12:10:00
				plan 12:11:00
				backlog 12:04:00 until 12:10:00 of revision 1, next portion 12:10:31.5
				cursor 12:12:00
				look again 12:10:31.5`,
		},
		{
			name: "slots older than the catch-up window are dropped with an event",
			change: func(s *schedule.Schedule) {
				s.CatchupPolicy, s.CatchupWindowMS = schedule.CatchupFireImmediately, 5*60_000
			},
			cursor: "12:02:00", now: "12:10:30", late: "12:00:00, 12:01:00",
			want: `
				late 12:00:00 skipped missed
				late 12:01:00 skipped missed
				catchup 12:06:00 at 12:10:30
				catchup 12:07:00 at 12:10:30
				catchup 12:08:00 at 12:10:30
				plan 12:10:00
				plan 12:11:00
				event missed 12:02:00 to 12:05:00 count 4: older than catchup_window_ms
				backlog 12:09:00 until 12:10:00 of revision 1, next portion 12:10:30.5
				cursor 12:12:00
				look again 12:10:30.5`,
		},
		{
			name: "exactly as old as the catch-up window is caught up",
			change: func(s *schedule.Schedule) {
				s.CatchupPolicy, s.CatchupWindowMS = schedule.CatchupFireImmediately, 5*60_000
			},
			cursor: "12:05:00", now: "12:10:00",
			want: `
				catchup 12:05:00 at 12:10:00
				catchup 12:06:00 at 12:10:00
				catchup 12:07:00 at 12:10:00
				plan 12:09:00
				plan 12:10:00
				plan 12:11:00
				backlog 12:08:00 until 12:09:00 of revision 1, next portion 12:10:00.5
				cursor 12:12:00
				look again 12:10:00.5`,
		},
	})
}

func TestCatchupSpread(t *testing.T) {
	checkDecisions(t, []decideCase{
		{
			name: "a portion is spread evenly over the lookahead, and the next is due when that is over", change: catchup("spread"),
			cursor: "12:00:00", now: "12:10:30",
			want: `
				catchup 12:00:00 at 12:10:30
				catchup 12:01:00 at 12:10:50
				catchup 12:02:00 at 12:11:10
				plan 12:10:00
				plan 12:11:00
				backlog 12:03:00 until 12:10:00 of revision 1, next portion 12:11:30
				cursor 12:12:00
				look again 12:11:00`,
		},
		{
			name: "while the window runs the backlog waits", change: catchup("spread"),
			cursor: "12:12:00", now: "12:11:00", backlog: "12:03:00 12:10:00 1", portion: "12:11:30",
			want: `
				plan 12:12:00
				backlog 12:03:00 until 12:10:00 of revision 1, next portion 12:11:30
				cursor 12:13:00
				look again 12:11:30`,
		},
		{
			name: "fewer than a portion are spread over the whole window too", change: catchup("spread"),
			cursor: "12:12:00", now: "12:11:30", backlog: "12:08:00 12:10:00 1", portion: "12:11:30",
			want: `
				catchup 12:08:00 at 12:11:30
				catchup 12:09:00 at 12:12:00
				plan 12:12:00
				cursor 12:13:00
				look again 12:12:00`,
		},
		{
			name: "late rows and the range are spread together", change: catchup("spread"),
			cursor: "12:09:00", now: "12:10:30", late: "12:08:00",
			want: `
				late 12:08:00 fires at 12:10:30 as catchup
				catchup 12:09:00 at 12:11:00
				plan 12:10:00
				plan 12:11:00
				cursor 12:12:00
				look again 12:11:00`,
		},
		{
			name: "late rows found while a window runs take the next window, and the range the one after it", change: catchup("spread"),
			cursor: "12:12:00", now: "12:10:40", late: "12:09:00", backlog: "12:03:00 12:08:00 1", portion: "12:11:30",
			want: `
				late 12:09:00 fires at 12:11:30 as catchup
				backlog 12:03:00 until 12:08:00 of revision 1, next portion 12:12:30
				cursor 12:12:00
				look again 12:11:00`,
		},
	})
}

func TestCatchupLatest(t *testing.T) {
	checkDecisions(t, []decideCase{
		{
			name: "only the newest fires, the others are one event", change: catchup("latest"),
			cursor: "12:00:00", now: "12:10:30",
			want: `
				catchup 12:09:00 at 12:10:30
				plan 12:10:00
				plan 12:11:00
				event coalesced 12:00:00 to 12:08:00 count 9: catchup_policy is latest
				cursor 12:12:00
				look again 12:11:00`,
		},
		{
			name: "a single missed slot fires without an event", change: catchup("latest"),
			cursor: "12:09:00", now: "12:10:30",
			want: `
				catchup 12:09:00 at 12:10:30
				plan 12:10:00
				plan 12:11:00
				cursor 12:12:00
				look again 12:11:00`,
		},
		{
			name: "late rows are older than the range and coalesced with it", change: catchup("latest"),
			cursor: "12:08:00", now: "12:10:30", late: "12:06:00, 12:07:00",
			want: `
				late 12:06:00 skipped coalesced
				late 12:07:00 skipped coalesced
				catchup 12:09:00 at 12:10:30
				plan 12:10:00
				plan 12:11:00
				event coalesced 12:08:00 to 12:08:00 count 1: catchup_policy is latest
				cursor 12:12:00
				look again 12:11:00`,
		},
		{
			name: "without a range the newest late row fires", change: catchup("latest"),
			cursor: "12:10:00", now: "12:10:30", late: "12:07:00, 12:08:00, 12:09:00",
			want: `
				late 12:07:00 skipped coalesced
				late 12:08:00 skipped coalesced
				late 12:09:00 fires at 12:10:30 as catchup
				plan 12:10:00
				plan 12:11:00
				cursor 12:12:00
				look again 12:11:00`,
		},
		{
			name: "nothing older than the catch-up window fires, even if it is the newest",
			change: func(s *schedule.Schedule) {
				s.CronExpr, s.CatchupPolicy, s.CatchupWindowMS = "0 12 * * *", schedule.CatchupLatest, 3_600_000
			},
			cursor: "12:00:00", now: "14:00:00",
			want: `
				event missed 12:00:00 to 12:00:00 count 1: older than catchup_window_ms
				cursor 06-02 12:00:00
				look again 06-02 11:59:00`,
		},
	})
}
