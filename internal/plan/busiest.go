package plan

import "time"

// Launches counts the launches of some timetables.
type Launches struct {
	Total  int
	Peak   int       // in the busiest minute
	PeakAt time.Time // the first minute with that many; zero: no launch
}

// Horizon is the latest instant, at most until, up to which the loads have at most limit launches.
// It halves the span until it fits, down to one minute.
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

// Affordable is Horizon with limit in steps. A launch with jitter takes more steps.
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

// Busiest counts launches per minute by fire_at in (from, until]. Its work is the number of
// launches.
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
