// Package notify sends messages about alerts to the places that people watch:
// Standard Webhooks, e-mail, Slack-compatible webhooks, PagerDuty, Microsoft
// Teams and ntfy.
//
// It knows three things: which targets there are (ALERT_WEBHOOK_URL and the
// operator's NOTIFY_FILE), which of them an alert is routed to, and how one
// message is sent to one of them. Package alert owns the outbox: it decides when
// a message is sent, and when it is tried again.
//
// The outbox keeps every message as a Message in JSON, whatever its target. The
// format of the target is made when the message is sent.
package notify
