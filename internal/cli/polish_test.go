package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

var errEnough = errors.New("enough")

// watching runs a command line for so many rounds.
func watching(t *testing.T, f *fake, terminal bool, rounds int, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	c := &command.CLI{
		In: strings.NewReader(""), Out: &out, ErrOut: &errs, Terminal: terminal,
		Now: func() time.Time { return noon }, Env: func(string) string { return "" },
		Wait: func(context.Context, time.Duration) error {
			if rounds--; rounds == 0 {
				return errEnough
			}
			return nil
		},
	}
	code := run(t.Context(), c, append(args, "--server", f.address))
	return result{out: out.String(), errs: errs.String(), code: code}
}

func TestWatchDrawsAnewOnATerminalAndAppendsInAPipe(t *testing.T) {
	f := answering(t)
	for _, tt := range []struct {
		name     string
		terminal bool
		args     []string
		of       string
		times    int
	}{
		{"a pipe gets one answer after the other", false, []string{"schedule", "list", "--watch"}, "# 2026-03-08T12:00:00Z\nSCHEDULE", 3},
		{"a terminal is drawn anew", true, []string{"schedule", "list", "--watch=5s"}, "\x1b[H2026-03-08T12:00:00Z, every 5s, Ctrl-C to stop", 3},
		{"a terminal is cleared once", true, []string{"run", "get", keyA, "--watch"}, "\x1b[2J", 1},
		{"JSON documents follow each other", false, []string{"schedule", "get", "nightly", "--watch=1m", "-o", "json"}, "\"schedule_id\": \"nightly\"", 3},
		{"YAML documents are parted", false, []string{"grant", "list", "--watch", "-o", "yaml"}, "---\n", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.always("ListGrants", &carillonv1.ListGrantsResponse{})
			f.always("GetRun", &carillonv1.GetRunResponse{Run: failedRun()})
			got := watching(t, f, tt.terminal, 3, tt.args...)
			if n := strings.Count(got.out, tt.of); n != tt.times || got.code != command.ExitOK {
				t.Errorf("%q comes %d times, want %d (exit %d, %s):\n%q", tt.of, n, tt.times, got.code, got.errs, got.out)
			}
		})
	}
}

func TestWatchWaitsForAServerThatIsAway(t *testing.T) {
	f := answering(t)
	calls := 0
	f.answers["ListSchedules"] = func(proto.Message) (proto.Message, error) {
		if calls++; calls == 2 {
			return nil, status.Error(codes.Unavailable, "restarting")
		}
		return &carillonv1.ListSchedulesResponse{Schedules: []*carillonv1.Schedule{nightly()}}, nil
	}
	got := watching(t, f, false, 3, "schedule", "list", "--watch")
	if got.code != command.ExitOK || !strings.Contains(got.out, "carillon: restarting") || strings.Count(got.out, "nightly") != 2 {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.errs)
	}
	f.refuses("ListSchedules", status.Error(codes.PermissionDenied, "not for you"))
	if got := watching(t, f, false, 3, "schedule", "list", "--watch"); got.code != command.ExitFailed {
		t.Errorf("a refusal ends with exit %d", got.code)
	}
}

func TestWatchIsBounded(t *testing.T) {
	for _, every := range []string{"10ms", "2h", "0s"} {
		if got := watching(t, answering(t), false, 1, "schedule", "list", "--watch="+every); got.code != command.ExitUsage || !strings.Contains(got.errs, "is not within 500ms to 1h0m0s") {
			t.Errorf("%s: exit %d: %s", every, got.code, got.errs)
		}
	}
}

