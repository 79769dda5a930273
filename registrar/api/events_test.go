package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/rawjson"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}

// sizedData is JSON of n bytes.
func sizedData(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }

func arrays(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}

// TestPublishAtItsBounds publishes each event singly and as the second of a batch, over REST and gRPC.
func TestPublishAtItsBounds(t *testing.T) {
	r := newRig(t)
	events := carillonv1.NewEventServiceClient(r.conn)
	for i, tt := range []struct {
		name, topic, members string
		refused              string // the field; empty: it is published
	}{
		{"a topic of 128 bytes", strings.Repeat("t", 128), `"data": 1`, ""},
		{"a topic of 129 bytes", strings.Repeat("t", 129), `"data": 1`, "topic"},
		{"a topic with a space", "a b", `"data": 1`, "topic"},
		{"a star", "*", `"data": 1`, "topic"},
		{"a topic with a star", "a*b", `"data": 1`, "topic"},
		{"a prefix", "orders.*", `"data": 1`, "topic"},
		{"a reserved topic", "carillon.x", `"data": 1`, "topic"},
		{"a topic like a reserved one", "carillonx", `"data": 1`, ""},
		{"an event_id of 256 bytes", "t", `"data": 1, "event_id": "` + strings.Repeat("i", 256) + `"`, ""},
		{"an event_id of 257 bytes", "t", `"data": 1, "event_id": "` + strings.Repeat("i", 257) + `"`, "event_id"},
		{"an event_id with a newline", "t", `"data": 1, "event_id": "a\nb"`, "event_id"},
		{"an event_id with NUL", "t", `"data": 1, "event_id": "a\u0000b"`, "event_id"},
		{"a source of 257 bytes", "t", `"data": 1, "source": "` + strings.Repeat("i", 257) + `"`, "source"},
		{"a type of 257 bytes", "t", `"data": 1, "type": "` + strings.Repeat("i", 257) + `"`, "type"},
		{"a subject of 256 bytes", "t", `"data": 1, "subject": "` + strings.Repeat("i", 256) + `"`, ""},
		{"a subject of 257 bytes", "t", `"data": 1, "subject": "` + strings.Repeat("i", 257) + `"`, "subject"},
		{"no data", "t", `"event_id": "x"`, "data"},
		{"data of 64 KiB", "t", `"data": ` + sizedData(64<<10), ""},
		{"data of 64 KiB and a byte", "t", `"data": ` + sizedData(64<<10+1), "data"},
		{"data of 32 levels", "t", `"data": ` + arrays(32), ""},
		{"data of 33 levels", "t", `"data": ` + arrays(33), "data"},
		{"data with a member twice", "t", `"data": {"a": 1, "a": 2}`, "data"},
		{"data with NUL", "t", `"data": "\u0000"`, "data"},
		{"a time in 1969", "t", `"data": 1, "time": "1969-12-31T23:59:59Z"`, "time"},
		{"a time in 1970", "t", `"data": 1, "time": "1970-01-01T00:00:00Z"`, ""},
		{"a time in 2100", "t", `"data": 1, "time": "2100-01-01T00:00:00Z"`, "time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, batch := range []bool{false, true} {
				members := tt.members
				if !strings.Contains(members, `"event_id"`) {
					members += fmt.Sprintf(`, "event_id": "e-%d-%v"`, i, batch)
				}
				body := `{"user_id": "ada", "topic": ` + quoted(tt.topic) + `, ` + members + `}`
				field := tt.refused
				if batch {
					body = `{"user_id": "ada", "events": [{"topic": "t", "data": 0, "event_id": "first"}, {"topic": ` + quoted(tt.topic) + `, ` + members + `}]}`
					if field != "" {
						field = "events[1]." + field
					}
				}
				code, text := r.rest("POST", "/v1/events", body)
				if want := map[bool]int{true: http.StatusOK, false: http.StatusBadRequest}[field == ""]; code != want || !strings.Contains(text, quoted(field)) && field != "" {
					t.Errorf("REST, batch %v: %d %.300s, want %d with %q", batch, code, text, want, field)
				}
				req := &carillonv1.PublishEventsRequest{}
				if err := rawjson.Unmarshal([]byte(body), req); err != nil {
					continue // what JSON itself refuses cannot be sent
				}
				_, err := events.PublishEvents(t.Context(), req)
				want := map[bool]codes.Code{true: codes.OK, false: codes.InvalidArgument}[field == ""]
				if status.Code(err) != want || field != "" && !strings.Contains(status.Convert(err).Proto().String()+err.Error(), tt.refused) {
					t.Errorf("gRPC, batch %v: %v, want %v with %q", batch, err, want, field)
				}
			}
		})
	}
	if got := r.must("GET", "/v1/topics/t/events/first?user_id=ada", ""); !strings.Contains(got, `"data":0`) {
		t.Errorf("the first of the good batches is not there: %s", got)
	}
}

