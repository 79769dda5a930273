package sim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// The checker's own rules of retries: nothing here may use package ledger, or the methods
// of a policy.

// handRetry is the request of a user to run an ended run again.
type handRetry struct {
	of    schedule.Key
	renew bool
}

// retryByHand asks for another attempt of an ended run, with or without a new budget.
func (w *world) retryByHand(id string, d dice) {
	of, ok := w.watch.someEnded(id, d.of(1))
	if !ok {
		return
	}
	ask := handRetry{of, d.of(2).perMille(500)}
	in := registrar.RetryInput{Key: of, RequestID: fmt.Sprintf("r%x", uint64(d)), Renew: ask.renew, OverlapPolicy: pick(d.of(3), "", "", schedule.OverlapAllow, schedule.OverlapQueue)}
	w.watch.handRetry(successorKey(of, in.RequestID), ask)
	err := w.insist(func(ctx context.Context) error {
		_, err := w.registrar.RetryRun(ctx, in)
		return err
	})
	w.log.say(w.elapsed(), "user: retry %06x, renew %t: %v", idOf(of)&0xffffff, ask.renew, err)
	if err == nil {
		w.coverage.situations[retriedByHand].Add(1)
	}
}

func (l *ledgerWatch) handRetry(key schedule.Key, ask handRetry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hands[key], l.touched[ask.of] = ask, true
}

// someEnded is a run that a user might want to run again.
func (l *ledgerWatch) someEnded(scheduleID string, d dice) (schedule.Key, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []schedule.Key
	for _, h := range l.order {
		if h.row.ScheduleID == scheduleID && !h.gone && ended(h.row.Status) && h.row.Status != schedule.StatusSuccess {
			keys = append(keys, h.row.Key)
		}
	}
	if len(keys) == 0 {
		return schedule.Key{}, false
	}
	return keys[d.below(len(keys))], true
}

// successorKey is the key of a retry; that of an automatic one has the name /auto.
func successorKey(of schedule.Key, name string) schedule.Key {
	return sha256.Sum256(fmt.Appendf(nil, "%x/r/%s", of[:], name))
}

// automatic reports whether nobody asked for a retry.
func (l *ledgerWatch) automatic(r *schedule.Run) bool {
	_, asked := l.hands[r.Key]
	return r.Trigger == schedule.TriggerRetry && !asked
}

// snooze reports whether a run follows a snoozed one, of the same attempt.
func (l *ledgerWatch) snooze(r *schedule.Run) bool {
	return r.Key == successorKey(r.RetryOf, "/snooze")
}

// again reports whether a run follows an interrupted one, of the same attempt.
func (l *ledgerWatch) again(r *schedule.Run) bool { return r.Key == successorKey(r.RetryOf, "/again") }

// chain is the number of the attempt of a run, and how often that was snoozed.
func (l *ledgerWatch) chain(h *history) (attempt, snoozes int32) {
	for attempt = 1; l.rows[h.row.RetryOf] != nil; h = l.rows[h.row.RetryOf] {
		switch {
		case l.again(&h.row):
		case !l.snooze(&h.row):
			attempt++
		case attempt == 1:
			snoozes++
		}
	}
	return attempt, snoozes
}

// interruptions is how often in a row a run was interrupted before.
func (l *ledgerWatch) interruptions(h *history) (n int32) {
	for ; h != nil && l.again(&h.row); h = l.rows[h.row.RetryOf] {
		n++
	}
	return n
}

// interrupted is interruptions of the run with a key.
func (l *ledgerWatch) interrupted(key schedule.Key) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.interruptions(l.rows[key])
}

