package ledger

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// coalesces reports whether the run takes the place of older slots of its schedule.
func (r *run) coalesces() bool { return r.policy == schedule.OverlapCoalesce }

// isSlot reports whether the run gives way to a newer one of its schedule: a slot of the rule, or an
// automatic retry, which counts as its slot. Other runs that somebody asked for stay.
func (r *run) isSlot() bool { return r.trigger.FromSpec() || r.automatic }

func (r *run) isManual() bool { return r.trigger == schedule.TriggerManual }

// isOfLaterSlot reports whether the run is of a later slot than the other.
func (r *run) isOfLaterSlot(other *run) bool {
	return cmp.Or(cmp.Compare(r.runAt, other.runAt), bytes.Compare(r.key[:], other.key[:])) > 0
}

// waitsSince is since when the run waits for its group. One that does not wait yet begins now.
func (r *run) waitsSince(now int64) int64 {
	if r.waitingSince != 0 {
		return r.waitingSince
	}
	return now
}

// byFreeGroup is the order in which a free overlap group goes to its runs under policy coalesce:
// catch-up and backfill after all others, then by priority (higher first), since when they wait,
// fire_at, run_at and key.
func byFreeGroup(a, b coalesced) int {
	switch {
	case a.afterOthers != b.afterOthers:
		return schedule.FalseFirst(a.afterOthers, b.afterOthers)
	case a.priority != b.priority:
		return cmp.Compare(b.priority, a.priority)
	case a.since != b.since:
		return cmp.Compare(a.since, b.since)
	}
	return byFireAt(a.run, b.run)
}

// coalescer decides on the runs of an overlap group under policy coalesce. Those of other policies
// keep their rules: only the first of them competes for a free key.
type coalescer struct {
	now   int64        // later than all that wait began
	at    map[*run]int // the places of all runs of the group: the verdicts come in this order
	kept  []coalesced  // in the order of the group
	ended []*run       // newer slots or manual runs have taken their place
}

// coalesced is a run that stays, with since when it waits: the instant of the oldest run whose place
// it takes counts.
type coalesced struct {
	*run
	since int64
}

// newCoalescer separates the runs under policy coalesce from the others. It is nil if there are none.
func newCoalescer(now int64, waiting, due []*run) (c *coalescer, otherWaiting, otherDue []*run) {
	if !slices.ContainsFunc(waiting, (*run).coalesces) && !slices.ContainsFunc(due, (*run).coalesces) {
		return nil, waiting, due
	}
	c = &coalescer{now: now, at: make(map[*run]int, len(waiting)+len(due))}
	for _, r := range waiting { // its leader's clock may be ahead
		c.now = max(c.now, r.waitingSince+1)
	}
	of := make(map[*scheduleRuns][]*run)
	var schedules []*scheduleRuns
	separate := func(runs []*run) (others []*run) {
		for _, r := range runs {
			c.at[r] = len(c.at)
			if !r.coalesces() {
				others = append(others, r)
				continue
			}
			if of[r.schedule] == nil {
				schedules = append(schedules, r.schedule)
			}
			of[r.schedule] = append(of[r.schedule], r)
		}
		return others
	}
	otherWaiting, otherDue = separate(waiting), separate(due)
	for _, s := range schedules {
		c.coalesce(of[s])
	}
	slices.SortFunc(c.kept, byFreeGroup)
	return c, otherWaiting, otherDue
}

// coalesce keeps the newest slot of a schedule. If a manual run waits or is due it keeps none: that
// run starts after each of them was due.
func (c *coalescer) coalesce(runs []*run) {
	var newest *run
	for _, r := range runs {
		if r.isSlot() && (newest == nil || r.isOfLaterSlot(newest)) {
			newest = r
		}
	}
	if slices.ContainsFunc(runs, (*run).isManual) {
		newest = nil
	}
	since, first := c.now, len(c.kept)
	for _, r := range runs {
		if r.isSlot() && r != newest {
			since = min(since, r.waitsSince(c.now))
			c.ended = append(c.ended, r)
		} else {
			c.kept = append(c.kept, coalesced{r, r.waitsSince(c.now)})
		}
	}
	kept := c.kept[first:]
	slices.SortFunc(kept, byFreeGroup)
	begins := func(r coalesced) bool { return r.waitingSince == 0 && (r.isSlot() || r.isManual()) }
	if i := slices.IndexFunc(kept, begins); i >= 0 {
		kept[i].since = since
	}
}

// isFirst reports whether a free key goes to a run under policy coalesce, and not to the first of
// the others; nil: there is none.
func (c *coalescer) isFirst(other *run) bool {
	if c == nil || len(c.kept) == 0 {
		return false
	}
	return other == nil || byFreeGroup(c.kept[0], coalesced{other, other.waitsSince(c.now)}) < 0
}

func (c *coalescer) claimFirst(j *overlapJudge) {
	first := c.kept[0]
	c.kept = c.kept[1:]
	j.claim(overlapRow{run: first.run})
}

// judge lets the runs wait that stay and were not claimed, and ends the others. One slot of a
// schedule waits, and up to max_queued of its manual runs.
func (c *coalescer) judge(j *overlapJudge) {
	for _, r := range c.ended {
		j.set(overlapRow{run: r}, schedule.VerdictSkip, schedule.ReasonCoalesced)
	}
	manual := make(map[*scheduleRuns]int)
	for _, r := range c.kept {
		if r.waitingSince != 0 && r.isManual() {
			manual[r.schedule]++
		}
	}
	for _, r := range c.kept {
		if r.waitingSince != 0 {
			continue
		}
		if r.isManual() {
			if manual[r.schedule] >= int(r.maxQueued) {
				j.set(overlapRow{run: r.run}, schedule.VerdictSkip, schedule.ReasonQueueFull)
				continue
			}
			manual[r.schedule]++
		}
		since := r.since
		if since >= c.now {
			since = 0
		}
		j.verdicts = append(j.verdicts, placedVerdict{verdict: verdict{run: r.run, action: schedule.VerdictWait, since: since}})
	}
}
