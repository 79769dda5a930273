package run_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestWebhooksAreSentAgain(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		answer *carillonv1.RedeliverWebhooksResponse
		want   proto.Message
		says   string
	}{
		{[]string{"5f0c"}, &carillonv1.RedeliverWebhooksResponse{Redelivered: 1}, &carillonv1.RedeliverWebhooksRequest{IdempotencyKey: "5f0c"}, "1 message sent again\n"},
		{[]string{"--dead"}, &carillonv1.RedeliverWebhooksResponse{}, &carillonv1.RedeliverWebhooksRequest{Dead: true}, "0 messages sent again\n"},
		{
			[]string{"--dead", "--target", "billing"},
			&carillonv1.RedeliverWebhooksResponse{Redelivered: 1000, More: true},
			&carillonv1.RedeliverWebhooksRequest{Dead: true, Webhook: "billing"}, "1000 messages sent again\nthere may be more: repeat the command\n",
		},
	} {
		f := clitest.NewServer(t)
		f.Answers["RedeliverWebhooks"] = func(proto.Message) (proto.Message, error) { return tt.answer, nil }
		got := f.Run(t, append([]string{"webhook", "redeliver"}, tt.args...)...)
		if got.Code != 0 || got.Out != tt.says {
			t.Errorf("%v: exit %d %s %q, want %q", tt.args, got.Code, got.ErrOut, got.Out, tt.says)
		}
		if d := cmp.Diff([]proto.Message{tt.want}, f.Requests(), protocmp.Transform()); d != "" {
			t.Errorf("%v: requests (- want, + got):\n%s", tt.args, d)
		}
	}
}

func TestWebhooksAreSentAgainOneWay(t *testing.T) {
	for says, args := range map[string][]string{
		"KEY is required":       {},
		"unexpected argument":   {"5f0c", "--dead"},
		"--target needs --dead": {"5f0c", "--target", "billing"},
	} {
		f := clitest.NewServer(t)
		got := f.Run(t, append([]string{"webhook", "redeliver"}, args...)...)
		if got.Code != command.ExitUsage || !strings.Contains(got.ErrOut, says) || len(f.Requests()) != 0 {
			t.Errorf("%v: exit %d %s, %d calls", args, got.Code, got.ErrOut, len(f.Requests()))
		}
	}
}

func TestWebhooksAreListed(t *testing.T) {
	f := clitest.NewServer(t)
	key := strings.Repeat("5f0c", 16)
	f.Answers["ListAlertDeliveries"] = func(proto.Message) (proto.Message, error) {
		return &carillonv1.ListAlertDeliveriesResponse{Deliveries: []*carillonv1.AlertDelivery{{
			DeliveryId: "run_" + key, IdempotencyKey: key, Type: "run.failed", UserId: "ada", Target: "webhook:billing", State: "DEAD", Attempts: 4, LastError: "the target answered 503", Disabled: true,
		}}}, nil
	}
	got := f.Run(t, "webhook", "list", "--state", "DEAD")
	for _, text := range []string{"run.failed", "5f0c5f0c5f0c5f0c5f0c", "ada", "billing", "DEAD, target gone", "4", "the target answered 503"} {
		if got.Code != 0 || !strings.Contains(got.Out, text) {
			t.Errorf("exit %d %s: %q lacks %q", got.Code, got.ErrOut, got.Out, text)
		}
	}
	want := &carillonv1.ListAlertDeliveriesRequest{Runs: true, State: clitest.Pointer("DEAD"), PageSize: 50}
	if d := cmp.Diff([]proto.Message{want}, f.Requests(), protocmp.Transform()); d != "" {
		t.Errorf("requests (- want, + got):\n%s", d)
	}
}
