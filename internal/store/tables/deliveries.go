package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func deliveryFields(d *schedule.AlertDelivery) []any {
	return []any{
		&d.DeliveryID, &d.AlertID, &d.ScheduleID, &d.UserID, &d.Type, &d.Target, &d.TargetKind, &d.Host, &d.Payload, &d.State, &d.Attempts,
		&d.Round, &d.RoundAt, &d.NextAt, &d.LastStatus, &d.LastError, &d.CreatedAt, &d.EndedAt, &d.RunKey, &d.Disabled, &d.GroupNo,
	}
}

// insertDelivery adds a message to the outbox, or to the notices that wait for a group.
func (d *Dialect) insertDelivery(m *schedule.AlertDelivery) Call {
	if m.GroupKey != "" {
		return Call{sqlSaveNotice, []any{m.AlertID, m.Target, m.GroupKey, m.ScheduleID, m.Type, m.Payload, m.CreatedAt}}
	}
	return Call{sqlInsertDelivery, []any{
		m.DeliveryID, orNull(m.AlertID), orNull(m.ScheduleID), orNull(m.UserID), m.Type, m.Target, m.TargetKind, m.Host, m.Payload, m.RunKey, m.CreatedAt, orNull(m.GroupNo),
	}}
}

// InsertMessages adds the messages about runs in history to the outbox, in the transaction of their
// ends. ended is the i-th of n runs, with the webhook of its queue, if it is in one, as
// schedule.QueueWebhook writes it. Without a webhook a run costs nothing.
func (d *Dialect) InsertMessages(ctx context.Context, q Queries, n int, queues map[int32]QueueEnd, run func(i int) *schedule.Run) error {
	var calls []Call
	for i := range n {
		r := run(i)
		webhook := queues[r.Queue.No].Webhook
		if webhook == "" && r.Webhook == "" {
			continue
		}
		if m, ok := ledger.MessageOf(r, schedule.ParseQueueWebhook(webhook)); ok {
			calls = append(calls, d.insertDelivery(&m))
		}
	}
	if len(calls) == 0 {
		return nil
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return fmt.Errorf("write messages about %d ends: %w", len(calls), err)
	}
	return nil
}

// InsertDeliveries adds messages to the outbox; one that exists stays as it is.
func (t *Tables) InsertDeliveries(ctx context.Context, deliveries []schedule.AlertDelivery) error {
	calls := make([]Call, len(deliveries))
	for i := range deliveries {
		calls[i] = t.dialect.insertDelivery(&deliveries[i])
	}
	err := t.write(ctx, func(ctx context.Context, q Queries) error { return q.ExecAll(ctx, calls) })
	if err != nil {
		return fmt.Errorf("insert deliveries: %w", err)
	}
	return nil
}

// ClaimDeliveries claims messages to send, for one caller and the length of a lease.
func (t *Tables) ClaimDeliveries(ctx context.Context, c schedule.DeliveryClaim) (claimed []schedule.AlertDelivery, err error) {
	due := false // usually none is due: then it takes no write lock
	if _, err := one(ctx, t.read, []any{&due}, sqlAnyDelivery, c.Now); err != nil {
		return nil, fmt.Errorf("look for due deliveries: %w", err)
	}
	if !due {
		return nil, nil
	}
	next, except := c.Now.Add(c.Lease).Truncate(time.Microsecond), append([]string{}, c.Except...)
	err = t.write(ctx, func(ctx context.Context, q Queries) error {
		if c.Target != "" {
			claimed, err = collect(ctx, q, deliveryFields, t.dialect.DueOfTarget, c.Now, c.Target, c.Limit)
		} else {
			claimed, err = collect(ctx, q, deliveryFields, t.dialect.DueOfOthers, c.Now, except, c.Limit)
		}
		if err != nil || len(claimed) == 0 {
			return err
		}
		calls := make([]Call, len(claimed))
		for i := range claimed {
			d := &claimed[i]
			d.Attempts++
			d.NextAt = next
			calls[i] = Call{sqlClaimDelivery, []any{next, d.DeliveryID}}
		}
		return q.ExecAll(ctx, calls)
	})
	if err != nil {
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	return claimed, nil
}

// SettleDelivery writes the result of the newest attempt; false: a newer attempt exists.
func (t *Tables) SettleDelivery(ctx context.Context, d schedule.DeliverySettlement) (moved bool, err error) {
	ended := time.Time{}
	if d.State != schedule.DeliveryPending {
		ended = d.Now
	}
	err = t.write(ctx, func(ctx context.Context, q Queries) error {
		n, err := q.Exec(ctx, sqlSettleDelivery, d.DeliveryID, d.Attempts, d.Round, d.State, d.NextAt,
			orNull(d.Status), orNull(d.Error), ended)
		moved = n > 0
		switch {
		case err != nil || !moved:
		case d.Gone:
			_, err = q.Exec(ctx, sqlDisableTarget, d.DeliveryID, d.Now)
		case d.Arrived:
			_, err = q.Exec(ctx, sqlEnableTarget, d.DeliveryID)
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("settle delivery %s: %w", d.DeliveryID, err)
	}
	return moved, nil
}

// ListDeliveries returns messages, newest first.
func (t *Tables) ListDeliveries(ctx context.Context, f schedule.DeliveryFilter) ([]schedule.AlertDelivery, error) {
	f.Limit = schedule.PageSize(f.Limit)
	list := t.dialect.ListDeliveries(&f)
	found, err := collect(ctx, t.read, deliveryFields, list.Statement, list.Args...)
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", err)
	}
	return found, nil
}

// Redeliver makes an ended or waiting message due again and returns it; one in progress
// stays as it is. schedule.ErrNotFound.
func (t *Tables) Redeliver(ctx context.Context, again schedule.Redelivery) (d *schedule.AlertDelivery, err error) {
	err = t.write(ctx, func(ctx context.Context, q Queries) error {
		if _, err := q.Exec(ctx, sqlRedeliver, again.DeliveryID, again.Now, again.Now.Add(again.Lease)); err != nil {
			return err
		}
		found, err := collect(ctx, q, deliveryFields, t.dialect.DeliveriesByID, []string{again.DeliveryID})
		if err == nil && len(found) == 0 {
			err = schedule.ErrNotFound
		}
		if err == nil {
			d = &found[0]
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("redeliver %s: %w", schedule.Quote(again.DeliveryID), err)
	}
	return d, nil
}

// RedeliverDead makes messages about runs due again that were given up, and counts them.
func (t *Tables) RedeliverDead(ctx context.Context, again schedule.DeadRedelivery) (n int, err error) {
	err = t.write(ctx, func(ctx context.Context, q Queries) error {
		n, err = q.Exec(ctx, sqlRedeliverDead, again.Now, again.Target, again.UserID, again.Limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("redeliver dead messages: %w", err)
	}
	return n, nil
}

// WebhookMessages returns the messages about the ends of runs, by the keys of the runs. A run
// whose end has none is missing.
func (t *Tables) WebhookMessages(ctx context.Context, keys []schedule.Key) (map[schedule.Key]schedule.AlertDelivery, error) {
	ids := make([]string, len(keys))
	for i := range keys {
		ids[i] = schedule.WebhookID(keys[i])
	}
	found, err := collect(ctx, t.read, deliveryFields, t.dialect.DeliveriesByID, ids)
	if err != nil {
		return nil, fmt.Errorf("read messages about runs: %w", err)
	}
	byRun := make(map[schedule.Key]schedule.AlertDelivery, len(found))
	for _, d := range found {
		byRun[d.RunKey] = d
	}
	return byRun, nil
}
