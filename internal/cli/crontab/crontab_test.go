package crontab_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/cli/crontab"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	"github.com/carillon/carillon/launcher/executor/local"
)

const sample = `# m h  dom mon dow   command
SHELL=/bin/bash
MAILTO="ops@example.org"
PATH = /usr/local/bin:/usr/bin:/bin

# Back up the database,
# every night.
30 2 * * *	/usr/local/bin/backup.sh --full > /dev/null 2>&1
CRON_TZ=America/New_York
0 9 * * MON-FRI NAME='a b' sudo report.py %Dear all,%the report\% is ready.
@daily  /usr/local/bin/backup.sh
@reboot /usr/local/bin/warm-up
*/5 * * *
0 25 * * * too-late
# 0 1 * * * turned-off
-*/10 * * * * quiet
`

func TestACrontabIsReadAsCronReadsIt(t *testing.T) {
	f := crontab.Parse(sample, crontab.Options{Timezone: "Europe/Berlin"})
	type entry struct {
		Line                          int
		Expr, Timezone, Command, Note string
	}
	var got []entry
	for _, e := range f.Entries {
		got = append(got, entry{e.Line, e.Expr, e.Timezone, e.Command, e.Comment})
	}
	want := []entry{
		{8, "30 2 * * *", "Europe/Berlin", "/usr/local/bin/backup.sh --full > /dev/null 2>&1", "Back up the database,\nevery night."},
		{10, "0 9 * * MON-FRI", "America/New_York", "NAME='a b' sudo report.py", ""},
		{11, "@daily", "America/New_York", "/usr/local/bin/backup.sh", ""},
		{16, "*/10 * * * *", "America/New_York", "quiet", "0 1 * * * turned-off"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if e := f.Entries[1]; !e.HasStdin || e.Stdin != "Dear all,\nthe report% is ready." || e.Shell != "/bin/bash" || e.Env["PATH"] != "/usr/local/bin:/usr/bin:/bin" {
		t.Errorf("the second entry is %+v", e)
	}
	var notes []string
	for _, n := range f.Notes {
		notes = append(notes, n.String())
	}
	says := strings.Join(notes, "\n")
	for _, part := range []string{
		`line 3: output is kept with the run, not mailed`, `line 12: Carillon does not see this machine start`, `line 13: is neither a setting nor five fields and a command`,
		`line 14: invalid time fields: cron hour "25"`,
	} {
		if !strings.Contains(says, part) {
			t.Errorf("no note %q in\n%s", part, says)
		}
	}
	if len(notes) != 4 || !f.Lost() {
		t.Errorf("%d notes, lost %v:\n%s", len(notes), f.Lost(), says)
	}
}

func TestWhatACrontabMayHold(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		system     bool
		commands   []string // expression, zone, command
		notes      []string
	}{
		{name: "nothing"},
		{
			name: "a system crontab has users", text: "17 * * * * root cd / && run-parts /etc/cron.hourly\n", system: true,
			commands: []string{"17 * * * * UTC cd / && run-parts /etc/cron.hourly"}, notes: []string{"line 1: the user root is kept as a label"},
		},
		{
			name: "a macro in a system crontab", text: "@hourly\twww-data\tphp cron.php", system: true,
			commands: []string{"@hourly UTC php cron.php"}, notes: []string{"line 1: the user www-data"},
		},
		{name: "a last line without an end", text: "* * * * * a", commands: []string{"* * * * * UTC a"}},
		{name: "lines of Windows", text: "* * * * * a\r\n0 1 * * * b\r\n", commands: []string{"* * * * * UTC a", "0 1 * * * UTC b"}},
		{name: "a mark in front", text: "\ufeff* * * * * a\n", commands: []string{"* * * * * UTC a"}},
		{
			name: "a zone that is none loses what is below", text: "CRON_TZ=Mars/Base\n* * * * * a\n",
			notes: []string{"line 1: invalid time zone", "line 2: invalid time zone"},
		},
		{name: "an empty zone is the default again", text: "CRON_TZ=Asia/Tokyo\nCRON_TZ=\n* * * * * a\n", commands: []string{"* * * * * UTC a"}},
		{name: "TZ is the commands'", text: "TZ=Asia/Tokyo\n* * * * * a\n", commands: []string{"* * * * * UTC a"}, notes: []string{"line 1: is passed to the commands"}},
		{name: "no mail is no note", text: "MAILTO=\"\"\n* * * * * a\n", commands: []string{"* * * * * UTC a"}},
		{name: "random times", text: "0~30 * * * * a\n", notes: []string{"line 1: random times"}},
		{name: "a command that is only a %", text: "* * * * * %\n", notes: []string{"line 1: has no command"}},
		{name: "a = in a command is no setting", text: "0 1 * * * FOO=bar run\n", commands: []string{"0 1 * * * UTC FOO=bar run"}},
		{name: "what is not text", text: "* * * * * a\x00b\n* * * * * \xff\n", notes: []string{"line 1: is not valid text", "line 2: is not valid text"}},
		{name: "a day that never comes", text: "0 4 31 2 * a\n", notes: []string{"line 1: never fires"}},
		{
			name: "a system crontab read as a user's", text: "17 * * * * root cd /\n@daily root b\n* * * * * rooter c\n",
			commands: []string{"* * * * * UTC rooter c"}, notes: []string{"line 1: starts with a user, as in a system crontab", "line 2: starts with a user"},
		},
		{name: "a range that goes backwards", text: "* 22-6 * * * a\n", notes: []string{"line 1: invalid time fields"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := crontab.Parse(tt.text, crontab.Options{System: tt.system})
			var commands []string
			for _, e := range f.Entries {
				commands = append(commands, e.Expr+" "+e.Timezone+" "+e.Command)
			}
			if diff := cmp.Diff(tt.commands, commands); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if len(f.Notes) != len(tt.notes) {
				t.Fatalf("notes %v, want %v", f.Notes, tt.notes)
			}
			for i, n := range f.Notes {
				if !strings.HasPrefix(n.String(), tt.notes[i]) {
					t.Errorf("note %q, want %q", n, tt.notes[i])
				}
			}
		})
	}
}

func TestWorkflowsAreNamedAfterTheirCommands(t *testing.T) {
	f := crontab.Parse(sample, crontab.Options{})
	all, err := f.Workflows(crontab.Naming{Prefix: "cron.", Version: 2, Overlap: "allow"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range all {
		names = append(names, w.ID)
		if _, err := local.Parse(w.DAG); err != nil {
			t.Errorf("%s: %v", w.ID, err)
		}
	}
	if diff := cmp.Diff([]string{"cron.backup.sh", "cron.report.py", "cron.backup.sh-2", "cron.quiet"}, names); diff != "" {
		t.Error(diff)
	}
	const want = `{"workflow_id":"cron.backup.sh","version":2,"comment":"Back up the database,\nevery night.",` +
		`"crontab":"line 8: 30 2 * * *\t/usr/local/bin/backup.sh --full \u003e /dev/null 2\u003e\u00261",` +
		`"triggers":[{"type":"schedule_based","name":"cron","cron_expr":"30 2 * * *","timezone":"UTC","overlap_policy":"allow","labels":{"imported":"crontab","mailto":"ops@example.org"}}],` +
		`"steps":[{"id":"run","run":["/bin/bash","-c","cd \"${HOME:-/}\"\n/usr/local/bin/backup.sh --full \u003e /dev/null 2\u003e\u00261"],` +
		`"env":{"PATH":"/usr/local/bin:/usr/bin:/bin"}}]}`
	if diff := cmp.Diff(want, string(all[0].DAG)); diff != "" {
		t.Error(diff)
	}
}

func TestTheHeadOfColumnsIsNoComment(t *testing.T) {
	f := crontab.Parse("# m h  dom mon dow   command\n* * * * * a\n# .--- minute (0 - 59)\n# |  |\n# *  *  *  *  * user-name command to be executed\n# Mine.\n* * * * * b\n", crontab.Options{})
	if len(f.Entries) != 2 || f.Entries[0].Comment != "" || f.Entries[1].Comment != "Mine." {
		t.Errorf("entries %+v, notes %v", f.Entries, f.Notes)
	}
}

func TestNamesAreOfTheProgramThatDoesTheWork(t *testing.T) {
	for _, tt := range []struct{ name, command, want string }{
		{"behind a lock", "/usr/bin/flock -n /tmp/poll.lock /opt/bin/poll", "poll"},
		{"behind a test of the day", `[ $(date +\%d) -le 7 ] && /opt/bin/first-sunday`, "first-sunday"},
		{"behind a folder", "cd / && run-parts --report /etc/cron.hourly", "run-parts"},
		{"behind a variable", `"$HOME"/bin/backup.sh`, "backup.sh"},
		{"nothing that could name it", ": 7", "line-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := crontab.Parse("* * * * * "+tt.command, crontab.Options{})
			all, err := f.Workflows(crontab.Naming{Version: 1, Overlap: "allow"})
			if err != nil || len(all) != 1 || all[0].ID != tt.want {
				t.Errorf("%v: %v, want %s", err, all, tt.want)
			}
		})
	}
}

// The shell is the judge of what a command does with its input.
func TestCommandsRunAsCronRunsThem(t *testing.T) {
	for _, tt := range []struct{ name, line, want string }{
		{"a plain command", `* * * * * echo hello`, "hello\n"},
		{"lines behind a %", `* * * * * cat%one%two\%`, "one\ntwo%\n"},
		{"a quote in the input", `* * * * * cat%it's "$HOME" CARILLON_INPUT`, "it's \"$HOME\" CARILLON_INPUT\n"},
		{"the end's own word in the input", `* * * * * cat%CARILLON_INPUT%x`, "CARILLON_INPUT\nx\n"},
		{"a pipe", `* * * * * cat | tr a-z A-Z%loud`, "LOUD\n"},
		{"in the user's home", `* * * * * pwd`, "/\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := crontab.Parse("HOME=/\n"+tt.line, crontab.Options{})
			all, err := f.Workflows(crontab.Naming{Version: 1, Overlap: "allow"})
			if err != nil || len(all) != 1 {
				t.Fatalf("%v: %v", f.Notes, err)
			}
			var dag struct{ Steps []struct{ Run []string } }
			if err := json.Unmarshal(all[0].DAG, &dag); err != nil {
				t.Fatal(err)
			}
			argv := dag.Steps[0].Run
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			cmd.Env = []string{"HOME=/", "PATH=/usr/bin:/bin"}
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != tt.want {
				t.Errorf("%v: %q, want %q", err, out, tt.want)
			}
		})
	}
}

// Whatever a file holds: no panic, each line that is no comment, setting or
// blank is an entry or a note, and entries are fit to apply.
func FuzzParse(f *testing.F) {
	f.Add(sample, false)
	f.Add("17 * * * * root x%y\n@reboot root z\n", true)
	f.Add("a=b\n'c' = \"d\"\n=\n% % % % % %\n", false)
	f.Fuzz(func(t *testing.T, text string, system bool) {
		file := crontab.Parse(text, crontab.Options{System: system})
		named := make(map[int]bool)
		for _, n := range file.Notes {
			named[n.Line] = true
		}
		for _, e := range file.Entries {
			named[e.Line] = true
			if _, err := cronexpr.Parse(e.Expr); err != nil || e.Command == "" {
				t.Errorf("line %d: %q %q: %v", e.Line, e.Expr, e.Command, err)
			}
		}
		line := 0
		for raw := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
			line++
			left := strings.Trim(raw, " \t\r\n")
			if line < crontab.MaxLines && left != "" && left[0] != '#' && !strings.Contains(left, "=") && !named[line] {
				t.Errorf("line %d, %q, was dropped in silence", line, left)
			}
		}
		all, err := file.Workflows(crontab.Naming{Version: 1, Overlap: "allow"})
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]bool)
		for _, w := range all {
			if seen[w.ID] || len(w.ID) > 100 {
				t.Errorf("the name %q is long or taken", w.ID)
			}
			seen[w.ID] = true
			if _, err := local.Parse(w.DAG); err != nil {
				t.Errorf("%s is no DAG: %v", w.DAG, err)
			}
		}
	})
}

func TestMAILTOBecomesALabelOfTheLinesBelowIt(t *testing.T) {
	f := crontab.Parse("* * * * * a\nMAILTO=ops@example.org\n* * * * * b\nMAILTO=\"\"\n* * * * * c\n", crontab.Options{})
	workflows, err := f.Workflows(crontab.Naming{Version: 1, Overlap: "allow"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, false} {
		if got := strings.Contains(string(workflows[i].DAG), `"mailto":"ops@example.org"`); got != want {
			t.Errorf("%s: label %v, want %v: %s", workflows[i].ID, got, want, workflows[i].DAG)
		}
	}
}
