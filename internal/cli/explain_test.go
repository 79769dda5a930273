package cli

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func explaining(t *testing.T) *fake {
	t.Helper()
	f := answering(t)
	s := nightly()
	s.Timezone, s.LastRunAt = "America/New_York", at("2026-03-07T07:30:00Z")
	f.always("GetSchedule", &carillonv1.GetScheduleResponse{Schedule: s, Preview: []*carillonv1.Fire{{RunAt: at("2026-03-09T06:30:00Z")}}})
	f.always("ExplainSlot", &carillonv1.ExplainSlotResponse{
		ScheduleId: "nightly", Time: at("2026-03-07T07:30:00Z"), Verdict: "not_fired", Reason: "paused",
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
			got := f.run(t, "explain", "nightly", tt.argument)
			if got.code != command.ExitOK {
				t.Fatal(got.errs)
			}
			want := &carillonv1.ExplainSlotRequest{ScheduleId: "nightly"}
			if tt.want == "" {
				want.Local = tt.argument // the server knows the zone's clock
			} else {
				want.Time = at(tt.want)
			}
			if last := f.requests()[len(f.requests())-1]; !proto.Equal(last, want) {
				t.Errorf("asked for %v, want %v", last, want)
			}
		})
	}
}

func TestExplainLeavesTheNewestSlotToTheServer(t *testing.T) {
	for _, args := range [][]string{{"explain", "nightly"}, {"explain", "nightly", "last"}} {
		f := explaining(t)
		got := f.run(t, args...)
		if last := f.requests()[len(f.requests())-1]; got.code != command.ExitOK || !proto.Equal(last, &carillonv1.ExplainSlotRequest{ScheduleId: "nightly"}) {
			t.Errorf("%v: exit %d, asked for %v, want neither time nor local", args, got.code, last)
		}
	}
}

func TestExplainRefusesTimesThatAreNone(t *testing.T) {
	for _, tt := range []struct{ name, argument, says string }{
		{"a word", "yesterday", "last or next"},
		{"a day", "2026-03-08", "last or next"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := explaining(t).run(t, "explain", "nightly", tt.argument)
			if got.code != command.ExitFailed || !strings.Contains(got.errs, tt.says) {
				t.Errorf("exit %d: %s", got.code, got.errs)
			}
		})
	}
}

func TestExplainShowsTheAnswer(t *testing.T) {
	f := explaining(t)
	golden(t, "explain", f.run(t, "explain", "nightly", "2026-03-07T07:30:00Z").out)
	golden(t, "explain_json", f.run(t, "explain", "nightly", "2026-03-07T07:30:00Z", "-o", "json").out)
	f.answers["GetSchedule"] = func(proto.Message) (proto.Message, error) {
		return &carillonv1.GetScheduleResponse{Schedule: nightly()}, nil
	}
	if got := f.run(t, "explain", "nightly", "next"); got.code != command.ExitFailed || !strings.Contains(got.errs, "has no next slot") {
		t.Errorf("exit %d: %s", got.code, got.errs)
	}
}

func TestExplainTakesTheKeyOfARun(t *testing.T) {
	const id = "nightly"
	slot := at("2026-03-07T07:30:00Z")
	key := schedule.SlotKey(id, slot.AsTime()).String()
	unknown := status.Error(codes.NotFound, "there is no schedule "+key[:12])
	for _, tt := range []struct {
		name string
		run  *carillonv1.Run // nil: there is none
		want string          // in what is printed
	}{
		{"of a slot", &carillonv1.Run{IdempotencyKey: key, ScheduleId: id, RunAt: slot, Trigger: "schedule"}, "The slot did not fire."},
		{"of a run by hand", &carillonv1.Run{IdempotencyKey: keyA, ScheduleId: id, RunAt: slot, Trigger: "manual"}, "has no slot: its trigger is manual; `carillon run get " + keyA[:12] + "` shows what happened"},
		{"of no run", nil, `there is no schedule and no run "` + key[:12]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := explaining(t)
			answer := f.answers["ExplainSlot"]
			f.answers["ExplainSlot"] = func(req proto.Message) (proto.Message, error) {
				if req.(*carillonv1.ExplainSlotRequest).GetScheduleId() != id {
					return nil, unknown
				}
				return answer(req)
			}
			f.refuses("GetRun", status.Error(codes.NotFound, "there is no run"))
			if tt.run != nil {
				f.always("GetRun", &carillonv1.GetRunResponse{Run: tt.run})
			}
			got := f.run(t, "explain", key[:12])
			if !strings.Contains(got.out+got.errs, tt.want) {
				t.Errorf("exit %d: %s%s, want %q", got.code, got.out, got.errs, tt.want)
			}
			if tt.want == "The slot did not fire." {
				want := &carillonv1.ExplainSlotRequest{ScheduleId: id, Time: slot}
				if last := f.requests()[len(f.requests())-1]; got.code != command.ExitOK || !proto.Equal(last, want) {
					t.Errorf("exit %d, asked for %v, want %v", got.code, last, want)
				}
			}
		})
	}
}
