package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/test/services/reserve"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestUsageErrorsExitWith2AndSayWhereToLook(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{name: "an unknown command", args: []string{"schedul"}, want: "carillon: unknown command \"schedul\"; did you mean schedule?\nsee: carillon --help\n"},
		{name: "an unknown command below another", args: []string{"run", "lost"}, want: "carillon: unknown command \"lost\"; did you mean list or logs?\nsee: carillon run --help\n"},
		{name: "an unknown flag", args: []string{"run", "list", "--colour"}, want: "carillon: unknown flag: --colour\nsee: carillon run list --help\n"},
		{name: "a time back with a dash", args: []string{"explain", "nightly", "-2h"}, want: "write a time in the past without a dash, such as 2h\nsee: carillon explain --help\n"},
		{name: "a missing argument", args: []string{"schedule", "get"}, want: "carillon: ID is required\nsee: carillon schedule get --help\n"},
		{name: "the second argument missing", args: []string{"run", "report", clitest.KeyA}, want: "carillon: STATUS is required\nsee: carillon run report --help\n"},
		{name: "an argument too many", args: []string{"schedule", "get", "a", "b"}, want: "carillon: unexpected argument \"b\"\nsee: carillon schedule get --help\n"},
		{name: "an argument where none is taken", args: []string{"version", "x"}, want: "carillon: unexpected argument \"x\"\nsee: carillon version --help\n"},
		{name: "an unknown output", args: []string{"run", "list", "-o", "xml"}, want: "write table, wide, json or yaml"},
		{name: "a duration that is none", args: []string{"schedule", "upsert", "--every", "often"}, want: "write a duration such as 500ms, 30s, 2h or 7d"},
		{name: "a negative duration", args: []string{"schedule", "upsert", "--jitter", "-1s"}, want: "write a whole number of milliseconds from 0 to 1193h2m47.295s"},
		{name: "less than a millisecond", args: []string{"schedule", "upsert", "--jitter", "10us"}, want: "write a whole number of milliseconds"},
		{name: "a time without an offset", args: []string{"schedule", "upsert", "--at", "2026-03-08T14:00:00"}, want: "write RFC 3339 with an offset"},
		{name: "a pause until nothing", args: []string{"schedule", "pause", "x", "--until", "later"}, want: "write a time such as 2026-03-08T14:00:00Z, or a duration such as 2h or 7d"},
		{name: "a label without a value", args: []string{"schedule", "upsert", "--label", "a"}, want: "write NAME=VALUE"},
		{name: "a negative limit", args: []string{"run", "list", "--limit", "-1"}, want: "--limit -1 is negative"},
		{name: "a version that is none", args: []string{"workflow", "get", "w", "v3"}, want: "the version \"v3\" is not a whole number from 1 up"},
		{name: "a unique key of nothing", args: []string{"enqueue", "gpu", "--workflow", "w", "--version", "1", "--unique", ""}, want: "write a key of 1 to 200 characters"},
		{name: "a fair key of nothing", args: []string{"enqueue", "gpu", "--workflow", "w", "--version", "1", "--fair-key", ""}, want: "use 1 to 128 characters, no control characters; leave it out for the owner of the run"},
		{name: "a promise of no wait at all", args: []string{"queue", "upsert", "gpu", "--user", "ada", "--expect-wait-within", "0s"}, want: "write a duration from 1s up; without the flag nothing is promised about waits"},
		{name: "a burst of no rate", args: []string{"queue", "upsert", "gpu", "--user", "ada", "--burst", "2"}, want: "--burst needs --rate, such as --rate 10/1s --burst 2"},
		{name: "a burst of no rate, of a limit", args: []string{"limit", "upsert", "gpu", "--user", "ada", "--max", "1", "--burst", "2"}, want: "--burst needs --rate"},
		{name: "put without a DAG", args: []string{"workflow", "put", "w", "3"}, want: "-f FILE is required"},
		{name: "deploy without a file", args: []string{"workflow", "deploy", "--user", "ada"}, want: "-f is required"},
		{name: "deploy without an owner", args: []string{"workflow", "deploy", "-f", "x.json"}, want: "--user is required"},
		{name: "data of an event next to a file", args: []string{"event", "publish", "a", "--data", "{}", "-f", "x.json"}, want: "--data and --file are both set"},
		{name: "preview of nothing", args: []string{"preview"}, want: "give one of --cron, --every, --at, --schedule and --batch"},
		{name: "preview of two rules", args: []string{"preview", "--cron", "@daily", "--every", "1h"}, want: "give only one of"},
		{name: "preview of none at all", args: []string{"preview", "--cron", "@daily", "-n", "0"}, want: "--count 0 is not within 1 to 10000"},
		{name: "a flag that a batch does not look at", args: []string{"preview", "--batch", "--tz", "UTC"}, want: "--tz has no effect with --batch"},
		{name: "a flag that a saved schedule does not look at", args: []string{"preview", "--schedule", "a", "--dst", "literal"}, want: "--dst has no effect with --schedule"},
		{name: "watch as YAML", args: []string{"run", "watch", "-o", "yaml"}, want: "-o yaml is not supported"},
		{name: "a server without a port", args: []string{"run", "list", "--server", "localhost"}, want: "the server \"localhost\" is not HOST:PORT"},
		{name: "a server as a URL", args: []string{"run", "list", "--server", "http://127.0.0.1:9090"}, want: "is not HOST:PORT"},
		{name: "no time at all for a call", args: []string{"run", "list", "--timeout", "0s"}, want: "--timeout 0s is not positive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := clitest.Run(t, clitest.Env{}, tt.args...)
			if got.Code != command.ExitUsage || !strings.Contains(got.ErrOut, tt.want) || !strings.Contains(got.ErrOut, "see: carillon") || got.Out != "" {
				t.Errorf("exit %d, want %d\nstdout: %s\nstderr: %s\nwant:   %s", got.Code, command.ExitUsage, got.Out, got.ErrOut, tt.want)
			}
		})
	}
}

