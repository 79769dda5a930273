package event_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestAnEventIsExplained(t *testing.T) {
	f := clitest.NewServer(t)
	f.Answer("ExplainEvent", &carillonv1.ExplainEventResponse{
		Event: &carillonv1.Event{Topic: "orders", EventId: "o-1", PublishedBy: "shop"},
		Handlers: []*carillonv1.ExplainedConsumer{
			{ScheduleId: "ship", Verdict: "waits", Reason: "paused", Sentences: []string{"The consumer is paused."}},
			{Verdict: "unrecorded", Sentences: []string{"This is a bug."}},
		},
	})
	got := f.Run(t, "event", "explain", "orders", "o-1", "--user", "ada", "--source", "shop", "--handler", "ship")
	for _, want := range []string{"event o-1 of topic orders", "by shop", "ship: waits (paused)\n  The consumer is paused.", "\nunrecorded\n  This is a bug."} {
		if got.Code != command.ExitOK || !strings.Contains(got.Out, want) {
			t.Errorf("exit %d, %q is missing in %s%s", got.Code, want, got.Out, got.ErrOut)
		}
	}
	asked := &carillonv1.ExplainEventRequest{Topic: "orders", EventId: "o-1", UserId: "ada", Source: "shop", Handler: "ship"}
	if d := cmp.Diff(asked, f.Requests()[0], protocmp.Transform()); d != "" {
		t.Errorf("the request differs (- want, + got):\n%s", d)
	}
}
