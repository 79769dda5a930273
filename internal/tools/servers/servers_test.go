package servers

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
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

// The processes of another container are living, too, though their ids mean
// nothing here, or mean others.
func TestWhatALivingProcessHoldsIsNoLeftover(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	here, elsewhere := strconv.Itoa(os.Getpid()), strconv.Itoa(dead.Process.Pid)
	for _, test := range []struct {
		name, folder string
		held         bool // as it was made; else its maker was killed
		unmarked     time.Duration
		stays        bool
	}{
		{name: "its maker lives here", folder: FolderPrefix + here + "-1", held: true, stays: true},
		{name: "its maker lives where ids are others", folder: FolderPrefix + elsewhere + "-1", held: true, stays: true},
		{name: "its maker was killed", folder: FolderPrefix + elsewhere + "-2"},
		{name: "its maker was killed, and its id is somebody else's now", folder: FolderPrefix + here + "-2"},
		{name: "it is being made", folder: FolderPrefix + elsewhere + "-3", unmarked: time.Minute, stays: true},
		{name: "its maker was killed while it made it", folder: FolderPrefix + elsewhere + "-4", unmarked: 25 * time.Hour},
		{name: "it is not ours", folder: "another-" + elsewhere + "-1", stays: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := t.TempDir()
			made, err := newFolder(base, account{})
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(base, test.folder)
			if err := os.Rename(made.path, path); err != nil {
				t.Fatal(err)
			}
			if test.unmarked > 0 {
				ago := time.Now().Add(-test.unmarked)
				if err := errors.Join(os.Remove(filepath.Join(path, heldName)), os.Chtimes(path, ago, ago)); err != nil {
					t.Fatal(err)
				}
			}
			if !test.held {
				_ = made.held.Close() // as the kernel does
			}
			RemoveLeftovers(base)
			if _, err := os.Stat(path); (err == nil) != test.stays {
				t.Errorf("it is there: %t, want %t", err == nil, test.stays)
			}
			runtime.KeepAlive(made.held)
		})
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