func TestRefusalsAreSaidInTheServersWordsAlone(t *testing.T) {
	detailed := func() error {
		st, err := status.New(codes.InvalidArgument, "invalid: …").WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "cron_expr", Description: `"61 * * * *" is out of range`}, {Field: "version", Description: "is required"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}()
	for _, tt := range []struct {
		name   string
		answer error
		code   int
		want   string
	}{
		{name: "not found", answer: status.Error(codes.NotFound, `not found: there is no schedule "x"`), code: command.ExitNotFound, want: "carillon: not found: there is no schedule \"x\"\n"},
		{name: "refused fields, each on its line", answer: detailed, code: command.ExitFailed, want: "carillon: invalid request:\n  cron_expr: \"61 * * * *\" is out of range\n  version: is required\n"},
		{name: "refused without fields", answer: status.Error(codes.InvalidArgument, "not so"), code: command.ExitFailed, want: "carillon: not so\n"},
		{name: "not possible now", answer: status.Error(codes.FailedPrecondition, "a run is in flight"), code: command.ExitFailed, want: "carillon: a run is in flight\n"},
		{name: "the store is away, not the server", answer: status.Error(codes.Unavailable, "unavailable: the store"), code: command.ExitFailed, want: "carillon: unavailable: the store\n"},
		{name: "escape sequences are shown, not sent", answer: status.Error(codes.Internal, "\x1b[2Jgone\u202e"), code: command.ExitFailed, want: "carillon: \\x1b[2Jgone\\u202e\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.NewServer(t)
			f.Refuse("GetSchedule", tt.answer)
			got := f.Run(t, "schedule", "get", "x", "-o", "json")
			if got.Code != tt.code || got.ErrOut != tt.want || got.Out != "" {
				t.Errorf("exit %d, want %d\nstdout: %s\nstderr: %s\nwant:   %s", got.Code, tt.code, got.Out, got.ErrOut, tt.want)
			}
		})
	}
}

