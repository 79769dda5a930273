package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services"
)

// stop is a step of the tour: which command it is, and what a newcomer must
// see. The README and this list name the same commands in the same order, or
// the test fails.
type stop struct {
	command string   // what the statement begins with
	shows   []string // what its output contains, in the end
	again   bool     // until it does, it is asked again
	stays   bool     // it does not end: it is ended once it has shown that
	check   func(output string) error
}

var tour = []stop{
	{command: "./bin/carillon schedule list", shows: []string{"health-check", "database-backup"}, again: true},
	{command: "./bin/carillon run list", shows: []string{"SUCCESS"}, again: true},
	{command: "cat > hello.json"},
	{command: "./bin/carillon workflow deploy -f hello.json", shows: []string{"hello.tour"}},
	{command: "./bin/carillon run watch --schedule hello.tour", shows: []string{"hello.tour", "SUCCESS"}, stays: true},
	{command: "curl -s localhost:8080/schedules/upsert"},
	{command: "curl -s localhost:8080/v1/schedules/s1 ", shows: []string{"America/New_York", "*/5 * * * *"}, check: nextFive},
	{command: "curl -s localhost:8080/v1/schedules/s1/runs", shows: []string{`"runs"`}},
	{command: "./bin/carillon schedule trigger s1 --wait", shows: []string{"SUCCESS"}},
	{command: "./bin/carillon schedule pause s1", shows: []string{"s1"}},
	{command: "./bin/carillon schedule get s1", shows: []string{"s1", "database is moving"}},
	{command: "./bin/carillon schedule resume s1", shows: []string{"s1"}},
	{command: "./bin/carillon schedule events s1", shows: []string{"created", "triggered", "paused", "resumed"}},
	{command: "./bin/carillon schedule delete s1"},
	{command: "./bin/carillon explain hello.tour last", shows: []string{"hello.tour", "SUCCESS"}, again: true},
	{command: "./bin/carillon explain database-backup.nightly 2027-03-28T03:00", shows: []string{"2027-03-28"}},
	{command: "./bin/carillon doctor --dev", shows: []string{"database", "leader"}},
	{command: "printf", shows: []string{"cron_expr: 30 2 * * *"}},
	{command: "./bin/carillon preview --cron", shows: []string{"2027-03-13T02:30:00-05:00", "2027-03-14T03:00:00-04:00", "2027-03-15T02:30:00-04:00"}},
	{command: "printf"},
}

var postgresTour = []stop{
	{command: "export DATABASE_URL="},
	{command: "./bin/carillon migrate", shows: []string{"up to date"}},
	{command: "./bin/carillon serve --executor http", shows: []string{"carillon started"}, stays: true},
}

func nextFive(output string) error {
	var answer struct {
		Preview []struct {
			RunAt time.Time `json:"run_at"`
		} `json:"preview"`
	}
	if err := json.Unmarshal([]byte(output), &answer); err != nil {
		return err
	}
	if len(answer.Preview) != 5 {
		return fmt.Errorf("it shows %d fire times, not the next five", len(answer.Preview))
	}
	return nil
}

// TestTheReadmeTour runs the commands of the README, with other addresses, and compares
// their output with the README.
func TestTheReadmeTour(t *testing.T) {
	if testing.Short() {
		t.Skip("takes up to a minute")
	}
	t.Parallel()
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the README's commands need %s: %v", tool, err)
		}
	}
	sections := make(map[string][]statement)
	for _, s := range readme(t) {
		sections[s.section] = append(sections[s.section], s)
	}
	t.Run("two commands", func(t *testing.T) {
		t.Parallel()
		for _, s := range sections["Two commands"] {
			command, _, _ := strings.Cut(s.text, "#")
			cmd := exec.Command("sh", "-c", strings.Replace(command, "make ", "make -n ", 1))
			cmd.Dir = root()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", command, err, out)
			} else if strings.Contains(command, "make run") && !strings.Contains(string(out), "./bin/carillon dev") {
				t.Errorf("%s does not start carillon dev, as the tour says:\n%s", command, out)
			}
		}
	})
	t.Run("five minutes", func(t *testing.T) {
		t.Parallel()
		g := newGuide(t, newProcess(t, "carillon dev", []string{"dev"}, nil))
		g.process.startReady()
		g.walk(sections["Five minutes"], tour)
	})
	t.Run("with Postgres", func(t *testing.T) {
		t.Parallel()
		g := newGuide(t, newProcess(t, "carillon", nil, nil))
		g.database = services.Postgres(t, nil)
		g.walk(sections["With Postgres and an executor of your own"], postgresTour)
	})
}

