package schedule

import (
	"cmp"
	"slices"
	"strings"
)

// WebhookEvent is the type of a message about the end of a run or a group.
type WebhookEvent string

// The types.
const (
	WebhookSucceeded WebhookEvent = "run.succeeded"
	WebhookFailed    WebhookEvent = "run.failed" // no automatic retry follows
	WebhookSkipped   WebhookEvent = "run.skipped"
	WebhookCancelled WebhookEvent = "run.cancelled"
	WebhookGroup     WebhookEvent = "group.ended"
	WebhookRetrying  WebhookEvent = "run.retrying" // failed, and an automatic retry follows
)

// WebhookEvents is the closed set.
var WebhookEvents = []WebhookEvent{WebhookSucceeded, WebhookFailed, WebhookSkipped, WebhookCancelled, WebhookGroup, WebhookRetrying}

// DefaultWebhookEvents are those of a queue that names none: all ends for good.
var DefaultWebhookEvents = WebhookEvents[:5]

// WebhookState is the state of the message about the end of a run.
type WebhookState string

// The states.
const (
	WebhookNone      WebhookState = "none" // the run has not ended, or nobody is told
	WebhookPending   WebhookState = "pending"
	WebhookDelivered WebhookState = "delivered"
	WebhookDead      WebhookState = "dead" // given up; it can be sent again by hand
)

// WebhookStateOf is the state that a run shows of its message in the outbox.
func WebhookStateOf(s DeliveryState) WebhookState {
	switch s {
	case DeliveryPending:
		return WebhookPending
	case DeliveryDelivered:
		return WebhookDelivered
	case DeliveryDead:
		return WebhookDead
	}
	return WebhookNone
}

// QueueWebhook is what the end of a run needs to know of its queue's webhook.
type QueueWebhook struct {
	Target string // "": none
	Events []WebhookEvent
}

// Text is the stored form: the target, and behind a bar the types if they are not the default
// ones. "": nothing to say.
func (w QueueWebhook) Text() string {
	if len(w.Events) == 0 || slices.Equal(w.Events, DefaultWebhookEvents) {
		return w.Target
	}
	return w.Target + "|" + joinEvents(w.Events, ",")
}

func joinEvents(events []WebhookEvent, between string) string {
	words := make([]string, len(events))
	for i, e := range events {
		words[i] = string(e)
	}
	return strings.Join(words, between)
}

// resolvedEvents puts the types of a definition in order, each once. The default ones are none.
// Words that are no types stay, for Check.
func resolvedEvents(events []WebhookEvent) []WebhookEvent {
	place := func(e WebhookEvent) int { return slices.Index(WebhookEvents, e) }
	sorted := slices.SortedFunc(slices.Values(events), func(a, b WebhookEvent) int { return cmp.Compare(place(a), place(b)) })
	if sorted = slices.Compact(sorted); slices.Equal(sorted, DefaultWebhookEvents) {
		return nil
	}
	return sorted
}

// ParseQueueWebhook reads the stored form.
func ParseQueueWebhook(text string) QueueWebhook {
	target, words, listed := strings.Cut(text, "|")
	if !listed {
		return QueueWebhook{target, DefaultWebhookEvents}
	}
	w := QueueWebhook{Target: target}
	for word := range strings.SplitSeq(words, ",") {
		w.Events = append(w.Events, WebhookEvent(word))
	}
	return w
}

// webhookTargets begins the targets of messages about runs in the outbox. Names of NOTIFY_FILE
// have no colon, so that the two files share no target.
const webhookTargets = "webhook:"

// WebhookTarget is the target in the outbox of a name in WEBHOOK_TARGETS_FILE.
func WebhookTarget(name string) string { return webhookTargets + name }

// WebhookName is the other way; ok = false: the target is not of that file.
func WebhookName(target string) (name string, ok bool) {
	return strings.CutPrefix(target, webhookTargets)
}

// WebhookID is the id of the one message about the end of a run.
func WebhookID(key Key) string { return "run_" + key.String() }

// GroupWebhookID is the id of the one message about the end of a group, by its end key.
func GroupWebhookID(end Key) string { return "group_" + end.String() }
