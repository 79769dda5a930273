package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// overlapGroup is all that overlap is judged on for one overlap key.
type overlapGroup struct {
	now      int64
	inFlight []*run
	waiting  []*run // in order of fire_at, with waitingSince
	due      []*run // due by now or early, in claim order
}

// verdict is the decision on one planned run of a group, or, with VerdictCancel,
// on a run in flight.
type verdict struct {
	run    *run
	action schedule.VerdictAction
	reason schedule.Reason
	since  int64 // a run that begins to wait: since when its group owes it a turn; 0: now
}

func (v verdict) wait() Wait {
	w := Wait{Key: v.run.key}
	if v.since != 0 {
		w.Since = time.UnixMicro(v.since).UTC()
	}
	return w
}

// JudgeOverlap is the overlap verdict for a store that holds the lock of the
// overlap key: see judgeOverlap. A zero g.Now means that all of g.Due is due.
func JudgeOverlap(g schedule.OverlapGroup) []schedule.Verdict {
	pointers := make([]*run, 0, len(g.InFlight)+len(g.Waiting)+len(g.Due))
	schedules := make(map[string]*scheduleRuns)
	scheduleOf := func(id string) *scheduleRuns {
		if schedules[id] == nil {
			schedules[id] = &scheduleRuns{id: id}
		}
		return schedules[id]
	}
	compact := func(rows []schedule.Run) []*run {
		first := len(pointers)
		for i := range rows {
			r := runOf(&rows[i])
			r.schedule = scheduleOf(rows[i].ScheduleID)
			pointers = append(pointers, r)
		}
		return pointers[first:len(pointers):len(pointers)]
	}
	now := int64(math.MaxInt64)
	if !g.Now.IsZero() {
		now = micro(g.Now)
	}
	verdicts := judgeOverlap(overlapGroup{now: now, inFlight: compact(g.InFlight), waiting: compact(g.Waiting), due: compact(g.Due)})
	out := make([]schedule.Verdict, len(verdicts))
	for i, v := range verdicts {
		out[i] = schedule.Verdict{Key: v.run.key, Action: v.action, Reason: v.reason, Since: v.wait().Since}
	}
	return out
}

// runOf is what overlap is judged on of a run, without its schedule.
func runOf(r *schedule.Run) *run {
	out := &run{
		key: r.Key, runAt: r.RunAt.UnixMicro(), fireAt: r.FireAt.UnixMicro(), policy: r.OverlapPolicy, trigger: r.Trigger,
		automatic: r.IsAutomaticRetry(), priority: r.Priority, maxQueued: r.MaxQueued, exclusive: r.Exclusive, cancelRequested: !r.CancelRequestedAt.IsZero(),
		afterOthers: r.Trigger.AfterOthers(),
	}
	if !r.WaitingSince.IsZero() {
		out.waitingSince = micro(r.WaitingSince)
	}
	return out
}

