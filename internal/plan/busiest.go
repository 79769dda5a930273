package plan

import "time"

// Load is a timetable that launches, from After on.
type Load struct {
	Timetable *Timetable
	After     time.Time
}

// Launches is what some timetables come to over some time.
type Launches struct {
	Total  int
	Peak   int       // in the busiest minute
	PeakAt time.Time // the first minute with that many; zero: no launch
}

// Horizon is the latest instant not after until up to which the loads have at
// most limit launches between them: until itself, or from and a part of the
// span, halved as often as it takes, but a minute at least.
func Horizon(loads []Load, from, until time.Time, limit int) time.Time {
	for span := until.Sub(from); ; span /= 2 {
		until = from.Add(span)
		if span <= time.Minute || !exceeds(loads, from, until, limit) {
			return until
		}
	}
}

func exceeds(loads []Load, from, until time.Time, limit int) bool {
	total := 0
	for _, l := range loads {
		n, _ := l.Timetable.Count(latest(from, l.After), until)
		if total += n; total > limit {
			return true
		}
	}
	return false
}

// Busiest counts, minute by minute, what the loads launch later than from and
// not later than until, by fire_at. Its work is the number of launches.
func Busiest(loads []Load, from, until time.Time) Launches {
	first := from.Truncate(time.Minute)
	minutes := make([]int32, int(until.Sub(first)/time.Minute)+1)
	var out Launches
	for _, l := range loads {
		t := l.Timetable
		last := until.Add(t.jitter)
		for at, ok := t.Next(from.Add(-t.jitter)); ok && !at.After(last); at, ok = t.Next(at) {
			fires := t.fires(at)
			if !fires.After(from) || fires.After(until) || !at.After(l.After) && l.After.After(from) {
				continue
			}
			minutes[fires.Sub(first)/time.Minute]++
			out.Total++
		}
	}
	for i, n := range minutes {
		if int(n) > out.Peak {
			out.Peak, out.PeakAt = int(n), first.Add(time.Duration(i)*time.Minute)
		}
	}
	return out
}
