package apply_test

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/api"
)

// site is a registrar on a database of its own, which commands ask over TCP,
// and a folder with files.
type site struct {
	*testing.T
	dir     string
	address string
}

func newSite(t *testing.T) *site {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := sqlite.Open(t.Context(), "sqlite:"+migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db")), sqlite.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r := registrar.New(registrar.Options{Schedules: store, Runs: store, Backfills: store, Workflows: store, Shares: store, Grants: store, Now: store.Now, Logger: quiet})
	server := api.NewServer(quiet, nil)
	api.Register(server, api.Services{Writer: r, Reader: r, Workflows: r, Grants: r, Runs: r, Backfills: r})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(lis) }) // its end is Stop's
	t.Cleanup(func() {
		server.Stop()
		served.Wait()
	})
	return &site{T: t, dir: t.TempDir(), address: lis.Addr().String()}
}

// write puts a file into the site's folder.
func (s *site) write(name, text string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// run executes a command line, in which DIR is the site's folder.
func (s *site) run(args ...string) clitest.Result {
	s.Helper()
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "DIR", s.dir)
	}
	got := clitest.Run(s.T, clitest.Env{Vars: map[string]string{"CARILLON_SERVER": s.address}}, args...)
	got.Out, got.ErrOut = strings.ReplaceAll(got.Out, s.dir, "DIR"), strings.ReplaceAll(got.ErrOut, s.dir, "DIR")
	return got
}

// says runs a command line that must end with a code and say all of want.
func (s *site) says(code int, args []string, want ...string) string {
	s.Helper()
	got := s.run(args...)
	if got.Code != code {
		s.Fatalf("%v: exit %d, want %d:\n%s%s", args, got.Code, code, got.Out, got.ErrOut)
	}
	for _, w := range want {
		if !strings.Contains(got.Out+got.ErrOut, w) {
			s.Errorf("%v does not say %q:\n%s%s", args, w, got.Out, got.ErrOut)
		}
	}
	return got.Out + got.ErrOut
}

const twoSchedules = `# what billing runs
schedule_id: invoices
workflow_id: invoice
version: 3
cron_expr: "30 2 * * *"
timezone: Europe/Berlin
input:
  keep: 7
---
schedule_id: dunning
workflow_id: dun
version: 1
cron_expr: 0 9 * * 1-5
`

func TestApplyMakesTheServerWhatTheFilesSay(t *testing.T) {
	s := newSite(t)
	s.write("billing.yaml", twoSchedules)
	apply := []string{"apply", "-f", "DIR", "--set", "billing", "--user", "ada", "--prune"}
	dry := append(append([]string(nil), apply...), "--dry-run")

	s.says(command.ExitDiffers, dry, "+ invoices: create", "+ dunning: create", "0 runs removed, 30 added", "2 to create, 0 to change, 0 to delete, 0 unchanged", "launches until ", "none before")
	s.says(command.ExitNotFound, []string{"schedule", "get", "invoices"})
	s.says(command.ExitOK, apply, "+ invoices: create, next run", "set billing: 2 created")
	s.says(command.ExitOK, apply, "no changes (2 schedules)")
	s.says(command.ExitOK, dry, "no changes")
	s.says(command.ExitOK, []string{"drift", "-f", "DIR", "--set", "billing", "--user", "ada"}, "set billing: no differences (2 schedules)")

	s.write("billing.yaml", strings.Replace(strings.ReplaceAll(twoSchedules, "30 2 * * *", "30 3 * * *"), "dunning", "reminders", 1))
	s.says(command.ExitDiffers, dry, "~ invoices: change", "cron_expr: 30 2 * * * -> 30 3 * * *", "30 runs removed, 30 added", "… and 20 more",
		"- dunning: delete", "+ reminders: create", "1 to create, 1 to change, 1 to delete, 0 unchanged")
	s.says(command.ExitDiffers, []string{"drift", "-f", "DIR", "--set", "billing", "--user", "ada"},
		"~ invoices: differs (server -> files)", "- dunning: not in the files", "+ reminders: missing")
	s.says(command.ExitOK, apply, "~ invoices: change", "- dunning: delete", "set billing: 1 created, 1 changed, 1 deleted")
	s.says(command.ExitNotFound, []string{"schedule", "get", "dunning"})
	s.says(command.ExitOK, []string{"schedule", "get", "invoices"}, "set:billing", "revision", "2 of ")
}

