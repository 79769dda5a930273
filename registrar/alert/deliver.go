package alert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

const (
	sendEvery   = 2 * time.Second
	sendTimeout = 15 * time.Second // of one attempt, from the look-up to the end of the answer
	sendLease   = time.Minute
	sendAtOnce  = 8               // to one target
	writeWithin = 5 * time.Second // of an outcome, also at the end of the process

	firstRetry = 5 * time.Second
	lastRetry  = time.Hour
	retryFor   = 24 * time.Hour // from the first attempt, and from each time by hand

	maxAnswer = 4 << 10 // bytes of an answer that are read, so that the connection can serve again
	maxError  = 300
)

// sendOn sends what is due until ctx ends, and then waits for what is under way.
func (w *Watch) sendOn(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	lanes := w.lanes()
	ticker := time.NewTicker(sendEvery)
	defer ticker.Stop()
	for {
		for i := range lanes {
			w.sendDue(ctx, &lanes[i], &sending)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-ticker.C:
		}
	}
}

// lane is the way to one target: one that hangs fills its own and no other's.
type lane struct {
	claim schedule.DeliveryClaim
	free  chan struct{} // filled by those that send
}

// lanes are one for each target, and one for the messages to those that the
// configuration has no more.
func (w *Watch) lanes() []lane {
	lanes := make([]lane, 0, len(w.targets)+1)
	var known []string
	for i := range w.targets {
		id := w.targets[i].ID
		known = append(known, id)
		lanes = append(lanes, lane{claim: schedule.DeliveryClaim{Lease: sendLease, Target: id}, free: make(chan struct{}, sendAtOnce)})
	}
	return append(lanes, lane{claim: schedule.DeliveryClaim{Lease: sendLease, Except: known}, free: make(chan struct{}, sendAtOnce)})
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
			w.log.WarnContext(ctx, "outbox not read", "err", err)
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

// deliver makes one attempt and writes what became of it.
func (w *Watch) deliver(ctx context.Context, d *schedule.AlertDelivery) {
	a := w.attempt(ctx, d)
	now := w.now()
	s := schedule.DeliverySettlement{DeliveryID: d.DeliveryID, Attempts: d.Attempts, Round: d.Round, Status: int32(a.status), Error: a.problem, Now: now}
	outcome := outcomeDelivered
	switch next := now.Add(a.wait(d.Attempts)); {
	case a.problem == "":
		s.State, s.Arrived = schedule.DeliveryDelivered, true
	case a.gone:
		s.State, s.Gone, outcome = schedule.DeliveryDead, a.status == http.StatusGone, outcomeGone
	case next.Sub(d.RoundAt) > retryFor:
		s.State, outcome = schedule.DeliveryDead, outcomeDead
	default:
		s.State, s.NextAt, outcome = schedule.DeliveryPending, next, outcomeRetry
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
	moved, err := w.outbox.SettleDelivery(ctx, s)
	log := w.log.With("delivery_id", d.DeliveryID, "alert_id", d.AlertID, "type", d.Type, "host", d.Host, "attempt", d.Attempts, "status", a.status)
	switch {
	case err != nil:
		log.WarnContext(ctx, "delivery not recorded: it is sent again", "outcome", outcome, "err", err)
		return
	case !moved: // the lease ran out, and another has sent it meanwhile
		return
	case outcome == outcomeDelivered:
		log.InfoContext(ctx, "alert delivered")
	case outcome == outcomeRetry:
		log.WarnContext(ctx, "alert not delivered", "outcome", outcome, "problem", a.problem, "next_at", s.NextAt)
	default:
		log.WarnContext(ctx, "alert given up", "outcome", outcome, "problem", a.problem)
	}
	w.metrics.deliveries.WithLabelValues(outcome).Inc()
}

// attempted is what came of one attempt.
type attempted struct {
	status  int
	problem string // empty: the target has it
	gone    bool   // it wants no more
	after   time.Duration
}

func (w *Watch) attempt(ctx context.Context, d *schedule.AlertDelivery) attempted {
	target := w.target(d.Target)
	byHand := d.Round > 1 || d.AlertID == ""
	switch {
	case target == nil:
		return attempted{problem: "ALERT_WEBHOOK_URL of the registrar that looked has this target no more"}
	case d.Disabled && !byHand:
		return attempted{gone: true, problem: "the target has said that it is gone (410); send a message by hand once it is back"}
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.url, strings.NewReader(d.Payload))
	if err != nil {
		return attempted{problem: "the URL cannot be called"}
	}
	unix := w.now().Unix()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Carillon")
	req.Header.Set("webhook-id", d.DeliveryID)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(unix, 10))
	req.Header.Set("webhook-signature", target.sign(d.DeliveryID, unix, d.Payload))
	resp, err := w.client.Do(req)
	if err != nil {
		return attempted{problem: problemOf(err)}
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // what it says besides is nobody's
	return judgeAnswer(resp)
}

func judgeAnswer(resp *http.Response) attempted {
	a := attempted{status: resp.StatusCode}
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
	case code == http.StatusGone:
		a.gone, a.problem = true, "the target answered 410: it is gone"
	case code >= 300 && code < 400:
		a.problem = fmt.Sprintf("the target answered %d, and redirects are not followed: set its last address", code)
	default:
		a.problem = fmt.Sprintf("the target answered %d", code)
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
			a.after = min(time.Duration(seconds)*time.Second, lastRetry)
		}
	}
	return a
}

// wait is how long to wait behind the n-th attempt: from firstRetry, twice as
// long each time up to lastRetry, a fifth more or less, so that what failed
// together does not come back together.
func (a *attempted) wait(n int32) time.Duration {
	d := min(firstRetry<<min(max(n-1, 0), 20), lastRetry)
	d = time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
	return max(d, a.after)
}

// problemOf says what went wrong without the URL, which may hold a secret.
func problemOf(err error) string {
	var called *url.Error
	if errors.As(err, &called) {
		err = called.Err
	}
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("no answer within %s", sendTimeout)
	}
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return text
}

func (w *Watch) target(id string) *Target {
	for i := range w.targets {
		if w.targets[i].ID == id {
			return &w.targets[i]
		}
	}
	return nil
}
