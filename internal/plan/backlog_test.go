package plan_test

import (
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

// olderRevision is a definition that an edit has replaced.
func olderRevision(p schedule.CatchupPolicy, change func(*schedule.Schedule)) *schedule.Definition {
	s := scheduled(func(s *schedule.Schedule) {
		s.CronExpr, s.CatchupPolicy, s.Version = "* * * * *", p, 9
		if change != nil {
			change(s)
		}
	})
	return &s.Definition
}

// second is the schedule after an edit at revised: every five minutes.
func second(p schedule.CatchupPolicy, revised string) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) {
		s.CronExpr, s.CatchupPolicy, s.Revision, s.RevisedAt = "*/5 * * * *", p, 2, clock(revised)
	}
}

func TestBacklogOfAnOlderRevision(t *testing.T) {
	checkDecisions(t, []decideCase{
		{
			name:   "slots due at an edit follow the rule and policy of that time",
			change: second("none", "12:05:30"), older: olderRevision("fire_immediately", nil), backlog: "12:00:00 12:05:31 1",
			cursor: "12:10:00", now: "12:08:00",
			want: `
				catchup 12:00:00 at 12:08:00 of revision 1
				catchup 12:01:00 at 12:08:00 of revision 1
				catchup 12:02:00 at 12:08:00 of revision 1
				backlog 12:03:00 until 12:05:31 of revision 1, next portion 12:08:00.5
				cursor 12:10:00
				look again 12:08:00.5`,
		},
		{
			name:   "the end of the range that is still within the grace simply fires, under none too",
			change: second("none", "12:05:30"), older: olderRevision("none", nil), backlog: "12:00:00 12:05:31 1",
			cursor: "12:10:00", now: "12:05:40",
			want: `
				plan 12:05:00 of revision 1
				event missed 12:00:00 to 12:04:00 count 5 of revision 1: catchup_policy is none
				cursor 12:10:00
				look again 12:09:00`,
		},
		{
			name:   "several slots at the end of the range may be within the grace",
			change: second("none", "12:05:10"), older: olderRevision("latest", nil), backlog: "12:03:00 12:05:11 1",
			cursor: "12:10:00", now: "12:05:00",
			want: `
				plan 12:04:00 of revision 1
				plan 12:05:00 of revision 1
				catchup 12:03:00 at 12:05:00 of revision 1
				cursor 12:10:00
				look again 12:09:00`,
		},
		{
			name:   "within the grace it fires even if the catch-up window is shorter",
			change: second("none", "12:05:30"), backlog: "12:05:00 12:05:31 1",
			older: olderRevision("latest", func(s *schedule.Schedule) { s.CatchupWindowMS = 1000 }), cursor: "12:10:00", now: "12:05:40",
			want: `
				plan 12:05:00 of revision 1
				cursor 12:10:00
				look again 12:09:00`,
		},
		{
			name:   "rows planned before the edit are coalesced with a newer slot of its range",
			change: second("latest", "12:05:30"), older: olderRevision("latest", nil), backlog: "12:02:00 12:05:31 1",
			cursor: "12:10:00", now: "12:08:00", late: "12:00:00, 12:01:00",
			want: `
				late 12:00:00 skipped coalesced
				late 12:01:00 skipped coalesced
				catchup 12:05:00 at 12:08:00 of revision 1
				event coalesced 12:02:00 to 12:04:00 count 3 of revision 1: catchup_policy is latest
				cursor 12:10:00
				look again 12:09:00`,
		},
		{
			name:   "a new outage that is decided at once leaves the older range open",
			change: second("none", "12:05:30"), older: olderRevision("fire_immediately", nil), backlog: "12:00:00 12:05:31 1",
			cursor: "12:10:00", now: "12:21:30",
			want: `
				catchup 12:00:00 at 12:21:30 of revision 1
				catchup 12:01:00 at 12:21:30 of revision 1
				catchup 12:02:00 at 12:21:30 of revision 1
				event missed 12:10:00 to 12:20:00 count 3: catchup_policy is none
				backlog 12:03:00 until 12:05:31 of revision 1, next portion 12:21:30.5
				cursor 12:25:00
				look again 12:21:30.5`,
		},
		{
			name:   "a new outage that needs the backlog closes the older range with an event and waits for the next portion",
			change: second("fire_immediately", "12:05:30"), older: olderRevision("fire_immediately", nil), backlog: "12:00:00 12:05:31 1",
			cursor: "12:10:00", now: "12:21:30",
			want: `
				catchup 12:00:00 at 12:21:30 of revision 1
				catchup 12:01:00 at 12:21:30 of revision 1
				catchup 12:02:00 at 12:21:30 of revision 1
				event backlog_closed 12:03:00 to 12:05:00 count 3 missed of revision 1: the schedule fell behind again before the range of its older revision was worked off
				backlog 12:10:00 until 12:25:00 of revision 2, next portion 12:21:30.5
				cursor 12:25:00
				look again 12:21:30.5`,
		},
		{
			name:   "late rows found with an older range wait for their own portion",
			change: second("fire_immediately", "12:05:30"), older: olderRevision("fire_immediately", nil), backlog: "12:00:00 12:02:31 1",
			cursor: "12:15:00", now: "12:12:00", late: "12:10:00",
			want: `
				late 12:10:00 fires at 12:12:00.5 as catchup
				catchup 12:00:00 at 12:12:00 of revision 1
				catchup 12:01:00 at 12:12:00 of revision 1
				catchup 12:02:00 at 12:12:00 of revision 1
				cursor 12:15:00
				look again 12:14:00`,
		},
		{
			name:   "a range whose definition can no longer be read is closed",
			change: second("none", "12:05:30"), backlog: "12:00:00 12:05:31 1",
			older:  olderRevision("latest", func(s *schedule.Schedule) { s.Timezone = "Atlantis/Capital" }),
			cursor: "12:10:00", now: "12:08:00",
			want: `
				event backlog_closed 12:00:00 to 12:05:30 missed of revision 1: the range's revision can no longer be read: time zone "Atlantis/Capital": is not in the zone data 2025c; write an IANA name such as Europe/Berlin, or UTC
				cursor 12:10:00
				look again 12:09:00`,
		},
		{
			name:   "a range whose definition is gone is closed",
			change: second("none", "12:05:30"), backlog: "12:00:00 12:05:31 1",
			cursor: "12:10:00", now: "12:08:00",
			want: `
				event backlog_closed 12:00:00 to 12:05:30 missed of revision 1: the range's revision is gone
				cursor 12:10:00
				look again 12:09:00`,
		},
	})
}