func TestRefusedFieldsAreNamedAsTheyWereTyped(t *testing.T) {
	refused := func(violations ...string) error {
		bad := &errdetails.BadRequest{}
		for _, v := range violations {
			field, problem, _ := strings.Cut(v, ": ")
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: field, Description: problem})
		}
		st, err := status.New(codes.InvalidArgument, "invalid").WithDetails(bad)
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	definition := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(definition, []byte("cron_expr: '@daily'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	events := filepath.Join(t.TempDir(), "events.json")
	clitest.WriteFile(t, events, `{"event_id": "a"}`)
	for _, tt := range []struct {
		name, call string
		answer     error
		args       []string
		want       string
	}{
		{
			name: "a flag that is required", call: "UpsertSchedule", answer: refused("workflow_id: is required", "user_id: is required; name the owner"),
			args: []string{"schedule", "upsert", "--id", "a", "--cron", "@daily"}, want: "\n  --workflow is required\n  --user is required; name the owner\n",
		},
		{
			name: "durations, not milliseconds", call: "UpsertSchedule", answer: refused("jitter_ms: 90000000 (25h) is over 3600000 (1h)", "expect.start_within_ms: 1 (1ms) is not over jitter_ms 5 (5ms); allow for jitter"),
			args: []string{"schedule", "upsert", "--id", "a", "--jitter", "25h"}, want: "\n  --jitter: 25h is over 1h\n  --expect-start: 1ms is not over --jitter 5ms; allow for jitter\n",
		},
		{
			name: "bounds of a duration are durations", call: "EnqueueRun",
			answer: refused("expires_ms: 500 must be greater than or equal to 1000 and less than or equal to 2592000000; leave it out", "delay_ms: 7 is not within 1000 to 60000", "priority: 1001 is not within -1000 to 1000"),
			args:   []string{"enqueue", "gpu", "--workflow", "w", "--version", "1", "--expires", "500ms", "--in", "7ms", "--priority", "1001"},
			want:   "\n  --expires: 500ms must be greater than or equal to 1s and less than or equal to 720h; leave it out\n  --in: 7ms is not within 1s to 1m\n  --priority: 1001 is not within -1000 to 1000\n",
		},
		{
			name: "a duration with a fraction", call: "UpsertSchedule", answer: refused("interval_ms: 1500 (1.5s) is not whole seconds, and below 2500 (2.5s)"),
			args: []string{"schedule", "upsert", "--id", "a", "--every", "1.5s"}, want: "\n  --every: 1.5s is not whole seconds, and below 2.5s\n",
		},
		{
			name: "the fields of a consumer", call: "UpsertSchedule", answer: refused("consume: is set with queue_id; leave out one of them", "consume.max_events: 0 is not within 1 to 1000"),
			args: []string{"schedule", "upsert", "--id", "a", "--consume", "orders"}, want: "\n  --consume is set with --queue; leave out one of them\n  --max-events: 0 is not within 1 to 1000\n",
		},
		{
			name: "the fields of an event", call: "PublishEvents", answer: refused("event_id: is that of another", "source: is over 256 bytes", "type: is odd", "subject: is odd", "data: has 70000 bytes", "time: is outside 1970 to 2099"),
			args: []string{"event", "publish", "orders", "--id", "a"},
			want: "\n  --id is that of another\n  --source is over 256 bytes\n  --type is odd\n  --subject is odd\n  --data has 70000 bytes\n  --time is outside 1970 to 2099\n",
		},
		{
			name: "the events of a file keep their fields", call: "PublishEvents", answer: refused("events[0].event_id: is odd", "events[0].data: is odd"),
			args: []string{"event", "publish", "orders", "-f", events}, want: "\n  events[0].event_id: is odd\n  events[0].data: is odd\n",
		},
		{
			name: "the id of an event as an argument", call: "GetEvent", answer: refused("event_id: \"a b\" is odd"),
			args: []string{"event", "get", "orders", "a b"}, want: "\n  ID: \"a b\" is odd\n",
		},
		{
			name: "the key of an overlap group as an argument", call: "GetOverlapGroup", answer: refused("overlap_key: \"a b\" is not a valid id"),
			args: []string{"overlap", "get", "a b"}, want: "\n  KEY: \"a b\" is not a valid id\n",
		},
		{
			name: "other flags in the sentence", call: "UpsertSchedule", answer: refused("cron_expr: more than one of cron_expr, interval_ms and once_at is set"),
			args: []string{"schedule", "upsert", "--cron", "@daily", "--every", "1m"}, want: "\n  --cron: more than one of --cron, --every and --at is set\n",
		},
		{
			name: "a field of the file keeps its name, a flag beside it does not", call: "UpsertSchedule", answer: refused("workflow_id: is required", "timezone: \"Mars\" is no zone"),
			args: []string{"schedule", "upsert", "-f", definition, "--tz", "Mars"}, want: "\n  workflow_id: is required\n  --tz: \"Mars\" is no zone\n",
		},
		{
			name: "an argument", call: "GetSchedule", answer: refused("schedule_id: \"a b\" is not a valid id"),
			args: []string{"schedule", "get", "a b"}, want: "\n  ID: \"a b\" is not a valid id\n",
		},
		{
			name: "an argument that has a name of its own", call: "BackfillSchedule", answer: refused("schedule_id: \"a b\" is not a valid id", "to: \"x\" is in the future", "rate_per_minute: 7 is too much"),
			args: []string{"backfill", "a b", "--from", "7d"}, want: "\n  SCHEDULE: \"a b\" is not a valid id\n  --to: \"x\" is in the future\n  --rate: 7 is too much\n",
		},
		{
			name: "a field that no flag sets", call: "UpsertSchedule", answer: refused("labels.team: \"x\" is over 128 bytes", "unheard_of: is odd"),
			args: []string{"schedule", "upsert", "--label", "team=x"}, want: "\n  --label: \"x\" is over 128 bytes\n  unheard_of: is odd\n",
		},
		{
			name: "a member of a list has a flag of its own", call: "SimulateQueue",
			answer: refused("arrivals[0].limits[0]: \"a\" does not exist", "arrivals[0].every_ms: 0 is too little", "arrivals[0].runs: 0 is too little",
				"limits[0].limit: \"b\" does not exist", "limits[0].max_in_flight: 10001 is too much", "for_ms: 0 is too little", "definition.promote_after_ms: 1 is odd"),
			args: []string{"queue", "simulate", "gpu", "--arrive-limit", "a", "--limit", "b:10001", "--for", "0s"},
			want: "\n  --arrive-limit: \"a\" does not exist\n  --arrive-every: 0s is too little\n  --arrive-runs: 0 is too little" +
				"\n  --limit: \"b\" does not exist\n  --limit: 10001 is too much\n  --for: 0s is too little\n  --promote-after: 1ms is odd\n",
		},
		{
			name: "a member of the unique key", call: "EnqueueRun", answer: refused("unique: is set for a run of a group", "unique.key: is required"),
			args: []string{"enqueue", "gpu", "--workflow", "w", "--version", "1", "--unique", "a", "--group", "g"},
			want: "\n  --unique is set for a run of a group\n  --unique is required\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.NewServer(t)
			f.Refuse(tt.call, tt.answer)
			if got := f.Run(t, tt.args...); got.Code != command.ExitFailed || got.ErrOut != "carillon: invalid request:"+tt.want {
				t.Errorf("exit %d: %s\nwant %s", got.Code, got.ErrOut, tt.want)
			}
		})
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	address := reserve.Addr(t)
	for _, args := range [][]string{{"schedule", "list"}, {"run", "watch"}, {"preview", "--schedule", "x"}} {
		got := clitest.Run(t, clitest.Env{}, append(args, "--server", address)...)
		want := "carillon: no server answers at " + address + " (connect: connection refused); start one with `carillon dev`, or name another with --server or CARILLON_SERVER\n"
		if got.Code != command.ExitFailed || got.ErrOut != want {
			t.Errorf("%v: exit %d, %s", args, got.Code, got.ErrOut)
		}
	}
}

func TestServerThatSpeaksHTTP(t *testing.T) {
	rest := httptest.NewServer(http.NotFoundHandler())
	defer rest.Close()
	address := rest.Listener.Addr().String()
	got := clitest.Run(t, clitest.Env{}, "schedule", "list", "--server", address)
	if want := "carillon: " + address + " speaks HTTP/1, not gRPC; give the server's gRPC address (GRPC_ADDR, by default 127.0.0.1:9090)\n"; got.Code != command.ExitFailed || got.ErrOut != want {
		t.Errorf("exit %d\n%s", got.Code, got.ErrOut)
	}
}

func TestServerThatIsOlder(t *testing.T) {
	f := clitest.NewServer(t)
	got := f.Run(t, "schedule", "list")
	if got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, "does not know this call; is it older") {
		t.Errorf("exit %d\n%s", got.Code, got.ErrOut)
	}
}

