package plan_test

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// config is the planner's default configuration with a smaller portion.
var config = plan.Config{Lookahead: time.Minute, Grace: time.Minute, Tick: time.Second, MaxCatchup: 3}

// created is when the schedules of the tables were created.
var created = clock("05-01 00:00:00")

// clock parses an instant of 1 June 2026 ("12:00:00", "12:00:00.5") or of another day of that year
// ("06-02 12:00:00"). Empty is the zero time.
func clock(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	if len(text) < len("06-02 12:00:00") || text[2] != '-' {
		text = "06-01 " + text
	}
	at, err := time.Parse("2006-01-02 15:04:05", "2026-"+text)
	if err != nil {
		panic(err)
	}
	return at
}

// clockText is the reverse of clock.
func clockText(at time.Time) string {
	switch {
	case at.IsZero():
		return ""
	case at.Format("01-02") == "06-01":
		return at.Format("15:04:05.999")
	}
	return at.Format("01-02 15:04:05.999")
}

// scheduled is an unpaused schedule in its first revision, with the default definition unless
// change edits it.
func scheduled(change func(*schedule.Schedule)) schedule.Schedule {
	s := schedule.Schedule{
		Definition: schedule.Definition{
			ScheduleID: "s", WorkflowID: "w", Version: 1, UserID: "u", Timezone: "UTC", DST: schedule.DSTVixie,
			OverlapPolicy: schedule.OverlapSkip, OverlapKey: "s", MaxQueued: schedule.DefaultMaxQueued,
			CatchupPolicy: schedule.CatchupNone, CatchupWindowMS: uint32(schedule.DefaultCatchupSpan.Milliseconds()),
			RunTimeoutMS: uint32(schedule.DefaultRunTimeout.Milliseconds()),
		},
		Revision: 1, RevisedAt: created, CreatedAt: created, UpdatedAt: created,
	}
	change(&s)
	return s
}

// timetable is the timetable of a schedule that scheduled made.
func timetable(change func(*schedule.Schedule)) *plan.Timetable {
	s := scheduled(change)
	tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
	if err != nil {
		panic(fmt.Sprintf("timetable of %q: %v", s.CronExpr, err))
	}
	return tt
}

func sameRun(a, b schedule.Run) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }
