package registrar

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// OutboxStore stores the messages about the ends of runs.
type OutboxStore interface {
	// WebhookMessages returns messages by the keys of their runs.
	WebhookMessages(ctx context.Context, keys []schedule.Key) (map[schedule.Key]schedule.AlertDelivery, error)
	// Redeliver sends an ended or waiting message again and returns it; one in progress stays
	// unchanged. schedule.ErrNotFound.
	Redeliver(ctx context.Context, again schedule.Redelivery) (*schedule.AlertDelivery, error)
	// RedeliverDead sends messages about runs again that were given up, and counts them.
	RedeliverDead(ctx context.Context, again schedule.DeadRedelivery) (n int, err error)
}

// checkWebhook adds what is wrong with a webhook that a queue or a run of an owner names. Runs of
// every owner enter a shared queue, so that its target must be for all of them.
func (r *Registrar) checkWebhook(c *schedule.Collect, name, owner string, shared bool) {
	if r.webhook == nil {
		c.Add("webhook", name, "is refused: the registrars have no webhook targets", "the operator sets WEBHOOK_TARGETS_FILE")
		return
	}
	owners, ok := r.webhook(name)
	switch {
	case !ok:
		c.Add("webhook", name, "is not a target in WEBHOOK_TARGETS_FILE of the registrars", "the operator adds targets to that file")
	case len(owners) == 0:
	case shared:
		c.Add("webhook", name, "is a target for some owners only, and runs of every owner enter a shared queue", "name a target without owners, or set shared to false")
	case !slices.Contains(owners, owner):
		c.Add("webhook", name, "is a target that the owner "+schedule.Quote(owner)+" may not use", "the operator lists owners in WEBHOOK_TARGETS_FILE")
	}
}

// checkRunWebhook refuses a run with a webhook of its own that its owner may not use.
func (r *Registrar) checkRunWebhook(in *QueuedInput, owner string) error {
	if in.Webhook == "" {
		return nil
	}
	var c schedule.Collect
	r.checkWebhook(&c, in.Webhook, owner, false)
	return c.Err()
}

// WebhookMessages returns the messages about the ends of runs, by the keys of the runs. Only runs
// that are over have one, and of those outside queues only the ones that name a target.
func (r *Registrar) WebhookMessages(ctx context.Context, runs []schedule.Run) (map[schedule.Key]schedule.AlertDelivery, error) {
	var keys []schedule.Key
	for i := range runs {
		if MayBeTold(&runs[i]) {
			keys = append(keys, runs[i].Key)
		}
	}
	if len(keys) == 0 || r.outbox == nil {
		return nil, nil
	}
	return r.outbox.WebhookMessages(ctx, keys)
}

// MayBeTold reports whether there may be a message about a run.
func MayBeTold(r *schedule.Run) bool { return (r.Queue.In() || r.Webhook != "") && r.Status.Terminal() }

// MaxRedelivered bounds the messages that one request sends again.
const MaxRedelivered = 1000

// RedeliverInput asks to send messages about runs again: that of one run, or those that were
// given up.
type RedeliverInput struct {
	Key    schedule.Key // zero: Dead
	Dead   bool
	Target string // of Dead: a name in WEBHOOK_TARGETS_FILE; "": all
	Limit  int    // of Dead; 0: MaxRedelivered
}

// Redelivered says how many messages are sent again.
type Redelivered struct {
	Count int
	More  bool // there may be more dead ones
}

// RedeliverWebhooks sends messages about the ends of runs again, each under its own id and with
// all its attempts. A caller with an owner reaches those of its own runs.
func (r *Registrar) RedeliverWebhooks(ctx context.Context, in RedeliverInput) (out Redelivered, err error) {
	switch {
	case in.Key.IsZero() && !in.Dead:
		return out, schedule.Invalid("idempotency_key", "", "is required, or dead", "dead is for all messages that failed")
	case !in.Key.IsZero() && in.Dead:
		return out, schedule.Invalid("dead", true, "is set together with idempotency_key", "keep one")
	case !in.Dead && in.Target != "":
		return out, schedule.Invalid("webhook", in.Target, "is set without dead", "a run has one message")
	case in.Limit < 0 || in.Limit > MaxRedelivered:
		return out, schedule.Invalid("page_size", in.Limit, "is not within 1 to 1000", "repeat the call")
	}
	if r.outbox == nil {
		return out, schedule.ErrUnsupported
	}
	if in.Dead {
		again := schedule.DeadRedelivery{UserID: auth.FromContext(ctx).Owner, Limit: in.Limit, Now: r.now()}
		if again.Limit == 0 {
			again.Limit = MaxRedelivered
		}
		if in.Target != "" {
			again.Target = schedule.WebhookTarget(in.Target)
		}
		out.Count, err = r.outbox.RedeliverDead(ctx, again)
		out.More = out.Count == again.Limit
	} else if err = r.redeliverOne(ctx, in.Key); err == nil {
		out.Count = 1
	}
	if out.Count > 0 {
		r.wakeOutbox()
	}
	return out, err
}

// sendLease is that of package alert: a message whose next attempt is nearer may be in progress.
const sendLease = time.Minute

func (r *Registrar) redeliverOne(ctx context.Context, key schedule.Key) error {
	run, err := r.runs.GetRun(ctx, key) // of the caller
	if err != nil {
		return err
	}
	if !run.Status.Terminal() {
		return schedule.Explain(schedule.ErrPrecondition, "cannot redeliver: the run has not ended")
	}
	before, err := r.outbox.WebhookMessages(ctx, []schedule.Key{key})
	if err != nil {
		return err
	}
	none := schedule.Explain(schedule.ErrNotFound, "there is no message about run %s: neither it nor its queue has a webhook for this end", key)
	m, ok := before[key]
	if !ok {
		return none
	}
	after, err := r.outbox.Redeliver(ctx, schedule.Redelivery{DeliveryID: m.DeliveryID, Now: r.now(), Lease: sendLease})
	switch {
	case errors.Is(err, schedule.ErrNotFound):
		return none
	case err == nil && after.Round == m.Round:
		return schedule.Explain(schedule.ErrPrecondition, "cannot redeliver: the message is being sent, or is sent within a minute")
	}
	return err
}
