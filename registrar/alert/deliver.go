package alert

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
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
		for _, l := range lanes.of(w.routes().Targets()) {
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

// lane limits the concurrent messages to one target, so that a hanging target does not delay
// others.
type lane struct {
	claim schedule.DeliveryClaim
	free  chan struct{} // filled by those that send
}

// lanes are kept by target across configuration changes, because messages in progress still count.
type lanes map[string]*lane

// of are the lanes of the targets that there are, and one for the messages to
// targets that the configuration no longer has.
func (all lanes) of(targets []notify.Target) []*lane {
	known := make([]string, 0, len(targets))
	found := make([]*lane, 0, len(targets)+1)
	for i := range targets {
		known = append(known, targets[i].ID)
		found = append(found, all.lane(targets[i].ID))
	}
	others := all.lane("")
	others.claim.Except = known
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
		if claim.Limit = cap(l.free) - len(l.free); claim.Limit == 0 {
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
				w.deliver(ctx, &claimed[i])
				<-l.free
				if more {
					w.Wake()
				}
			})
		}
	}
}

// deliver makes one attempt and records the result.
func (w *Watch) deliver(ctx context.Context, d *schedule.AlertDelivery) {
	r := w.attempt(ctx, d)
	now := w.now()
	s := schedule.DeliverySettlement{DeliveryID: d.DeliveryID, Attempts: d.Attempts, Round: d.Round, Status: int32(r.Status), Error: r.Problem, Now: now}
	outcome := outcomeDelivered
	switch next := now.Add(wait(d.Attempts, r.After)); {
	case r.Problem == "":
		s.State, s.Arrived, s.Error = schedule.DeliveryDelivered, true, r.Note
	case r.Gone:
		s.State, s.Gone, outcome = schedule.DeliveryDead, r.Status == http.StatusGone, outcomeGone
	case r.Final, next.Sub(d.RoundAt) > retryFor:
		s.State, outcome = schedule.DeliveryDead, outcomeDead
	default:
		s.State, s.NextAt, outcome = schedule.DeliveryPending, next, outcomeRetry
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
	moved, err := w.outbox.SettleDelivery(ctx, s)
	log := w.log.With("delivery_id", d.DeliveryID, "alert_id", d.AlertID, "type", d.Type, "target", d.Target, "target_kind", d.TargetKind,
		"host", d.Host, "attempt", d.Attempts, "status", r.Status)
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
	w.metrics.deliveries.WithLabelValues(d.TargetKind, outcome).Inc()
}

func (w *Watch) attempt(ctx context.Context, d *schedule.AlertDelivery) notify.Result {
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
