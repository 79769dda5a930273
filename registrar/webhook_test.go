package registrar_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// webhookTarget is a file with a target for every owner, and one for bob.
func webhookTarget(name string) (owners []string, ok bool) {
	switch name {
	case "billing":
		return nil, true
	case "of-bob":
		return []string{"bob"}, true
	}
	return nil, false
}

func withWebhook(name string) func(*registrar.QueuedInput) {
	return func(in *registrar.QueuedInput) { in.Webhook = name }
}

// refusedWebhook fails unless err names the field with these words.
func refusedWebhook(t *testing.T, name string, err error, field, says string) {
	t.Helper()
	invalid, ok := errors.AsType[*schedule.InvalidError](err)
	if !ok || len(invalid.Violations) != 1 || invalid.Violations[0].Field != field || !strings.Contains(invalid.Violations[0].Problem, says) || invalid.Violations[0].Hint == "" {
		t.Errorf("%s: %v, want %s and %q", name, err, field, says)
	}
}

func TestAWebhookMustBeATargetOfTheOwner(t *testing.T) {
	onQueues(t, func(l *line) {
		for name, c := range map[string]struct {
			edit func(*registrar.QueueInput)
			says string // "": it is taken
		}{
			"for every owner":         {func(in *registrar.QueueInput) { in.Webhook = "billing" }, ""},
			"for the owner":           {func(in *registrar.QueueInput) { in.QueueID, in.UserID, in.Webhook = "b", "bob", "of-bob" }, ""},
			"for every owner, shared": {func(in *registrar.QueueInput) { in.QueueID, in.Webhook, in.Shared = "s", "billing", true }, ""},
			"unknown":                 {func(in *registrar.QueueInput) { in.Webhook = "none" }, "is not a target"},
			"of another owner":        {func(in *registrar.QueueInput) { in.Webhook = "of-bob" }, "may not use"},
			"of the owner, but shared": {func(in *registrar.QueueInput) {
				in.QueueID, in.UserID, in.Webhook, in.Shared = "b2", "bob", "of-bob", true
			}, "shared queue"},
		} {
			_, err := l.UpsertQueue(l.Context(), gpuQueue(c.edit))
			if c.says != "" {
				refusedWebhook(l.T, name, err, "webhook", c.says)
			} else if err != nil {
				l.Errorf("%s: %v", name, err)
			}
		}
		_, err := l.UpsertQueue(l.Context(), gpuQueue(func(in *registrar.QueueInput) {
			in.Webhook, in.WebhookEvents = "billing", []schedule.WebhookEvent{"run.lost"}
		}))
		refusedWebhook(l.T, "an unknown type", err, "webhook_events", "is not one of run.succeeded,")

		for name, says := range map[string]string{"none": "is not a target", "of-bob": "may not use"} {
			_, err := l.tryEnqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job(withWebhook(name))}})
			refusedWebhook(l.T, "a run to "+name, err, "webhook", says)
			_, err = l.tryEnqueue(registrar.EnqueueInput{Batch: true, Runs: []registrar.QueuedInput{job(), job(withWebhook(name))}})
			refusedWebhook(l.T, "a batch to "+name, err, "runs[1].webhook", says)
		}
		if left := l.waiting(); len(left) != 0 {
			l.Errorf("refused runs wait: %v", left)
		}
		if run := l.run(l.one(withWebhook("billing"))); run.Webhook != "billing" {
			l.Errorf("the run is %+v", run)
		}
	})
}

func TestWithoutAFileNoWebhookIsTaken(t *testing.T) {
	t.Parallel()
	_, err := queueRegistrar().UpsertQueue(t.Context(), gpuQueue(func(in *registrar.QueueInput) { in.Webhook = "billing" }))
	refusedWebhook(t, "without a file", err, "webhook", "no webhook targets")
}

func TestTheSameTypesOfMessagesAreTheSameDefinition(t *testing.T) {
	onQueues(t, func(l *line) {
		for i, events := range [][]schedule.WebhookEvent{nil, schedule.DefaultWebhookEvents, {"run.retrying", "run.failed"}, {"run.failed", "run.retrying"}} {
			q, err := l.UpsertQueue(l.Context(), gpuQueue(func(in *registrar.QueueInput) { in.Webhook, in.WebhookEvents = "billing", slices.Clone(events) }))
			if want := int64(2 + i/2); err != nil || q.Revision != want {
				l.Errorf("%v: revision %d, want %d (%v)", events, q.Revision, want, err)
			}
		}
	})
}