func TestWideTablesHaveMoreColumns(t *testing.T) {
	f := showing(t)
	for _, tt := range []struct {
		args []string
		more string
	}{
		{[]string{"schedule", "list", "--limit", "3"}, "MANAGED BY"},
		{[]string{"run", "list"}, keyB},
		{[]string{"schedule", "revisions", "nightly"}, "RUN TIMEOUT"},
		{[]string{"worker", "list"}, "UNHEALTHY"},
		{[]string{"grant", "list"}, "REVOKE NOTE"},
		{[]string{"schedule", "events", "nightly"}, "COUNT"},
		{[]string{"workflow", "list", "report"}, strings.Repeat("ab", 32)},
		{[]string{"audit", "list"}, "OWNER"},
		{[]string{"backfill", "list"}, "STATE NOTE"},
		{[]string{"alert", "list"}, "DEADLINE"},
		{[]string{"alert", "deliveries"}, "ANSWER"},
		{[]string{"simulate", "--every", "1m"}, "FIRES AT"},
	} {
		f.always("ListGrants", &carillonv1.ListGrantsResponse{Grants: []*carillonv1.Grant{{GrantId: "g"}}})
		f.always("ListAudit", &carillonv1.ListAuditResponse{Entries: []*carillonv1.AuditEntry{{Subject: "ada"}}})
		f.always("ListBackfills", &carillonv1.ListBackfillsResponse{Backfills: []*carillonv1.Backfill{{BackfillId: "b"}}})
		f.always("ListAlerts", &carillonv1.ListAlertsResponse{Alerts: []*carillonv1.Alert{{AlertId: "a"}}})
		f.always("ListAlertDeliveries", &carillonv1.ListAlertDeliveriesResponse{Deliveries: []*carillonv1.AlertDelivery{{DeliveryId: "d"}}})
		f.always("SimulateSchedules", &carillonv1.SimulateSchedulesResponse{Slots: []*carillonv1.SimulatedSlot{{Status: "SUCCESS"}}})
		narrow, wide := f.run(t, tt.args...), f.run(t, append(tt.args, "-o", "wide")...)
		if strings.Contains(narrow.out, tt.more) || !strings.Contains(wide.out, tt.more) {
			t.Errorf("%v: %q is to be in the wide table alone:\n%s\n%s", tt.args, tt.more, narrow.out, wide.out)
		}
	}
}

func TestCompletionAsksTheServer(t *testing.T) {
	f := answering(t)
	poll := nightly()
	poll.ScheduleId, poll.WorkflowId, poll.ManagedBy = "poll", "fetch", "set:box"
	f.always("ListBackfills", &carillonv1.ListBackfillsResponse{Backfills: []*carillonv1.Backfill{{BackfillId: "b1", ScheduleId: "nightly", State: "running"}}})
	f.always("ListAlerts", &carillonv1.ListAlertsResponse{Alerts: []*carillonv1.Alert{{AlertId: "al-1", ScheduleId: "nightly", Kind: "start", LimitMs: 5000}}})
	f.always("ListAlertDeliveries", &carillonv1.ListAlertDeliveriesResponse{Deliveries: []*carillonv1.AlertDelivery{
		{DeliveryId: "msg_1", ScheduleId: "nightly", Type: "alert.opened", State: "DEAD"},
	}})
	f.always("ListSchedules", &carillonv1.ListSchedulesResponse{Schedules: []*carillonv1.Schedule{nightly(), poll}})
	f.always("ListGrants", &carillonv1.ListGrantsResponse{Grants: []*carillonv1.Grant{{GrantId: "ada-reports"}, {GrantId: "bob"}}})
	f.always("ListRuns", &carillonv1.ListRunsResponse{Runs: []*carillonv1.Run{failedRun()}})
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"schedules", []string{"schedule", "get", ""}, []string{"nightly", "poll"}},
		{"schedules that begin so", []string{"schedule", "pause", "n"}, []string{"nightly"}},
		{"of explain", []string{"explain", ""}, []string{"nightly", "poll"}},
		{"not a second argument", []string{"explain", "nightly", ""}, nil},
		{"grants", []string{"grant", "revoke", "a"}, []string{"ada-reports"}},
		{"workflows", []string{"workflow", "list", ""}, []string{"fetch", "report"}},
		{"a flag", []string{"run", "list", "--schedule", "p"}, []string{"poll"}},
		{"backfills, with what they are", []string{"backfill", "get", "b"}, []string{"b1\tnightly running"}},
		{"alerts", []string{"alert", "ack", ""}, []string{"al-1\tnightly start within 5s"}},
		{"messages", []string{"alert", "redeliver", "m"}, []string{"msg_1\talert.opened nightly DEAD"}},
		{"schedules to backfill", []string{"backfill", "n"}, []string{"nightly"}},
		{"owners", []string{"forecast", "--user", ""}, []string{"ada"}},
		{"who manages", []string{"schedule", "list", "--managed-by", ""}, []string{"set:box", "workflow:report"}},
		{"sets", []string{"export", "--set", ""}, []string{"box"}},
		{"runs, with what they are", []string{"run", "get", ""}, []string{render.ShortKey(keyA) + "\tnightly 2026-03-08T07:00:00Z FAILED"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := f.run(t, append([]string{"__complete"}, tt.args...)...)
			lines := strings.Split(strings.TrimSpace(got.out), "\n")
			if lines = lines[:len(lines)-1]; !slices.Equal(lines, tt.want) { // the last says how to go on
				t.Errorf("%q, want %q (%s)", lines, tt.want, got.errs)
			}
		})
	}
	t.Run("nothing without a server", func(t *testing.T) {
		began := time.Now()
		got := execute(t, surroundings{env: map[string]string{"CARILLON_SERVER": "127.0.0.1:1"}}, "__complete", "schedule", "get", "")
		if lines := strings.Split(got.out, "\n"); !strings.HasPrefix(lines[0], ":") || time.Since(began) > 5*time.Second {
			t.Errorf("after %s: %q", time.Since(began), got.out)
		}
	})
}

func TestManPagesOfEveryCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	got := execute(t, surroundings{}, "man", dir)
	if got.code != command.ExitOK {
		t.Fatal(got.errs)
	}
	page, err := os.ReadFile(filepath.Join(dir, "carillon-explain.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`.TH "CARILLON" "1"`, `carillon explain SCHEDULE [TIME] | KEY`, `--watch`} {
		if !strings.Contains(strings.ReplaceAll(string(page), `\-`, "-"), part) {
			t.Errorf("no %q in the page:\n%s", part, page)
		}
	}
}

func TestImportCrontab(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crontab")
	writeFile(t, file, "MAILTO=ops\n# Every night.\n30 2 * * * /bin/backup\nCRON_TZ=Asia/Tokyo\n0 9 * * 1 report\n@reboot warm-up\n")
	f := answering(t)
	f.always("ApplySchedules", &carillonv1.ApplySchedulesResponse{Changed: true})

	t.Run("as YAML", func(t *testing.T) {
		got := f.run(t, "import", "crontab", file, "--print", "--tz", "Europe/Berlin")
		for _, part := range []string{"workflow_id: backup", "comment: Every night.", `cron_expr: 30 2 * * *`, "timezone: Europe/Berlin", "timezone: Asia/Tokyo", "workflow_id: report"} {
			if !strings.Contains(got.out, part) {
				t.Errorf("no %q in\n%s", part, got.out)
			}
		}
		if got.code != command.ExitOK || !strings.Contains(got.errs, "line 1: output is kept with the run, not mailed") || !strings.Contains(got.errs, "line 6: Carillon does not see") {
			t.Errorf("exit %d: %s", got.code, got.errs)
		}
	})
	t.Run("what it prints can be applied", func(t *testing.T) {
		printed := f.run(t, "import", "crontab", file, "--print")
		yaml := filepath.Join(t.TempDir(), "crontab.yaml")
		writeFile(t, yaml, printed.out)
		if got := f.run(t, "apply", "-f", yaml, "--user", "ada"); got.code != command.ExitOK {
			t.Fatal(got.errs)
		}
		req, _ := f.requests()[len(f.requests())-1].(*carillonv1.ApplySchedulesRequest)
		if len(req.GetWorkflows()) != 2 || req.GetWorkflows()[0].GetWorkflowId() != "backup" {
			t.Errorf("applied %v", req)
		}
	})
	t.Run("nothing where a command would be left behind", func(t *testing.T) {
		before := len(f.requests())
		if got := f.run(t, "import", "crontab", file, "--user", "ada"); got.code != command.ExitFailed || len(f.requests()) != before || !strings.Contains(got.errs, "--partial") {
			t.Errorf("exit %d: %s", got.code, got.errs)
		}
	})
	t.Run("the others with --partial", func(t *testing.T) {
		if got := f.run(t, "import", "crontab", file, "--user", "ada", "--partial", "--set", "box"); got.code != command.ExitOK {
			t.Fatal(got.errs)
		}
		req, _ := f.requests()[len(f.requests())-1].(*carillonv1.ApplySchedulesRequest)
		if req.GetSet() != "box" || len(req.GetWorkflows()) != 2 || req.GetWorkflows()[1].GetUserId() != "ada" {
			t.Errorf("applied %v", req)
		}
	})
	t.Run("needs an owner", func(t *testing.T) {
		if got := f.run(t, "import", "crontab", file); got.code != command.ExitUsage {
			t.Errorf("exit %d: %s", got.code, got.errs)
		}
	})
}

func TestDoctorSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DATA_DIR", filepath.Join(dir, "none"))
	t.Setenv("HTTP_ADDR", "127.0.0.1:1")
	got := execute(t, surroundings{}, "doctor", "--dev")
	if got.code != command.ExitFailed || !strings.Contains(got.out, "fail  database") || !strings.Contains(got.out, "carillon migrate") {
		t.Errorf("without a database, exit %d:\n%s%s", got.code, got.out, got.errs)
	}
	t.Setenv("DATA_DIR", dir)
	if got := execute(t, surroundings{}, "migrate"); got.code != command.ExitOK {
		t.Fatal(got.errs)
	}
	got = execute(t, surroundings{}, "doctor", "--dev", "-o", "json")
	for _, part := range []string{`"healthy": false`, `"says": "no leader for shard 0"`, `"check": "schema",`, `"says": "no due runs to claim"`} {
		if !strings.Contains(got.out, part) {
			t.Errorf("no %s in\n%s%s", part, got.out, got.errs)
		}
	}
	t.Setenv("TICK_MS", "1")
	got = execute(t, surroundings{}, "doctor", "--dev")
	if got.code != command.ExitFailed || !strings.Contains(got.out, "fail  configuration  TICK_MS: 1 is not within 50 to 10000") {
		t.Errorf("with a bad setting, exit %d:\n%s%s", got.code, got.out, got.errs)
	}
	t.Setenv("HTTP_ADDR", "here")
	got = execute(t, surroundings{}, "doctor", "--dev")
	if !strings.Contains(got.out, `TICK_MS: 1 is not within 50 to 10000; HTTP_ADDR: "here" is not host:port`) {
		t.Errorf("with two bad settings, exit %d:\n%s%s", got.code, got.out, got.errs)
	}
}

func TestDoctorTellsAServerThatHangsFromNone(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for conn, err := lis.Accept(); err == nil; conn, err = lis.Accept() {
			_ = conn.Close() // without a word
		}
	})
	t.Cleanup(func() {
		_ = lis.Close()
		served.Wait()
	})
	t.Setenv("DATA_DIR", t.TempDir())
	for _, tt := range []struct{ name, address, want string }{
		{"nobody listens", "127.0.0.1:1", "warn  server         no server answers at HTTP_ADDR 127.0.0.1:1"},
		{"somebody does not answer", lis.Addr().String(), "fail  server         " + lis.Addr().String() + " accepts connections but does not answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("HTTP_ADDR", tt.address)
			if got := execute(t, surroundings{}, "doctor", "--dev"); !strings.Contains(got.out, tt.want) {
				t.Errorf("no %q in\n%s", tt.want, got.out)
			}
		})
	}
}
