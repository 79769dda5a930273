package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// incidents make the executor unreachable, broken or hung for a while, for every
// key. It then recovers by itself.
func (w *world) incidents() {
	for n := uint64(0); ; n++ {
		d := w.dice.of(forIncidents).of(n)
		time.Sleep(d.of(1).span(300*time.Millisecond, 4*time.Second))
		left := w.profile.faulty - w.elapsed() - time.Millisecond
		if left <= 0 {
			return
		}
		what := pick(d.of(2), strikeExecutorDown, strikeExecutorBroken, strikeExecutorHung)
		w.coverage.strikes[what].Add(1)
		w.log.say(w.elapsed(), "incident: %s", strikeNames[what])
		w.executor.incident.Store(int64(what))
		time.Sleep(min(left, d.of(3).span(200*time.Millisecond, 9*time.Second)))
		w.executor.incident.Store(0)
		w.log.say(w.elapsed(), "incident over: %s", strikeNames[what])
	}
}

var errBroken = errors.New("sim: the executor answers 500")

// unreachable is the error of a call before its request is written.
func (x *executor) unreachable() error {
	if strike(x.incident.Load()) == strikeExecutorDown {
		return fmt.Errorf("%w: connection refused", launcher.ErrNotSent)
	}
	return nil
}

// broken is the error of a call that has reached the executor; nil: it works. When a
// term ends, all its calls end at one instant: each then waits for one of its own.
func (e executorClient) broken(ctx context.Context, key schedule.Key) error {
	switch strike(e.executor.incident.Load()) {
	case strikeExecutorBroken:
		return errBroken
	case strikeExecutorHung:
		<-ctx.Done()
		d := e.dice.of(forIncidents).of(idOf(key)).of(uint64(e.elapsed()))
		e.sleep(d, d.span(1, time.Millisecond))
		return ctx.Err()
	}
	return nil
}

// reach counts a call that has reached the executor, and holds first_sent_at to it:
// a first send is not later than any send, and does not change any more.
func (w *world) reach(call *launcher.Call) {
	first, err := w.ledger.FirstSent(context.Background(), call.Key)
	now, over := time.Now(), w.watch.countedRow(call.Key) != nil
	x := w.executor
	x.mu.Lock()
	defer x.mu.Unlock()
	known, again := x.firstSent[call.Key]
	if over { // a late call
		first = cmp.Or(known, now)
	}
	switch {
	case err != nil || first.IsZero():
		w.violation("%s run_at %s is sent and has no first_sent_at (%v)", call.ScheduleID, w.at(call.ScheduledFor), err)
	case first.After(now):
		w.violation("%s run_at %s is sent, and first_sent_at is %s later", call.ScheduleID, w.at(call.ScheduledFor), first.Sub(now))
	case again && !first.Equal(known):
		w.violation("%s run_at %s was first sent at %s, and now first_sent_at is %s", call.ScheduleID, w.at(call.ScheduledFor), w.at(known), w.at(first))
	}
	if !again {
		x.firstSent[call.Key] = first
	}
	x.reached[call.Key]++
}

// granted counts the calls that a launcher may make.
func (x *executor) granted(reqs []schedule.BeginRequest, results []schedule.BeginResult) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range results {
		if results[i].Permission == schedule.Granted || results[i].Permission == schedule.GrantedAgain {
			x.grants[reqs[i].Key]++
		}
	}
}

