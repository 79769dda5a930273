package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

const (
	failedLately   = 24 * time.Hour // how long the doctor reports a failed notification
	failuresListed = 200
)

// notifications looks for undelivered messages, whatever their alert is about.
func (d *doctor) notifications(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	now := store.Now()
	failed, err := store.ListDeliveries(ctx, schedule.DeliveryFilter{State: schedule.DeliveryDead, Limit: failuresListed})
	if err != nil {
		d.unread("notifications", err)
		return
	}
	waiting, err := store.ListDeliveries(ctx, schedule.DeliveryFilter{State: schedule.DeliveryPending, Limit: failuresListed})
	if err != nil {
		d.unread("notifications", err)
		return
	}
	lately := func(m *schedule.AlertDelivery) bool { return now.Sub(m.EndedAt) < failedLately && !isTest(m) }
	retried := func(m *schedule.AlertDelivery) bool { return m.LastError != "" && !isTest(m) }
	says, do := countMessages(failed, "failed in the last 24 hours", lately),
		"correct the target, then `carillon alert redeliver --dead`; `carillon alert deliveries --state DEAD` lists them"
	if says == "" {
		says, do = countMessages(waiting, "did not arrive yet and will be retried", retried), "check the target; `carillon notify test` shows whether it works"
	}
	if says != "" {
		d.warn("notifications", says, do)
		return
	}
	d.ok("notifications", "none failed in the last 24 hours")
}

// webhooks looks for undelivered messages about the ends of runs.
func (d *doctor) webhooks(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	now := store.Now()
	failed, err := store.ListDeliveries(ctx, schedule.DeliveryFilter{Runs: true, State: schedule.DeliveryDead, Limit: failuresListed})
	if err != nil {
		d.unread("webhooks", err)
		return
	}
	lately := slices.DeleteFunc(failed, func(m schedule.AlertDelivery) bool { return now.Sub(m.EndedAt) >= failedLately })
	if len(lately) == 0 {
		d.ok("webhooks", "no message about the end of a run failed in the last 24 hours")
		return
	}
	count := fmt.Sprintf("%d messages", len(lately))
	switch len(lately) {
	case 1:
		count = "1 message"
	case failuresListed:
		count += " or more"
	}
	name, _ := schedule.WebhookName(lately[0].Target)
	d.warn("webhooks", fmt.Sprintf("%s about the ends of runs failed in the last 24 hours; the newest to %s: %s", count, name, lately[0].LastError),
		"correct the receiver or WEBHOOK_TARGETS_FILE, then `carillon webhook redeliver --dead`; `carillon webhook list --state DEAD` lists them")
}

// isTest reports whether a message is a test, which already showed its result to its sender.
func isTest(m *schedule.AlertDelivery) bool { return m.AlertID == "" }

// countMessages describes the number of messages that match and the reason of the newest; empty if
// there are none.
func countMessages(messages []schedule.AlertDelivery, are string, so func(*schedule.AlertDelivery) bool) string {
	n := 0
	newest := ""
	for i := range messages {
		m := &messages[i]
		if !so(m) {
			continue
		}
		if n++; n == 1 {
			newest = fmt.Sprintf("to %s (%s %s): %s", m.Target, m.TargetKind, m.Host, m.LastError)
		}
	}
	switch {
	case n == 0:
		return ""
	case n == 1:
		return "1 notification " + are + ", " + newest
	case n == failuresListed:
		return fmt.Sprintf("%d or more notifications %s; the newest %s", n, are, newest)
	}
	return fmt.Sprintf("%d notifications %s; the newest %s", n, are, newest)
}
