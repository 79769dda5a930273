package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// ListAlerts returns alerts, the newest opened first.
func (s *Store) ListAlerts(ctx context.Context, f schedule.AlertFilter) (found []schedule.Alert, err error) {
	err = s.read(ctx, func() error {
		for _, a := range s.alerts {
			switch {
			case f.UserID != "" && a.UserID != f.UserID, f.ScheduleID != "" && a.ScheduleID != f.ScheduleID,
				f.Kind != "" && a.Kind != f.Kind, f.Open != nil && *f.Open != a.ClosedAt.IsZero(),
				!f.AfterOpened.IsZero() && cmp.Or(a.OpenedAt.Compare(at(f.AfterOpened)), cmp.Compare(a.AlertID, f.AfterID)) >= 0:
			default:
				found = append(found, a)
			}
		}
		return nil
	})
	slices.SortFunc(found, func(a, b schedule.Alert) int {
		return cmp.Or(b.OpenedAt.Compare(a.OpenedAt), cmp.Compare(b.AlertID, a.AlertID))
	})
	return found[:min(len(found), schedule.PageSize(f.Limit))], err
}

// GetAlert returns one alert, or schedule.ErrNotFound.
func (s *Store) GetAlert(ctx context.Context, alertID string) (found *schedule.Alert, err error) {
	err = s.read(ctx, func() error {
		a, ok := s.alerts[alertID]
		if !ok {
			return fmt.Errorf("alert %s: %w", schedule.Quote(alertID), schedule.ErrNotFound)
		}
		found = &a
		return nil
	})
	return found, err
}

// AckAlert acknowledges an alert; the first acknowledgement stays.
func (s *Store) AckAlert(ctx context.Context, ack schedule.AlertAck) error {
	return s.write(ctx, func(t *tx) error {
		a, ok := t.alerts[ack.AlertID]
		if !ok {
			return fmt.Errorf("acknowledge alert %s: %w", schedule.Quote(ack.AlertID), schedule.ErrNotFound)
		}
		if a.AckedAt.IsZero() {
			a.AckedAt, a.AckedBy, a.AckNote = at(ack.Now), ack.By, ack.Note
			setIn(t, t.alerts, a.AlertID, a)
		}
		return nil
	})
}

func (t *tx) insertDeliveries(deliveries []schedule.AlertDelivery) {
	for _, d := range deliveries {
		if d.GroupKey != "" {
			t.saveNotice(&d)
			continue
		}
		if _, known := t.deliveries[d.DeliveryID]; known {
			continue
		}
		d.CreatedAt = at(d.CreatedAt)
		d.State, d.Round, d.RoundAt, d.NextAt = schedule.DeliveryPending, 1, d.CreatedAt, d.CreatedAt
		setIn(t, t.deliveries, d.DeliveryID, d)
	}
}

// InsertDeliveries adds messages to the outbox; one that exists stays as it is.
func (s *Store) InsertDeliveries(ctx context.Context, deliveries []schedule.AlertDelivery) error {
	return s.write(ctx, func(t *tx) error { t.insertDeliveries(deliveries); return nil })
}

// ClaimDeliveries claims messages to send, for one caller and the length of a lease.
func (s *Store) ClaimDeliveries(ctx context.Context, c schedule.DeliveryClaim) (claimed []schedule.AlertDelivery, err error) {
	err = s.write(ctx, func(t *tx) error {
		for _, d := range t.deliveries {
			if d.State == schedule.DeliveryPending && !d.NextAt.After(c.Now) &&
				(c.Target == "" || c.Target == d.Target) && !slices.Contains(c.Except, d.Target) {
				claimed = append(claimed, d)
			}
		}
		slices.SortFunc(claimed, func(a, b schedule.AlertDelivery) int {
			return cmp.Or(a.NextAt.Compare(b.NextAt), cmp.Compare(a.DeliveryID, b.DeliveryID))
		})
		claimed = claimed[:min(len(claimed), c.Limit)]
		for i := range claimed {
			d := &claimed[i]
			d.Attempts++
			d.NextAt = at(c.Now.Add(c.Lease))
			setIn(t, t.deliveries, d.DeliveryID, *d)
			d.Disabled = t.gone[d.Target]
		}
		return nil
	})
	return claimed, err
}

// SettleDelivery writes the result of the newest attempt; false: a newer attempt exists.
func (s *Store) SettleDelivery(ctx context.Context, o schedule.DeliverySettlement) (moved bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		d, ok := t.deliveries[o.DeliveryID]
		if moved = ok && d.State == schedule.DeliveryPending && d.Attempts == o.Attempts && d.Round == o.Round; !moved {
			return nil
		}
		d.State, d.NextAt, d.LastStatus, d.LastError, d.EndedAt = o.State, at(o.NextAt), o.Status, o.Error, time.Time{}
		if o.State != schedule.DeliveryPending {
			d.EndedAt = at(o.Now)
		}
		setIn(t, t.deliveries, d.DeliveryID, d)
		switch {
		case o.Gone:
			setIn(t, t.gone, d.Target, true)
		case o.Arrived:
			drop(t, t.gone, d.Target)
		}
		return nil
	})
	return moved, err
}

