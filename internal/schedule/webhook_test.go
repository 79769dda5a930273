package schedule_test

import (
	"slices"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

func TestTheWebhookOfAQueueSurvivesItsColumn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]schedule.QueueWebhook{
		"":                                   {Events: schedule.DefaultWebhookEvents},
		"billing":                            {Target: "billing", Events: schedule.DefaultWebhookEvents},
		"|run.failed":                        {Events: []schedule.WebhookEvent{"run.failed"}},
		"billing|run.succeeded,run.retrying": {Target: "billing", Events: []schedule.WebhookEvent{"run.succeeded", "run.retrying"}},
	} {
		if got := want.Text(); got != text {
			t.Errorf("%+v is written %q, want %q", want, got, text)
		}
		if got := schedule.ParseQueueWebhook(text); got.Target != want.Target || !slices.Equal(got.Events, want.Events) {
			t.Errorf("%q is read %+v, want %+v", text, got, want)
		}
	}
}

func TestTypesOfMessagesAreKeptInOrderAndOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, want []schedule.WebhookEvent }{
		"none":                         {nil, nil},
		"the default ones":             {[]schedule.WebhookEvent{"group.ended", "run.cancelled", "run.skipped", "run.failed", "run.succeeded"}, nil},
		"twice, and out of order":      {[]schedule.WebhookEvent{"run.retrying", "run.failed", "run.retrying"}, []schedule.WebhookEvent{"run.failed", "run.retrying"}},
		"a word that is not one stays": {[]schedule.WebhookEvent{"run.failed", "run.lost"}, []schedule.WebhookEvent{"run.lost", "run.failed"}},
	} {
		d := schedule.QueueDefinition{WebhookEvents: c.given}.Resolved(1)
		if !slices.Equal(d.WebhookEvents, c.want) {
			t.Errorf("%s: got %v, want %v", name, d.WebhookEvents, c.want)
		}
	}
}
