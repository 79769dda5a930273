package plan

import "time"

// Launches is what some timetables come to over some time.
type Launches struct {
	Total  int
	Peak   int       // in the busiest minute
	PeakAt time.Time // the first minute with that many; zero: no launch
}

// Horizon is the latest instant not after until up to which the loads have at
// most limit launches between them: until itself, or from and a part of the
// span, halved as often as it takes, but a minute at least.
func Horizon(loads []Load, from, until time.Time, limit int, meter Meter) time.Time {
	return halved(from, until, limit, func(until time.Time, spend func(int) bool) {
		for _, l := range loads {
			if !meter.spend(countSteps) {
				return
			}
			if n, _ := l.Timetable.Count(latest(from, l.After), until); !spend(n) {
				return
			}
		}
	})
}

// Affordable is Horizon for a limit in steps, of which a launch with jitter takes
// more.
func Affordable(groups []Group, from, until time.Time, limit int, meter Meter) time.Time {
	return halved(from, until, limit, func(until time.Time, spend func(int) bool) {
		for i := range groups {
			if !meter.spend(countSteps) {
				return
			}
			n, _ := groups[i].Load.Timetable.Count(from, until)
			if !spend(n * groups[i].Load.steps()) {
				return
			}
		}
	})
}

func halved(from, until time.Time, limit int, cost func(until time.Time, spend func(int) bool)) time.Time {
	for span := until.Sub(from); ; span /= 2 {
		until, left := from.Add(span), limit
		cost(until, func(n int) bool { left -= n; return left >= 0 })
		if left >= 0 || span <= time.Minute {
			return until
		}
	}
}

// Busiest counts, minute by minute, what the loads launch later than from and
// not later than until, by fire_at. Its work is the number of launches.
func Busiest(loads []Load, from, until time.Time, meter Meter) Launches {
	from, until = from.Add(1), until.Add(1)
	minutes := NewMinutes(from, until)
	minutes.Meter = meter
	var out Launches
	for _, l := range loads {
		out.Total += minutes.Add(l, from, until, 1)
	}
	i, n := minutes.Busiest()
	if n > 0 {
		out.Peak, out.PeakAt = n, minutes.At(i)
	}
	return out
}
