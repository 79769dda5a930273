package plan

import (
	"cmp"
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
	j := overlapJudge{busy: len(g.InFlight) > 0, inFlight: g.InFlight}
	newest := newestReplacing(g.Waiting, g.Due)
	j.waits(g.Waiting, newest)
	claimable := j.coalesce(g.Due, len(g.Waiting), newest)
	// A replacing row goes first: whatever else this pass might claim would only
	// be cancelled by it again.
	if i := slices.IndexFunc(claimable, overlapRow.replaces); i >= 0 {
		j.replace(claimable[i])
		claimable = slices.Delete(claimable, i, i+1)
	} else {
		j.releaseWaiting()
	}
	for _, r := range claimable {
		j.judge(r)
	}
	return j.inOrder()
}

// splitEarly parts what is due at g.Now from what is only close, the earliest
// first.
func splitEarly(g schedule.OverlapGroup) (due []schedule.Run, early []*schedule.Run) {
	for i := range g.Due {
		if r := &g.Due[i]; !g.Now.IsZero() && r.FireAt.After(g.Now) {
			early = append(early, r)
		}
	}
	switch len(early) {
	case 0:
		return g.Due, nil
	case len(g.Due):
	default:
		due = slices.DeleteFunc(slices.Clone(g.Due), func(r schedule.Run) bool { return r.FireAt.After(g.Now) })
	}
	slices.SortStableFunc(early, func(a, b *schedule.Run) int { return a.FireAt.Compare(b.FireAt) })
	return due, early
}

// arm claims the first of the rows that are close. One that fires at the same
// instant and replaces it would still change that verdict.
func arm(early []*schedule.Run) []schedule.Verdict {
	if len(early) == 0 {
		return nil
	}
	first := early[0]
	rival := func(r *schedule.Run) bool { return r.FireAt.Equal(first.FireAt) && replaces(r) }
	if slices.ContainsFunc(early[1:], rival) {
		return nil
	}
	return []schedule.Verdict{{Key: first.Key, Action: schedule.VerdictClaim}}
}

// overlapRow is a row of a group and its place there: those that wait come
// first, then those that are due. It points to the row: a run is half a
// kilobyte, and a thousand may wait.
type overlapRow struct {
	*schedule.Run
	at int
}

type overlapJudge struct {
	busy     bool
	inFlight []schedule.Run
	first    overlapRow // whose turn it is of those that wait
	waiting  int        // how many wait
	verdicts []placedVerdict
	cancels  []schedule.Verdict
}

type placedVerdict struct {
	schedule.Verdict
	at int
}

func (j *overlapJudge) set(r overlapRow, action schedule.VerdictAction, reason schedule.Reason) {
	j.verdicts = append(j.verdicts, placedVerdict{schedule.Verdict{Key: r.Key, Action: action, Reason: reason}, r.at})
}

func (j *overlapJudge) claim(r overlapRow) {
	j.set(r, schedule.VerdictClaim, schedule.ReasonNone)
	j.busy = true
}

// releaseWaiting claims the row whose turn has come once nothing is in flight.
func (j *overlapJudge) releaseWaiting() {
	if j.busy || j.waiting == 0 {
		return
	}
	j.claim(j.first)
	j.waiting--
}

// waits takes note of the rows that wait. A replacing one has its turn first.
func (j *overlapJudge) waits(rows []schedule.Run, newest schedule.Key) {
	if j.waiting = len(rows); j.waiting == 0 {
		return
	}
	j.first = overlapRow{&rows[0], 0}
	if newest == (schedule.Key{}) {
		return // no row replaces: nothing else is to be looked at
	}
	kept := j.coalesce(rows, 0, newest)
	if j.waiting = len(kept); j.waiting > 0 {
		j.first = kept[max(0, slices.IndexFunc(kept, overlapRow.replaces))]
	}
}

func replaces(r *schedule.Run) bool { return r.OverlapPolicy == schedule.OverlapReplace }

func (r overlapRow) replaces() bool { return replaces(r.Run) }

// newestReplacing is the replacing row of the newest slot; zero = none. Rows
// come in the order of their claims, in which a slot that is caught up stands
// behind a newer one, so only run_at can tell.
func newestReplacing(waiting, due []schedule.Run) schedule.Key {
	var newest *schedule.Run
	for _, rows := range [][]schedule.Run{waiting, due} {
		for i := range rows {
			if r := &rows[i]; replaces(r) && (newest == nil || !r.RunAt.Before(newest.RunAt)) {
				newest = r
			}
		}
	}
	if newest == nil {
		return schedule.Key{}
	}
	return newest.Key
}

// coalesce skips every replacing row but the newest, and returns the rest. The
// first row has the place first.
func (j *overlapJudge) coalesce(rows []schedule.Run, first int, newest schedule.Key) []overlapRow {
	kept := make([]overlapRow, 0, len(rows))
	for i := range rows {
		r := overlapRow{&rows[i], first + i}
		if r.replaces() && r.Key != newest {
			j.set(r, schedule.VerdictSkip, schedule.ReasonCoalesced)
			continue
		}
		kept = append(kept, r)
	}
	return kept
}

func (j *overlapJudge) judge(r overlapRow) {
	switch r.OverlapPolicy {
	case schedule.OverlapAllow:
		j.claim(r)
	case schedule.OverlapQueue:
		j.queue(r)
	default: // skip; replace went first
		if j.busy {
			j.set(r, schedule.VerdictSkip, schedule.ReasonOverlap)
			return
		}
		j.claim(r)
	}
}

func (j *overlapJudge) queue(r overlapRow) {
	switch {
	case !j.busy && j.waiting == 0:
		j.claim(r)
	case j.waiting >= int(r.MaxQueued):
		j.set(r, schedule.VerdictSkip, schedule.ReasonQueueFull)
	default:
		j.wait(r)
	}
}

// replace asks for the end of everything in flight, and waits for it.
func (j *overlapJudge) replace(r overlapRow) {
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

func (j *overlapJudge) wait(r overlapRow) {
	j.set(r, schedule.VerdictWait, schedule.ReasonNone)
	j.waiting++
}

// inOrder lists the verdicts as the rows came: waiting, due, then cancels.
func (j *overlapJudge) inOrder() []schedule.Verdict {
	slices.SortFunc(j.verdicts, func(a, b placedVerdict) int { return cmp.Compare(a.at, b.at) })
	out := make([]schedule.Verdict, 0, len(j.verdicts)+len(j.cancels))
	for _, v := range j.verdicts {
		out = append(out, v.Verdict)
	}
	return append(out, j.cancels...)
}
