package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// WaitSums are the waits of some runs.
type WaitSums struct {
	Runs, Started int
	P50, P90, Max time.Duration
}

// PlayedWait is how long a run of a play waited.
type PlayedWait struct {
	Run   *PlayedRun
	Since time.Time // since when it could start
	Wait  time.Duration
}

// LimitUsage is how much of a limit was used during a play.
type LimitUsage struct {
	Ref       schedule.LimitRef
	Max       int
	Unlimited bool
	Most      int
	Share     float64 // of Max, on average
}

// PlaySums sum up a play.
type PlaySums struct {
	WaitSums
	Ended, Waiting int
	LastEnd        time.Time // zero: not all runs have ended, or there are none
	PerMinute      float64
	Most           int     // in flight
	Share          float64 // of max_in_flight that was used, on average
	Limits         []LimitUsage
	Longest        []PlayedWait        // the longest waits first
	Keys           map[string]WaitSums // by limit set
}

// Sums sums up a play that began at an instant. The runs in flight at its beginning count only as used.
// Longest and Keys have the runs that shown allows.
func (p *Play) Sums(from time.Time, longest int, shown func(i int) bool) PlaySums {
	s := PlaySums{Keys: make(map[string]WaitSums)}
	until := p.Now
	if last, all := p.lastEnd(); all && !last.IsZero() {
		s.LastEnd, until = last, last
	}
	s.countRuns(p, shown)
	slices.SortStableFunc(s.Longest, func(a, b PlayedWait) int { return cmp.Compare(b.Wait, a.Wait) })
	s.Longest = s.Longest[:min(len(s.Longest), longest)]
	if span := until.Sub(from); span > 0 {
		s.PerMinute = float64(s.Started) / span.Minutes()
	}
	s.use(p, from, until)
	return s
}

// countRuns adds the runs that were not in flight before, and their waits.
func (s *PlaySums) countRuns(p *Play, shown func(i int) bool) {
	var all []time.Duration
	byKey := make(map[string][]time.Duration)
	for i := range p.Runs {
		r := &p.Runs[i]
		if r.InFlightBefore {
			continue
		}
		wait, waited := r.waited(p.Now)
		s.count(r, waited)
		if waited {
			all = append(all, wait.Wait)
		}
		if !shown(i) {
			continue
		}
		k := s.Keys[r.Set]
		if k.Runs++; !r.Started.IsZero() {
			k.Started++
		}
		s.Keys[r.Set] = k
		if waited {
			s.Longest = append(s.Longest, wait)
			byKey[r.Set] = append(byKey[r.Set], wait.Wait)
		}
	}
	s.waits(all)
	for set, waits := range byKey {
		k := s.Keys[set]
		k.waits(waits)
		s.Keys[set] = k
	}
}

func (s *PlaySums) count(r *PlayedRun, waited bool) {
	s.Runs++
	switch {
	case !r.Started.IsZero():
		s.Started++
	case waited:
		s.Waiting++
	}
	if !r.Ended.IsZero() {
		s.Ended++
	}
}

// use adds how much of max_in_flight and of the limits was used between two instants.
func (s *PlaySums) use(p *Play, from, until time.Time) {
	flights := usage{from: from, until: until}
	limits := make(map[schedule.LimitRef]*usage, len(p.Facts.Limits))
	for ref := range p.Facts.Limits {
		limits[ref] = &usage{from: from, until: until}
	}
	note := func(refs []schedule.LimitRef, began, ended time.Time) {
		for _, ref := range refs {
			if limits[ref] != nil {
				limits[ref].add(began, ended)
			}
		}
	}
	for i := range p.Uses {
		note(p.Uses[i].Limits, p.Uses[i].From, p.Uses[i].Until)
	}
	for i := range p.Runs {
		if r := &p.Runs[i]; !r.Started.IsZero() {
			flights.add(r.Started, r.Ended)
			note(r.Limits, r.Started, r.Ended)
		}
	}
	s.Most, s.Share = flights.most(), flights.share(int(p.Facts.Queue.MaxInFlight))
	for ref, l := range p.Facts.Limits {
		used := LimitUsage{Ref: ref, Max: l.Max, Unlimited: l.Unlimited, Most: limits[ref].most()}
		if !l.Unlimited {
			used.Share = limits[ref].share(l.Max)
		}
		s.Limits = append(s.Limits, used)
	}
	slices.SortFunc(s.Limits, func(a, b LimitUsage) int { return cmp.Compare(a.Ref.String(), b.Ref.String()) })
}

func (w *WaitSums) waits(waits []time.Duration) {
	slices.Sort(waits)
	w.P50, w.P90, w.Max = Quantile(waits, 0.5), Quantile(waits, 0.9), Quantile(waits, 1)
}

// lastEnd is when the last run ended; all = false: one has not.
func (p *Play) lastEnd() (last time.Time, all bool) {
	for i := range p.Runs {
		if p.Runs[i].Ended.IsZero() {
			return last, false
		}
		last = schedule.Later(last, p.Runs[i].Ended)
	}
	return last, true
}

// waited is how long the run has waited; ok = false: it could not start until now.
func (r *PlayedRun) waited(now time.Time) (w PlayedWait, ok bool) {
	w = PlayedWait{Run: r, Since: schedule.Later(r.Since, r.Ready)}
	until := r.Started
	if until.IsZero() {
		until = now
	}
	w.Wait = max(0, until.Sub(w.Since))
	return w, !w.Since.After(until) && (r.State == schedule.QueueWaiting || !r.Started.IsZero())
}

// usage counts what is in use at the same time.
type usage struct {
	from, until time.Time
	edges       []usageEdge
}

type usageEdge struct {
	at time.Time
	by int
}

// add counts one from an instant to another; zero: it has not ended.
func (u *usage) add(began, ended time.Time) {
	if ended.IsZero() || ended.After(u.until) {
		ended = u.until
	}
	if began = schedule.Later(began, u.from); ended.After(began) {
		u.edges = append(u.edges, usageEdge{began, 1}, usageEdge{ended, -1})
	}
}

func (u *usage) most() (most int) {
	slices.SortFunc(u.edges, func(a, b usageEdge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	n := 0
	for _, e := range u.edges {
		n += e.by
		most = max(most, n)
	}
	return most
}

// share is the average, as a share of a maximum.
func (u *usage) share(most int) float64 {
	var used time.Duration
	for _, e := range u.edges {
		if e.by > 0 {
			used += u.until.Sub(e.at)
		} else {
			used -= u.until.Sub(e.at)
		}
	}
	if span := u.until.Sub(u.from); span > 0 && most > 0 {
		return float64(used) / float64(span) / float64(most)
	}
	return 0
}
