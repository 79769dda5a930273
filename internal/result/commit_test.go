package result_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/result"
	"github.com/carillon/carillon/internal/schedule"
)

func TestACommitIsKeptWholeOrRefused(t *testing.T) {
	t.Parallel()
	key := schedule.ManualKey("s", "1")
	quoted := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	events := func(n int, data string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"topic":"t","data":`+data+`},`, n), ",") + "]"
	}
	for _, tc := range []struct {
		name, state, publish string
		refused              string // what the refusal says; "": the commit is kept
		events               int
	}{
		{name: "nothing"},
		{name: "null counts as nothing", state: " null ", publish: "null"},
		{name: "an empty list counts as nothing", publish: "[]"},
		{name: "a state of 65536 bytes", state: quoted(65536)},
		{name: "a state of 65537 bytes", state: quoted(65537), refused: "state: has 65537 bytes, more than 65536"},
		{name: "a state that is too deep", state: strings.Repeat("[", 33) + strings.Repeat("]", 33), refused: "state: is nested deeper than 32 levels"},
		{name: "a state that is no JSON", state: "{", refused: "state: is not JSON"},
		{name: "1000 events", publish: events(1000, "1"), events: 1000},
		{name: "1001 events", publish: events(1001, "1"), refused: "publish: has 1001 events, more than 1000"},
		{name: "events with 1 MiB of data", publish: events(16, quoted(65536)), events: 16},
		{name: "events with more", publish: events(17, quoted(65536)), refused: "publish: have 1114112 bytes of data together, more than 1048576"},
		{name: "data of 65537 bytes", publish: events(1, quoted(65537)), refused: "publish[0].data: has 65537 bytes, more than 65536"},
		{name: "an event without data", publish: `[{"topic":"t"}]`, refused: "publish[0].data: is required"},
		{name: "an event without a topic", publish: `[{"data":1}]`, refused: "publish[0].topic: is required"},
		{name: "a topic that is kept for Carillon", publish: `[{"topic":"t","data":1},{"topic":"carillon.x","data":1}]`, refused: "publish[1].topic: \"carillon.x\" begins with carillon."},
		{name: "a pattern for a topic", publish: `[{"topic":"a.*","data":1}]`, refused: "publish[0].topic"},
		{name: "an id of 257 bytes", publish: `[{"topic":"t","data":1,"event_id":` + quoted(259) + `}]`, refused: "publish[0].event_id"},
		{name: "an id with a newline", publish: `[{"topic":"t","data":1,"event_id":"a\nb"}]`, refused: "publish[0].event_id"},
		{name: "one id twice with other data", publish: `[{"topic":"t","data":1,"event_id":"a"},{"topic":"t","data":2,"event_id":"a"}]`, refused: "publish[1].event_id"},
		{name: "one id twice with the same data", publish: `[{"topic":"t","data":1,"event_id":"a"},{"topic":"t","data":1,"event_id":"a"}]`, events: 2},
		{name: "no list", publish: `{"topic":"t"}`, refused: "publish: is not a list"},
		{name: "a time that is none", publish: `[{"topic":"t","data":1,"time":"today"}]`, refused: "publish: is not a list"},
		{name: "a good state and a bad event", state: "{}", publish: `[{}]`, refused: "publish[0].topic: is required"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			members := result.CommitMembers{State: []byte(tc.state), Publish: []byte(tc.publish)}
			got, err := members.Commit(key)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) || got != nil {
					t.Errorf("got %+v, %v, want the refusal %q", got, err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if none := tc.events == 0 && !strings.HasPrefix(tc.state, `"`); none != (got == nil) {
				t.Fatalf("got %+v", got)
			}
			if got != nil && len(got.Events) != tc.events {
				t.Errorf("%d events, want %d", len(got.Events), tc.events)
			}
		})
	}
}

func TestEventsOfACommitAreNamedByTheirRun(t *testing.T) {
	t.Parallel()
	key := schedule.ManualKey("s", "1")
	members := result.CommitMembers{State: []byte(`{"b": 1.50}`), Publish: []byte(`[{"topic": "t", "data": {"n": 1.0}}, {"topic": "t", "event_id": "mine", "source": "s", "type": "y", "subject": "u", "data": 2}]`)}
	got, err := members.Commit(key)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range got.Events {
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s %s", e.Topic, e.EventID, e.Source, e.Type, e.Subject, e.Data))
	}
	want := []string{"t " + key.String()[:16] + `:0    {"n": 1.0}`, "t mine s y u 2"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	if string(got.State) != `{"b": 1.50}` {
		t.Errorf("state %s is not as it was sent", got.State)
	}
}

func TestOnlyASuccessHasACommit(t *testing.T) {
	t.Parallel()
	commit := &schedule.Commit{State: []byte("1")}
	bad := schedule.Invalid("state", "x", "is not JSON", "")
	for _, tc := range []struct {
		name    string
		outcome schedule.Outcome
		err     error
		want    schedule.Outcome
	}{
		{"a success", schedule.Outcome{Status: schedule.StatusSuccess}, nil, schedule.Outcome{Status: schedule.StatusSuccess, Commit: commit}},
		{"a failure", schedule.Outcome{Status: schedule.StatusFailed, ErrorCode: "E"}, nil, schedule.Outcome{Status: schedule.StatusFailed, ErrorCode: "E"}},
		{"a failure whose commit is bad too", schedule.Outcome{Status: schedule.StatusFailed, ErrorCode: "E"}, bad, schedule.Outcome{Status: schedule.StatusFailed, ErrorCode: "E"}},
		{"an accepted run", schedule.Outcome{Status: schedule.StatusEnqueued}, nil, schedule.Outcome{Status: schedule.StatusEnqueued}},
		{"a success whose commit is bad", schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r"}, bad, schedule.Outcome{
			Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, RunID: "r", ErrorCode: "commit_invalid", FailureClass: schedule.ClassLogic,
			ErrorMessage: `nothing was committed: ` + bad.Error(),
		}},
	} {
		got := tc.outcome
		result.Enter(&got, commit, tc.err)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}
