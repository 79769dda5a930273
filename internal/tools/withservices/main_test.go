package main

import (
	"bytes"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/carillon/carillon/internal/tools/servers"
)

// asCommand makes this test binary behave as the command itself: so the tests
// see it as its users do, as a process.
const asCommand = "WITHSERVICES_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "1" {
		main()
	}
	os.Exit(m.Run())
}

// withServices prepares a run of the command with these variables set on top
// of the test's own environment.
func withServices(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), self, args...)
	command.Env = append(append(os.Environ(), asCommand+"=1"), env...)
	return command
}

// given makes all given, so that none is started.
var given = []string{"TEST_DATABASE_URL=postgres://given", "TEST_REDIS_URL=redis://given", "TEST_PGBOUNCER=given"}

func TestTheExitCodeIsThatOfTheCommand(t *testing.T) {
	for _, test := range []struct {
		name     string
		args     []string
		expected int
	}{
		{name: "the command succeeds", args: []string{"--", "true"}, expected: 0},
		{name: "the command fails", args: []string{"--", "sh", "-c", "exit 7"}, expected: 7},
		{name: "the dashes may be left out", args: []string{"sh", "-c", "exit 8"}, expected: 8},
		{name: "a signal ends the command", args: []string{"--", "sh", "-c", "kill -KILL $$"}, expected: 128 + 9},
		{name: "there is no such command", args: []string{"--", "/nowhere/to/be/found"}, expected: exitFailure},
		{name: "no command is given", args: []string{"--"}, expected: exitUsage},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			command := withServices(t, given, test.args...)
			output, _ := command.CombinedOutput()
			if got := command.ProcessState.ExitCode(); got != test.expected {
				t.Errorf("exit code %d, want %d; it said: %s", got, test.expected, output)
			}
		})
	}
}

func TestServersThatAreGivenAreHandedOn(t *testing.T) {
	t.Parallel()
	output, err := withServices(t, given, "--", "sh", "-c", "echo $TEST_DATABASE_URL $TEST_REDIS_URL").Output()
	if expected := "postgres://given redis://given\n"; err != nil || string(output) != expected {
		t.Errorf("the command saw %q (%v), want %q", output, err, expected)
	}
}

func TestASignalReachesTheCommand(t *testing.T) {
	t.Parallel()
	// The shell says when its trap is set, and then waits for more input, which
	// never comes.
	command := withServices(t, given, "--", "sh", "-c", "trap 'exit 9' TERM; echo ready; while read line; do :; done; exec sleep 30")
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	if got := command.ProcessState.ExitCode(); got != 9 {
		t.Errorf("exit code %d, want 9 from the command's own trap", got)
	}
}

func TestServersAreGoneOnceTheCommandHasEnded(t *testing.T) {
	for _, test := range []struct {
		name   string
		script string
	}{
		{name: "after success", script: "true"},
		{name: "after failure", script: "exit 1"},
		{name: "after a signal to withservices", script: "kill -TERM $PPID; exec sleep 30"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !servers.Installed() {
				t.Skip("Postgres or Redis is not installed: this test is not worth an installation")
			}
			unset := []string{"TEST_DATABASE_URL=", "TEST_REDIS_URL="}
			command := withServices(t, unset, "--", "sh", "-c", "echo $TEST_DATABASE_URL $TEST_REDIS_URL; "+test.script)
			var complaints bytes.Buffer
			command.Stderr = &complaints
			output, _ := command.Output()
			urls := strings.Fields(string(output))
			if len(urls) != 2 {
				t.Fatalf("the command saw the servers %q, want two; withservices said: %s", urls, &complaints)
			}
			for _, text := range urls {
				parsed, err := url.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				if conn, err := net.Dial("tcp", parsed.Host); err == nil {
					_ = conn.Close()
					t.Errorf("%s still listens", parsed.Host)
				}
			}
			folders := filepath.Join(servers.Options{}.Base(), servers.FolderPrefix+strconv.Itoa(command.Process.Pid)+"-*")
			if left, _ := filepath.Glob(folders); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
