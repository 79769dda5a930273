package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/wire"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func drawTime(t *rapid.T, name string) time.Time {
	return time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, name)).UTC()
}

func drawKey(t *rapid.T) schedule.Key {
	return schedule.SlotKey(rapid.String().Draw(t, "schedule"), drawTime(t, "slot"))
}

func TestAStartComesOutAsItWentIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := schedule.StartRequest{
			Key: drawKey(t), ScheduleID: "s", WorkflowID: "w", Version: rapid.Int32Min(1).Draw(t, "version"), UserID: "u",
			ScheduledFor: drawTime(t, "scheduled_for"), FireAt: drawTime(t, "fire_at"),
			Trigger: rapid.SampledFrom(schedule.Triggers).Draw(t, "trigger"), Attempt: rapid.Int32Min(1).Draw(t, "attempt"),
			Epoch: rapid.Int64Range(0, 1<<32-1).Draw(t, "epoch"), ExecutionGrantID: rapid.SampledFrom([]string{"", "g"}).Draw(t, "grant"),
			RunTimeout:  time.Duration(rapid.Int64Range(0, 2592000000).Draw(t, "timeout")) * time.Millisecond,
			MaxAttempts: rapid.Int32Range(0, 25).Draw(t, "max_attempts"),
		}
		if rapid.Bool().Draw(t, "with input") {
			want.Input = json.RawMessage(`{"big":12345678901234567890,"a":[1]}`)
		}
		if rapid.Bool().Draw(t, "with an end") {
			want.SendUntil = drawTime(t, "send_until")
			want.TraceParent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
		}
		raw, err := proto.Marshal(wire.Start(&want))
		if err != nil {
			t.Fatal(err)
		}
		msg := &carillonv1.RunLauncherStartRequest{}
		if err := proto.Unmarshal(raw, msg); err != nil {
			t.Fatal(err)
		}
		got, err := wire.StartRequest(msg)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestACancelComesOutAsItWentIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := schedule.CancelRequest{
			Key: drawKey(t), ScheduleID: "s", ScheduledFor: rapid.SampledFrom([]time.Time{{}, time.Date(2026, 3, 8, 14, 0, 0, 0, time.UTC)}).Draw(t, "scheduled_for"),
			WorkflowID: "w", RunID: rapid.SampledFrom([]string{"", "r1"}).Draw(t, "run"),
			Reason: rapid.SampledFrom([]schedule.Reason{schedule.ReasonCancelled, schedule.ReasonReplaced}).Draw(t, "reason"),
		}
		if got, err := wire.CancelRequest(wire.Cancel(want)); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestAStartThatWasNotTriedComesBackAsTheSameError(t *testing.T) {
	for _, want := range []error{schedule.ErrWithheld, schedule.ErrOverdue} {
		got := wire.FailureError(wire.Failure(fmt.Errorf("%w: why", want)), "why")
		if !errors.Is(got, want) || errors.Is(got, schedule.ErrOverdue) != errors.Is(want, schedule.ErrOverdue) {
			t.Errorf("%v comes back as %v", want, got)
		}
	}
}

func TestWhatNamesNoKeyIsNoRequest(t *testing.T) {
	if _, err := wire.StartRequest(&carillonv1.RunLauncherStartRequest{IdempotencyKey: "beef"}); err == nil {
		t.Error("a start without a key was read")
	}
	if _, err := wire.CancelRequest(&carillonv1.RunLauncherCancelRequest{}); err == nil {
		t.Error("a cancel without a key was read")
	}
}