func TestServerThatDoesNotAnswerInTime(t *testing.T) {
	f := clitest.NewServer(t)
	release := make(chan struct{})
	f.Answers["ListSchedules"] = func(proto.Message) (proto.Message, error) {
		<-release
		return &carillonv1.ListSchedulesResponse{}, nil
	}
	got := f.Run(t, "schedule", "list", "--timeout", (500 * time.Millisecond).String())
	close(release)
	if want := "carillon: no answer from " + f.Address + " within 500ms; the call may still take effect; --timeout allows more time\n"; got.Code != command.ExitFailed || got.ErrOut != want {
		t.Errorf("exit %d\n%s", got.Code, got.ErrOut)
	}
}

func TestServerThatResetsTheCallJustBeforeItsTimeout(t *testing.T) {
	f := clitest.NewServer(t)
	f.Refuse("ListSchedules", status.Error(codes.Canceled, "stream terminated by RST_STREAM with error code: CANCEL"))
	got := f.Run(t, "schedule", "list", "--timeout", (90 * time.Millisecond).String())
	if want := "carillon: no answer from " + f.Address + " within 90ms; the call may still take effect; --timeout allows more time\n"; got.Code != command.ExitFailed || got.ErrOut != want {
		t.Errorf("exit %d\n%s", got.Code, got.ErrOut)
	}
	got = f.Run(t, "schedule", "list", "--timeout", time.Minute.String())
	if want := "carillon: stream terminated by RST_STREAM with error code: CANCEL\n"; got.Code != command.ExitFailed || got.ErrOut != want {
		t.Errorf("long before its timeout: exit %d\n%s", got.Code, got.ErrOut)
	}
}