func TestSecondOutageOfTheSameRevision(t *testing.T) {
	checkDecisions(t, []decideCase{
		{
			name: "the new range joins the old one, and the oldest fire first", change: catchup("fire_immediately"),
			backlog: "12:03:00 12:04:00 1", cursor: "12:12:00", now: "12:20:30",
			want: `
				catchup 12:03:00 at 12:20:30
				catchup 12:04:00 at 12:20:30
				catchup 12:05:00 at 12:20:30
				plan 12:20:00
				plan 12:21:00
				backlog 12:06:00 until 12:20:00 of revision 1, next portion 12:20:30.5
				cursor 12:22:00
				look again 12:20:30.5`,
		},
		{
			name: "slots too old in either range are dropped separately, so that the rows between them are not recorded as missed",
			change: func(s *schedule.Schedule) {
				s.CatchupPolicy, s.CatchupWindowMS = schedule.CatchupFireImmediately, 5*60_000
			},
			backlog: "12:03:00 12:04:00 1", cursor: "12:12:00", now: "12:20:30",
			want: `
				catchup 12:16:00 at 12:20:30
				catchup 12:17:00 at 12:20:30
				catchup 12:18:00 at 12:20:30
				plan 12:20:00
				plan 12:21:00
				event missed 12:03:00 to 12:03:00 count 1: older than catchup_window_ms
				event missed 12:12:00 to 12:15:00 count 4: older than catchup_window_ms
				backlog 12:19:00 until 12:20:00 of revision 1, next portion 12:20:30.5
				cursor 12:22:00
				look again 12:20:30.5`,
		},
	})
}
