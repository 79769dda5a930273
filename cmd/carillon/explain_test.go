package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

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
			if got.code != exitDone {
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
		if last := f.requests()[len(f.requests())-1]; got.code != exitDone || !proto.Equal(last, &carillonv1.ExplainSlotRequest{ScheduleId: "nightly"}) {
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
			if got.code != exitFailed || !strings.Contains(got.errs, tt.says) {
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
	if got := f.run(t, "explain", "nightly", "next"); got.code != exitFailed || !strings.Contains(got.errs, "has no next slot") {
		t.Errorf("exit %d: %s", got.code, got.errs)
	}
}
