package explain_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func explaining(t *testing.T) *clitest.Server {
	t.Helper()
	f := clitest.NewAnsweringServer(t)
	s := clitest.Schedule()
	s.Timezone, s.LastRunAt = "America/New_York", clitest.Time("2026-03-07T07:30:00Z")
	f.Answer("GetSchedule", &carillonv1.GetScheduleResponse{Schedule: s, Preview: []*carillonv1.Fire{{RunAt: clitest.Time("2026-03-09T06:30:00Z")}}})
	f.Answer("ExplainSlot", &carillonv1.ExplainSlotResponse{
		ScheduleId: "nightly", Time: clitest.Time("2026-03-07T07:30:00Z"), Verdict: "not_fired", Reason: "paused",
		Sentences: []string{"The slot did not fire.", "The schedule was paused by bob, note \"\x1b[31mred\"."},
	})
	return f
}

func TestExplainReadsTimesAsPeopleWriteThem(t *testing.T) {
	for _, tt := range []struct{ name, argument, want string }{
		{"RFC 3339", "2026-03-08T14:00:00.5+02:00", "2026-03-08T12:00:00.5Z"},
		{"the clock of the schedule's zone", "2026-03-08T02:30", ""},
		{"with a blank and seconds", "2026-03-10 02:30:15", ""},
		{"a duration back", "90m", "2026-03-08T10:30:00Z"},
		{"a duration ahead", "+2d", "2026-03-10T12:00:00Z"},
		{"now", "now", "2026-03-08T12:00:00Z"},
		{"the next run", "next", "2026-03-09T06:30:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := explaining(t)
			got := f.Run(t, "explain", "nightly", tt.argument)
			if got.Code != command.ExitOK {
				t.Fatal(got.ErrOut)
			}
			want := &carillonv1.ExplainSlotRequest{ScheduleId: "nightly"}
			if tt.want == "" {
				want.Local = tt.argument // the server knows the zone's clock
			} else {
				want.Time = clitest.Time(tt.want)
			}
			if last := f.Requests()[len(f.Requests())-1]; !proto.Equal(last, want) {
				t.Errorf("asked for %v, want %v", last, want)
			}
		})
	}
}

func TestExplainLeavesTheNewestSlotToTheServer(t *testing.T) {
	for _, args := range [][]string{{"explain", "nightly"}, {"explain", "nightly", "last"}} {
		f := explaining(t)
		got := f.Run(t, args...)
		if last := f.Requests()[len(f.Requests())-1]; got.Code != command.ExitOK || !proto.Equal(last, &carillonv1.ExplainSlotRequest{ScheduleId: "nightly"}) {
			t.Errorf("%v: exit %d, asked for %v, want neither time nor local", args, got.Code, last)
		}
	}
}

func TestExplainRefusesTimesThatAreNone(t *testing.T) {
	for _, tt := range []struct{ name, argument, says string }{
		{"a word", "yesterday", "last or next"},
		{"a day", "2026-03-08", "last or next"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := explaining(t).Run(t, "explain", "nightly", tt.argument)
			if got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, tt.says) {
				t.Errorf("exit %d: %s", got.Code, got.ErrOut)
			}
		})
	}
}

func TestExplainShowsTheAnswer(t *testing.T) {
	f := explaining(t)
	clitest.Golden(t, "explain", f.Run(t, "explain", "nightly", "2026-03-07T07:30:00Z").Out)
	clitest.Golden(t, "explain_json", f.Run(t, "explain", "nightly", "2026-03-07T07:30:00Z", "-o", "json").Out)
	f.Answers["GetSchedule"] = func(proto.Message) (proto.Message, error) {
		return &carillonv1.GetScheduleResponse{Schedule: clitest.Schedule()}, nil
	}
	if got := f.Run(t, "explain", "nightly", "next"); got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, "has no next slot") {
		t.Errorf("exit %d: %s", got.Code, got.ErrOut)
	}
}

func TestExplainTakesTheKeyOfARun(t *testing.T) {
	const id = "nightly"
	slot := clitest.Time("2026-03-07T07:30:00Z")
	key := schedule.SlotKey(id, slot.AsTime()).String()
	unknown := status.Error(codes.NotFound, "there is no schedule "+key[:12])
	for _, tt := range []struct {
		name string
		run  *carillonv1.Run // nil: there is none
		want string          // in what is printed
	}{
		{"of a slot", &carillonv1.Run{IdempotencyKey: key, ScheduleId: id, RunAt: slot, Trigger: "schedule"}, "The slot did not fire."},
		{"of a run by hand", &carillonv1.Run{IdempotencyKey: clitest.KeyA, ScheduleId: id, RunAt: slot, Trigger: "manual"}, "It waits."},
		{"of no run", nil, `there is no schedule and no run "` + key[:12]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := explaining(t)
			answer := f.Answers["ExplainSlot"]
			f.Answers["ExplainSlot"] = func(req proto.Message) (proto.Message, error) {
				if req.(*carillonv1.ExplainSlotRequest).GetScheduleId() != id {
					return nil, unknown
				}
				return answer(req)
			}
			f.Refuse("GetRun", status.Error(codes.NotFound, "there is no run"))
			if tt.run != nil {
				f.Answer("GetRun", &carillonv1.GetRunResponse{Run: tt.run})
			}
			got := f.Run(t, "explain", key[:12])
			if !strings.Contains(got.Out+got.ErrOut, tt.want) {
				t.Errorf("exit %d: %s%s, want %q", got.Code, got.Out, got.ErrOut, tt.want)
			}
			if tt.want == "The slot did not fire." {
				want := &carillonv1.ExplainSlotRequest{ScheduleId: id, Time: slot}
				if last := f.Requests()[len(f.Requests())-1]; got.Code != command.ExitOK || !proto.Equal(last, want) {
					t.Errorf("exit %d, asked for %v, want %v", got.Code, last, want)
				}
			}
		})
	}
}
