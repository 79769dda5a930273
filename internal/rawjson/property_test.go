package rawjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/rawjson"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Whatever JSON a raw member is, it comes through byte for byte: in and out of
// a field, and of messages in a list.
func TestRawMembersComeThroughUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := value(t, 3)
		for _, field := range []string{"input", "dag"} {
			m := proto.Message(&carillonv1.ExecutorRunRequest{})
			text := space(t) + `{` + space(t) + `"` + field + `"` + space(t) + `:` + space(t) + raw + space(t) + `}` + space(t)
			if err := rawjson.Unmarshal([]byte(text), m); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			fd := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(field))
			got := string(m.ProtoReflect().Get(fd).Bytes())
			if want := raw; got != want && (got != "" || want != "null") {
				t.Fatalf("in: %q became %q", want, got)
			}
			out, err := rawjson.Marshal(m)
			if err != nil || !strings.Contains(string(out), `"`+field+`":`+raw+`,`) {
				t.Fatalf("out: %q is not in %s (%v)", raw, out, err)
			}
		}
		list := &carillonv1.ListRevisionsResponse{Revisions: []*carillonv1.ScheduleRevision{
			{Revision: 1}, {Definition: &carillonv1.ScheduleDefinition{Input: []byte(raw)}},
		}}
		out, err := rawjson.Marshal(list)
		if err != nil || !json.Valid(out) {
			t.Fatalf("list: %s (%v)", out, err)
		}
		again := &carillonv1.ListRevisionsResponse{}
		if err := rawjson.Unmarshal(out, again); err != nil || !proto.Equal(list, again) && raw != "null" {
			t.Fatalf("list: %v became %v (%v)", list, again, err)
		}
	})
}

// value draws JSON text as people write it: any spacing, any order of names,
// numbers of any length.
func value(t *rapid.T, depth int) string {
	kinds := 5
	if depth == 0 {
		kinds = 3
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false", "{}", "[]", "{ }", "[\n]"}).Draw(t, "literal")
	case 1:
		return rapid.StringMatching(`-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?`).Draw(t, "number")
	case 2:
		return text(t)
	case 3:
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			items = append(items, space(t)+value(t, depth-1)+space(t))
		}
		return "[" + strings.Join(items, ",") + "]"
	default:
		var members []string
		for i := range rapid.IntRange(0, 3).Draw(t, "members") {
			name := fmt.Sprintf(`"%d%s`, 9-i, text(t)[1:])
			members = append(members, space(t)+name+space(t)+":"+space(t)+value(t, depth-1)+space(t))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
}

func text(t *rapid.T) string {
	quoted, _ := json.Marshal(rapid.String().Draw(t, "text"))
	if strings.Contains(string(quoted), `\`) {
		return string(quoted) // the a may be part of an escape
	}
	return strings.Replace(string(quoted), `a`, `\u0061`, 1)
}

func space(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", " ", "\n", "\t\r\n  "}).Draw(t, "space")
}

// What is accepted survives being written and read again, and nothing panics.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		`{"schedule_id":"s1","workflow_id":"w","version":1,"user_id":"u","cron_expr":"*/5 * * * *","timezone":"America/New_York"}`,
		`{"input": {"a": [1, 2.50, "\u0000"], "b": {}}, "labels": {"x": "y"}, "once_at": "2026-03-08T14:00:00Z"}`,
		`{"version": 1e0, "jitter_ms": 0, "paused": null}`, `{"a":1,"a":2}`, `[{}]`, `{"input":null}`, `{"input" :"\ud800"}`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m := &carillonv1.UpsertScheduleRequest{}
		if rawjson.Unmarshal(text, m) != nil {
			return
		}
		rawjson.Problem(m.GetInput(), 32)
		out, err := rawjson.Marshal(m)
		if err != nil {
			t.Fatalf("accepted %q, but: %v", text, err)
		}
		again := &carillonv1.UpsertScheduleRequest{}
		if err := rawjson.Unmarshal(out, again); err != nil || !proto.Equal(m, again) {
			t.Fatalf("%q became %s, then %v (%v)", text, out, again, err)
		}
	})
}

// The convention's limits, held against every message of carillon.v1.
func TestTheProtosKeepTheConvention(t *testing.T) {
	allowed := map[protoreflect.Kind]bool{
		protoreflect.StringKind: true, protoreflect.BoolKind: true, protoreflect.BytesKind: true, protoreflect.MessageKind: true,
		protoreflect.Int32Kind: true, protoreflect.Uint32Kind: true,
	}
	for _, file := range []protoreflect.FileDescriptor{
		carillonv1.File_carillon_v1_schedule_proto, carillonv1.File_carillon_v1_run_proto, carillonv1.File_carillon_v1_workflow_proto,
		carillonv1.File_carillon_v1_launcher_proto, carillonv1.File_carillon_v1_executor_proto,
	} {
		for i := range file.Messages().Len() {
			md := file.Messages().Get(i)
			if name := string(md.Name()); strings.HasPrefix(name, "RunLauncherStartBatch") || strings.HasPrefix(name, "ExecutorRunBatch") {
				continue // of a stream without a REST twin: they are never JSON
			}
			for j := range md.Fields().Len() {
				fd := md.Fields().Get(j)
				if !allowed[fd.Kind()] {
					t.Errorf("%s is %s: JSON has no plain form of it", fd.FullName(), fd.Kind())
				}
				if fd.IsMap() && (fd.MapKey().Kind() != protoreflect.StringKind || fd.MapValue().Kind() != protoreflect.StringKind) {
					t.Errorf("%s is a map of something else than text", fd.FullName())
				}
			}
		}
	}
}