// ListDeliveries returns messages, newest first.
func (s *Store) ListDeliveries(ctx context.Context, f schedule.DeliveryFilter) (found []schedule.AlertDelivery, err error) {
	err = s.read(ctx, func() error {
		for _, d := range s.deliveries {
			switch {
			case f.Runs == d.RunKey.IsZero(), f.AlertID != "" && d.AlertID != f.AlertID && !s.tells(&d, f.AlertID, ""),
				f.ScheduleID != "" && d.ScheduleID != f.ScheduleID && !s.tells(&d, "", f.ScheduleID), f.State != "" && d.State != f.State,
				!f.AfterCreated.IsZero() && cmp.Or(d.CreatedAt.Compare(at(f.AfterCreated)), cmp.Compare(d.DeliveryID, f.AfterID)) >= 0:
			default:
				d.Disabled = s.gone[d.Target]
				found = append(found, d)
			}
		}
		return nil
	})
	slices.SortFunc(found, func(a, b schedule.AlertDelivery) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.DeliveryID, a.DeliveryID))
	})
	return found[:min(len(found), schedule.PageSize(f.Limit))], err
}

// Redeliver makes an ended or waiting message due again and returns it; one in progress
// stays as it is. schedule.ErrNotFound.
func (s *Store) Redeliver(ctx context.Context, again schedule.Redelivery) (after *schedule.AlertDelivery, err error) {
	err = s.write(ctx, func(t *tx) error {
		d, ok := t.deliveries[again.DeliveryID]
		if !ok {
			return fmt.Errorf("redeliver %s: %w", schedule.Quote(again.DeliveryID), schedule.ErrNotFound)
		}
		if d.State != schedule.DeliveryPending || d.NextAt.After(at(again.Now.Add(again.Lease))) {
			d.State, d.Round, d.RoundAt, d.Attempts, d.NextAt, d.EndedAt = schedule.DeliveryPending, d.Round+1, at(again.Now), 0, at(again.Now), time.Time{}
			setIn(t, t.deliveries, d.DeliveryID, d)
		}
		d.Disabled = t.gone[d.Target]
		after = &d
		return nil
	})
	return after, err
}

// lost reports whether a group is never closed: its alerts closed while no registrar
// had the target.
func (t *tx) lost(g *group, notices []schedule.AlertNotice, before time.Time) bool {
	return g.closedAt.IsZero() && g.checkAt.IsZero() && g.JoinedAt.Before(before) && !slices.ContainsFunc(notices, func(n schedule.AlertNotice) bool {
		a, found := t.alerts[n.AlertID]
		return found && (a.ClosedAt.IsZero() || !a.ClosedAt.Before(before))
	})
}

// RedeliverDead makes messages about runs due again that were given up, and counts them.
func (s *Store) RedeliverDead(ctx context.Context, again schedule.DeadRedelivery) (n int, err error) {
	err = s.write(ctx, func(t *tx) error {
		var dead []schedule.AlertDelivery
		for _, d := range t.deliveries {
			if d.State == schedule.DeliveryDead && !d.RunKey.IsZero() && (again.Target == "" || d.Target == again.Target) && (again.UserID == "" || d.UserID == again.UserID) {
				dead = append(dead, d)
			}
		}
		slices.SortFunc(dead, func(a, b schedule.AlertDelivery) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.DeliveryID, b.DeliveryID))
		})
		n = min(len(dead), again.Limit)
		for _, d := range dead[:n] {
			d.State, d.Round, d.RoundAt, d.Attempts, d.NextAt, d.EndedAt = schedule.DeliveryPending, d.Round+1, at(again.Now), 0, at(again.Now), time.Time{}
			setIn(t, t.deliveries, d.DeliveryID, d)
		}
		return nil
	})
	return n, err
}

// WebhookMessages returns the messages about the ends of runs, by the keys of the runs.
func (s *Store) WebhookMessages(ctx context.Context, keys []schedule.Key) (map[schedule.Key]schedule.AlertDelivery, error) {
	byRun := make(map[schedule.Key]schedule.AlertDelivery)
	err := s.read(ctx, func() error {
		for _, key := range keys {
			if d, ok := s.deliveries[schedule.WebhookID(key)]; ok {
				d.Disabled = s.gone[d.Target]
				byRun[key] = d
			}
		}
		return nil
	})
	return byRun, err
}

// pruneAlerts deletes alerts and deliveries that ended before.
func (t *tx) pruneAlerts(before time.Time, limit int) (pruned int) {
	for id, a := range t.alerts {
		if !a.ClosedAt.IsZero() && a.ClosedAt.Before(before) && pruned < limit {
			drop(t, t.alerts, id)
			pruned++
		}
	}
	for id, d := range t.deliveries {
		if !d.EndedAt.IsZero() && d.EndedAt.Before(before) && pruned < 2*limit {
			drop(t, t.deliveries, id)
			pruned++
		}
	}
	for id, g := range t.groups {
		notices := t.noticesOf(id)
		if !g.closedAt.IsZero() && g.closedAt.Before(before) || t.lost(&g, notices, before) {
			for _, n := range notices {
				drop(t, t.notices, noticeID{n.Target, n.AlertID})
				pruned++
			}
			drop(t, t.groups, id)
			pruned++
		}
	}
	return pruned
}
