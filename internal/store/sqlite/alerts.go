package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func readAlerts(ctx context.Context, q querier, statement string, args ...any) (alerts []schedule.Alert, err error) {
	var (
		id, scheduleID, workflow, user, kind, cause, resolution, by, note, targets, detail text
		revision, limit, late                                                              number
		first, last, deadline, opened, closed, told, ackedAt                               instant
		run                                                                                key
	)
	err = q.query(ctx, statement, func(scan scan) error {
		err := scan(&id, &scheduleID, &workflow, &user, &kind, &revision, &limit, &cause, &late,
			&first, &last, &deadline, &opened, &closed, &resolution, &told, &ackedAt, &by, &note, &targets, &run, &detail)
		alerts = append(alerts, schedule.Alert{
			AlertID: string(id), ScheduleID: string(scheduleID), WorkflowID: string(workflow), UserID: string(user),
			Kind: schedule.ExpectationKind(kind), Revision: int64(revision), LimitMS: uint32(limit), Cause: schedule.Cause(cause), Late: int64(late),
			FirstSlot: first.Time, LastSlot: last.Time, Deadline: deadline.Time, OpenedAt: opened.Time, ClosedAt: closed.Time,
			Resolution: schedule.Resolution(resolution), NotifiedAt: told.Time, AckedAt: ackedAt.Time, AckedBy: string(by), AckNote: string(note), Targets: string(targets),
			RunKey: schedule.Key(run), Detail: string(detail),
		})
		return err
	}, args...)
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	return alerts, nil
}

// ListAlerts returns alerts, the newest opened first.
func (s *Store) ListAlerts(ctx context.Context, f schedule.AlertFilter) ([]schedule.Alert, error) {
	var q conditions
	q.add(f.UserID != "", sqlAlertUser, f.UserID)
	q.add(f.ScheduleID != "", sqlAlertSchedule, f.ScheduleID)
	q.add(f.Kind != "", sqlAlertKind, string(f.Kind))
	q.add(f.Open != nil && *f.Open, sqlAlertOpen)
	q.add(f.Open != nil && !*f.Open, sqlAlertClosed)
	q.add(!f.AfterOpened.IsZero(), sqlAlertsAfter, f.AfterOpened.UnixMicro(), f.AfterID)
	return readAlerts(ctx, s.readers, sqlListAlerts+q.where.String()+sqlAlertsOrder, append(q.args, limitOf(f.Limit))...)
}

// GetAlert returns one alert, or schedule.ErrNotFound.
func (s *Store) GetAlert(ctx context.Context, alertID string) (*schedule.Alert, error) {
	alerts, err := readAlerts(ctx, s.readers, sqlGetAlert, alertID)
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
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		n, err := t.exec(ctx, sqlAckAlert, ack.AlertID, ack.Now.UnixMicro(), ack.By, ack.Note)
		if err == nil && n == 0 {
			err = schedule.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("acknowledge alert %s: %w", schedule.Quote(ack.AlertID), err)
	}
	return nil
}

func insertDeliveries(ctx context.Context, t tx, deliveries []schedule.AlertDelivery) error {
	for i := range deliveries {
		d := &deliveries[i]
		if d.GroupKey != "" {
			if _, err := t.exec(ctx, sqlSaveNotice, d.AlertID, d.Target, d.GroupKey, d.ScheduleID, d.Type, d.Payload, d.CreatedAt.UnixMicro()); err != nil {
				return fmt.Errorf("save notice of %s: %w", d.AlertID, err)
			}
			continue
		}
		_, err := t.exec(ctx, sqlInsertDelivery, d.DeliveryID, word(d.AlertID), word(d.ScheduleID), word(d.UserID), d.Type, d.Target, d.TargetKind, d.Host,
			d.Payload, d.CreatedAt.UnixMicro())
		if err != nil {
			return fmt.Errorf("insert delivery %s: %w", d.DeliveryID, err)
		}
	}
	return nil
}

// InsertDeliveries adds messages to the outbox; one that exists stays as it is.
func (s *Store) InsertDeliveries(ctx context.Context, deliveries []schedule.AlertDelivery) error {
	return s.write(ctx, func(ctx context.Context, t tx) error { return insertDeliveries(ctx, t, deliveries) })
}