// judgeOverlap decides which runs of an overlap group may run now. It never lets
// two exclusive runs be in flight together:
//
//   - nothing in flight: a replacing run is claimed, else the first that waits,
//     else the first due;
//   - allow: always claimed;
//   - skip: SKIPPED(overlap) while anything is in flight;
//   - queue: waits behind what is in flight or waits already, at most max_queued
//     of them; the newest beyond are SKIPPED(queue_full);
//   - replace: cancels what is in flight and waits. Only the newest slot stays;
//     older ones, waiting or due, are SKIPPED(coalesced);
//   - coalesce: waits behind what is in flight. Only the newest slot of each schedule
//     stays, and none if a manual run of the schedule waits or is due; the others are
//     SKIPPED(coalesced). What stays and begins to wait does so since the oldest of them
//     began. A free key goes to the first by byFreeGroup, and other policies compete by the
//     run that their rules choose; only a replacing run goes before.
//
// A retry, automatic or by hand, does not count in max_queued. An automatic one waits where a
// slot would be skipped, and never replaces a newer slot: under replace it is
// SKIPPED(coalesced) instead.
//
// A run that fires later than now is claimed early only if its verdict cannot
// change any more: nothing is in flight, waits or is due before it. Otherwise it
// gets no verdict yet.
func judgeOverlap(g overlapGroup) []verdict {
	due, early := splitEarly(g)
	if len(g.inFlight)+len(g.waiting)+len(due) == 0 {
		return claimEarly(early)
	}
	c, waiting, due := newCoalescer(g.now, g.waiting, due)
	j := overlapJudge{busy: len(g.inFlight) > 0, inFlight: g.inFlight}
	newest, replacing := j.newestReplacing(waiting, due)
	j.addWaiting(waiting, newest, replacing)
	claimable := j.coalesce(due, len(waiting), newest)
	// A replacing run goes first: whatever else this pass might claim would only
	// be cancelled by it again.
	if i := slices.IndexFunc(claimable, overlapRow.replaces); i >= 0 {
		j.replace(claimable[i])
		claimable = slices.Delete(claimable, i, i+1)
	} else if first := j.next(claimable); !j.busy && (first == nil || !first.replaces()) && c.isFirst(first) {
		c.claimFirst(&j)
	} else {
		j.releaseWaiting()
	}
	for _, r := range claimable {
		j.judge(r)
	}
	if c != nil {
		c.judge(&j)
		j.placed(c.at)
	}
	return j.inOrder()
}

// next is the run that a free key goes to without those under policy coalesce; nil: there is none.
func (j *overlapJudge) next(claimable []overlapRow) *run {
	switch {
	case j.waiting > 0:
		return j.first.run
	case len(claimable) > 0:
		return claimable[0].run
	}
	return nil
}

// splitEarly separates what is due now from what is early. The early runs come in
// order of fire_at; of those that fire together, in claim order.
func splitEarly(g overlapGroup) (due, early []*run) {
	for _, r := range g.due {
		if r.fireAt > g.now {
			early = append(early, r)
		}
	}
	switch len(early) {
	case 0:
		return g.due, nil
	case len(g.due):
	default:
		due = slices.DeleteFunc(slices.Clone(g.due), func(r *run) bool { return r.fireAt > g.now })
	}
	slices.SortStableFunc(early, func(a, b *run) int { return cmp.Compare(a.fireAt, b.fireAt) })
	return due, early
}

// claimEarly claims the first of the early runs. One that fires at the same
// instant and takes its place would still change that verdict.
func claimEarly(early []*run) []verdict {
	if len(early) == 0 {
		return nil
	}
	first := early[0]
	rival := func(r *run) bool {
		return r.fireAt == first.fireAt && (r.replaces() || r.coalesces() && first.coalesces() && r.schedule == first.schedule)
	}
	if slices.ContainsFunc(early[1:], rival) {
		return nil
	}
	return []verdict{{run: first, action: schedule.VerdictClaim}}
}

// overlapRow is a run of a group with its place there: waiting runs come first,
// then those that are due.
type overlapRow struct {
	*run
	at int
}

func (r overlapRow) replaces() bool { return r.run.replaces() }

type overlapJudge struct {
	busy     bool
	inFlight []*run
	first    overlapRow // the waiting run that goes next
	waiting  int        // how many wait
	retries  int        // of these, retries: max_queued does not count them
	verdicts []placedVerdict
	cancels  []verdict
}

type placedVerdict struct {
	verdict
	at int
}

func (j *overlapJudge) set(r overlapRow, action schedule.VerdictAction, reason schedule.Reason) {
	j.verdicts = append(j.verdicts, placedVerdict{verdict{run: r.run, action: action, reason: reason}, r.at})
}

func (j *overlapJudge) claim(r overlapRow) {
	j.set(r, schedule.VerdictClaim, schedule.ReasonNone)
	j.busy = true
}

// releaseWaiting claims the waiting run that goes next if nothing is in flight.
func (j *overlapJudge) releaseWaiting() {
	if j.busy || j.waiting == 0 {
		return
	}
	j.claim(j.first)
	if j.waiting--; j.first.isRetry() {
		j.retries--
	}
}