// attempted: a new row has the number of its attempt and the last one that is planned
// without a request.
func (l *ledgerWatch) attempted(h *history) {
	r, of := &h.row, l.rows[h.row.RetryOf]
	length, snoozes := l.chain(h)
	most := max(int32(l.rules[revisionID{r.ScheduleID, r.Revision}].retry.MaxAttempts), 1)
	if most == 1 && (r.Trigger == schedule.TriggerJob || l.jobs[r.RetryOf] != nil) && l.rules[revisionID{r.ScheduleID, r.Revision}].retry.MaxAttempts == 0 {
		most = l.attemptsIn(cmp.Or(r.Queue.No, l.queueNoOf(r.RetryOf)))
	}
	ask, byHand := l.hands[r.Key]
	if budget := l.budgets[r.Key]; budget != nil {
		most = int32(*budget)
	}
	switch {
	case r.Trigger == schedule.TriggerRetry && (of == nil || !ended(of.row.Status)):
		l.violation("%s run_at %s retries a run that has not ended", r.ScheduleID, l.at(r.RunAt))
		return
	case byHand && !ask.renew:
		most = length
	case byHand || r.Trigger == schedule.TriggerBackfill:
		most += length - 1
	case r.Trigger == schedule.TriggerRetry:
		most = of.row.MaxAttempts
	}
	if r.Attempt != length || r.MaxAttempts != most || r.Snoozes != snoozes || r.Interruptions != l.interruptions(h) {
		l.violation("%s run_at %s is attempt %d of %d after %d snoozes, and by its chain %d of %d after %d", r.ScheduleID, l.at(r.RunAt), r.Attempt, r.MaxAttempts, r.Snoozes, length, most, snoozes)
	}
	if snoozes > 1 {
		l.coverage.situations[snoozedAgain].Add(1)
	}
	if !l.automatic(r) {
		return
	}
	if of.next++; of.next > 1 || r.Key != successorKey(of.row.Key, l.automaticName(of)) {
		l.violation("%s run_at %s has %d automatic retries, the last one with key %s", r.ScheduleID, l.at(r.RunAt), of.next, r.Key)
	}
	if l.ofSlot(h) && r.Queue.No == 0 {
		h.startBy = r.RunAt.Add(ruleOf(&l.lives[r.ScheduleID].row).window)
	}
	was := &of.row
	if r.Revision != was.Revision || !r.RunAt.Equal(was.RunAt) || r.OverlapKey != was.OverlapKey || r.OverlapPolicy != was.OverlapPolicy ||
		r.Priority != was.Priority || string(r.Input) != string(was.Input) || r.MaxQueued != was.MaxQueued {
		l.violation("the retry of %s run_at %s is another run: %+v, and was %+v", r.ScheduleID, l.at(r.RunAt), r, was)
	}
}

// automaticName is the name in the key of the run that Carillon plans after one that has ended.
func (l *ledgerWatch) automaticName(h *history) string {
	switch {
	case h.row.Reason == schedule.ReasonSnoozed:
		return "/snooze"
	case h.row.Reason == schedule.ReasonInterrupted && h.row.MaxAttempts > 1 && l.interruptions(h) < 3:
		return "/again"
	}
	return "/auto"
}

// ofSlot reports whether a run is a slot, or an automatic retry of one: it has a catch-up
// window. A snooze ends that.
func (l *ledgerWatch) ofSlot(h *history) bool {
	for h.row.Trigger == schedule.TriggerRetry && l.automatic(&h.row) && l.rows[h.row.RetryOf] != nil {
		if l.snooze(&h.row) {
			return false
		}
		h = l.rows[h.row.RetryOf]
	}
	return h.row.Trigger.FromSpec()
}

// retriesBefore counts the automatic retries of the budget that a run is in.
func (l *ledgerWatch) retriesBefore(h *history) (n int) {
	for ; h != nil && l.automatic(&h.row); h = l.rows[h.row.RetryOf] {
		if !l.snooze(&h.row) && !l.again(&h.row) {
			n++
		}
	}
	return n
}

// followed: what follows the end of a run is what its schedule's policy says at that
// moment, and the run is dead if nothing follows.
func (l *ledgerWatch) followed(at time.Duration, r *schedule.Run) {
	if r.Reason == schedule.ReasonSnoozed {
		l.snoozed(at, r)
		return
	}
	h := l.rows[r.Key]
	next := l.rows[successorKey(r.Key, l.automaticName(h))]
	has := next != nil && next.planned == at
	dead := r.Status == schedule.StatusFailed && !has || r.Reason == schedule.ReasonMissed && l.automatic(r)
	if dead != (r.Dead != nil && *r.Dead) || !dead && r.Dead != nil {
		l.violation("%s run_at %s ended %s(%s), its retry: %t, and dead is %v", r.ScheduleID, l.at(r.RunAt), r.Status, r.Reason, has, r.Dead)
	}
	if r.Status != schedule.StatusFailed {
		if has || r.FailureClass != "" {
			l.violation("%s run_at %s ended %s(%s) with class %q, and is retried: %t", r.ScheduleID, l.at(r.RunAt), r.Status, r.Reason, r.FailureClass, has)
		}
		return
	}
	class := l.classOf(r)
	if r.FailureClass != class {
		l.violation("%s run_at %s failed with class %q, recorded is %q", r.ScheduleID, l.at(r.RunAt), class, r.FailureClass)
	}
	f, inQueue := l.lives[r.ScheduleID], l.jobs[r.Key] != nil
	policy, window := l.policyOf(r, f, inQueue), ruleOf(&f.row).window
	again := l.automaticName(h) == "/again"
	counted := r.Attempt < r.MaxAttempts && slices.Contains(strings.Split(string(policy.On), ","), string(class))
	permitted := (again || counted) && r.CancelRequestedAt.IsZero() && (f.row.Alive() || inQueue)
	least, most := backoff(policy, l.retriesBefore(h)+1)
	if again {
		least, most = 0, 0
	} else if r.Reason == schedule.ReasonInterrupted && r.MaxAttempts > 1 {
		l.coverage.situations[interruptedTooOften].Add(1)
	}
	required := permitted
	if l.ofSlot(h) && !inQueue {
		limit := r.RunAt.Add(window)
		permitted = permitted && !r.CompletedAt.Add(least).After(limit)
		required = permitted && !r.CompletedAt.Add(most).After(limit)
	}
	switch {
	case has && !permitted:
		l.violation("%s run_at %s failed (%s) on attempt %d of %d, and must not be retried under %+v", r.ScheduleID, l.at(r.RunAt), class, r.Attempt, r.MaxAttempts, policy)
	case !has && required:
		l.violation("%s run_at %s failed (%s) on attempt %d of %d, and is not retried under %+v", r.ScheduleID, l.at(r.RunAt), class, r.Attempt, r.MaxAttempts, policy)
	case has:
		if again {
			l.coverage.situations[interruptedAgain].Add(1)
		}
		if wait := next.row.FireAt.Sub(r.CompletedAt); wait < least || wait > most {
			l.violation("%s run_at %s is retried after %s, and not within %s to %s", r.ScheduleID, l.at(r.RunAt), wait, least, most)
		}
	case r.MaxAttempts > 1 && r.Attempt == r.MaxAttempts:
		l.coverage.situations[retriedInVain].Add(1)
	}
}

