package servers

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

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
	_, err := startOnFreePort(t.Context(), func(port int) (*Server, error) {
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
	alive := filepath.Join(base, FolderPrefix+strconv.Itoa(os.Getpid())+"-1")
	gone := filepath.Join(base, FolderPrefix+strconv.Itoa(dead.Process.Pid)+"-2")
	foreign := filepath.Join(base, "another-"+strconv.Itoa(dead.Process.Pid)+"-3")
	for _, path := range []string{alive, gone, foreign} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	RemoveLeftovers(base)
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