func TestBatchesAtTheirBounds(t *testing.T) {
	r := newRig(t)
	of := func(n int, event string) string {
		return `{"user_id": "ada", "events": [` + strings.TrimSuffix(strings.Repeat(event+",", n), ",") + `]}`
	}
	sized := func(bytes int, more string) string {
		event := func(id, n int) string { return fmt.Sprintf(`{"event_id": "%d%s", "data": %s}`, id, more, sizedData(n)) }
		var all []string
		for i := range 15 {
			all = append(all, event(i, 64<<10))
		}
		all = append(all, event(15, 32<<10), event(16, bytes-15*64<<10-32<<10))
		return `{"user_id": "ada", "events": [` + strings.Join(all, ",") + `]}`
	}
	for _, tt := range []struct {
		name, body string
		code       int
		want       string
	}{
		{"1000 events", of(1000, `{"data": {}, "subject": "`+strings.Repeat("s", 256)+`", "type": "`+strings.Repeat("t", 256)+`"}`), http.StatusOK, `"accepted":1000`},
		{"1001 events", of(1001, `{"data": {}}`), http.StatusBadRequest, "1000"},
		{"no events", of(0, ""), http.StatusBadRequest, "is empty"},
		{"1 MiB of data", sized(1<<20, "a"), http.StatusOK, `"accepted":17`},
		{"1 MiB and a byte of data", sized(1<<20+1, "b"), http.StatusBadRequest, "1048577 bytes of data together, more than 1048576"},
		{"one id twice", `{"user_id": "ada", "events": [{"event_id": "x", "data": {"a": 1, "b": 2}}, {"event_id": "x", "data": {"b": 2, "a": 1}}]}`, http.StatusOK, `"duplicates":1`},
		{"one id twice with other data", `{"user_id": "ada", "events": [{"event_id": "y", "data": 1}, {"event_id": "y", "data": 2}]}`, http.StatusBadRequest, "with other data"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if code, text := r.rest("POST", "/v1/topics/t/events", tt.body); code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("%d %.300s, want %d with %s", code, text, tt.code, tt.want)
			}
		})
	}
}