// toldEnds puts runs of two owners into a shared queue and cancels them; their messages are dead.
func (l *line) toldEnds() (adas, bobs schedule.Key) {
	l.Helper()
	_, err := l.UpsertQueue(l.Context(), gpuQueue(func(in *registrar.QueueInput) { in.QueueID, in.Webhook, in.Shared = "told", "billing", true }))
	if err != nil {
		l.Fatal(err)
	}
	ends := func(owner string) schedule.Key {
		key := l.enqueue(registrar.EnqueueInput{QueueID: "told", UserID: owner, Runs: []registrar.QueuedInput{job()}}).Keys[0]
		if _, err := l.CancelRun(l.Context(), registrar.CancelInput{Key: key, Actor: "op"}); err != nil {
			l.Fatal(err)
		}
		return key
	}
	return ends("ada"), ends("bob")
}

func TestMessagesAreSentAgainByHand(t *testing.T) {
	onQueues(t, func(l *line) {
		adas, bobs := l.toldEnds()
		waits := l.one()
		ada := auth.NewContext(l.Context(), auth.Identity{Subject: "ada", Owner: "ada"})
		for name, c := range map[string]struct {
			ctx   context.Context
			in    registrar.RedeliverInput
			want  error
			field string
		}{
			"nothing":                 {ctx: l.Context(), field: "idempotency_key"},
			"a run and all":           {ctx: l.Context(), in: registrar.RedeliverInput{Key: adas, Dead: true}, field: "dead"},
			"a run and a target":      {ctx: l.Context(), in: registrar.RedeliverInput{Key: adas, Target: "billing"}, field: "webhook"},
			"too many":                {ctx: l.Context(), in: registrar.RedeliverInput{Dead: true, Limit: 1001}, field: "page_size"},
			"a run that waits":        {ctx: l.Context(), in: registrar.RedeliverInput{Key: waits}, want: schedule.ErrPrecondition},
			"a run of another owner":  {ctx: ada, in: registrar.RedeliverInput{Key: bobs}, want: schedule.ErrNotFound},
			"a message that is due":   {ctx: ada, in: registrar.RedeliverInput{Key: adas}, want: schedule.ErrPrecondition},
			"a run that there is not": {ctx: l.Context(), in: registrar.RedeliverInput{Key: schedule.Key{9}}, want: schedule.ErrNotFound},
		} {
			_, err := l.RedeliverWebhooks(c.ctx, c.in)
			invalid, _ := errors.AsType[*schedule.InvalidError](err)
			if c.field != "" && (invalid == nil || invalid.Violations[0].Field != c.field) || c.want != nil && !errors.Is(err, c.want) {
				l.Errorf("%s: %v, want %q %v", name, err, c.field, c.want)
			}
		}
		if l.woken != 0 {
			l.Errorf("the outbox was woken %d times", l.woken)
		}
		if _, err := l.CancelRun(l.Context(), registrar.CancelInput{Key: waits, Actor: "op"}); err != nil {
			l.Fatal(err)
		}
		if _, err := l.RedeliverWebhooks(l.Context(), registrar.RedeliverInput{Key: waits}); !errors.Is(err, schedule.ErrNotFound) || !strings.Contains(err.Error(), "has a webhook") {
			l.Errorf("a run without a webhook: %v", err)
		}
	})
}

func TestTheStateOfAMessageIsThatOfItsRun(t *testing.T) {
	onQueues(t, func(l *line) {
		adas, bobs := l.toldEnds()
		waits := l.one()
		found, err := l.WebhookMessages(l.Context(), []schedule.Run{*l.run(adas), *l.run(bobs), *l.run(waits)})
		if err != nil || len(found) != 2 || found[adas].State != schedule.DeliveryPending || found[adas].Type != "run.cancelled" || found[adas].UserID != "ada" || found[bobs].UserID != "bob" {
			l.Errorf("the messages are %+v (%v)", found, err)
		}
	})
}
