package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// ordinary schedules differ in minute and zone, some have jitter, one in ten is an interval. Each
// has about one slot within the lookahead.
func ordinary(n int, now time.Time) []schedule.PlanCandidate {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"}
	candidates := make([]schedule.PlanCandidate, n)
	for i := range candidates {
		s := scheduled(func(s *schedule.Schedule) {
			s.ScheduleID, s.Timezone = fmt.Sprint("schedule-", i), zones[i%len(zones)]
			s.CronExpr = fmt.Sprintf("*/%d 6-22 * * 1-5", 1+i%5)
			if i%4 == 0 {
				s.JitterMS = 30_000
			}
			if i%10 == 0 {
				s.CronExpr, s.IntervalMS = "", 60_000
			}
			s.NextRunAt = now.Add(30 * time.Second).Truncate(time.Minute)
		})
		candidates[i] = schedule.PlanCandidate{Schedule: s}
	}
	return candidates
}

func BenchmarkDecide1000OrdinarySchedules(b *testing.B) {
	now := clock("12:00:00")
	candidates := ordinary(1000, now)
	b.ReportAllocs()
	for b.Loop() {
		for i := range candidates {
			if _, err := plan.Decide(&candidates[i], now, config); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// everySecondAfterAYear is the most expensive case: a slot every second after an outage of a year.
func everySecondAfterAYear(policy schedule.CatchupPolicy) *schedule.PlanCandidate {
	s := scheduled(func(s *schedule.Schedule) {
		s.CronExpr, s.Timezone, s.CatchupPolicy = "* * * * * *", "Europe/Berlin", policy
		s.CreatedAt = clock("12:00:00").AddDate(-2, 0, 0)
		s.RevisedAt = s.CreatedAt
		s.NextRunAt = clock("12:00:00").AddDate(-1, 0, 0)
	})
	return &schedule.PlanCandidate{Schedule: s}
}

func BenchmarkDecideEverySecondAfterAYear(b *testing.B) {
	for _, policy := range schedule.CatchupPolicies {
		b.Run(string(policy), func(b *testing.B) {
			c := everySecondAfterAYear(policy)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := plan.Decide(c, clock("12:00:00"), config); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAYearOfSecondsIsCountedToTheSlot(t *testing.T) {
	t.Parallel()
	d, err := plan.Decide(everySecondAfterAYear(schedule.CatchupNone), clock("12:00:00"), config)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Events) != 1 || d.Events[0].Count != 365*86_400-60 {
		t.Errorf("got %+v, want one event of all but the last minute", d.Events)
	}
}

func BenchmarkDecideEverySecondWithAnHourOfJitter(b *testing.B) {
	c := everySecondAfterAYear(schedule.CatchupNone)
	c.Schedule.JitterMS = uint32(schedule.MaxJitter.Milliseconds())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plan.Decide(c, clock("12:00:00"), config); err != nil {
			b.Fatal(err)
		}
	}
}
