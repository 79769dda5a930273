package api_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/api"
	"github.com/carillon/carillon/launcher/wire"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	registrarapi "github.com/carillon/carillon/registrar/api"
)

func TestWhatIsNotLookedAtInFullKeepsEveryRule(t *testing.T) {
	ids := []string{"", "a", "A.b_c:d-9", "a b", "ü", strings.Repeat("x", 128), strings.Repeat("x", 129), "a\n", "a/b"}
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
		at := func(name string) *timestamppb.Timestamp {
			return rapid.SampledFrom([]*timestamppb.Timestamp{
				nil, {Seconds: 1_700_000_000, Nanos: 5}, {}, {Seconds: -1}, {Nanos: -1}, {Nanos: 1e9}, {Seconds: 31556951999}, {Seconds: 1 << 40},
			}).Draw(t, name)
		}
		key := strings.Repeat("0a", 32)
		req := &carillonv1.RunLauncherStartRequest{
			IdempotencyKey: text("key", key, key[1:], key+"0", strings.ToUpper(key), ""),
			ScheduleId:     text("schedule", ids...), WorkflowId: text("workflow", ids...), UserId: text("user", ids...),
			ExecutionGrantId: text("grant", ids...), Version: rapid.Int32Range(-1, 3).Draw(t, "version"),
			ScheduledFor: at("scheduled_for"), FireAt: at("fire_at"), SendUntil: at("send_until"),
			Input: []byte(text("input", "", "", "{}", "\xff", strings.Repeat("1", 65537))), Traceparent: text("trace", "", "", "00-x"),
		}
		if rapid.Bool().Draw(t, "with more") {
			req.Trigger = proto.String(text("trigger", "schedule", "retry", "", "never"))
			req.Attempt = proto.Int32(rapid.Int32Range(-1, 3).Draw(t, "attempt"))
			req.RunTimeoutMs = proto.Uint32(rapid.SampledFrom([]uint32{0, 1, 2592000000, 2592000001}).Draw(t, "timeout"))
		}
		if err := registrarapi.Check(req); api.Plain(req) && err != nil {
			t.Errorf("%v is let through, and breaks a rule: %v", req, err)
		}
	})
}

func TestWhatTheWorkerSendsIsNotLookedAtInFull(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	req := wire.Start(&schedule.StartRequest{
		Key: schedule.SlotKey("s", now), ScheduleID: "s", WorkflowID: "w", Version: 1, UserID: "u", Attempt: 1, Trigger: schedule.TriggerSchedule,
		ScheduledFor: now, FireAt: now.Add(time.Second), RunTimeout: time.Hour, SendUntil: now.Add(time.Minute), ExecutionGrantID: "g",
	})
	if !api.Plain(req) {
		t.Errorf("%v is looked at in full", req)
	}
}