func TestServerWhoseDatabaseDoesNotAnswerInTime(t *testing.T) {
	f := clitest.NewServer(t)
	f.Answers["ListSchedules"] = func(proto.Message) (proto.Message, error) {
		return nil, status.Error(codes.DeadlineExceeded, "deadline exceeded: the database did not answer in time; try again")
	}
	got := f.Run(t, "schedule", "list")
	if want := "carillon: deadline exceeded: the database did not answer in time; try again\n"; got.Code != command.ExitFailed || got.ErrOut != want {
		t.Errorf("exit %d\n%s", got.Code, got.ErrOut)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	for _, tt := range []struct{ name, text, want string }{
		{name: "an unknown field", text: `{"scheduleId": "x"}`, want: "s: invalid request:\n  scheduleId: is not a field of UpsertScheduleRequest; write schedule_id\n"},
		{name: "an unknown field in YAML", text: "when: now", want: "  when: is not a field of UpsertScheduleRequest\n"},
		{name: "two documents", text: "a: 1\n---\nb: 2", want: "the file has more than one document"},
		{name: "nothing", text: "", want: "the file is empty"},
		{name: "merge keys", text: "a: &a {x: 1}\nb: {<<: *a}", want: "line 2: a name must be plain text; merge keys are not supported"},
		{name: "a number that JSON does not have", text: "priority: .inf", want: "line 1: .inf is not a number that JSON knows"},
		{name: "aliases of aliases", text: bomb(), want: "more than 100 levels or 2097152 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clitest.WriteFile(t, path, tt.text)
			got := clitest.Run(t, clitest.Env{}, "schedule", "upsert", "-f", path)
			if got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, tt.want) {
				t.Errorf("exit %d\n%s\nwant %s", got.Code, got.ErrOut, tt.want)
			}
		})
	}
	got := clitest.Run(t, clitest.Env{}, "schedule", "upsert", "-f", filepath.Join(dir, "nothing.json"))
	if got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, "no such file") {
		t.Errorf("exit %d\n%s", got.Code, got.ErrOut)
	}
}

// bomb is a small YAML file that means a large one.
func bomb() string {
	var out strings.Builder
	out.WriteString("a0: &a0 [x,x,x,x,x,x,x,x]\n")
	for _, level := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		before := string(level[0] - 1)
		out.WriteString("a" + level + ": &a" + level + " [" + strings.Repeat("*a"+before+",", 8) + "]\n")
	}
	return out.String()
}

func TestWorkflowWithoutAVersionIsNotFound(t *testing.T) {
	f := clitest.NewServer(t)
	f.Answer("ListWorkflowVersions", &carillonv1.ListWorkflowVersionsResponse{})
	for _, line := range []string{"get", "list"} {
		got := f.Run(t, "workflow", line, "nope")
		if want := "carillon: workflow \"nope\" has no versions\n"; got.Code != command.ExitNotFound || got.ErrOut != want {
			t.Errorf("%s: exit %d: %s", line, got.Code, got.ErrOut)
		}
	}
}
