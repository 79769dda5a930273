package apply_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
)

// anySchedule draws a schedule as a user might send it, every field of it.
func anySchedule(t *rapid.T, id string) string {
	s := map[string]any{"schedule_id": id, "workflow_id": "w", "version": rapid.IntRange(1, 9).Draw(t, "version"), "user_id": "ada"}
	text := func(name string, words ...string) {
		if word := rapid.SampledFrom(append(words, "")).Draw(t, name); word != "" {
			s[name] = word
		}
	}
	number := func(name string, least, most, unit int) {
		if rapid.Bool().Draw(t, name+"?") {
			s[name] = rapid.IntRange(least, most).Draw(t, name) * unit
		}
	}
	switch rapid.IntRange(0, 3).Draw(t, "rule") {
	case 0:
		text("cron_expr", "30 2 * * *", "@hourly", "*/5 * * * * *", "0 0 L * ?", "0 12 * * 1#2")
	case 1:
		number("interval_ms", 1, 1_000_000, 1000)
	case 2:
		s["once_at"] = "2099-01-01T12:00:00Z"
	}
	text("timezone", "Europe/Berlin", "UTC", "America/New_York")
	text("start_at", "2026-01-01T00:00:00Z", "2030-06-01T00:00:00+02:00")
	text("end_at", "2099-12-31T23:59:59Z")
	text("dst", "vixie", "literal")
	text("overlap_policy", "allow", "skip", "queue")
	text("overlap_key", "shared", id)
	text("catchup_policy", "none", "fire_immediately", "spread", "latest")
	text("execution_grant_id", "grant-1")
	number("jitter_ms", 0, 3_600_000, 1)
	number("max_queued", 1, 1000, 1)
	number("catchup_window_ms", 0, 2_592_000_000, 1)
	number("run_timeout_ms", 1000, 2_592_000_000, 1)
	number("priority", -1000, 1000, 1)
	if rapid.Bool().Draw(t, "labels?") {
		s["labels"] = rapid.MapOfN(rapid.StringMatching(`[A-Za-z0-9._:-]{1,9}`), rapid.StringMatching(`[ -~äöü]{0,20}`), 0, 3).Draw(t, "labels")
	}
	if promise := anyPromise(t, s); len(promise) > 0 {
		s["expect"] = promise
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	input := rapid.SampledFrom([]string{
		"", `null`, `7`, `"2026-03-08"`, `{"b": 1,  "a": [1.50, 12345678901234567890, -0, 1E400]}`, `{"<<": "yes", "": null}`,
		`"<a href=\"x\">\u2028\n</a> \u00e9 é"`, `[]`, `{"nested": {"on": "off", "0x1F": "0o7"}}`,
	}).Draw(t, "input")
	if input == "" {
		return string(raw)
	}
	return strings.TrimSuffix(string(raw), "}") + `,"input":` + input + "}"
}

// anyPromise draws expectations that the schedule may have.
func anyPromise(t *rapid.T, s map[string]any) map[string]any {
	promise := make(map[string]any)
	_, once := s["once_at"]
	rule := s["cron_expr"] != nil || s["interval_ms"] != nil
	for _, p := range []struct {
		name        string
		may         bool
		least, most int
	}{
		{"start_within_ms", rule || once, 3_600_001, 4_000_000},
		{"finish_within_ms", rule || once, 4_000_000, 1_209_600_000},
		{"success_every_ms", !once, 3_600_000_000, 3_888_000_000}, // over every rule's longest gap
	} {
		if p.may && rapid.Bool().Draw(t, p.name+"?") {
			promise[p.name] = rapid.IntRange(p.least, p.most).Draw(t, p.name)
		}
	}
	if len(promise) > 0 {
		if rapid.Bool().Draw(t, "alert_after?") {
			promise["alert_after"] = rapid.IntRange(1, 1000).Draw(t, "alert_after")
		}
		if rapid.Bool().Draw(t, "remind_every_ms?") {
			promise["remind_every_ms"] = rapid.IntRange(300_000, 3_888_000_000).Draw(t, "remind_every_ms")
		}
	}
	return promise
}

func TestWhatIsExportedAndAppliedChangesNothing(t *testing.T) {
	s := newSite(t)
	if got := s.run("grant", "create", "--id", "grant-1", "--user", "ada", "--account", "acme", "--scope", "graph:execute:w"); got.Code != command.ExitOK {
		t.Fatal(got.ErrOut)
	}
	drawn := rapid.Custom(func(rt *rapid.T) []string {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[.:]?[A-Ba-b._:-]{1,6}`), 1, 8, rapid.ID[string]).Draw(rt, "ids")
		var all []string
		for _, id := range ids {
			all = append(all, anySchedule(rt, id))
		}
		return all
	})
	for round := range 15 { // of a command line each; more of them find no more
		all := drawn.Example(round)
		set := fmt.Sprintf("set-%d", round)
		dir := t.TempDir()
		file, out := filepath.Join(dir, "all.json"), filepath.Join(dir, "out")
		if err := os.WriteFile(file, []byte("["+strings.Join(all, ",\n")+"]"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			args []string
			want string
		}{
			{[]string{"apply", "-f", file, "--set", set}, fmt.Sprintf("%d created", len(all))},
			{[]string{"apply", "-f", file, "--set", set, "--prune", "--dry-run"}, "no changes"},
			{[]string{"export", "--set", set, "-o", out}, fmt.Sprintf("%d schedules written", len(all))},
			{[]string{"apply", "-f", out, "--set", set, "--prune", "--dry-run"}, "no changes"},
			{[]string{"drift", "-f", out, "--set", set}, "no differences"},
		} {
			if got := s.run(step.args...); got.Code != command.ExitOK || !strings.Contains(got.Out, step.want) {
				t.Fatalf("%v: exit %d\n%s%s\nof %s", step.args, got.Code, got.Out, got.ErrOut, all)
			}
		}
		s.run("apply", "-f", "-", "--set", set, "--prune", "--allow-empty") // the next may have the same ids
	}
}

func TestExportWritesOneStreamOrAFolderThatIsNew(t *testing.T) {
	s := newSite(t)
	s.write("a.yaml", twoSchedules)
	s.says(command.ExitOK, []string{"apply", "-f", "DIR/a.yaml", "--set", "billing", "--user", "ada"})
	clitest.Golden(t, "export", s.says(command.ExitOK, []string{"export", "--set", "billing"}))
	s.says(command.ExitOK, []string{"export", "--user", "nobody"}, "no schedule matches the filters")
	s.says(command.ExitOK, []string{"export", "--set", "billing", "-o", "DIR/out"}, "2 schedules written to DIR/out")
	s.says(command.ExitFailed, []string{"export", "--set", "billing", "-o", "DIR/out"}, "the folder DIR/out is not empty")
}
