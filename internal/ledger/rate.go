package ledger

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// startAhead is how long before its instant a run may be admitted under a rate. The
// launcher's timer keeps it until then, so that a fast rate needs few admissions.
const startAhead = 250 * time.Millisecond

// Rate allows Starts starts in Per, evenly spaced, and up to Burst of them at once. The
// zero value allows any number. A half-open window of length Per has at most
// Starts + Burst − 1 starts.
//
// It is the generic cell rate algorithm (ITU-T I.371) with one stored instant.
type Rate struct {
	Starts, Burst int
	Per           time.Duration
	Next          time.Time // the instant of the next start if starts are evenly spaced; stored
}

// rateSlack is more than clocks of launchers differ by.
const rateSlack = 5 * time.Second

// RateOf is the rate of a definition with its stored instant. An instant that no start under this
// rate can have left is of a slower rate that was in force before, and does not count.
func RateOf(d schedule.RateDefinition, next, now time.Time) Rate {
	r := Rate{Starts: int(d.Starts), Burst: int(d.Burst), Per: time.Duration(d.PerMS) * time.Millisecond, Next: next}
	if r.Starts > 0 {
		if most := now.Add(startAhead + time.Duration(r.Burst)*r.interval() + rateSlack); next.After(most) {
			r.Next = time.Time{}
		}
	}
	return r
}

// interval is rounded up to what the stores keep, so that no window has a start too many.
func (r *Rate) interval() time.Duration {
	unit := time.Duration(r.Starts) * time.Microsecond
	return (r.Per + unit - 1) / unit * time.Microsecond
}

// first is the earliest instant, from now on, at which a run may start.
func (r *Rate) first(now time.Time) time.Time {
	if r.Starts == 0 {
		return now
	}
	at := r.Next.Add(-time.Duration(r.Burst-1) * r.interval())
	if at.Before(now) {
		return now
	}
	return at
}

// start notes a start at an instant that first allows.
func (r *Rate) start(at time.Time) {
	if r.Starts == 0 {
		return
	}
	if r.Next.Before(at) {
		r.Next = at
	}
	r.Next = r.Next.Add(r.interval())
}

// LimitAt is a limit as an admission finds it. key has the numbers of the asked key.
func LimitAt(l *schedule.Limit, key *schedule.LimitKey, used int, next, now time.Time) *LimitNow {
	most, limited, rate := l.NumbersOf(key, now)
	limit := &LimitNow{No: l.No, Max: most, Unlimited: !limited, Used: used, Rate: RateOf(rate, next, now)}
	if key.Holds(now) && !key.Until.IsZero() {
		limit.After, limit.Until = LimitAt(l, nil, used, next, now), key.Until
	}
	return limit
}
