package schedule

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/rawjson"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// drawSchedule is a schedule as GetSchedule shows it.
func drawSchedule(t *rapid.T) *carillonv1.Schedule {
	ms := func(name string, least uint32) uint32 {
		return rapid.SampledFrom([]uint32{least, 1000, 60000, 3600000}).Draw(t, name)
	}
	s := &carillonv1.Schedule{
		ScheduleId: rapid.SampledFrom([]string{"nightly", "12:30", "null", ":ada_40x:n", "1e3"}).Draw(t, "id"), WorkflowId: "w", Version: 3,
		UserId:   rapid.SampledFrom([]string{"ada", "ada@example.com", "auth0|7", "no", "Zoë: #1", `a"b`}).Draw(t, "user"),
		Timezone: "Europe/Berlin", JitterMs: ms("jitter", 0), Dst: "literal", OverlapPolicy: "queue", OverlapKey: "k:1",
		MaxQueued: 7, CatchupPolicy: "spread", CatchupWindowMs: ms("window", 0), RunTimeoutMs: ms("timeout", 1000), LaunchTimeoutMs: ms("launch timeout", 0), MaxRunMs: ms("longest run", 0), ExpiresMs: ms("expires", 0),
		Priority: rapid.Int32Range(-1000, 1000).Draw(t, "priority"), ExecutionGrantId: "g", ManagedBy: "set:prod", Paused: rapid.Bool().Draw(t, "paused"),
		Labels:   map[string]string{"a": rapid.String().Draw(t, "label"), "true": "yes"},
		Revision: 4, PauseNote: "x", NextRunAt: timestamppb.Now(), CreatedAt: timestamppb.Now(),
		Expect: &carillonv1.Expectation{AlertAfter: proto.Uint32(2), StartWithinMs: proto.Uint32(60000)},
	}
	switch rapid.IntRange(0, 3).Draw(t, "rule") {
	case 0:
		s.CronExpr = "0 3 * * *"
	case 1:
		s.IntervalMs = 60000
	case 2:
		s.OnceAt = timestamppb.New(time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC))
	}
	s.Input = rapid.SampledFrom([][]byte{nil, []byte(`{"n":1.50,"big":12345678901234567890,"e":1E400}`), []byte(`"null"`), []byte(`[]`), []byte(`"2026-01-01"`), []byte(`false`)}).Draw(t, "input")
	return s
}

func TestWhatGetPrintsIsTheUpsertThatChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSchedule(t)
		want := &carillonv1.UpsertScheduleRequest{
			ScheduleId: s.ScheduleId, WorkflowId: s.WorkflowId, Version: s.Version, UserId: s.UserId, OnceAt: s.OnceAt, Timezone: &s.Timezone,
			JitterMs: &s.JitterMs, Dst: &s.Dst, OverlapPolicy: &s.OverlapPolicy, OverlapKey: &s.OverlapKey, MaxQueued: &s.MaxQueued,
			CatchupPolicy: &s.CatchupPolicy, CatchupWindowMs: &s.CatchupWindowMs, RunTimeoutMs: &s.RunTimeoutMs, LaunchTimeoutMs: &s.LaunchTimeoutMs, MaxRunMs: &s.MaxRunMs, ExpiresMs: &s.ExpiresMs, Priority: &s.Priority,
			Input: s.Input, ExecutionGrantId: s.ExecutionGrantId, Labels: s.Labels, ManagedBy: s.ManagedBy, Paused: &s.Paused, Expect: s.Expect,
		}
		if s.CronExpr != "" {
			want.CronExpr = &s.CronExpr
		}
		if s.IntervalMs != 0 {
			want.IntervalMs = &s.IntervalMs
		}
		answer, err := rawjson.Marshal(&carillonv1.GetScheduleResponse{Schedule: s})
		if err != nil {
			t.Fatal(err)
		}
		printed, err := render.YAMLFromJSON(answer)
		if err != nil {
			t.Fatal(err)
		}
		edited, err := definitionYAML(want)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"get -o yaml": printed, "edit": edited} {
			read, err := render.JSONFromYAML(text)
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			got := &carillonv1.UpsertScheduleRequest{}
			if err := readDefinition(read, got); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			if changed := changedFields(want, got); len(changed) > 0 {
				t.Fatalf("%s changes %v:\n%s\ngot  %v\nwant %v", name, changed, text, got, want)
			}
		}
	})
}