func TestApplyWithoutPruneLeavesWhatTheFilesDoNotHold(t *testing.T) {
	s := newSite(t)
	s.write("billing.yaml", twoSchedules)
	s.says(command.ExitOK, []string{"apply", "-f", "DIR", "--user", "ada"}, "set default: 2 created")
	s.write("billing.yaml", strings.Split(twoSchedules, "---")[0])
	s.says(command.ExitOK, []string{"apply", "-f", "DIR", "--user", "ada"}, "? not in the files; --prune deletes them: dunning")
	s.says(command.ExitOK, []string{"schedule", "get", "dunning"})
	s.says(command.ExitUsage, []string{"apply", "-f", "DIR", "--user", "ada", "--prune"}, "--prune needs --set")
}

func TestAnOperatorsPauseSurvivesApply(t *testing.T) {
	s := newSite(t)
	s.write("billing.yaml", strings.Replace(twoSchedules, "version: 1", "version: 1\npaused: false", 1))
	apply := []string{"apply", "-f", "DIR", "--set", "billing", "--user", "ada"}
	s.says(command.ExitOK, apply)
	s.says(command.ExitOK, []string{"schedule", "pause", "dunning", "--note", "court says so"})
	s.says(command.ExitOK, apply, "no changes")
	s.write("billing.yaml", strings.Replace(twoSchedules, "version: 1", "version: 2\npaused: false", 1))
	s.says(command.ExitOK, apply, "~ dunning: change, paused", "version: 1 -> 2")
	s.says(command.ExitOK, []string{"schedule", "get", "dunning"}, "court says so")
}

func TestApplyTakesWorkflowsWithTheirTriggers(t *testing.T) {
	s := newSite(t)
	dag := `{"workflow_id": "report", "version": 1, "triggers": [{"type": "schedule_based", "name": "nightly", "cron_expr": "@daily"}]}`
	s.write("report.json", dag)
	s.write("deep/folder/more.yml", strings.Split(twoSchedules, "---")[0])
	apply := []string{"apply", "-f", "DIR", "--set", "all", "--user", "ada"}
	s.says(command.ExitOK, apply, "+ report.nightly: create", "+ workflow report version 1", "+ invoices: create")
	s.says(command.ExitOK, apply, "no changes (2 schedules)")
	s.says(command.ExitOK, []string{"workflow", "get", "report", "1", "--dag"}, dag)

	s.write("report.json", strings.Replace(dag, "nightly", "daily", 1))
	s.says(command.ExitFailed, apply, "version 1 of workflow report is stored with another DAG")

	s.write("report.json", strings.Replace(dag, `"version": 1`, `"version": 2`, 1))
	s.says(command.ExitFailed, []string{"workflow", "deploy", "-f", "DIR/report.json", "--user", "ada"}, "workflow:report cannot take over report.nightly (managed by set:all); leave it out, or set adopt (--adopt) to take over")
	s.says(command.ExitOK, []string{"workflow", "deploy", "-f", "DIR/report.json", "--user", "ada", "--adopt"}, "report.nightly")
	s.says(command.ExitFailed, apply, "set:all cannot take over report.nightly (managed by workflow:report); leave it out, or set adopt (--adopt) to take over")
	s.says(command.ExitOK, append(apply, "--adopt"), "taken over from workflow:report")
}

func TestUpsertByHandOfAScheduleOfASet(t *testing.T) {
	s := newSite(t)
	s.write("billing.yaml", twoSchedules)
	s.says(command.ExitOK, []string{"apply", "-f", "DIR", "--set", "prod", "--user", "ada"}, "+ invoices: create")
	upsert := []string{"schedule", "upsert", "--id", "invoices", "--workflow", "invoice", "--user", "ada", "--cron", "@daily"}
	got := s.run(append(upsert, "--version", "4")...)
	if want := "warning: schedule invoices is managed by set:prod; the next apply of that set overwrites this change\n"; got.Code != command.ExitOK || got.ErrOut != want {
		t.Errorf("exit %d, stderr %q, want %q", got.Code, got.ErrOut, want)
	}
	s.says(command.ExitOK, []string{"schedule", "list", "--managed-by", "set:prod"}, "invoices")
	other := append(upsert, "--version", "5", "--managed-by", "set:test")
	s.says(command.ExitFailed, other, "set:test cannot take over invoices (managed by set:prod); leave managed_by out to keep the manager, or set adopt (--adopt) to take over")
	s.says(command.ExitOK, append(other, "--adopt"))
	s.says(command.ExitOK, []string{"schedule", "list", "--managed-by", "set:test"}, "invoices")
}

