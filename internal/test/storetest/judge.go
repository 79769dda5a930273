package storetest

import (
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// judge is the suite's own reading of the overlap policies, so that a store is
// not held to the mistakes of the planner's. Waiting rows go before due ones.
func judge(g schedule.OverlapGroup) []schedule.Verdict {
	j := judging{busy: len(g.InFlight) > 0}
	for _, run := range g.Waiting {
		if run.OverlapPolicy == schedule.OverlapQueue {
			j.queue(run, true)
		}
	}
	for _, run := range g.Due {
		switch run.OverlapPolicy {
		case schedule.OverlapQueue:
			j.queue(run, false)
		case schedule.OverlapReplace, schedule.OverlapCoalesce: // below, all at once
		default:
			j.skip(run)
		}
	}
	j.replace(g)
	j.coalesce(g)
	return j.verdicts
}

type judging struct {
	busy     bool // something is in flight, or has just been claimed
	waiting  uint32
	verdicts []schedule.Verdict
}

func (j *judging) say(run schedule.Run, action schedule.VerdictAction, reason schedule.Reason) {
	j.verdicts = append(j.verdicts, schedule.Verdict{Key: run.Key, Action: action, Reason: reason})
}

func (j *judging) claim(run schedule.Run) {
	j.say(run, schedule.VerdictClaim, schedule.ReasonNone)
	j.busy = true
}

func (j *judging) skip(run schedule.Run) {
	if j.busy {
		j.say(run, schedule.VerdictSkip, schedule.ReasonOverlap)
		return
	}
	j.claim(run)
}

func (j *judging) queue(run schedule.Run, waits bool) {
	switch {
	case !j.busy && j.waiting == 0:
		j.claim(run)
	case waits:
		j.waiting++
	case j.waiting >= run.MaxQueued:
		j.say(run, schedule.VerdictSkip, schedule.ReasonQueueFull)
	default:
		j.say(run, schedule.VerdictWait, schedule.ReasonNone)
		j.waiting++
	}
}

// replace lets the newest slot fire, or wait for the end of what it replaces.
func (j *judging) replace(g schedule.OverlapGroup) {
	rows := slices.Concat(g.Waiting, g.Due)
	rows = slices.DeleteFunc(rows, func(run schedule.Run) bool { return run.OverlapPolicy != schedule.OverlapReplace })
	if len(rows) == 0 {
		return
	}
	newest := slices.MaxFunc(rows, byInstant)
	for _, run := range rows {
		if run.Key != newest.Key {
			j.say(run, schedule.VerdictSkip, schedule.ReasonCoalesced)
		}
	}
	if !j.busy {
		j.claim(newest)
		return
	}
	for _, run := range g.InFlight {
		j.say(run, schedule.VerdictCancel, schedule.ReasonReplaced)
	}
	if newest.WaitingSince.IsZero() {
		j.say(newest, schedule.VerdictWait, schedule.ReasonNone)
	}
}

// coalesce lets the newest slot of a schedule that has its key alone fire or wait, since the first of
// those whose place it takes.
func (j *judging) coalesce(g schedule.OverlapGroup) {
	rows := slices.Concat(g.Waiting, g.Due)
	rows = slices.DeleteFunc(rows, func(run schedule.Run) bool { return run.OverlapPolicy != schedule.OverlapCoalesce })
	if len(rows) == 0 {
		return
	}
	newest := slices.MaxFunc(rows, byInstant)
	since := newest.WaitingSince
	for _, run := range rows {
		if run.Key == newest.Key {
			continue
		}
		j.say(run, schedule.VerdictSkip, schedule.ReasonCoalesced)
		if !run.WaitingSince.IsZero() {
			since = run.WaitingSince // at most one waits
		}
	}
	if !j.busy {
		j.claim(newest)
	} else if newest.WaitingSince.IsZero() {
		j.verdicts = append(j.verdicts, schedule.Verdict{Key: newest.Key, Action: schedule.VerdictWait, Since: since})
	}
}

// byInstant orders runs by fire_at, then run_at, then key.
func byInstant(a, b schedule.Run) int {
	if c := a.FireAt.Compare(b.FireAt); c != 0 {
		return c
	}
	if c := a.RunAt.Compare(b.RunAt); c != 0 {
		return c
	}
	return slices.Compare(a.Key[:], b.Key[:])
}
