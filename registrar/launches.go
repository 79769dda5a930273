package registrar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/work"
)

// Limits of a forecast. Half of the budget left after reading the schedules is for their launches;
// the rest is for naming and flattening the peaks.
const (
	launchesSpan    = 24 * time.Hour
	maxLaunchesSpan = 7 * 24 * time.Hour
	flattenBudget   = 200_000                 // launches of the schedules that a change is sought for
	flattenSteps    = 50                      // for each of them
	launchesPage    = 10_000                  // schedules read at once
	maxForecast     = 100_000                 // schedules
	memberSteps     = 6 * work.PerMicrosecond // to read one
	peakSteps       = 2 * work.PerMicrosecond // to look for one at a peak
	peakApart       = 5                       // minutes
)

// LaunchesInput requests a forecast of the schedules of Filter.
type LaunchesInput struct {
	Filter       schedule.ScheduleFilter
	From, Until  time.Time // zero: now, and a day after From
	Peaks        int       // how many are named
	Contributors int       // of each
}

// LaunchesForecast counts launches per minute.
type LaunchesForecast struct {
	From, Until                   time.Time // Until may be nearer than requested, to bound the work
	Minutes                       *plan.Minutes
	Launches                      int
	Peaks                         []LaunchesPeak
	Flattenings                   []plan.Flattening
	Schedules, Paused, Unreadable int
	Launching                     int // schedules with a launch in the window
}

// LaunchesPeak is one of the busiest minutes.
type LaunchesPeak struct {
	Minute       time.Time
	Launches     int
	Schedules    int
	Contributors []Contributor // the busiest first
}

// Contributor is one schedule's part of a peak.
type Contributor struct {
	Schedule *schedule.Schedule
	Launches int
}

// ForecastLaunches counts the launches of the schedules that the caller may see.
func (r *Registrar) ForecastLaunches(ctx context.Context, in LaunchesInput) (*LaunchesForecast, error) {
	now := r.now()
	out := &LaunchesForecast{From: in.From, Until: in.Until}
	if out.From.Before(now) {
		out.From = now
	}
	if out.Until.IsZero() {
		out.Until = out.From.Add(launchesSpan)
	}
	if err := checkSpan(out.From, out.Until); err != nil {
		return nil, err
	}
	budget, done := r.budget("forecast")
	defer done()
	meter := budget.Meter(ctx)
	members, err := r.members(ctx, in.Filter, now, out, meter)
	if err != nil {
		return nil, err
	}
	groups := plan.Groups(members, out.From)
	out.Until = plan.Affordable(groups, out.From, out.Until, budget.Left()/2, meter)
	out.Minutes = plan.NewMinutes(out.From, out.Until)
	out.Minutes.Meter = meter
	for i := range groups {
		if n := out.Minutes.Add(groups[i].Load, out.From, out.Until, len(groups[i].Members)); n > 0 {
			out.Launches += n * len(groups[i].Members)
			out.Launching += len(groups[i].Members)
		}
	}
	burst := out.name(groups, in, meter)
	if budget.Err() == nil && len(burst) > 0 {
		// The steps already spent are subtracted again, so that the call stays below the time of
		// its budget.
		most := min(flattenBudget, max(0, budget.Left()-budget.Spent())/flattenSteps)
		out.Flattenings = plan.Flatten(out.Minutes, affordable(burst, out.From, out.Until, most), out.From, out.Until)
	}
	if errors.Is(budget.Err(), work.ErrSpent) {
		return nil, schedule.Invalid("peaks", in.Peaks, spentProblem+" with "+strconv.Itoa(len(members))+" schedules",
			"request fewer peaks, or filter by owner, workflow, managed_by or label")
	}
	return out, budget.Err()
}

func checkSpan(from, until time.Time) error {
	switch {
	case !until.After(from):
		return schedule.Invalid("until", until.Format(time.RFC3339), "is not later than the start of the window, "+from.Format(time.RFC3339), "")
	case until.Sub(from) > maxLaunchesSpan:
		return schedule.Invalid("until", until.Format(time.RFC3339), fmt.Sprintf("is more than 7 days after the start of the window, %s", from.Format(time.RFC3339)), "use windows of up to 7 days")
	}
	return nil
}