func TestWhatIsWrongIsNamedByItsPlaceInTheFiles(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{
			name: "a field that the server refuses", files: map[string]string{"a.yaml": strings.Replace(twoSchedules, "0 9 * * 1-5", "61 9 * * 1-5", 1)},
			want: []string{"DIR/a.yaml:13 (document 2): cron_expr: \"61 9 * * 1-5\" is invalid"},
		},
		{
			name: "a field that is none", files: map[string]string{"a.yaml": strings.Replace(twoSchedules, "timezone", "time_zone", 1)},
			want: []string{"DIR/a.yaml:6 (document 1): time_zone: is not a field of UpsertScheduleRequest; write timezone"},
		},
		{name: "an id in two files", files: map[string]string{"a.yaml": twoSchedules, "b.json": `[
  {"schedule_id": "other", "workflow_id": "w", "version": 1},
  {"schedule_id": "dunning", "workflow_id": "w", "version": 1}
]`}, want: []string{`DIR/b.json:3: schedule_id: "dunning" is the id of DIR/a.yaml:10 (document 2) too; ids must differ`}},
		{
			name: "a name twice in one object", files: map[string]string{"a.yaml": twoSchedules + "version: 2\n"},
			want: []string{"DIR/a.yaml:12 (document 2): version: is there twice in one object"},
		},
		{
			name: "a trigger", files: map[string]string{"a.yaml": "workflow_id: w\nversion: 1\ntriggers:\n  - type: schedule_based\n    cron_expr: daily\n"},
			want: []string{"DIR/a.yaml:5: triggers[0].cron_expr: \"daily\" is invalid"},
		},
		{
			name: "what is nothing we know", files: map[string]string{"a.yaml": "name: x\n", "b.yaml": "- 1\n"},
			want: []string{"DIR/a.yaml:1: is neither a schedule nor a workflow", "DIR/b.yaml:1: is not an object"},
		},
		{name: "broken JSON", files: map[string]string{"a.json": "{\n\"schedule_id\": x\n}"}, want: []string{"DIR/a.json:2: not JSON"}},
		{name: "broken YAML", files: map[string]string{"a.yaml": "a: [\n"}, want: []string{"DIR/a.yaml: yaml: line"}},
		{
			name: "an owner of its own that is somebody else's", files: map[string]string{"a.yaml": "schedule_id: theirs\nworkflow_id: w\nversion: 1\n"},
			want: []string{`schedule_id "theirs" belongs to another owner`},
		},
		{name: "a folder without any", files: map[string]string{".hidden.yaml": twoSchedules, "notes.txt": "x"}, want: []string{"no *.yaml, *.yml or *.json in the folder DIR"}},
		{name: "files without any", files: map[string]string{"a.yaml": "# later\n---\n"}, want: []string{"the files contain no schedule and no workflow"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			s.says(command.ExitOK, []string{"schedule", "upsert", "--id", "theirs", "--workflow", "w", "--version", "1", "--user", "bob", "--cron", "@daily"})
			for name, text := range tt.files {
				s.write(name, text)
			}
			s.says(command.ExitFailed, []string{"apply", "-f", "DIR", "--user", "ada"}, tt.want...)
			s.says(command.ExitNotFound, []string{"schedule", "get", "invoices"})
		})
	}
	t.Run("an owner that nobody names", func(t *testing.T) {
		s := newSite(t)
		s.write("a.yaml", twoSchedules)
		s.says(command.ExitFailed, []string{"apply", "-f", "DIR"}, "DIR/a.yaml:2 (document 1): user_id: is required; add it, or give --user")
	})
}

func TestLinksAndHiddenFilesAreNotApplied(t *testing.T) {
	s := newSite(t)
	s.write("seen.yaml", strings.Split(twoSchedules, "---")[0])
	s.write(".git/config.yaml", "not: ours")
	s.write(".draft.yaml", "not: ours")
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("not: ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link.yaml": outside, "loop": s.dir} {
		if err := os.Symlink(target, filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.says(command.ExitOK, []string{"apply", "-f", "DIR", "-f", "DIR/seen.yaml", "--user", "ada"}, "1 created")
}

func TestAnApplyWithARequestIDIsDoneOnce(t *testing.T) {
	s := newSite(t)
	first := []string{"apply", "-f", "DIR", "--set", "billing", "--user", "ada", "--request-id", "ci-1"}
	s.write("a.yaml", twoSchedules)
	s.says(command.ExitOK, first, "2 created")
	s.write("a.yaml", strings.Replace(twoSchedules, "version: 3", "version: 4", 1))
	s.says(command.ExitOK, []string{"apply", "-f", "DIR", "--set", "billing", "--user", "ada", "--request-id", "ci-2"}, "1 changed")
	s.says(command.ExitFailed, first, `request_id "ci-1" was used before for another deploy`)
	s.write("a.yaml", twoSchedules)
	s.says(command.ExitOK, first, "this request was applied before; nothing changed")
	s.says(command.ExitOK, []string{"schedule", "get", "invoices"}, "invoice version 4")
}
