package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/explain"
)

func TestExplainsClosedSetsAreTheDomains(t *testing.T) {
	md := (&carillonv1.ExplainSlotResponse{}).ProtoReflect().Descriptor()
	for field, want := range map[string][]string{
		"verdict": words(explain.Verdicts),
		"reason":  append(append([]string{""}, words(schedule.Reasons)...), words(explain.Whys)...),
	} {
		for i := range md.Fields().Len() {
			if fd := md.Fields().Get(i); string(fd.Name()) == field {
				rules, _ := proto.GetExtension(fd.Options(), validate.E_Field).(*validate.FieldRules)
				if got := rules.GetString().GetIn(); !slices.Equal(got, want) {
					t.Errorf("%s is one of %v, want %v", field, got, want)
				}
			}
		}
	}
}

func TestExplainOverREST(t *testing.T) {
	created := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
	now := created
	r := newRig(t, func(o *registrar.Options) {
		o.Now = func() time.Time { return now }
		o.Config.Retention = 90 * 24 * time.Hour
	})
	r.must("PUT", "/v1/schedules/nightly", upsert("schedule_id", "-", "cron_expr", `"30 2 * * *"`, "timezone", `"America/New_York"`))
	now = created.Add(time.Minute)
	r.must("POST", "/v1/schedules/nightly:pause", `{"note":"moving","until":"2026-03-09T00:00:00Z"}`)
	now = created.Add(24 * time.Hour)

	for _, tt := range []struct{ name, at, verdict, reason, sentence string }{
		{"a slot that fell into a pause", "2026-03-08T07:00:00Z", "not_fired", "paused", `note "moving"`},
		{"a slot ahead, after the pause", "2026-03-09T06:30:00Z", "will_fire", "", "will fire at 2026-03-09T06:30:00Z"},
		{"no slot", "2026-03-09T06:31:00Z", "not_a_slot", "off_rule", "minute 31 does not match 30"},
		{"before there was a schedule", "2026-03-01T00:00:00Z", "no_schedule", "not_created", "did not exist yet"},
		{"an offset is an offset", "2026-03-09T02:30:00-04:00", "will_fire", "", "2026-03-09T02:30:00-04:00 EDT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := r.must("GET", "/v1/schedules/nightly:explain?time="+strings.ReplaceAll(tt.at, "+", "%2B"), "")
			var got struct {
				Verdict, Reason string
				Sentences       []string
				KeptSince       string `json:"kept_since"`
			}
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			if got.Verdict != tt.verdict || got.Reason != tt.reason || !strings.Contains(strings.Join(got.Sentences, " "), tt.sentence) || got.KeptSince == "" {
				t.Errorf("got %s", text)
			}
		})
	}
	for _, tt := range []struct{ name, local, verdict, reason, says string }{
		{"a local time", "2026-03-09T02:30", "will_fire", "", `"shown":1`},
		{"one that the clock never shows, a pause at the end of its gap", "2026-03-08T02:30", "not_fired", "paused", `"gap_from":"2026-03-08T02:00:00","gap_to":"2026-03-08T03:00:00"`},
		{"one that does not occur", "2026-03-08%2002:15:30", "not_a_slot", "gap", `"shown":0`},
		{"one that the clock shows twice", "2026-11-01T01:30", "not_a_slot", "off_rule", `"second":{"time":"2026-11-01T06:30:00Z","verdict":"not_a_slot"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := r.must("GET", "/v1/schedules/nightly:explain?local="+tt.local, "")
			var got struct{ Verdict, Reason string }
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			if got.Verdict != tt.verdict || got.Reason != tt.reason || !strings.Contains(text, tt.says) {
				t.Errorf("got %s", text)
			}
		})
	}
	for _, tt := range []struct {
		name, path, says string
		code             int
	}{
		{"a time that is none", "/v1/schedules/nightly:explain?time=yesterday", "time", http.StatusBadRequest},
		{"a time after all times", "/v1/schedules/nightly:explain?time=2100-01-01T00:00:00Z", "time", http.StatusBadRequest},
		{"a local time that is none", "/v1/schedules/nightly:explain?local=2026-02-30T02:30", "local", http.StatusBadRequest},
		{"a local time with an offset", "/v1/schedules/nightly:explain?local=2026-02-20T02:30:00Z", "a time with an offset goes into time", http.StatusBadRequest},
		{"a local time before all times", "/v1/schedules/nightly:explain?local=1969-12-31T23:59", "local", http.StatusBadRequest},
		{"both", "/v1/schedules/nightly:explain?local=2026-03-08T02:30&time=2026-03-08T02:30:00Z", "give one of them", http.StatusBadRequest},
		{"a local time of an unknown schedule", "/v1/schedules/other:explain?local=2026-03-01T00:00", "other", http.StatusNotFound},
		{"the last slot of an unknown schedule", "/v1/schedules/other:explain", "other", http.StatusNotFound},
		{"an unknown schedule", "/v1/schedules/other:explain?time=2026-03-01T00:00:00Z", "other", http.StatusNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if code, text := r.rest("GET", tt.path, ""); code != tt.code || !strings.Contains(text, tt.says) {
				t.Errorf("%d %s", code, text)
			}
		})
	}
}

func TestExplainWithoutATimeIsOfTheNewestDueSlot(t *testing.T) {
	created := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		members []string // of the upsert
		pause   bool
		after   time.Duration // since the creation
		code    int
		says    []string
	}{
		{
			name: "a slot during a pause is explained, not the one launched before", members: []string{"cron_expr", `"30 2 * * *"`}, pause: true, after: 15 * time.Hour,
			code: http.StatusOK, says: []string{`"time":"2026-03-08T02:30:00Z"`, `"verdict":"not_fired","reason":"paused"`},
		},
		{
			name: "one at this very second", members: []string{"cron_expr", `"* * * * *"`}, after: 2 * time.Minute,
			code: http.StatusOK, says: []string{`"time":"2026-03-07T12:02:00Z"`, `"verdict":"due"`},
		},
		{
			name: "jitter has put the newest slot ahead of now", members: []string{"cron_expr", `"* * * * *"`, "jitter_ms", "30000"}, after: 3 * time.Minute,
			code: http.StatusOK, says: []string{`"time":"2026-03-07T12:02:00Z"`},
		},
		{
			name: "a deleted schedule", members: []string{"cron_expr", `"* * * * *"`}, after: -1,
			code: http.StatusOK, says: []string{`"time":"2026-03-07T12:05:00Z"`},
		},
		{
			name: "none has been due yet", members: []string{"cron_expr", `"30 2 * * *"`}, after: time.Minute,
			code: http.StatusConflict, says: []string{"has no past slot and no run yet"},
		},
		{
			name: "a schedule without a rule that never ran", after: time.Hour,
			code: http.StatusConflict, says: []string{"and no run"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := created
			r := newRig(t, func(o *registrar.Options) { o.Now = func() time.Time { return now } })
			r.must("PUT", "/v1/schedules/nightly", upsert(append([]string{"schedule_id", "-", "cron_expr", "-"}, tt.members...)...))
			if tt.pause {
				r.must("POST", "/v1/schedules/nightly:pause", `{}`)
			}
			now = created.Add(tt.after)
			if tt.after < 0 {
				now = created.Add(5 * time.Minute)
				r.must("DELETE", "/v1/schedules/nightly", "")
				now = created.Add(time.Hour)
			}
			code, text := r.rest("GET", "/v1/schedules/nightly:explain", "")
			if code != tt.code {
				t.Fatalf("%d %s", code, text)
			}
			for _, part := range tt.says {
				if !strings.Contains(text, part) {
					t.Errorf("it does not say %s: %s", part, text)
				}
			}
		})
	}
}
