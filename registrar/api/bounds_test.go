package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// bound is an inclusive limit. body makes the request for a size or a number.
type bound struct {
	name string
	call string // default upsertCall
	body func(n int) string
	ok   []int // on the edge, and one further inside
	over []int // one step outside
}

// number bounds a numeric field of a definition.
func number(field string, least, most int) bound {
	b := bound{name: field, body: func(n int) string { return upsert(field, fmt.Sprint(n)) }, ok: []int{most - 1, most}, over: []int{most + 1}}
	if least > 0 {
		b.ok, b.over = append(b.ok, least, least+1), append(b.over, least-1)
	}
	return b
}

// letters bounds the length of an id.
func letters(field string) bound {
	return bound{name: field, body: func(n int) string { return upsert(field, quote(strings.Repeat("a", n))) }, ok: []int{1, 2, 127, 128}, over: []int{129}}
}

// instant bounds a time of a definition, counted in seconds from the edge.
func instant(field string, edge time.Time, inside int) bound {
	return bound{
		name: fmt.Sprint(field, " at ", edge.Year()),
		body: func(n int) string {
			return upsert(field, quote(edge.Add(time.Duration(n)*time.Second).UTC().Format(time.RFC3339)))
		},
		ok: []int{inside, 2 * inside}, over: []int{0},
	}
}

func labels(n int, value string) string {
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf(`"l%d":%q`, i, value))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func bounds() []bound {
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	return []bound{
		letters("schedule_id"), letters("workflow_id"), letters("overlap_key"), letters("request_id"),
		{
			name: "user_id", body: func(n int) string { return upsert("schedule_id", "-", "user_id", quote(strings.Repeat("a", n))) },
			ok: []int{1, 2, 127, 128}, over: []int{129},
		},
		number("version", 1, 1<<31-1),
		number("jitter_ms", 0, 3_600_000),
		number("max_queued", 1, 1000),
		number("catchup_window_ms", 0, 2_592_000_000),
		number("run_timeout_ms", 1000, 2_592_000_000),
		number("launch_timeout_ms", 1000, 86_400_000),
		number("priority", 0, 1000),
		{name: "priority below", body: func(n int) string { return upsert("priority", fmt.Sprint(-n)) }, ok: []int{999, 1000}, over: []int{1001}},
		{name: "interval_ms", body: func(n int) string { return upsert("cron_expr", "-", "interval_ms", fmt.Sprint(n)) }, ok: []int{1000, 2000}, over: []int{0, 999, 1001}},
		instant("start_at", year(1970).Add(-time.Second), 1), instant("end_at", year(2100), -1), instant("start_at", year(2100), -1),
		{name: "cron_expr", body: func(n int) string { // 1,1,…,11 * * * *
			fields := " * * * *"
			minutes := strings.Repeat("1,", (n-len(fields)-1)/2) + "1"
			return upsert("cron_expr", quote(minutes+strings.Repeat(" ", n-len(fields)-len(minutes))+fields))
		}, ok: []int{255, 256}, over: []int{257}},
		{name: "input bytes", body: func(n int) string { return upsert("input", quote(strings.Repeat("x", n-2))) }, ok: []int{64<<10 - 1, 64 << 10}, over: []int{64<<10 + 1}},
		{name: "input depth", body: func(n int) string { return upsert("input", nested(n)) }, ok: []int{31, 32}, over: []int{33}},
		{name: "labels", body: func(n int) string { return upsert("labels", labels(n, "x")) }, ok: []int{63, 64}, over: []int{65}},
		{name: "label value", body: func(n int) string { return upsert("labels", labels(1, strings.Repeat("x", n))) }, ok: []int{127, 128}, over: []int{129}},
		{
			name: "note", call: "ScheduleService/PauseSchedule",
			body: func(n int) string { return `{"schedule_id":"s1","note":` + quote(strings.Repeat("x", n)) + `}` },
			ok:   []int{1023, 1024}, over: []int{1025},
		},
		{name: "page_size", call: "ScheduleService/ListSchedules", body: func(n int) string { return fmt.Sprintf(`{"page_size":%d}`, n) }, ok: []int{199, 200}, over: []int{201}},
		{
			name: "preview", call: previewCall, body: func(n int) string { return fmt.Sprintf(`{"cron_expr":"@daily","page_size":%d}`, n) },
			ok: []int{9999, 10_000}, over: []int{10_001},
		},
		{
			name: "dag bytes", call: putCall, body: func(n int) string {
				const around = `{"x":""}`
				return fmt.Sprintf(`{"workflow_id":"w%d","version":1,"dag":{"x":"%s"}}`, n, strings.Repeat("x", n-len(around)))
			},
			ok: []int{1<<20 - 1, 1 << 20}, over: []int{1<<20 + 1},
		},
		{
			name: "dag depth", call: putCall, body: func(n int) string {
				return fmt.Sprintf(`{"workflow_id":"d%d","version":1,"dag":{"x":%s}}`, n, nested(n-1))
			},
			ok: []int{31, 32}, over: []int{33},
		},
	}
}

func TestEveryBoundIsWhereTheDocsPutIt(t *testing.T) {
	r := newRig(t)
	r.must("POST", "/schedules/upsert", upsert())
	for _, b := range bounds() {
		t.Run(b.name, func(t *testing.T) {
			if b.call == "" {
				b.call = upsertCall
			}
			for _, n := range b.ok {
				if _, st, _ := grpcCall(t, r.conn, b.call, b.body(n)); st != nil {
					t.Errorf("%d is refused: %v", n, st)
				}
			}
			for _, n := range b.over {
				if _, st, carried := grpcCall(t, r.conn, b.call, b.body(n)); carried && st.Code() != codes.InvalidArgument {
					t.Errorf("%d is not refused: %v", n, st)
				}
			}
		})
	}
}

func TestABodyMayBeAsLargeAsItsRouteSays(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name  string
		path  string
		limit int
	}{
		{"a schedule", "/schedules/upsert", 256 << 10},
		{"a DAG", "/v1/workflows/w/versions/1", 1<<20 + 64<<10},
	} {
		for _, size := range []int{c.limit - 1, c.limit, c.limit + 1} {
			// Space around a body counts too.
			body := `{"unknown":1}`
			_, text := r.rest(map[bool]string{true: "POST", false: "PUT"}[strings.HasSuffix(c.path, "upsert")], c.path, body+strings.Repeat(" ", size-len(body)))
			if over := strings.Contains(text, "has more than"); over != (size > c.limit) {
				t.Errorf("%s of %d bytes: %s", c.name, size, text)
			}
		}
	}
}
