package alert

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/notify"
)

const (
	sendEvery   = 2 * time.Second
	sendLease   = time.Minute     // more than the longest attempt, an e-mail's
	sendAtOnce  = 8               // to one target
	writeWithin = 5 * time.Second // of an outcome, also at the end of the process

	firstRetry = 5 * time.Second
	lastRetry  = time.Hour
	retryFor   = 24 * time.Hour // from the first attempt, and from each manual redelivery
)

// sendOn sends due messages until ctx ends, and then waits for those in progress.
func (w *Watch) sendOn(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	lanes := make(lanes)
	ticker := time.NewTicker(sendEvery)
	defer ticker.Stop()
	for {
		for _, l := range lanes.of(w.targets()) {
			w.sendDue(ctx, l, &sending)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-ticker.C:
		}
	}
}

// targets are the ids of all targets that there are.
func (w *Watch) targets() (ids []string) {
	for _, t := range w.routes().Targets() {
		ids = append(ids, t.ID)
	}
	hooks := w.runHooks().All()
	w.metrics.knows(hooks)
	for i := range hooks {
		ids = append(ids, hooks[i].ID)
	}
	return ids
}

// lane limits the concurrent messages to one target, so that a hanging target does not delay
// others.
type lane struct {
	claim  schedule.DeliveryClaim
	free   chan struct{} // filled by those that send
	failed atomic.Int64  // attempts in a row
}

// failedOften is how many attempts in a row have failed at a target that gets one message at a
// time until it takes one.
const failedOften = 20

// room is how many more messages may be sent at the same time.
func (l *lane) room() int {
	most := cap(l.free)
	if l.failed.Load() >= failedOften && l.claim.Target != "" {
		most = 1
	}
	return max(most-len(l.free), 0)
}

// note counts the result of an attempt.
func (l *lane) note(r *notify.Result) {
	if r.Problem == "" {
		l.failed.Store(0)
	} else {
		l.failed.Add(1)
	}
}

// lanes are kept by target across configuration changes, because messages in progress still count.
type lanes map[string]*lane

// of are the lanes of the targets that there are, and one for the messages to
// targets that the configuration no longer has.
func (all lanes) of(targets []string) []*lane {
	found := make([]*lane, 0, len(targets)+1)
	for _, id := range targets {
		found = append(found, all.lane(id))
	}
	others := all.lane("")
	others.claim.Except = targets
	return append(found, others)
}

func (all lanes) lane(target string) *lane {
	if all[target] == nil {
		all[target] = &lane{claim: schedule.DeliveryClaim{Lease: sendLease, Target: target}, free: make(chan struct{}, sendAtOnce)}
	}
	return all[target]
}

// sendDue begins as many sends as a lane has room for.
func (w *Watch) sendDue(ctx context.Context, l *lane, sending *sync.WaitGroup) {
	for ctx.Err() == nil {
		claim := l.claim
		if claim.Limit = l.room(); claim.Limit == 0 {
			return
		}
		claim.Now = w.now()
		claimed, err := w.outbox.ClaimDeliveries(ctx, claim)
		if err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "cannot read notifications", "err", err)
		}
		if err != nil || len(claimed) == 0 {
			return
		}
		more := len(claimed) == claim.Limit
		for i := range claimed {
			l.free <- struct{}{}
			sending.Go(func() {
				w.deliver(ctx, l, &claimed[i])
				<-l.free
				if more {
					w.Wake()
				}
			})
		}
	}
}

// deliver makes one attempt and records the result.
func (w *Watch) deliver(ctx context.Context, l *lane, d *schedule.AlertDelivery) {
	r := w.attempt(ctx, d)
	l.note(&r)
	now := w.now()
	s := schedule.DeliverySettlement{DeliveryID: d.DeliveryID, Attempts: d.Attempts, Round: d.Round, Status: int32(r.Status), Error: r.Problem, Now: now}
	outcome := outcomeDelivered
	switch next := now.Add(wait(d.Attempts, r.After)); {
	case r.Problem == "":
		s.State, s.Arrived, s.Error = schedule.DeliveryDelivered, true, r.Note
	case r.Gone:
		s.State, s.Gone, outcome = schedule.DeliveryDead, r.Status == http.StatusGone, outcomeGone
	case r.Final, w.gaveUp(d, next):
		s.State, outcome = schedule.DeliveryDead, outcomeDead
	default:
		s.State, s.NextAt, outcome = schedule.DeliveryPending, next, outcomeRetry
	}
	w.settle(ctx, d, &r, s, outcome)
}

// gaveUp reports whether an attempt that failed was the last one.
func (w *Watch) gaveUp(d *schedule.AlertDelivery, next time.Time) bool {
	if d.RunKey.IsZero() {
		return next.Sub(d.RoundAt) > retryFor
	}
	return int(d.Attempts) > w.retriesOf(d)
}

// settle writes the result of an attempt, and logs and counts it.
func (w *Watch) settle(ctx context.Context, d *schedule.AlertDelivery, r *notify.Result, s schedule.DeliverySettlement, outcome string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
	moved, err := w.outbox.SettleDelivery(ctx, s)
	log := w.log.With("delivery_id", d.DeliveryID, "alert_id", d.AlertID, "type", d.Type, "target", d.Target, "target_kind", d.TargetKind,
		"host", d.Host, "attempt", d.Attempts, "status", r.Status)
	if !d.RunKey.IsZero() {
		log = log.With("key", d.RunKey.String())
	}
	switch {
	case err != nil:
		log.WarnContext(ctx, "cannot record the result of a notification; it is sent again", "outcome", outcome, "err", err)
		return
	case !moved: // the lease ran out, and another process has sent it
		return
	case outcome == outcomeDelivered && r.Note != "":
		log.WarnContext(ctx, "alert delivered, but not to every recipient", "problem", r.Note)
	case outcome == outcomeDelivered:
		log.InfoContext(ctx, "notification delivered")
	case outcome == outcomeRetry:
		log.WarnContext(ctx, "notification failed, will retry", "outcome", outcome, "problem", r.Problem, "next_at", s.NextAt)
	default:
		log.WarnContext(ctx, "notification failed permanently", "outcome", outcome, "problem", r.Problem)
	}
	w.metrics.attempted(d, w.hookOf(d), outcome)
}

func (w *Watch) attempt(ctx context.Context, d *schedule.AlertDelivery) notify.Result {
	if !d.RunKey.IsZero() {
		return w.attemptRun(ctx, d)
	}
	target := w.routes().Target(d.Target)
	byHand := d.Round > 1 || d.AlertID == ""
	switch {
	case target == nil:
		return notify.Result{Problem: "neither NOTIFY_FILE nor ALERT_WEBHOOK_URL of the registrar that tried has this target"}
	case d.Disabled && !byHand:
		return notify.Result{Gone: true, Problem: "the target answered 410 before: it is gone; send a message by hand once it is back"}
	}
	return target.Send(ctx, notify.Outgoing{ID: d.DeliveryID, Payload: d.Payload, Now: w.now(), Client: w.client})
}

// wait is the pause after the n-th attempt: from firstRetry, doubling up to lastRetry, with 20%
// random jitter so that messages that failed together are not retried together. The receiver may
// request more.
func wait(n int32, asked time.Duration) time.Duration {
	d := min(firstRetry<<min(max(n-1, 0), 20), lastRetry)
	d = time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
	return max(d, min(asked, lastRetry))
}