// addWaiting counts the runs that wait and finds the one that goes next: one that
// replaces, else the first.
func (j *overlapJudge) addWaiting(runs []*run, newest *run, replacing bool) {
	if j.waiting = len(runs); j.waiting == 0 {
		return
	}
	j.first = overlapRow{runs[0], 0}
	if !replacing { // nothing to coalesce
		j.retries = retries(runs)
		return
	}
	kept := j.coalesce(runs, 0, newest)
	if j.waiting = len(kept); j.waiting > 0 {
		j.first = kept[max(0, slices.IndexFunc(kept, overlapRow.replaces))]
	}
	for _, r := range kept {
		if r.isRetry() {
			j.retries++
		}
	}
}

func retries(runs []*run) (n int) {
	for _, r := range runs {
		if r.isRetry() {
			n++
		}
	}
	return n
}

// newestReplacing is the replacing run of the newest slot; nil if there is none.
// Only run_at can tell: in claim order a catch-up run comes after a newer slot. An automatic
// retry of an older slot than one in flight does not count; replacing reports whether any
// run replaces, that one included.
func (j *overlapJudge) newestReplacing(waiting, due []*run) (newest *run, replacing bool) {
	for _, runs := range [][]*run{waiting, due} {
		for _, r := range runs {
			if !r.replaces() {
				continue
			}
			if replacing = true; !j.isSuperseded(r) && (newest == nil || r.runAt >= newest.runAt) {
				newest = r
			}
		}
	}
	return newest, replacing
}

// isSuperseded reports whether a newer slot than that of an automatic retry is in flight.
func (j *overlapJudge) isSuperseded(r *run) bool {
	return r.automatic && slices.ContainsFunc(j.inFlight, func(other *run) bool { return other.runAt > r.runAt })
}

// coalesce skips every replacing run but the newest, and returns the others. The
// first run has the place first.
func (j *overlapJudge) coalesce(runs []*run, first int, newest *run) []overlapRow {
	kept := make([]overlapRow, 0, len(runs))
	for i := range runs {
		r := overlapRow{runs[i], first + i}
		if r.replaces() && r.run != newest {
			j.set(r, schedule.VerdictSkip, schedule.ReasonCoalesced)
			continue
		}
		kept = append(kept, r)
	}
	return kept
}

func (j *overlapJudge) judge(r overlapRow) {
	switch r.policy {
	case schedule.OverlapAllow:
		j.claim(r)
	case schedule.OverlapQueue:
		j.queue(r)
	default: // skip; replace went first
		if j.busy && r.automatic {
			j.wait(r)
			return
		}
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
	case j.waiting-j.retries >= int(r.maxQueued) && !r.isRetry():
		j.set(r, schedule.VerdictSkip, schedule.ReasonQueueFull)
	default:
		j.wait(r)
	}
}

// replace requests the cancel of everything in flight, and waits for its end.
func (j *overlapJudge) replace(r overlapRow) {
	if !j.busy {
		j.claim(r)
		return
	}
	for _, blocker := range j.inFlight {
		if !blocker.cancelRequested {
			j.cancels = append(j.cancels, verdict{run: blocker, action: schedule.VerdictCancel, reason: schedule.ReasonReplaced})
		}
	}
	j.wait(r)
}

func (j *overlapJudge) wait(r overlapRow) {
	j.set(r, schedule.VerdictWait, schedule.ReasonNone)
	if j.waiting++; r.isRetry() {
		j.retries++
	}
}

// placed gives the verdicts the places of their runs in the whole group.
func (j *overlapJudge) placed(at map[*run]int) {
	for i := range j.verdicts {
		j.verdicts[i].at = at[j.verdicts[i].run]
	}
}

// inOrder lists the verdicts as the runs came: waiting, due, then cancels.
func (j *overlapJudge) inOrder() []verdict {
	slices.SortFunc(j.verdicts, func(a, b placedVerdict) int { return cmp.Compare(a.at, b.at) })
	out := make([]verdict, 0, len(j.verdicts)+len(j.cancels))
	for _, v := range j.verdicts {
		out = append(out, v.verdict)
	}
	return append(out, j.cancels...)
}
