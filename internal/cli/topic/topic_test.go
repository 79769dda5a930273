package topic_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestTopicsAreShown(t *testing.T) {
	f := clitest.NewServer(t)
	topic := &carillonv1.Topic{
		Topic: "orders", UserId: "ada", PublishedLastHour: 7, Pending: 1000, AtLeast: true,
		Handlers: []*carillonv1.TopicConsumer{{ScheduleId: "ship", By: "orders.*", Pending: 1000}},
	}
	f.Answer("ListTopics", &carillonv1.ListTopicsResponse{Topics: []*carillonv1.Topic{topic}})
	f.Answer("GetTopic", &carillonv1.GetTopicResponse{Topic: topic})
	for _, c := range []struct {
		args []string
		says []string
		want proto.Message
	}{
		{[]string{"topic", "list", "--user", "ada", "--limit", "7"}, []string{"orders", "1000+"}, &carillonv1.ListTopicsRequest{UserId: "ada", PageSize: 7}},
		{[]string{"topic", "get", "orders", "--user", "ada"}, []string{"7+ in the last hour, 0 in the last day", "ship", "orders.*"}, &carillonv1.GetTopicRequest{Topic: "orders", UserId: "ada"}},
	} {
		got := f.Run(t, c.args...)
		for _, want := range c.says {
			if got.Code != command.ExitOK || !strings.Contains(got.Out, want) {
				t.Errorf("%v: exit %d, %q is missing in %s%s", c.args, got.Code, want, got.Out, got.ErrOut)
			}
		}
		requests := f.Requests()
		if d := cmp.Diff(c.want, requests[len(requests)-1], protocmp.Transform()); d != "" {
			t.Errorf("%v: the request differs (- want, + got):\n%s", c.args, d)
		}
	}
}

func TestAnAuditEndsWithAnotherCodeIfSomethingIsBroken(t *testing.T) {
	f := clitest.NewServer(t)
	resp := &carillonv1.AuditTopicResponse{
		From: clitest.Time("2026-03-08T11:00:00Z"), Until: clitest.Time("2026-03-08T12:00:00Z"), Events: 3, Fanout: 4, Pruned: 1, Cut: true,
		Handlers: []*carillonv1.AuditedConsumer{{ScheduleId: "ship", Consumed: 3}},
	}
	f.Answer("AuditTopic", resp)
	good := f.Run(t, "topic", "audit", "orders", "--user", "ada", "--from", "2h", "--until", "1h")
	for _, want := range []string{": 3 events with 4 entries, 1 of them deleted", "audit again with --from 2026-03-08T12:00:00Z", "ship", "all is as it must be"} {
		if good.Code != command.ExitOK || !strings.Contains(good.Out, want) {
			t.Errorf("exit %d, %q is missing in %s%s", good.Code, want, good.Out, good.ErrOut)
		}
	}
	if req, ok := f.Requests()[0].(*carillonv1.AuditTopicRequest); !ok || req.GetUntil().AsTime().Sub(req.GetFrom().AsTime()).Hours() != 1 {
		t.Errorf("asked: %v", req)
	}
	resp.Broken = 2
	resp.Violations = []*carillonv1.AuditViolation{{EventId: "o-1", ScheduleId: "ship", Run: clitest.KeyA, Problem: "is reserved by a run that is over"}}
	f.Answer("AuditTopic", resp)
	bad := f.Run(t, "topic", "audit", "orders", "--user", "ada")
	for _, want := range []string{"event o-1, consumer ship, run " + clitest.KeyA + " is reserved by a run that is over", "and 1 more"} {
		if bad.Code != command.ExitFailed || !strings.Contains(bad.Out, want) {
			t.Errorf("exit %d, %q is missing in %s%s", bad.Code, want, bad.Out, bad.ErrOut)
		}
	}
}