// members reads the schedules that launch, page by page, and keeps what a forecast needs.
func (r *Registrar) members(ctx context.Context, f schedule.ScheduleFilter, now time.Time, out *LaunchesForecast, meter plan.Meter) (members []plan.Member, err error) {
	f.Now, f.Limit, f.OmitDetails = now, launchesPage, true
	for {
		rows, err := r.schedules.ListSchedules(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if m, ok := memberOf(rows[i], now, out); ok {
				members = append(members, m)
			}
			meter(memberSteps)
		}
		if len(rows) < f.Limit {
			return members, nil
		}
		if f.After = rows[len(rows)-1].ScheduleID; len(members) > maxForecast {
			return nil, schedule.Explain(schedule.ErrPrecondition, "cannot forecast more than %d schedules; filter by owner, workflow, managed_by or label", maxForecast)
		}
	}
}

func memberOf(s schedule.Schedule, now time.Time, out *LaunchesForecast) (m plan.Member, ok bool) {
	if s.Pause.Active(now) && s.Pause.Until.IsZero() {
		out.Paused++
		return m, false
	}
	tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
	if err != nil {
		out.Unreadable++
		return m, false
	}
	out.Schedules++
	load := plan.Load{Timetable: tt, Since: s.RevisedAt}
	if s.Pause.Active(now) {
		load.After = from(&s, now)
	}
	return plan.Member{Schedule: &s, Load: load}, true
}

// name names the peaks, and returns the schedules that launch at one of them.
func (f *LaunchesForecast) name(groups []plan.Group, in LaunchesInput, meter plan.Meter) (burst []plan.Member) {
	atPeak := make([]bool, len(groups))
	for _, minute := range f.Minutes.Peaks(in.Peaks, peakApart) {
		p := LaunchesPeak{Minute: f.Minutes.At(minute)}
		for i := range groups {
			if !meter(peakSteps) {
				return nil
			}
			n := 0
			for range groups[i].Load.Launches(schedule.Later(p.Minute, f.From), earlier(p.Minute.Add(time.Minute), f.Until)) {
				n++
			}
			if n == 0 {
				continue
			}
			atPeak[i] = true
			p.Launches, p.Schedules = p.Launches+n*len(groups[i].Members), p.Schedules+len(groups[i].Members)
			for _, m := range groups[i].Members {
				p.contributes(Contributor{Schedule: m.Schedule, Launches: n}, in.Contributors)
			}
		}
		f.Peaks = append(f.Peaks, p)
	}
	for i, at := range atPeak {
		if at {
			burst = append(burst, groups[i].Members...)
		}
	}
	return burst
}

// contributes keeps a contributor if it is among the most busiest, then by id.
func (p *LaunchesPeak) contributes(c Contributor, most int) {
	at, _ := slices.BinarySearchFunc(p.Contributors, c, func(a, b Contributor) int {
		return cmp.Or(cmp.Compare(b.Launches, a.Launches), cmp.Compare(a.Schedule.ScheduleID, b.Schedule.ScheduleID))
	})
	if at < most {
		p.Contributors = slices.Insert(p.Contributors, at, c)
		p.Contributors = p.Contributors[:min(len(p.Contributors), most)]
	}
}

// affordable are those of a burst that launch least often, for they make its
// peaks, as far as the budget goes.
func affordable(burst []plan.Member, from, until time.Time, budget int) []plan.Member {
	type counted struct {
		plan.Member
		n int
	}
	all := make([]counted, len(burst))
	for i, m := range burst {
		all[i].Member = m
		all[i].n, _ = m.Load.Timetable.Count(from, until)
	}
	slices.SortStableFunc(all, func(a, b counted) int { return cmp.Compare(a.n, b.n) })
	burst = burst[:0]
	for _, m := range all {
		if budget -= m.n; budget < 0 {
			break
		}
		burst = append(burst, m.Member)
	}
	return burst
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