// policyOf is the retry policy for a failed run.
func (l *ledgerWatch) policyOf(r *schedule.Run, f *life, inQueue bool) schedule.RetryPolicy {
	policy := f.row.Retry
	if policy.MaxAttempts == 0 || inQueue && !f.row.Alive() {
		policy = l.rules[revisionID{r.ScheduleID, r.Revision}].retry
	}
	if q := l.queues[l.queueNoOf(r.Key)]; policy.MaxAttempts == 0 && q != nil {
		policy = q.row.Retry
	}
	if policy.MaxAttempts == 0 && inQueue { // only its request names attempts
		policy = schedule.RetryPolicy{BackoffMS: backoffOfJobs, FactorPercent: 200, MaxBackoffMS: maxBackoffOfJobs, On: "transient,timeout,lost,deadline"}
	}
	return policy
}

// snoozed: the same attempt follows a snoozed run, after the delay that the executor has named.
// If its schedule is deleted, nothing follows, and it is dead.
func (l *ledgerWatch) snoozed(at time.Duration, r *schedule.Run) {
	next := l.rows[successorKey(r.Key, "/snooze")]
	has, inQueue := next != nil && next.planned == at, l.jobs[r.Key] != nil
	l.executor.mu.Lock()
	delay := l.executor.works[r.Key].outcome.SnoozeFor
	l.executor.mu.Unlock()
	dead := r.Dead != nil && *r.Dead
	switch {
	case has == dead, has != (inQueue || l.lives[r.ScheduleID].row.Alive()), r.FailureClass != "", !r.CancelRequestedAt.IsZero():
		l.violation("%s run_at %s was snoozed, a run follows: %t, and it is dead: %t, of class %q", r.ScheduleID, l.at(r.RunAt), has, dead, r.FailureClass)
	case has && !next.row.FireAt.Equal(r.CompletedAt.Add(delay)):
		l.violation("%s run_at %s was snoozed for %s at %s, and follows at %s", r.ScheduleID, l.at(r.RunAt), delay, l.at(r.CompletedAt), l.at(next.row.FireAt))
	}
}

// backoff bounds how long the nth retry of a budget waits.
func backoff(p schedule.RetryPolicy, n int) (least, most time.Duration) {
	ms := float64(p.BackoffMS)
	for range n - 1 {
		ms = ms * float64(p.FactorPercent) / 100
	}
	wait := min(ms, float64(p.MaxBackoffMS)) * float64(time.Millisecond)
	return time.Duration(0.9*wait) - time.Microsecond, time.Duration(1.1*wait) + time.Microsecond
}

// classOf is the class of a failure: what the executor said of it, or else its reason.
func (l *ledgerWatch) classOf(r *schedule.Run) schedule.FailureClass {
	switch r.Reason {
	case schedule.ReasonTimeout:
		return schedule.ClassTimeout
	case schedule.ReasonDeadline:
		return schedule.ClassDeadline
	case schedule.ReasonLost, schedule.ReasonInterrupted:
		return schedule.ClassLost
	case schedule.ReasonLaunchRefused, schedule.ReasonWorkflowNotFound, schedule.ReasonKeyConflict:
		return schedule.ClassLogic
	case schedule.ReasonWorkflowFailed:
		l.executor.mu.Lock()
		defer l.executor.mu.Unlock()
		if wk := l.executor.works[r.Key]; wk != nil && !wk.refused && !wk.cancel && wk.outcome.FailureClass != "" {
			return wk.outcome.FailureClass
		}
	}
	return schedule.ClassTransient
}

