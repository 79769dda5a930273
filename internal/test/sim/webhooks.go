package sim

import (
	"context"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// The checker's own rules of messages about the ends of runs: nothing here may use package ledger,
// or the methods of a queue or of a run.

// told is the webhook of a queue when a run of it ended.
type told struct {
	target string
	events []schedule.WebhookEvent
}

// webhookNow is what a run that ends now is told by.
func (l *ledgerWatch) webhookNow(r *schedule.Run) told {
	q := &l.queues[r.Queue.No].row
	now := told{q.Webhook, q.WebhookEvents}
	if r.Webhook != "" {
		now.target = r.Webhook
	}
	if len(now.events) == 0 {
		now.events = []schedule.WebhookEvent{"run.succeeded", "run.failed", "run.skipped", "run.cancelled"}
	}
	return now
}

// eventFor is the type of the message about a job that is over; "": none. successors are the runs
// that Carillon has planned after it.
func eventFor(r *schedule.Run, successors int) schedule.WebhookEvent {
	switch {
	case r.Status == schedule.StatusSuccess:
		return "run.succeeded"
	case r.Status == schedule.StatusFailed && successors > 0:
		return "run.retrying"
	case r.Status == schedule.StatusFailed:
		return "run.failed"
	case r.Status == schedule.StatusSkipped && successors == 0:
		return "run.skipped"
	case r.Status == schedule.StatusCancelled:
		return "run.cancelled"
	}
	return ""
}

// toldOnce: each end of a job has the one message that its queue and the job ask for, and there is
// no other one.
func (w *world) toldOnce() {
	l := w.watch
	keys := make([]schedule.Key, len(l.jobOrder))
	for i, j := range l.jobOrder {
		keys[i] = j.row.Key
	}
	messages, err := w.ledger.WebhookMessages(context.Background(), keys)
	if err != nil {
		w.violation("read the messages: %v", err)
	}
	for _, j := range l.jobOrder {
		want := schedule.WebhookEvent("")
		if placeOf(&j.row) == placeEnded {
			if want = eventFor(&j.row, j.next); j.hook.target == "" || !slices.Contains(j.hook.events, want) {
				want = ""
			}
		}
		m, ok := messages[j.row.Key]
		switch {
		case ok != (want != ""), m.Type != string(want), ok && (m.RunKey != j.row.Key || m.Target != "webhook:"+j.hook.target || m.UserID != "u0"):
			w.violation("the job %.12s is %s(%s) with %d successors and the webhook %+v, and has the message %+v, want %q", j.row.Key, j.row.Status, j.row.Reason, j.next, j.hook, m, want)
		case ok:
			l.coverage.situations[jobTold].Add(1)
		}
	}
}

// toldOutside: each end of a run outside of queues has one message if the revision of its schedule
// names a target, and slots that an outage has left out have none.
func (w *world) toldOutside() {
	l := w.watch
	var outside []*history
	var keys []schedule.Key
	for _, h := range l.order {
		if l.jobs[h.row.Key] == nil && l.rows[h.row.Key] == h {
			outside, keys = append(outside, h), append(keys, h.row.Key)
		}
	}
	messages, err := w.ledger.WebhookMessages(context.Background(), keys)
	if err != nil {
		w.violation("read the messages: %v", err)
	}
	for _, h := range outside {
		r, f := &h.row, l.lives[h.row.ScheduleID]
		want, target := schedule.WebhookEvent(""), f.webhookOf[r.Revision]
		missed := (r.Reason == "missed" || r.Reason == "coalesced") && (r.Trigger == "schedule" || r.Trigger == "catchup")
		if ended(r.Status) && !missed && target != "" && f.queueOf[r.Revision] == "" {
			want = eventFor(r, h.next)
		}
		if want == "run.retrying" {
			want = ""
		}
		m, ok := messages[r.Key]
		switch {
		case ok != (want != ""), m.Type != string(want), ok && (m.RunKey != r.Key || m.Target != "webhook:"+target || m.UserID != schedule.Owner(r.OverlapKey)):
			w.violation("the run %.12s of %s is %s(%s) with %d retries and the webhook %q, and has the message %+v, want %q", r.Key, r.ScheduleID, r.Status, r.Reason, h.next, target, m, want)
		case ok:
			l.coverage.situations[runTold].Add(1)
		}
	}
}