// ClaimDeliveries claims messages to send, for one caller and the length of a lease.
func (s *Store) ClaimDeliveries(ctx context.Context, c schedule.DeliveryClaim) (claimed []schedule.AlertDelivery, err error) {
	except := list(c.Except)
	due, err := readDeliveries(ctx, s.readers, sqlDueDeliveries, c.Now.UnixMicro(), c.Target, except, 1)
	if err != nil || len(due) == 0 { // mostly: then no writer has to wait
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		if claimed, err = readDeliveries(ctx, t, sqlDueDeliveries, c.Now.UnixMicro(), c.Target, except, c.Limit); err != nil {
			return err
		}
		for i := range claimed {
			d := &claimed[i]
			d.Attempts++
			d.NextAt = c.Now.Add(c.Lease).Truncate(time.Microsecond)
			if _, err := t.exec(ctx, sqlClaimDelivery, d.NextAt.UnixMicro(), d.DeliveryID); err != nil {
				return err
			}
		}
		return nil
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
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		n, err := t.exec(ctx, sqlSettleDelivery, d.DeliveryID, int64(d.Attempts), int64(d.Round), string(d.State), micros(d.NextAt),
			count(d.Status), word(d.Error), micros(ended))
		moved = n > 0
		switch {
		case err != nil || !moved:
		case d.Gone:
			_, err = t.exec(ctx, sqlDisableTarget, d.DeliveryID, d.Now.UnixMicro())
		case d.Arrived:
			_, err = t.exec(ctx, sqlEnableTarget, d.DeliveryID)
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
	var q conditions
	q.add(f.AlertID != "", sqlDeliveryAlert, f.AlertID, f.AlertID)
	q.add(f.ScheduleID != "", sqlDeliveryOf, f.ScheduleID, f.ScheduleID)
	q.add(f.State != "", sqlDeliveryState, string(f.State))
	q.add(!f.AfterCreated.IsZero(), sqlDeliveriesAfter, f.AfterCreated.UnixMicro(), f.AfterID)
	return readDeliveries(ctx, s.readers, sqlListDeliveries+q.where.String()+sqlDeliveriesOrder, append(q.args, limitOf(f.Limit))...)
}

// Redeliver makes an ended or waiting message due again and returns it; one in progress
// stays as it is. schedule.ErrNotFound.
func (s *Store) Redeliver(ctx context.Context, again schedule.Redelivery) (d *schedule.AlertDelivery, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		if _, err := t.exec(ctx, sqlRedeliver, again.DeliveryID, again.Now.UnixMicro(), again.Now.Add(again.Lease).UnixMicro()); err != nil {
			return err
		}
		found, err := readDeliveries(ctx, t, sqlGetDelivery, again.DeliveryID)
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

func readDeliveries(ctx context.Context, q querier, statement string, args ...any) (found []schedule.AlertDelivery, err error) {
	var (
		id, alertID, scheduleID, user, kind, target, targetKind, host, payload, state, why text
		attempts, round, status                                                            number
		roundAt, next, created, ended                                                      instant
		disabled                                                                           flag
	)
	err = q.query(ctx, statement, func(scan scan) error {
		err := scan(&id, &alertID, &scheduleID, &user, &kind, &target, &targetKind, &host, &payload, &state, &attempts,
			&round, &roundAt, &next, &status, &why, &created, &ended, &disabled)
		found = append(found, schedule.AlertDelivery{
			DeliveryID: string(id), AlertID: string(alertID), ScheduleID: string(scheduleID), UserID: string(user), Type: string(kind),
			Target: string(target), TargetKind: string(targetKind), Host: string(host), Payload: string(payload), State: schedule.DeliveryState(state),
			Attempts: int32(attempts), Round: int32(round), RoundAt: roundAt.Time, NextAt: next.Time, LastStatus: int32(status),
			LastError: string(why), CreatedAt: created.Time, EndedAt: ended.Time, Disabled: bool(disabled),
		})
		return err
	}, args...)
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", err)
	}
	return found, nil
}
