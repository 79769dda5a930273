package servers

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// FolderPrefix begins the name of every folder of ours; the id of the process
// that made it follows.
const FolderPrefix = "carillon-test-"

// An account is whom a server runs as. The zero account is ourselves.
type account struct {
	uid, gid uint32
}

// A folder holds all files of one server.
type folder struct {
	path  string
	owner account
}

// serverAccount returns the account to run a server as: the first of names
// that exists, when we are root. Postgres refuses to run as root, and no test
// server needs to.
func serverAccount(names ...string) (account, error) {
	if os.Getuid() != 0 {
		return account{}, nil
	}
	for _, name := range append(names, "nobody") {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return account{}, fmt.Errorf("read the ids of user %s: %w", name, err)
		}
		return account{uint32(uid), uint32(gid)}, nil
	}
	return account{}, fmt.Errorf("no user to run a server as: none of %s and nobody exists", strings.Join(names, ", "))
}

func (a account) attributes() *syscall.SysProcAttr {
	// A group of their own: an interrupt typed at the terminal is for the
	// command; the servers must outlive it.
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if a != (account{}) {
		attributes.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attributes
}

// newFolder makes a folder below base that only the owner may enter.
func newFolder(base string, owner account) (folder, error) {
	path, err := os.MkdirTemp(base, FolderPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return folder{}, fmt.Errorf("make a folder for a server: %w", err)
	}
	f := folder{path, owner}
	if err := f.give(path); err != nil {
		f.remove()
		return folder{}, err
	}
	return f, nil
}

// give makes the owner of the folder the owner of a file that we made in it.
func (f folder) give(path string) error {
	if f.owner == (account{}) {
		return nil
	}
	if err := os.Chown(path, int(f.owner.uid), int(f.owner.gid)); err != nil {
		return fmt.Errorf("hand %s to the server's user: %w", path, err)
	}
	return nil
}

func (f folder) logPath() string { return filepath.Join(f.path, "server.log") }

func (f folder) remove() {
	if err := os.RemoveAll(f.path); err != nil {
		fmt.Fprintln(os.Stderr, "servers: remove test files:", err)
	}
}

// RemoveLeftovers removes the folders of processes that were killed before
// they could do it themselves.
func RemoveLeftovers(base string) {
	paths, err := filepath.Glob(filepath.Join(base, FolderPrefix+"*-*"))
	if err != nil {
		return // only for a bad pattern, and this one is constant
	}
	for _, path := range paths {
		id, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), FolderPrefix), "-")
		maker, err := strconv.Atoi(id)
		if err == nil && errors.Is(syscall.Kill(maker, 0), syscall.ESRCH) {
			folder{path: path}.remove()
		}
	}
}
