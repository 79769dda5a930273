package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

func collectAlerts(ctx context.Context, q querier, statement string, args ...any) (alerts []schedule.Alert, err error) {
	var (
		a                                                    schedule.Alert
		limit                                                int64
		resolution, by, note, detail                         pgtype.Text
		run                                                  []byte
		first, last, deadline, opened, closed, told, ackedAt pgtype.Timestamptz
	)
	targets := []any{
		&a.AlertID, &a.ScheduleID, &a.WorkflowID, &a.UserID, &a.Kind, &a.Revision, &limit, &a.Cause, &a.Late,
		&first, &last, &deadline, &opened, &closed, &resolution, &told, &ackedAt, &by, &note, &a.Targets, &run, &detail,
	}
	err = each(ctx, q, targets, func() error {
		var d decoding
		a.LimitMS, a.Resolution = d.unsigned("limit_ms", limit), schedule.Resolution(resolution.String)
		a.FirstSlot, a.LastSlot, a.Deadline = d.time("first_slot", first), d.time("last_slot", last), d.time("deadline", deadline)
		a.OpenedAt, a.ClosedAt, a.NotifiedAt = d.time("opened_at", opened), d.time("closed_at", closed), d.time("notified_at", told)
		a.AckedAt, a.AckedBy, a.AckNote = d.time("acked_at", ackedAt), by.String, note.String
		a.RunKey, a.Detail = d.key("idempotency_key", run), detail.String
		alerts = append(alerts, a)
		return d.err
	}, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	return alerts, nil
}

// ListAlerts returns alerts, the newest opened first.
func (s *Store) ListAlerts(ctx context.Context, f schedule.AlertFilter) ([]schedule.Alert, error) {
	return collectAlerts(ctx, s.pool, sqlListAlerts, f.UserID, f.ScheduleID, f.Kind, f.Open, noneOrTime(f.AfterOpened), f.AfterID, f.Limit)
}

// GetAlert returns one alert, or schedule.ErrNotFound.
func (s *Store) GetAlert(ctx context.Context, alertID string) (*schedule.Alert, error) {
	alerts, err := collectAlerts(ctx, s.pool, sqlAlertsByID, []string{alertID})
	if err != nil {
		return nil, err
	}
	if len(alerts) == 0 {
		return nil, fmt.Errorf("alert %s: %w", schedule.Quote(alertID), schedule.ErrNotFound)
	}
	return &alerts[0], nil
}

// AckAlert acknowledges an alert; the first acknowledgement stays.
func (s *Store) AckAlert(ctx context.Context, ack schedule.AlertAck) error {
	n, err := s.affected(ctx, sqlAckAlert, ack.AlertID, ack.Now, ack.By, ack.Note)
	if err == nil && n == 0 {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("acknowledge alert %s: %w", schedule.Quote(ack.AlertID), err)
	}
	return nil
}

// affected runs one statement in a transaction and returns the number of changed rows.
func (s *Store) affected(ctx context.Context, statement string, args ...any) (n int, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		n, err = affect(ctx, tx, statement, args...)
		return err
	})
	return n, err
}

func deliveryArgs(d *schedule.AlertDelivery) []any {
	return []any{d.DeliveryID, noneOrText(d.AlertID), noneOrText(d.ScheduleID), noneOrText(d.UserID), d.Type, d.Target, d.TargetKind, d.Host, d.Payload, d.CreatedAt}
}

// InsertDeliveries adds messages to the outbox; one that exists stays as it is.
func (s *Store) InsertDeliveries(ctx context.Context, deliveries []schedule.AlertDelivery) error {
	err := s.transact(ctx, func(tx pgx.Tx) error {
		for i := range deliveries {
			if _, err := tx.Exec(ctx, sqlInsertDelivery, deliveryArgs(&deliveries[i])...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("insert deliveries: %w", err)
	}
	return nil
}

// ClaimDeliveries claims messages to send, for one caller and the length of a lease.
func (s *Store) ClaimDeliveries(ctx context.Context, c schedule.DeliveryClaim) (claimed []schedule.AlertDelivery, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		claimed = nil
		var id string
		var ids []string
		err := each(ctx, tx, []any{&id}, func() error {
			ids = append(ids, id)
			return nil
		}, sqlClaimDeliveries, c.Now, c.Now.Add(c.Lease), c.Limit, c.Target, append([]string{}, c.Except...))
		if err != nil || len(ids) == 0 {
			return err
		}
		claimed, err = collectDeliveries(ctx, tx, sqlDeliveriesByID, ids)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	return claimed, nil
}

// SettleDelivery writes the result of the newest attempt; false: a newer attempt exists.
func (s *Store) SettleDelivery(ctx context.Context, d schedule.DeliverySettlement) (moved bool, err error) {
	ended := time.Time{}
	if d.State != schedule.DeliveryPending {
		ended = d.Now
	}
	err = s.transact(ctx, func(tx pgx.Tx) error {
		moved = false
		var target, host string
		err := each(ctx, tx, []any{&target, &host}, func() error {
			moved = true
			return nil
		}, sqlSettleDelivery, d.DeliveryID, d.Attempts, d.Round, d.State, noneOrTime(d.NextAt),
			pgtype.Int4{Int32: d.Status, Valid: d.Status != 0}, noneOrText(d.Error), noneOrTime(ended))
		switch {
		case err != nil || !moved:
		case d.Gone:
			_, err = tx.Exec(ctx, sqlDisableTarget, target, host, d.Now)
		case d.Arrived:
			_, err = tx.Exec(ctx, sqlEnableTarget, target)
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("settle delivery %s: %w", d.DeliveryID, err)
	}
	return moved, nil
}

// ListDeliveries returns messages, newest first.
func (s *Store) ListDeliveries(ctx context.Context, f schedule.DeliveryFilter) ([]schedule.AlertDelivery, error) {
	return collectDeliveries(ctx, s.pool, sqlListDeliveries, f.AlertID, f.State, noneOrTime(f.AfterCreated), f.AfterID, f.Limit, f.ScheduleID)
}

// Redeliver makes an ended or waiting message due again and returns it; one in progress
// stays as it is. schedule.ErrNotFound.
func (s *Store) Redeliver(ctx context.Context, again schedule.Redelivery) (d *schedule.AlertDelivery, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlRedeliver, again.DeliveryID, again.Now, again.Now.Add(again.Lease)); err != nil {
			return err
		}
		found, err := collectDeliveries(ctx, tx, sqlDeliveriesByID, []string{again.DeliveryID})
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

func collectDeliveries(ctx context.Context, q querier, statement string, args ...any) (found []schedule.AlertDelivery, err error) {
	var (
		d                              schedule.AlertDelivery
		alertID, scheduleID, user, why pgtype.Text
		status                         pgtype.Int4
		roundAt, next, created, ended  pgtype.Timestamptz
	)
	targets := []any{
		&d.DeliveryID, &alertID, &scheduleID, &user, &d.Type, &d.Target, &d.TargetKind, &d.Host, &d.Payload, &d.State, &d.Attempts,
		&d.Round, &roundAt, &next, &status, &why, &created, &ended, &d.Disabled,
	}
	err = each(ctx, q, targets, func() error {
		var c decoding
		d.AlertID, d.ScheduleID, d.UserID, d.LastError, d.LastStatus = alertID.String, scheduleID.String, user.String, why.String, status.Int32
		d.RoundAt, d.NextAt = c.time("round_at", roundAt), c.time("next_at", next)
		d.CreatedAt, d.EndedAt = c.time("created_at", created), c.time("ended_at", ended)
		found = append(found, d)
		return c.err
	}, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", err)
	}
	return found, nil
}
