package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// FolderPrefix begins the name of every folder of ours, followed by the id of the
// process that made it.
const FolderPrefix = "carillon-test-"

// heldName is the file in a folder that its maker holds a lock on as long as it
// lives. The id in the folder's name would not do to tell whether it does: in
// another container the id belongs to no process, or to another one.
const heldName = "held"

// unmarkedFor is how long a folder may be without that file: it is being made.
const unmarkedFor = 24 * time.Hour

// An account is whom a server runs as. The zero account is ourselves.
type account struct {
	uid, gid uint32
}

// A folder holds all files of one server.
type folder struct {
	path  string
	owner account
	held  *os.File // locked until it is closed, or the process ends
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
	f := folder{path: path, owner: owner}
	if f.held, err = hold(path); err == nil {
		err = f.give(path)
	}
	if err != nil {
		f.remove()
		return folder{}, err
	}
	return f, nil
}

// hold marks a folder as that of a living process. The file gets its name once
// it is locked, so that it is never visible unlocked. Servers do not inherit
// the lock: Go opens files so that a child does not have them.
func hold(path string) (*os.File, error) {
	file, err := os.CreateTemp(path, heldName)
	if err != nil {
		return nil, fmt.Errorf("mark a folder of a server as in use: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(path, heldName))
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return file, nil
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

// remove removes the folder, and then lets go of it.
func (f folder) remove() {
	if err := os.RemoveAll(f.path); err != nil {
		fmt.Fprintln(os.Stderr, "servers: remove test files:", err)
	}
	_ = f.held.Close() // nil, too: there is nothing to let go of
}

// RemoveLeftovers removes the folders of processes that were killed before
// they could do it themselves.
func RemoveLeftovers(base string) {
	paths, err := filepath.Glob(filepath.Join(base, FolderPrefix+"*-*"))
	if err != nil {
		return // only for a bad pattern, and this one is constant
	}
	for _, path := range paths {
		if held, left := leftover(path); left {
			folder{path: path, held: held}.remove()
		}
	}
}

// leftover tells whether the maker of a folder is gone, and takes its lock. What
// cannot be read is another user's.
func leftover(path string) (held *os.File, left bool) {
	held, err := os.Open(filepath.Join(path, heldName))
	if errors.Is(err, fs.ErrNotExist) {
		about, err := os.Stat(path)
		return nil, err == nil && time.Since(about.ModTime()) > unmarkedFor
	}
	if err != nil {
		return nil, false
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = held.Close()
		return nil, false
	}
	return held, true
}
