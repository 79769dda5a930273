package rawjson_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestMarshalKeepsTheConvention(t *testing.T) {
	tests := []struct {
		name string
		in   proto.Message
		want string
	}{
		{
			name: "unset fields are shown, a null time is null",
			in:   &carillonv1.UpsertScheduleResponse{ScheduleId: "s1"},
			want: `{"schedule_id":"s1","next_run_at":null}`,
		},
		{
			name: "a raw member is the JSON itself, white space and order kept",
			in:   &carillonv1.WorkflowVersion{WorkflowId: "w", Version: 2, Dag: []byte("{ \"z\": 1,\n\"a\":9007199254740993 }")},
			want: `{"workflow_id":"w","version":2,"dag":{ "z": 1,` + "\n" + `"a":9007199254740993 },"sha256":"","created_at":null,"user_id":""}`,
		},
		{
			name: "an empty raw member is null",
			in:   &carillonv1.WorkflowVersion{},
			want: `{"workflow_id":"","version":0,"dag":null,"sha256":"","created_at":null,"user_id":""}`,
		},
		{
			name: "raw members inside messages inside lists",
			in: &carillonv1.ListWorkflowVersionsResponse{WorkflowVersions: []*carillonv1.WorkflowVersion{
				{Dag: []byte(`[1 ,2]`)}, {Dag: []byte(`"x"`)},
			}},
			want: `{"workflow_versions":[{"workflow_id":"","version":0,"dag":[1 ,2],"sha256":"","created_at":null,"user_id":""},` +
				`{"workflow_id":"","version":0,"dag":"x","sha256":"","created_at":null,"user_id":""}],"next_page_token":""}`,
		},
		{
			name: "a message without raw members, times to the second",
			in:   &carillonv1.Fire{RunAt: &timestamppb.Timestamp{Seconds: 1772978400}, Local: "x"},
			want: `{"run_at":"2026-03-08T14:00:00Z","fire_at":null,"local":"x"}`,
		},
		{
			name: "an optional field that is set",
			in:   &carillonv1.Fire{Note: proto.String("n")},
			want: `{"run_at":null,"fire_at":null,"local":"","note":"n"}`,
		},
		{
			name: "no message at all",
			in:   &carillonv1.SetPausedResponse{},
			want: `{}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := rawjson.Marshal(tt.in)
			if err != nil || string(got) != tt.want {
				t.Errorf("Marshal = %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func TestMarshalRefusesARawMemberThatIsNotJSON(t *testing.T) {
	if got, err := rawjson.Marshal(&carillonv1.WorkflowVersion{Dag: []byte(`{`)}); err == nil {
		t.Errorf("Marshal = %s, want an error", got)
	}
}

func TestUnmarshalReads(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want *carillonv1.UpsertScheduleRequest
	}{
		{
			name: "the documents' own example",
			in: `{"schedule_id":"s1","workflow_id":"w","version":1,"user_id":"u","cron_expr":"*/5 * * * *",
				"timezone":"America/New_York","overlap_policy":"skip"}`,
			want: &carillonv1.UpsertScheduleRequest{
				ScheduleId: "s1", WorkflowId: "w", Version: 1, UserId: "u", CronExpr: proto.String("*/5 * * * *"),
				Timezone: proto.String("America/New_York"), OverlapPolicy: proto.String("skip"),
			},
		},
		{
			name: "raw input, verbatim without the space around it",
			in:   `{"input":  {"b": 1.0, "a" :[ ]}  }`,
			want: &carillonv1.UpsertScheduleRequest{Input: []byte(`{"b": 1.0, "a" :[ ]}`)},
		},
		{
			name: "null is the same as not there",
			in:   `{"input":null,"jitter_ms":null,"once_at":null,"labels":null,"workflow_id":null,"paused":null}`,
			want: &carillonv1.UpsertScheduleRequest{},
		},
		{
			name: "set to zero is not the same as not set",
			in:   `{"jitter_ms":0,"paused":false,"timezone":""}`,
			want: &carillonv1.UpsertScheduleRequest{JitterMs: proto.Uint32(0), Paused: proto.Bool(false), Timezone: proto.String("")},
		},
		{
			name: "a whole number in another spelling",
			in:   `{"version":1.0,"jitter_ms":1e3}`,
			want: &carillonv1.UpsertScheduleRequest{Version: 1, JitterMs: proto.Uint32(1000)},
		},
		{
			name: "an escaped name is the name",
			in:   `{"\u0076ersion":7}`,
			want: &carillonv1.UpsertScheduleRequest{Version: 7},
		},
		{
			name: "labels",
			in:   `{"labels":{"team":"a\nb","x":""}}`,
			want: &carillonv1.UpsertScheduleRequest{Labels: map[string]string{"team": "a\nb", "x": ""}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := &carillonv1.UpsertScheduleRequest{UserId: "left over"}
			if err := rawjson.Unmarshal([]byte(tt.in), got); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(got, tt.want) {
				t.Errorf("got  %v\nwant %v", got, tt.want)
			}
		})
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	tests := []struct {
		name    string
		in      string
		field   string
		problem string
	}{
		{"an unknown field", `{"schedule_idd":"x"}`, "schedule_idd", "is not a field of UpsertScheduleRequest"},
		{"another spelling of a field", `{"scheduleId":"x"}`, "scheduleId", "write schedule_id"},
		{"a field twice", `{"version":1,"version":1}`, "version", "is there twice"},
		{"a field twice, once escaped", `{"version":1,"\u0076ersion":1}`, "version", "is there twice"},
		{"a field twice with null", `{"version":null,"version":1}`, "version", "is there twice"},
		{"a label twice", `{"labels":{"a":"1","a":"2"}}`, `labels["a"]`, "is there twice"},
		{"a number as text", `{"version":"1"}`, "version", `"1" is not a whole number`},
		{"a fraction", `{"version":1.5}`, "version", "1.5 is not a whole number"},
		{"a number beyond 32 bits", `{"version":2147483648}`, "version", "2147483648 is not a whole number"},
		{"a negative length of time", `{"jitter_ms":-1}`, "jitter_ms", "-1 is not a whole number from 0"},
		{"a number beyond every float", `{"version":1e999}`, "version", "1e999 is not a whole number"},
		{"text as a number", `{"workflow_id":5}`, "workflow_id", "5 is not a string"},
		{"a truth as text", `{"paused":"true"}`, "paused", "is not true or false"},
		{"a time without a zone", `{"once_at":"2026-01-01T00:00:00"}`, "once_at", "is not a time such as"},
		{"a time as a number", `{"once_at":5}`, "once_at", "is not a time such as"},
		{"an object as text", `{"labels":"x"}`, "labels", "is not an object"},
		{"a label that is no text", `{"labels":{"a":1}}`, `labels["a"]`, "1 is not a string"},
		{"a lone surrogate in text", `{"workflow_id":"\ud800"}`, "body", "is refused"},
		{"a list at the top", `[]`, "body", "is not an object"},
		{"null at the top", `null`, "body", "is not an object"},
		{"two objects", `{} {}`, "body", "is not JSON"},
		{"half an object", `{"version":`, "body", "is not JSON"},
		{"not a number", `{"input":NaN}`, "body", "is not JSON"},
		{"nothing", ``, "body", "is not JSON"},
		{"not UTF-8", "{\"workflow_id\":\"\xff\"}", "body", "is not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := rawjson.Unmarshal([]byte(tt.in), &carillonv1.UpsertScheduleRequest{})
			var invalid *schedule.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("err = %v, want an InvalidError", err)
			}
			if v := invalid.Violations[0]; v.Field != tt.field || !strings.Contains(v.String(), tt.problem) {
				t.Errorf("violation %q of %q, want %q of %q", v.String(), v.Field, tt.problem, tt.field)
			}
		})
	}
}

func TestUnmarshalListsEverythingButNotForever(t *testing.T) {
	var invalid *schedule.InvalidError
	err := rawjson.Unmarshal([]byte(`{"version":"x","labels":{"a":1},"nope":1}`), &carillonv1.UpsertScheduleRequest{})
	if !errors.As(err, &invalid) || len(invalid.Violations) != 3 {
		t.Errorf("err = %v, want three violations", err)
	}
	many := `{"x":1` + strings.Repeat(`,"x":1`, 100_000) + `}`
	err = rawjson.Unmarshal([]byte(many), &carillonv1.UpsertScheduleRequest{})
	if !errors.As(err, &invalid) || len(invalid.Violations) != 20 {
		t.Errorf("%d violations, want 20", len(invalid.Violations))
	}
}

func TestDecoderNamesFieldsBehindItsPrefix(t *testing.T) {
	d := rawjson.Decoder{Prefix: "dag.triggers[0].", Allow: []string{"type"}}
	var invalid *schedule.InvalidError
	err := d.Unmarshal([]byte(`{"type":{"any":1},"labels":{"type":"ok"},"cron":1}`), &carillonv1.UpsertScheduleRequest{})
	if !errors.As(err, &invalid) || len(invalid.Violations) != 1 || invalid.Violations[0].Field != "dag.triggers[0].cron" {
		t.Errorf("err = %v", err)
	}
}

func TestProblem(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := []struct {
		name string
		raw  string
		want string // "" = none
	}{
		{"an object", `{"a":[1,2,{"b":null}]}`, ""},
		{"a bare number", `12345678901234567890.5e7`, ""},
		{"as deep as allowed", deep(32), ""},
		{"one level too deep", deep(33), "deeper than 32"},
		{"far too deep", deep(9000), "deeper than 32"},
		{"brackets in text have no depth", `"` + strings.Repeat("[", 99) + `"`, ""},
		{"an escaped NUL", `{"a":"x\u0000"}`, "NUL"},
		{"an escaped NUL in a name", `{"\u0000":1}`, "NUL"},
		{"an escaped backslash before u0000 is text", `{"a":"\\u0000"}`, ""},
		{"a name twice", `{"a":1,"b":{"c":1,"c":2}}`, `"c" twice`},
		{"the same name in two objects", `[{"a":1},{"a":1}]`, ""},
		{"a raw NUL", "\"\x00\"", "is not JSON"},
		{"not a number", `NaN`, "is not JSON"},
		{"nothing", ``, "is not JSON"},
		{"two values", `1 2`, "is not JSON"},
		{"not UTF-8", "\"\xff\"", "not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := rawjson.Problem([]byte(tt.raw), 32)
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("Problem = %q, want %q", got, tt.want)
			}
		})
	}
}
