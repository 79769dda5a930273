package explain

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// Gap is a time without a proven leader of a shard. None of its slots could be
// planned, claimed or settled then.
type Gap struct {
	Shard       int
	From, Until time.Time // Until is zero: it lasts
	Reason      schedule.EndReason
	Detail      string // the leader's error, if it recorded one
	// WorkerID and Host are the leader before the gap. Returned: it leads again, in
	// the same epoch.
	WorkerID, Host string
	Returned       bool
}

// overdueAfter is the time after the last renewal from which on an open term counts
// as a gap. Leaders renew every second.
const overdueAfter = 4 * time.Second

// Gaps returns the times between the terms of one hash bucket, oldest first. After
// a term without a recorded end it reports no gap.
func Gaps(terms []schedule.LeaderTerm, now time.Time) []Gap {
	var gaps []Gap
	for i := range terms {
		t := &terms[i]
		g := Gap{Shard: t.Shard, From: t.EndedAt, Reason: t.End.Reason, Detail: t.End.Detail, WorkerID: t.WorkerID, Host: t.Host}
		last := i+1 == len(terms)
		switch {
		case !last && (t.EndedAt.IsZero() || t.End.Reason == schedule.EndUnknown):
			continue
		case !last:
			g.Until, g.Returned = terms[i+1].StartedAt, terms[i+1].Epoch == t.Epoch
		case t.EndedAt.IsZero() && !t.RenewedAt.IsZero() && (t.Expired || now.Sub(t.RenewedAt) > overdueAfter):
			g.From, g.Reason = t.RenewedAt, schedule.EndExpired
		case t.EndedAt.IsZero():
			continue
		}
		if g.From.Before(now) && (g.Until.IsZero() || g.Until.After(g.From)) {
			gaps = append(gaps, g)
		}
	}
	return gaps
}

// A gap explains a delay if it covers at least leastGap, which is longer than a
// planned handover, and a tenth of the delay.
const (
	leastGap  = 200 * time.Millisecond
	leastPart = 10
)

// GapsIn returns the gaps that explain a delay between two instants.
func GapsIn(gaps []Gap, from, until time.Time) []Gap {
	var in []Gap
	for _, g := range gaps {
		if part := g.overlap(from, until); part >= leastGap && part*leastPart >= until.Sub(from) {
			in = append(in, g)
		}
	}
	return in
}

func (g *Gap) overlap(from, until time.Time) time.Duration {
	if g.From.After(from) {
		from = g.From
	}
	if !g.Until.IsZero() && g.Until.Before(until) {
		until = g.Until
	}
	return until.Sub(from)
}

// String is the gap as a sentence without its full stop.
func (g *Gap) String() string {
	shard := fmt.Sprint("shard ", g.Shard)
	why := " (" + g.Reason.Words() + ")"
	switch {
	case g.Until.IsZero():
		return "No worker has led " + shard + " since " + describe.Instant(g.From) + why
	case g.Returned:
		return "The leader of " + shard + " could do nothing from " + describe.Instant(g.From) + " to " + describe.Instant(g.Until) + why
	}
	return "No worker led " + shard + " from " + describe.Instant(g.From) + " to " + describe.Instant(g.Until) + why
}

// gaps finds the gaps that delayed the slot or still delay it.
func (x *derivation) gaps() {
	if x.out.Slot == nil || x.at.After(x.Now) || len(x.Terms) == 0 {
		return
	}
	due, done := x.delay()
	x.out.Gaps = GapsIn(Gaps(x.Terms, x.Now), due, done)
	x.out.TermsKnown = !x.Terms[0].StartedAt.After(due)
	x.out.Claimer = x.claimer(done)
}

// claimer is the term that claimed the run of the slot, if the next one began
// before the run was launched.
func (x *derivation) claimer(launched time.Time) *schedule.LeaderTerm {
	r := x.out.Run
	if r == nil || r.ClaimedAt.IsZero() {
		return nil
	}
	for i := range x.Terms[:len(x.Terms)-1] {
		t, next := &x.Terms[i], &x.Terms[i+1]
		if !t.EndedAt.IsZero() && !t.StartedAt.After(r.ClaimedAt) && next.StartedAt.After(r.ClaimedAt) && next.StartedAt.Before(launched) {
			return t
		}
	}
	return nil
}

// delay is the time from fire_at to the launch or end of the slot.
func (x *derivation) delay() (due, done time.Time) {
	due, done = x.at, x.Now
	if r := x.out.Run; r != nil {
		due = r.FireAt
		for _, at := range []time.Time{r.LaunchedAt, r.CompletedAt} {
			if !at.IsZero() {
				return due, at
			}
		}
		return due, done
	}
	switch {
	case x.out.Range != nil:
		done = x.out.Range.Time
	case x.out.Verdict == VerdictDue:
	default:
		done = due
	}
	return due, done
}

// leaderless tells the gaps in which the slot could not be planned, claimed or sent.
func (t *text) leaderless() {
	for i := range t.Gaps {
		t.say("%s", t.Gaps[i].String())
	}
}

// inGap reports whether a gap takes most of [from, until].
func (t *text) inGap(from, until time.Time) bool {
	var covered time.Duration
	for i := range t.Gaps {
		covered += max(t.Gaps[i].overlap(from, until), 0)
	}
	return 2*covered >= until.Sub(from)
}