// revived: an ended row changes only if it was dead and its user has asked for a retry.
func (l *ledgerWatch) revived(before, after *schedule.Run) bool {
	was := *after
	was.Dead, was.UpdatedAt = before.Dead, before.UpdatedAt
	dead := before.Dead != nil && *before.Dead && after.Dead != nil && !*after.Dead
	return dead && l.touched[after.Key] && fmt.Sprintf("%+v", was) == fmt.Sprintf("%+v", *before)
}

// held: an automatic retry, or a run with events, waits for the end of a pause that has none.
func (l *ledgerWatch) held(h *history, now time.Time) bool {
	f := l.lives[h.row.ScheduleID]
	over := !h.startBy.IsZero() && now.After(h.startBy)
	waits := l.automatic(&h.row) || h.row.Trigger == schedule.TriggerEvent
	return waits && h.row.Status == schedule.StatusPlanned && f.row.Alive() && f.row.Pause.Paused && f.row.Pause.Until.IsZero() && !over
}

// waitsFor: a run is not over: it is due, or Carillon has planned it to try again.
func (l *ledgerWatch) waitsFor(h *history, now time.Time) bool {
	switch {
	case h.gone || ended(h.row.Status):
		return false
	case h.row.Status != schedule.StatusPlanned:
		return true
	}
	return !l.held(h, now) && (l.automatic(&h.row) || !h.row.FireAt.After(now))
}

// heldUp: a backfill waits for a retry of a slot of its range, or of its overlap key, that waits
// for the end of a pause.
func (l *ledgerWatch) heldUp(f *backfillLife, now time.Time) bool {
	return slices.ContainsFunc(l.order, func(h *history) bool {
		inRange := h.row.ScheduleID == f.row.ScheduleID && !h.row.RunAt.Before(f.row.From) && h.row.RunAt.Before(f.row.To)
		return (inRange || h.row.OverlapKey == f.row.OverlapKey) && !h.gone && (l.held(h, now) || l.keptByQueue(h))
	})
}

// cancelled: after the answer to the cancel of a failed run, its retry is over.
func (l *ledgerWatch) cancelled(key schedule.Key, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.rows[key]
	next := l.rows[successorKey(key, l.automaticName(h))]
	if err != nil || !ended(h.row.Status) || h.row.Status == schedule.StatusCancelled {
		return
	}
	if next == nil || next.row.Status != schedule.StatusCancelled {
		l.violation("the cancel of %s run_at %s, which is %s, was answered, and its retry is %+v", h.row.ScheduleID, l.at(h.row.RunAt), h.row.Status, next)
		return
	}
	l.coverage.situations[retryCancelled].Add(1)
}

// pausedRetries notes that a pause has found automatic retries, or events.
func (l *ledgerWatch) pausedRetries(s *schedule.Schedule) {
	if s.Pause.Paused && l.pendingOf(s.ScheduleID) > 0 {
		l.coverage.situations[consumerPaused].Add(1)
	}
	for _, h := range l.order {
		if s.Pause.Paused && h.row.ScheduleID == s.ScheduleID && h.row.Status == schedule.StatusPlanned && l.automatic(&h.row) {
			l.coverage.situations[retryHeld].Add(1)
		}
	}
}

// revivedByHand: no run that its user has run again is dead.
func (w *world) revivedByHand() {
	for _, h := range w.watch.order {
		ask, byHand := w.watch.hands[h.row.Key]
		if of := w.watch.rows[ask.of]; byHand && of != nil && of.row.Dead != nil && *of.row.Dead {
			w.violation("%s run_at %s was retried by hand, and is dead", of.row.ScheduleID, w.at(of.row.RunAt))
		}
	}
}

// startedInTime: an automatic retry of a slot is not called for the first time after its
// catch-up window, and none during a pause.
func (l *ledgerWatch) startedInTime(now time.Time, run *schedule.Run) {
	h := l.rows[run.Key]
	if h == nil || !l.automatic(run) {
		return
	}
	l.coverage.situations[retriedItself].Add(1)
	if late := now.Sub(h.startBy); !h.startBy.IsZero() && run.Deliveries <= 1 && late > time.Second+5*time.Millisecond+l.profile.maxSkew {
		l.violation("the retry of %s run_at %s was called %s after its catch-up window", run.ScheduleID, l.at(run.RunAt), late)
	}
}
