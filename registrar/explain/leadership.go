package explain

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// Gap is a time in which no worker proved that it led a shard, so that no slot of
// it could be planned, claimed or settled.
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

// overdueAfter is how long after its last renewal a term that has not ended counts
// as a gap. Renewals come every second.
const overdueAfter = 4 * time.Second

// Gaps are the times between terms, which must be those of one hash bucket, oldest
// first. It claims nothing where a term's end was not recorded.
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

// A gap explains a delay if it takes leastGap of it, more than a planned handover
// does, and a tenth of the whole.
const (
	leastGap  = 200 * time.Millisecond
	leastPart = 10
)

// GapsIn are the gaps that explain a delay from one instant to another.
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

// gaps are those that delayed the slot, or keep it waiting.
func (j *judge) gaps() {
	if j.out.Slot == nil || j.at.After(j.Now) || len(j.Terms) == 0 {
		return
	}
	due, done := j.delay()
	j.out.Gaps = GapsIn(Gaps(j.Terms, j.Now), due, done)
	j.out.TermsKnown = !j.Terms[0].StartedAt.After(due)
	j.out.Claimer = j.claimer(done)
}

// claimer is the term that claimed the run of the slot, if the next one began
// before the run was launched.
func (j *judge) claimer(launched time.Time) *schedule.LeaderTerm {
	r := j.out.Run
	if r == nil || r.ClaimedAt.IsZero() {
		return nil
	}
	for i := range j.Terms[:len(j.Terms)-1] {
		t, next := &j.Terms[i], &j.Terms[i+1]
		if !t.EndedAt.IsZero() && !t.StartedAt.After(r.ClaimedAt) && next.StartedAt.After(r.ClaimedAt) && next.StartedAt.Before(launched) {
			return t
		}
	}
	return nil
}

// delay is from when the slot was due until something became of it.
func (j *judge) delay() (due, done time.Time) {
	due, done = j.at, j.Now
	if r := j.out.Run; r != nil {
		due = r.FireAt
		for _, at := range []time.Time{r.LaunchedAt, r.CompletedAt} {
			if !at.IsZero() {
				return due, at
			}
		}
		return due, done
	}
	switch {
	case j.out.Range != nil:
		done = j.out.Range.Time
	case j.out.Verdict == VerdictDue:
	default:
		done = due
	}
	return due, done
}

// leaderless says in which gaps a slot could not be planned, claimed or sent.
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