// delivered: deliveries are the calls that reached the executor. A process that dies
// between the record of a call and the call leaves one that may have been made, and
// so does a cancel that ends the run in between. So does a report, if the launcher
// recorded a call and asks by key first; one call of a key is open at a time.
func (w *world) delivered(h *history) {
	if h.row.Queue.Worker != "" {
		return // see checkPulled
	}
	r, reached := &h.row, w.executor.reached[h.row.Key]
	exact := w.profile.plain && r.CancelRequestedAt.IsZero()
	switch {
	case exact && int(r.Deliveries) > reached+min(1, w.executor.asked[r.Key]), w.profile.plain && int(r.Deliveries) < reached:
		w.violation("%s run_at %s is %s(%s) after %d deliveries, and %d calls reached the executor",
			r.ScheduleID, w.at(r.RunAt), r.Status, r.Reason, r.Deliveries, reached)
	case int(r.Deliveries) > w.executor.grants[r.Key]:
		w.violation("%s run_at %s has %d deliveries of %d calls that were allowed", r.ScheduleID, w.at(r.RunAt), r.Deliveries, w.executor.grants[r.Key])
	case r.Reason == schedule.ReasonLaunchUnavailable && reached > 0:
		w.violation("%s run_at %s is FAILED(launch_unavailable), and %d calls reached the executor", r.ScheduleID, w.at(r.RunAt), reached)
	case (r.Reason == schedule.ReasonLaunchUnavailable || r.Reason == schedule.ReasonLost) && r.ErrorCode == "":
		w.violation("%s run_at %s is FAILED(%s) without a code", r.ScheduleID, w.at(r.RunAt), r.Reason)
	}
	if j := w.watch.jobs[r.Key]; j != nil && j.counted {
		return // its row had first_sent_at
	}
	if first, err := w.ledger.FirstSent(context.Background(), r.Key); err != nil || reached > 0 && r.Deliveries > 1 && !first.Equal(w.executor.firstSent[r.Key]) {
		w.violation("%s run_at %s was first sent at %s, and at the end first_sent_at is %s (%v)",
			r.ScheduleID, w.at(r.RunAt), w.at(w.executor.firstSent[r.Key]), w.at(first), err)
	}
}

// handedOver counts the attempts to launch a run, with or without an answer.
func (x *executor) handedOver(key schedule.Key, at time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.attempts[key] == nil {
		x.attempts[key] = &attempts{first: at}
	}
	x.attempts[key].n++
	x.attempts[key].last = at
}

// attempts are those to launch one run.
type attempts struct {
	n           int
	first, last time.Duration
}

// patient: a run is not sent again at once, except by a new leader. Between two attempts
// lies a pause of a second; a success of another run can cut each short, and so can the
// end of its launch time, shortly before it and at it.
func (w *world) patient(h *history) {
	a := w.executor.attempts[h.row.Key]
	if a == nil {
		return
	}
	most := 3 + w.watch.takeovers + 2*int((a.last-a.first)/time.Second)
	if a.n > most {
		w.violation("%s run_at %s was sent %d times from +%s to +%s, at most %d are right", h.row.ScheduleID, w.at(h.row.RunAt), a.n, a.first, a.last, most)
	}
}

// inTime: a run that is not launched fails at the end of its launch time, not before and
// not much later.
func (w *world) inTime(h *history) {
	r := &h.row
	if r.Status != schedule.StatusFailed || h.claimed == 0 || r.Reason != schedule.ReasonLaunchUnavailable && r.Reason != schedule.ReasonLost {
		return
	}
	tried := cmp.Or(w.watch.rules[revisionID{r.ScheduleID, r.Revision}].launch, w.profile.retryFor)
	bound := max(r.ClaimedAt.Sub(w.began), r.FireAt.Sub(w.began)) + tried
	if h.completed < bound {
		w.violation("%s run_at %s is given up at +%s, %s before its time", r.ScheduleID, w.at(r.RunAt), h.completed, bound-h.completed)
	}
	latest := bound
	if !w.profile.plain { // nothing bounds how long the store or a leader is away, but their end
		latest = max(latest, w.profile.faulty+3*w.profile.ttl)
	}
	if late := h.completed - latest; late > w.profile.giveUp()+w.othersFirst(r.Key) {
		w.violation("%s run_at %s is given up at +%s, %s after its time", r.ScheduleID, w.at(r.RunAt), h.completed, late)
	}
}

// othersFirst bounds how long other runs can hold up the last call of a run: with as
// many failed launches as MAX_LAUNCHES allows, the next are made at the next tick.
func (w *world) othersFirst(key schedule.Key) time.Duration {
	others := 0
	for _, h := range w.watch.order {
		if h.row.Key != key && h.claimed != 0 && (h.row.Reason == schedule.ReasonLost || h.row.Reason == schedule.ReasonLaunchUnavailable) {
			others++
		}
	}
	return time.Duration(others/w.profile.maxLaunches) * time.Second
}

// giveUp bounds how long after its time a run fails: the last call of it ends, its
// claim runs out, and the next tick looks.
func (p *profile) giveUp() time.Duration {
	return p.callTimeout + p.lease + time.Second + p.maxSkew
}