// TestConsumersAtTheirBounds upserts each singly and as the second of an apply.
func TestConsumersAtTheirBounds(t *testing.T) {
	r := newRig(t)
	topics := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"t%d"`, i))
		}
		return `"topics": [` + strings.Join(all, ", ") + `]`
	}
	filter := func(f string) string { return `"topics": ["t"], "filter": ` + f }
	conditions := func(n int) string {
		return `{"data": {"a": [` + strings.TrimSuffix(strings.Repeat("1,", n), ",") + `]}}`
	}
	sized := func(n int) string {
		const frame = `{"data":{"a":[""]}}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", n-len(frame))+`"`, 1)
	}
	for i, tt := range []struct{ name, consume, more, refused string }{
		{"16 topics", topics(16), "", ""},
		{"17 topics", topics(17), "", "consume.topics"},
		{"no topics", `"max_events": 5`, "", "consume.topics"},
		{"a filter and no topics", `"filter": {"type": ["a"]}`, "", "consume.topics"},
		{"a topic twice", `"topics": ["a", "a"]`, "", "consume.topics[1]"},
		{"a topic that is none", `"topics": ["a b"]`, "", "consume.topics[0]"},
		{"a topic with a star in it", `"topics": ["a*b"]`, "", "consume.topics[0]"},
		{"1000 events", `"topics": ["t"], "max_events": 1000`, "", ""},
		{"1001 events", `"topics": ["t"], "max_events": 1001`, "", "consume.max_events"},
		{"a filter of 4 KiB", filter(sized(4096)), "", ""},
		{"a filter of 4 KiB and a byte", filter(sized(4097)), "", "consume.filter"},
		{"64 conditions", filter(conditions(64)), "", ""},
		{"65 conditions", filter(conditions(65)), "", "consume.filter"},
		{"an unknown operator", filter(`{"type": [{"regex": "a"}]}`), "", "consume.filter"},
		{"numeric with a text", filter(`{"data": {"a": [{"numeric": [">", "1"]}]}}`), "", "consume.filter"},
		{"an unknown member", filter(`{"user_id": ["ada"]}`), "", "consume.filter"},
		{"a member twice", filter(`{"type": ["a"], "type": ["b"]}`), "", "consume.filter"},
		{"an empty array", filter(`{"type": []}`), "", "consume.filter"},
		{"a filter that is a text", filter(`"type"`), "", "consume.filter"},
		{"no filter", filter(`null`), "", ""},
		{"another overlap policy", `"topics": ["t"]`, `"overlap_policy": "allow", `, "overlap_policy"},
		{"a time rule", `"topics": ["t"]`, `"interval_ms": 60000, `, "consume"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			definition := fmt.Sprintf(`{"schedule_id": "c%d", "user_id": "ada", "workflow_id": "w", "version": 1, %s"consume": {%s}}`, i, tt.more, tt.consume)
			want := map[bool]int{true: http.StatusOK, false: http.StatusBadRequest}[tt.refused == ""]
			for path, body := range map[string]string{
				"/v1/schedules":       definition,
				"/v1/schedules:apply": fmt.Sprintf(`{"set": "s%d", "schedules": [{"schedule_id": "plain%d", "user_id": "ada", "workflow_id": "w", "version": 1}, %s]}`, i, i, strings.Replace(definition, `"c`, `"b`, 1)),
			} {
				code, text := r.rest("POST", path, body)
				if code != want || !strings.Contains(text, tt.refused+`"`) && tt.refused != "" {
					t.Errorf("%s: %d %.400s, want %d with %q", path, code, text, want, tt.refused)
				}
			}
			req := &carillonv1.UpsertScheduleRequest{}
			if rawjson.Unmarshal([]byte(definition), req) != nil {
				return // what JSON itself refuses cannot be sent
			}
			_, err := carillonv1.NewScheduleServiceClient(r.conn).UpsertSchedule(t.Context(), req)
			if status.Code(err) != map[bool]codes.Code{true: codes.OK, false: codes.InvalidArgument}[tt.refused == ""] {
				t.Errorf("gRPC: %v", err)
			}
		})
	}
}

// The layout of a filter makes no new revision, and another filter does.
func TestTheLayoutOfAFilterMakesNoRevision(t *testing.T) {
	r := newRig(t)
	upsert := func(filter string) string {
		r.must("PUT", "/v1/schedules/c", `{"user_id":"ada","workflow_id":"w","version":1,"consume":{"topics":["t"],"filter":`+filter+`}}`)
		return member(t, r.must("GET", "/v1/schedules/c", ""), "schedule", "revision")
	}
	first := upsert(`{"type": ["a<b"], "data": {"n": [{"numeric": [">", 1]}]}}`)
	if again := upsert(`{"data":{"n":[{"numeric":["\u003e",1]}]},"type":["a\u003cb"]}`); again != first {
		t.Errorf("the same filter made revision %s of %s", again, first)
	}
	if next := upsert(`{"type": ["a<c"]}`); next == first {
		t.Error("another filter made no revision")
	}
}
