package plan

import (
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// JudgeOverlap decides, under the lock of an overlap key, which of its rows
// may run now. It never lets two exclusive runs be in flight together:
//
//   - nothing in flight: a replacing row is claimed, else the first that waits,
//     else the first due;
//   - allow: always claimed;
//   - skip: SKIPPED(overlap) while anything is in flight;
//   - queue: waits behind what is in flight or waits already, at most
//     max_queued of them; the newest beyond are SKIPPED(queue_full);
//   - replace: cancels what is in flight and waits; of several, waiting or due,
//     only the newest slot stays, the others are SKIPPED(coalesced).
//
// A row whose fire_at lies ahead of g.Now is armed (claimed early) only where
// the verdict cannot change any more: nothing is in flight, waits or is due
// before it. Otherwise it gets no verdict yet.
func JudgeOverlap(g schedule.OverlapGroup) []schedule.Verdict {
	due, early := splitEarly(g)
	if len(g.InFlight)+len(g.Waiting)+len(due) == 0 {
		return arm(early)
	}
	g.Due = due
	j := overlapJudge{busy: len(g.InFlight) > 0, inFlight: g.InFlight, verdicts: make(map[schedule.Key]schedule.Verdict)}
	newest := newestReplacing(g.Waiting, g.Due)
	j.waiting = j.coalesce(g.Waiting, newest)
	due = j.coalesce(g.Due, newest)
	// A replacing row goes first: whatever else this pass might claim would only
	// be cancelled by it again.
	if i := slices.IndexFunc(due, replaces); i >= 0 {
		j.replace(&due[i])
		due = slices.Delete(due, i, i+1)
	} else {
		j.releaseWaiting()
	}
	for i := range due {
		j.judge(&due[i])
	}
	return j.inOrder(g)
}

// splitEarly parts what is due at g.Now from what is only close, the earliest
// first.
func splitEarly(g schedule.OverlapGroup) (due, early []schedule.Run) {
	for _, r := range g.Due {
		if g.Now.IsZero() || !r.FireAt.After(g.Now) {
			due = append(due, r)
		} else {
			early = append(early, r)
		}
	}
	slices.SortStableFunc(early, func(a, b schedule.Run) int { return a.FireAt.Compare(b.FireAt) })
	return due, early
}

// arm claims the first of the rows that are close. One that fires at the same
// instant and replaces it would still change that verdict.
func arm(early []schedule.Run) []schedule.Verdict {
	if len(early) == 0 {
		return nil
	}
	first := early[0]
	rival := func(r schedule.Run) bool { return r.FireAt.Equal(first.FireAt) && replaces(r) }
	if slices.ContainsFunc(early[1:], rival) {
		return nil
	}
	return []schedule.Verdict{{Key: first.Key, Action: schedule.VerdictClaim}}
}

type overlapJudge struct {
	busy     bool
	inFlight []schedule.Run
	waiting  []schedule.Run
	verdicts map[schedule.Key]schedule.Verdict
	cancels  []schedule.Verdict
}

func (j *overlapJudge) set(key schedule.Key, action schedule.VerdictAction, reason schedule.Reason) {
	j.verdicts[key] = schedule.Verdict{Key: key, Action: action, Reason: reason}
}

func (j *overlapJudge) claim(r *schedule.Run) {
	j.set(r.Key, schedule.VerdictClaim, schedule.ReasonNone)
	j.busy = true
}

// releaseWaiting claims the row whose turn has come once nothing is in flight.
func (j *overlapJudge) releaseWaiting() {
	if j.busy || len(j.waiting) == 0 {
		return
	}
	turn := max(0, slices.IndexFunc(j.waiting, replaces))
	j.claim(&j.waiting[turn])
	j.waiting = slices.Delete(j.waiting, turn, turn+1)
}

func replaces(r schedule.Run) bool { return r.OverlapPolicy == schedule.OverlapReplace }

// newestReplacing is the replacing row of the newest slot; zero = none. Rows
// come in the order of their claims, in which a slot that is caught up stands
// behind a newer one, so only run_at can tell.
func newestReplacing(waiting, due []schedule.Run) schedule.Key {
	var newest schedule.Run
	for _, rows := range [][]schedule.Run{waiting, due} {
		for i := range rows {
			if replaces(rows[i]) && !rows[i].RunAt.Before(newest.RunAt) {
				newest = rows[i]
			}
		}
	}
	return newest.Key
}

// coalesce skips every replacing row but the newest, and returns the rest.
func (j *overlapJudge) coalesce(rows []schedule.Run, newest schedule.Key) []schedule.Run {
	kept := make([]schedule.Run, 0, len(rows))
	for i := range rows {
		if replaces(rows[i]) && rows[i].Key != newest {
			j.set(rows[i].Key, schedule.VerdictSkip, schedule.ReasonCoalesced)
			continue
		}
		kept = append(kept, rows[i])
	}
	return kept
}

func (j *overlapJudge) judge(r *schedule.Run) {
	switch r.OverlapPolicy {
	case schedule.OverlapAllow:
		j.claim(r)
	case schedule.OverlapQueue:
		j.queue(r)
	default: // skip; replace went first
		if j.busy {
			j.set(r.Key, schedule.VerdictSkip, schedule.ReasonOverlap)
			return
		}
		j.claim(r)
	}
}

func (j *overlapJudge) queue(r *schedule.Run) {
	switch {
	case !j.busy && len(j.waiting) == 0:
		j.claim(r)
	case len(j.waiting) >= int(r.MaxQueued):
		j.set(r.Key, schedule.VerdictSkip, schedule.ReasonQueueFull)
	default:
		j.wait(r)
	}
}

// replace asks for the end of everything in flight, and waits for it.
func (j *overlapJudge) replace(r *schedule.Run) {
	if !j.busy {
		j.claim(r)
		return
	}
	for i := range j.inFlight {
		if j.inFlight[i].CancelRequestedAt.IsZero() {
			j.cancels = append(j.cancels, schedule.Verdict{
				Key: j.inFlight[i].Key, Action: schedule.VerdictCancel, Reason: schedule.ReasonReplaced,
			})
		}
	}
	j.wait(r)
}

func (j *overlapJudge) wait(r *schedule.Run) {
	j.set(r.Key, schedule.VerdictWait, schedule.ReasonNone)
	j.waiting = append(j.waiting, *r)
}

// inOrder lists the verdicts as the rows came: waiting, due, then cancels.
func (j *overlapJudge) inOrder(g schedule.OverlapGroup) []schedule.Verdict {
	out := make([]schedule.Verdict, 0, len(j.verdicts)+len(j.cancels))
	for _, rows := range [][]schedule.Run{g.Waiting, g.Due} {
		for i := range rows {
			if v, ok := j.verdicts[rows[i].Key]; ok {
				out = append(out, v)
			}
		}
	}
	return append(out, j.cancels...)
}
