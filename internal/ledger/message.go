package ledger

import (
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// MessageOf returns the message about a run that has ended; ok = false: nobody is told. queue is
// the webhook of its queue, and the run's own target replaces that of the queue. A run outside of
// queues has the target of its schedule, and the types of a queue that lists none. Stores call it
// after Conclude, and write the message in the transaction of the end. Its id comes from the key,
// so that one end has one message.
//
// A snooze is no end for the user: the same attempt goes on. A failure that an automatic retry
// follows is run.retrying, which only queues that ask for it have. Slots that were missed, or left
// out of a catch-up, have none: an outage would send thousands of messages at its end. Alerts tell
// of it.
func MessageOf(r *schedule.Run, queue schedule.QueueWebhook) (m schedule.AlertDelivery, ok bool) {
	target := queue.Target
	if r.Webhook != "" {
		target = r.Webhook
	}
	events, event := queue.Events, eventOf(r)
	if !r.Queue.In() {
		events = schedule.DefaultWebhookEvents
	}
	if target == "" || !slices.Contains(events, event) {
		return m, false
	}
	return schedule.AlertDelivery{
		DeliveryID: schedule.WebhookID(r.Key), RunKey: r.Key, UserID: schedule.Owner(r.OverlapKey), Type: string(event),
		Target: schedule.WebhookTarget(target), TargetKind: "webhook", CreatedAt: r.CompletedAt,
	}, true
}

// eventOf is the type of the message about an end; "": none.
func eventOf(r *schedule.Run) schedule.WebhookEvent {
	_, goesOn := r.RetriedBy()
	switch {
	case r.Snoozed() && goesOn, r.Trigger.FromSpec() && (r.Reason == schedule.ReasonMissed || r.Reason == schedule.ReasonCoalesced):
		return ""
	case r.Status == schedule.StatusFailed && goesOn:
		return schedule.WebhookRetrying
	case r.Status == schedule.StatusFailed:
		return schedule.WebhookFailed
	case r.Status == schedule.StatusSuccess:
		return schedule.WebhookSucceeded
	case r.Status == schedule.StatusSkipped:
		return schedule.WebhookSkipped
	case r.Status == schedule.StatusCancelled:
		return schedule.WebhookCancelled
	}
	return ""
}

// AsEnded returns a run of history as it was at its end: a run that failed for good and was
// retried by hand since then was dead.
func AsEnded(r schedule.Run) schedule.Run {
	if r.Dead != nil {
		dead := true
		r.Dead = &dead
	}
	return r
}
