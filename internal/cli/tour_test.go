package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/cli"
	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/test/services/reserve"
)

const tourFile = "../../docs/tour.md"

// The tour is what a shell would show, one command after the other. A line
// that begins with # is prose.
const tourScript = `
# Everything runs in one process here, as with ` + "`carillon dev`" + `: SQLite inside, workflows run on this machine. First, check the installation.
doctor --dev
# Import a crontab. Lines that cannot be imported are listed.
import crontab @crontab --user ada --tz America/New_York --partial
schedule list
# Preview a rule across a change of the clock.
preview --cron '30 2 * * *' --tz America/New_York --from 2027-03-13T00:00:00Z -n 3
# Run one now, and wait for its end.
schedule trigger date.cron --wait
run list
# Pause one, with a note for other operators.
schedule pause report.cron --note 'moving house' --until 30d
# Why does it not run on Monday week?
explain report.cron @monday
# Why does the other one not run a week from now?
explain date.cron +7d
schedule resume report.cron
explain report.cron next
# The same answer for programs.
explain report.cron @monday -o yaml
`

const tourCrontab = `MAILTO=ops@example.org
# Every night.
30 2 * * * /bin/date -u
0 9 * * MON report
@reboot /usr/local/bin/warm-up
`

// monday is nine o'clock on one that lies ahead, as its own clock shows it, and
// never the first: there is a slot before it, whatever day the tour is taken on.
func monday(now time.Time) string {
	day := now.AddDate(0, 0, 8)
	for day.Weekday() != time.Monday {
		day = day.AddDate(0, 0, 1)
	}
	return day.Format("2006-01-02") + "T09:00"
}

// tour starts a dev server and plays the script on it.
func tour(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	crontab := filepath.Join(dir, "crontab")
	clitest.WriteFile(t, crontab, tourCrontab)
	server := reserve.Addr(t)
	for name, value := range map[string]string{"DATA_DIR": filepath.Join(dir, "data"), "HTTP_ADDR": reserve.Addr(t), "GRPC_ADDR": server} {
		t.Setenv(name, value)
	}
	env := map[string]string{"CARILLON_SERVER": server}
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	serving.Go(func() {
		var out, errs bytes.Buffer
		c := &command.CLI{In: strings.NewReader(""), Out: &out, ErrOut: &errs, Now: time.Now, Env: os.Getenv, Version: "(devel)"}
		if code := cli.Run(ctx, c, []string{"dev", "--examples=false"}); code != command.ExitOK {
			t.Errorf("dev ended with %d: %s", code, errs.String())
		}
	})
	play := func(args ...string) (string, int) {
		var out bytes.Buffer
		c := &command.CLI{In: strings.NewReader(""), Out: &out, ErrOut: &out, Now: time.Now, Env: func(name string) string { return env[name] }}
		code := cli.Run(t.Context(), c, args)
		return out.String(), code
	}
	ready := func() bool {
		_, code := play("doctor", "--dev")
		return code == command.ExitOK
	}
	for deadline := time.Now().Add(30 * time.Second); !ready(); {
		if time.Now().After(deadline) {
			t.Fatal("the server is not ready after 30 s")
		}
		<-time.After(100 * time.Millisecond)
	}
	var b strings.Builder
	b.WriteString("# A tour\n\nRecorded by `go test ./internal/cli -run TestTour -update`. A test checks that it is current. The crontab:\n\n```\n" + tourCrontab + "```\n")
	for line := range strings.Lines(strings.TrimSpace(tourScript)) {
		line = strings.TrimSpace(line)
		if prose, ok := strings.CutPrefix(line, "# "); ok {
			b.WriteString("\n" + prose + "\n")
			continue
		}
		line = strings.ReplaceAll(line, "@monday", monday(time.Now()))
		args := clitest.Split(strings.ReplaceAll(line, "@crontab", crontab))
		out, code := play(args...)
		fmt.Fprintf(&b, "\n```\n$ carillon %s\n%s```\n", strings.ReplaceAll(line, "@crontab", "crontab"), strings.ReplaceAll(out, dir, "."))
		if code != command.ExitOK {
			t.Errorf("%s: exit %d: %s", line, code, out)
		}
	}
	return b.String()
}

// What differs from run to run, and machine to machine.
var tourVaries = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\b[0-9a-f]{12,64}\b`), "KEY"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)( [A-Z]{3,4})?`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(` ?\([^()]*: the clock [^()]*\)`), ""},
	{regexp.MustCompile(`(does not match "[^"]*": |detail: ).*`), "${1}MISMATCH"},
	{regexp.MustCompile(`\((in )?(now|\d+[smhdy])( ago)?\)`), "(AGO)"},
	{regexp.MustCompile(`\(in [^)]*\)|\([0-9a-z ]+ ago\)`), "(AGO)"},
	{regexp.MustCompile(`\b[0-9.]+ ?(µs|ms|s|m|h|d|y|milliseconds?|seconds?|minutes?)\b`), "SPAN"},
	{regexp.MustCompile(`in SPAN|SPAN ago`), "AGO"},
	{regexp.MustCompile(`under a millisecond|no time`), "SPAN"},
	{regexp.MustCompile(`Launched (on time|SPAN after its fire time TIME)`), "Launched LATE"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`(leader of shard \d+ is )\S+ \([^)]*\)`), "${1}WORKER"},
	{regexp.MustCompile(`this machine is [^)]*`), "this machine"},
	{regexp.MustCompile(`epoch \d+`), "epoch N"},
	{regexp.MustCompile(`(?m)[ \t]+`), " "},
	{regexp.MustCompile(`"[0-9a-f-]{30,}"|\b[0-9a-f]{8}-[0-9a-f-]{27}\b`), "ID"},
	{regexp.MustCompile(`(?m)^ ?(lateness_ms|drift_ms): .*$`), "$1"},
}

func tourForm(text string) []string {
	for _, v := range tourVaries {
		text = v.what.ReplaceAllString(text, v.as)
	}
	return strings.Split(text, "\n")
}

func TestTour(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	got := tour(t)
	if *clitest.Update {
		if err := os.WriteFile(tourFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(tourFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tourForm(string(want)), tourForm(got)); diff != "" {
		t.Errorf("docs/tour.md is out of date (-it +now); go test ./internal/cli -run TestTour -update records it anew\n%s", diff)
	}
}
