package alert

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// Desk answers people about alerts. A caller with an owner sees that owner's:
// others do not exist for it. Deliveries are for those who see everything.
type Desk struct {
	ledger Ledger
	states ExpectationStore
	outbox Outbox
	watch  *Watch
	now    func() time.Time
}

// NewDesk makes a Desk for a Watch.
func NewDesk(ledger Ledger, watch *Watch) *Desk {
	return &Desk{ledger: ledger, states: watch.expectations, outbox: watch.outbox, watch: watch, now: watch.now}
}

// Expectations are the states of one schedule, which the caller may see.
func (d *Desk) Expectations(ctx context.Context, scheduleID string) ([]schedule.ExpectationState, error) {
	return d.states.ListExpectations(ctx, scheduleID)
}

// Alerts are newest opened first.
func (d *Desk) Alerts(ctx context.Context, f schedule.AlertFilter) ([]schedule.Alert, error) {
	if id := auth.FromContext(ctx); id.Owner != "" {
		if f.UserID != "" && f.UserID != id.Owner {
			return nil, nil
		}
		f.UserID = id.Owner
	}
	return d.ledger.ListAlerts(ctx, f)
}

// Alert is one alert.
func (d *Desk) Alert(ctx context.Context, alertID string) (*schedule.Alert, error) {
	a, err := d.ledger.GetAlert(ctx, alertID)
	if errors.Is(err, schedule.ErrNotFound) || err == nil && !auth.FromContext(ctx).Sees(a.UserID) {
		return nil, schedule.Explain(schedule.ErrNotFound, "there is no alert %s", schedule.Quote(alertID))
	}
	return a, err
}

// Acknowledge notes that the caller sees to an alert.
func (d *Desk) Acknowledge(ctx context.Context, ack schedule.AlertAck) (*schedule.Alert, error) {
	if _, err := d.Alert(ctx, ack.AlertID); err != nil {
		return nil, err
	}
	ack.Now = d.now()
	if err := d.ledger.AckAlert(ctx, ack); err != nil {
		return nil, err
	}
	return d.Alert(ctx, ack.AlertID)
}

// Deliveries are newest first.
func (d *Desk) Deliveries(ctx context.Context, f schedule.DeliveryFilter) ([]schedule.AlertDelivery, error) {
	return d.outbox.ListDeliveries(ctx, f)
}

// Redeliver sends a message again.
func (d *Desk) Redeliver(ctx context.Context, deliveryID string) (*schedule.AlertDelivery, error) {
	found, err := d.outbox.Redeliver(ctx, schedule.Redelivery{DeliveryID: deliveryID, Now: d.now(), Lease: sendLease})
	if errors.Is(err, schedule.ErrNotFound) {
		return nil, schedule.Explain(schedule.ErrNotFound, "there is no delivery %s", schedule.Quote(deliveryID))
	}
	d.watch.Wake()
	return found, err
}

// Test sends a message to one target, or to all where target is empty.
func (d *Desk) Test(ctx context.Context, target string) ([]schedule.AlertDelivery, error) {
	routes := d.watch.routes()
	var to []string
	for _, t := range routes.Targets() {
		to = append(to, t.ID)
	}
	if len(to) == 0 {
		return nil, schedule.Explain(schedule.ErrPrecondition, "no notification target is configured: set NOTIFY_FILE, or ALERT_WEBHOOK_URL and ALERT_WEBHOOK_SECRET, of the registrars")
	}
	if target != "" {
		if !slices.Contains(to, target) {
			return nil, schedule.Explain(schedule.ErrNotFound, "there is no notification target %s; there are: %s", schedule.Quote(target), strings.Join(to, ", "))
		}
		to = []string{target}
	}
	sent := d.watch.testMessages(routes, to, d.now())
	if err := d.outbox.InsertDeliveries(ctx, sent); err != nil {
		return nil, err
	}
	d.watch.Wake()
	for i := range sent {
		sent[i].State, sent[i].NextAt = schedule.DeliveryPending, sent[i].CreatedAt
	}
	return sent, nil
}
