package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
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

// given makes both servers given, so that none is started.
var given = []string{"TEST_DATABASE_URL=postgres://given", "TEST_REDIS_URL=redis://given"}

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
			needServers(t)
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
			folders := filepath.Join(folderBase(), folderPrefix+strconv.Itoa(command.Process.Pid)+"-*")
			if left, _ := filepath.Glob(folders); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// needServers skips where Postgres or Redis is not installed: this test is not
// worth an installation, which `make test` does anyway.
func needServers(t *testing.T) {
	t.Helper()
	for _, s := range missing(wanted(func(string) string { return "" })) {
		t.Skipf("%s is not installed", s.name)
	}
}

func TestAMissingServerIsAnErrorOnlyWhereItIsRequired(t *testing.T) {
	absent := service{name: "Carillon", variable: "TEST_CARILLON_URL", debian: "carillon"}
	absent.find = func() (string, error) { return "", errNotInstalled }
	present := service{name: "Shell", find: func() (string, error) { return "/bin/sh", nil }}
	t.Setenv("PATH", "") // so that nothing is installed

	t.Setenv("REQUIRE_SERVICES", "")
	if found, err := provide([]service{absent, present}); err != nil || len(found) != 1 || found[0].name != "Shell" {
		t.Errorf("not required: got %v, %v, want only the one that is there", found, err)
	}
	t.Setenv("REQUIRE_SERVICES", "1")
	_, err := provide([]service{absent, present})
	if err == nil || !strings.Contains(err.Error(), "TEST_CARILLON_URL") {
		t.Errorf("required: got %v, want an error that names the variable", err)
	}
}

func TestTheNewestPostgresWithAServerIsFound(t *testing.T) {
	root := t.TempDir()
	for _, program := range []string{"9/bin/initdb", "15/bin/initdb", "16/bin/psql", "other/bin/initdb"} {
		if err := writeFile(filepath.Join(root, program), "", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got, err := newestPostgres(root)
	if expected := filepath.Join(root, "15", "bin"); err != nil || got != expected {
		t.Errorf("got %q, %v, want %q", got, err, expected)
	}
	if _, err := newestPostgres(t.TempDir()); !errors.Is(err, errNotInstalled) {
		t.Errorf("in an empty folder: got %v, want %v", err, errNotInstalled)
	}
}

func TestAServerThatEndsAtOnceIsTriedOnAnotherPort(t *testing.T) {
	f := folder{path: t.TempDir()}
	var ports []int
	_, err := startOnFreePort(t.Context(), func(port int) (*server, error) {
		ports = append(ports, port)
		s, err := spawn(f, syscall.SIGKILL, "/bin/sh", "-c", "echo address already in use >&2; exit 1")
		if err == nil {
			s.ready = func(context.Context) bool { return false }
		}
		return s, err
	})
	if !errors.Is(err, errEndedEarly) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v, want %v with the end of the server's log", err, errEndedEarly)
	}
	if len(ports) != startAttempts {
		t.Errorf("tried the ports %v, want %d of them", ports, startAttempts)
	}
}

func TestOnlyFoldersOfDeadProcessesAreLeftovers(t *testing.T) {
	base := t.TempDir()
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	alive := filepath.Join(base, folderPrefix+strconv.Itoa(os.Getpid())+"-1")
	gone := filepath.Join(base, folderPrefix+strconv.Itoa(dead.Process.Pid)+"-2")
	foreign := filepath.Join(base, "another-"+strconv.Itoa(dead.Process.Pid)+"-3")
	for _, path := range []string{alive, gone, foreign} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	removeLeftovers(base)
	for path, expected := range map[string]bool{alive: true, gone: false, foreign: true} {
		if _, err := os.Stat(path); (err == nil) != expected {
			t.Errorf("%s is there: %t, want %t", filepath.Base(path), err == nil, expected)
		}
	}
}

func TestServicesStayDownOnlyWhileInstalling(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, saved string // the machine's policy, and one saved by an install that was killed
		expected      string
	}{
		{name: "the machine has no policy", expected: ""},
		{name: "the machine has a policy of its own", before: "theirs", expected: "theirs"},
		{name: "an earlier install was killed", before: "ours, left behind", saved: "theirs", expected: "theirs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			policy := filepath.Join(root, "usr/sbin/policy-rc.d")
			write(t, policy, test.before)
			write(t, policy+".carillon-saved", test.saved)

			restore, err := keepServicesDown(root)
			if err != nil {
				t.Fatal(err)
			}
			if err := exec.Command(policy).Run(); err == nil || !strings.Contains(err.Error(), "101") {
				t.Errorf("while installing the policy answers %v, want 101", err)
			}
			if err := restore(); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(policy)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if string(got) != test.expected {
				t.Errorf("afterwards the policy is %q, want %q", got, test.expected)
			}
		})
	}
}

// write writes the file unless the text is empty.
func write(t *testing.T, path, text string) {
	t.Helper()
	if text == "" {
		return
	}
	if err := writeFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
}