// guide walks a newcomer through the statements of a section.
type guide struct {
	t        *testing.T
	process  *process
	dir      string
	database string
	exports  []string
}

func newGuide(t *testing.T, p *process) *guide {
	g := &guide{t: t, process: p, dir: p.dir}
	if err := os.MkdirAll(filepath.Join(g.dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary(t), filepath.Join(g.dir, "bin", "carillon")); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *guide) walk(statements []statement, stops []stop) {
	for i, s := range statements {
		if i >= len(stops) || !strings.HasPrefix(s.text+" ", stops[i].command) {
			g.t.Fatalf("the README has the command %q, which this tour does not expect here: add it to the list of stops", s.text)
		}
		g.visit(s, stops[i])
	}
	if len(stops) > len(statements) {
		g.t.Fatalf("the README no longer has %q", stops[len(statements)].command)
	}
}

// visit runs a statement and demands what it must show.
func (g *guide) visit(s statement, at stop) {
	g.t.Helper()
	text := strings.ReplaceAll(s.text, "localhost:8080", g.process.httpAddr)
	if strings.HasPrefix(text, "export DATABASE_URL=") {
		g.exports = append(g.exports, "export DATABASE_URL='"+g.database+"'")
		return
	}
	if at.stays {
		g.watch(text, at)
		return
	}
	var output string
	show := func() error {
		var err error
		if output, err = g.run(text); err != nil {
			return err
		}
		return at.seen(output, s.promise)
	}
	bound := time.Duration(0)
	if at.again {
		bound = firstMinute
	}
	if err := within(bound, show); err != nil {
		g.t.Errorf("%s\n%v\nit printed:\n%s", s.text, err, output)
	}
}

func (at stop) seen(output, promise string) error {
	for _, part := range at.shows {
		if !strings.Contains(output, part) {
			return fmt.Errorf("it does not show %q", part)
		}
	}
	if promise != "" && !keeps(output, promise) {
		return fmt.Errorf("it does not print what the README promises, %s", promise)
	}
	if at.check != nil {
		return at.check(output)
	}
	return nil
}

func (g *guide) shell(text string, output io.Writer) *exec.Cmd {
	script := strings.Join(append(g.exports, text), "\n")
	cmd := exec.Command("sh", "-eu", "-c", script)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = g.dir, g.process.environ(), output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(cmd.SysProcAttr)
	return cmd
}

func (g *guide) run(text string) (string, error) {
	var out bytes.Buffer
	cmd := g.shell(text, &out)
	if err := startChild(cmd); err != nil {
		return "", err
	}
	limit := time.AfterFunc(startBound, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	err := cmd.Wait()
	return out.String(), err
}

// watch runs a command that does not end until it has shown what it must, then ends it
// as Ctrl-C does.
func (g *guide) watch(text string, at stop) {
	g.t.Helper()
	var output logTail
	cmd := g.shell("exec "+text, &output)
	if err := startChild(cmd); err != nil {
		g.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ends with a signal is its own affair
		close(ended)
	}()
	err := within(startBound, func() error { return at.seen(output.last(keptLines), "") })
	_ = cmd.Process.Signal(os.Interrupt) // it fails only when it has ended by itself
	select {
	case <-ended:
	case <-time.After(drainBound):
		_ = cmd.Process.Kill()
		err = fmt.Errorf("it does not end with Ctrl-C")
		<-ended
	}
	if err != nil {
		g.t.Errorf("%s\n%v\nit printed:\n%s", text, err, output.last(keptLines))
	}
}
