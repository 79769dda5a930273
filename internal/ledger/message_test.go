package ledger_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestEachEndHasTheMessageOfItsType(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	all := schedule.QueueWebhook{Target: "billing", Events: schedule.WebhookEvents}
	standard := schedule.ParseQueueWebhook("billing")
	for name, c := range map[string]struct {
		run     schedule.Run
		outside bool
		queue   schedule.QueueWebhook
		want    schedule.WebhookEvent // "": none
		target  string                // "": billing
	}{
		"a success":          {run: schedule.Run{Status: schedule.StatusSuccess}, queue: standard, want: "run.succeeded"},
		"a failure for good": {run: schedule.Run{Status: schedule.StatusFailed, Attempt: 3, MaxAttempts: 3, Dead: &yes}, queue: standard, want: "run.failed"},
		"a failure without attempts left that nobody marked": {run: schedule.Run{Status: schedule.StatusFailed, Attempt: 1, MaxAttempts: 1}, queue: standard, want: "run.failed"},
		"a failure of a class without retries":               {run: schedule.Run{Status: schedule.StatusFailed, Attempt: 1, MaxAttempts: 3, Dead: &yes}, queue: standard, want: "run.failed"},
		"a failure that was retried by hand":                 {run: schedule.Run{Status: schedule.StatusFailed, Attempt: 1, MaxAttempts: 3, Dead: &no}, queue: standard, want: "run.failed"},
		"a failure with a retry":                             {run: schedule.Run{Status: schedule.StatusFailed, Attempt: 1, MaxAttempts: 3}, queue: standard},
		"a failure with a retry, on request":                 {run: schedule.Run{Status: schedule.StatusFailed, Attempt: 1, MaxAttempts: 3}, queue: all, want: "run.retrying"},
		"an interrupted run that starts again":               {run: schedule.Run{Status: schedule.StatusFailed, Reason: schedule.ReasonInterrupted, Attempt: 3, MaxAttempts: 3}, queue: all, want: "run.retrying"},
		"a skip":                                             {run: schedule.Run{Status: schedule.StatusSkipped, Reason: schedule.ReasonGrantRevoked}, queue: standard, want: "run.skipped"},
		"a snooze":                                           {run: schedule.Run{Status: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed}, queue: all},
		"a cancel":                                           {run: schedule.Run{Status: schedule.StatusCancelled}, queue: standard, want: "run.cancelled"},
		"a type that the queue leaves out":                   {run: schedule.Run{Status: schedule.StatusSuccess}, queue: schedule.ParseQueueWebhook("billing|run.failed,run.cancelled")},
		"no target":                                          {run: schedule.Run{Status: schedule.StatusSuccess}, queue: schedule.ParseQueueWebhook("")},
		"the run's own target":                               {run: schedule.Run{Status: schedule.StatusSuccess, Webhook: "own"}, queue: standard, want: "run.succeeded", target: "own"},
		"the run's own target, types of the queue":           {run: schedule.Run{Status: schedule.StatusSuccess, Webhook: "own"}, queue: schedule.ParseQueueWebhook("|run.failed")},
		"a run outside of queues":                            {run: schedule.Run{Status: schedule.StatusSuccess}, outside: true},
		"a run outside of queues with a target":              {run: schedule.Run{Status: schedule.StatusSuccess, Webhook: "own"}, outside: true, want: "run.succeeded", target: "own"},
		"a missed slot with a target":                        {run: schedule.Run{Status: schedule.StatusSkipped, Reason: schedule.ReasonMissed, Trigger: schedule.TriggerCatchup, Webhook: "own"}, outside: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := c.run
			run.Key, run.OverlapKey, run.CompletedAt = schedule.Key{7}, "ana/nightly", at
			if !c.outside {
				run.Queue.No = 4
			}
			got, told := ledger.MessageOf(&run, c.queue)
			want := schedule.AlertDelivery{}
			if c.want != "" {
				target := "webhook:billing"
				if c.target != "" {
					target = "webhook:" + c.target
				}
				want = schedule.AlertDelivery{
					DeliveryID: "run_" + run.Key.String(), RunKey: run.Key, UserID: "ana", Type: string(c.want), Target: target, TargetKind: "webhook", CreatedAt: at,
				}
			}
			if told != (c.want != "") || got != want {
				t.Errorf("told %v, %+v, want %+v", told, got, want)
			}
		})
	}
}

func TestTheRunOfAMessageIsAsItWasAtItsEnd(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for name, c := range map[string]struct {
		dead *bool
		want bool
	}{
		"never dead":                    {nil, false},
		"dead":                          {&yes, true},
		"dead, and redriven since then": {&no, true},
	} {
		run := ledger.AsEnded(schedule.Run{Dead: c.dead})
		if run.IsDead() != c.want {
			t.Errorf("%s: dead is %v, want %v", name, run.IsDead(), c.want)
		}
	}
	if no {
		t.Error("the run of history was changed")
	}
}
