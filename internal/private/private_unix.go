//go:build unix

package private

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// open reports whether others may read or write. A group that may only enter a
// folder sees nothing in it: so LOCAL_EXECUTOR_USER reaches its own folders.
func open(stat fs.FileInfo) bool { return stat.Mode().Perm()&0o067 != 0 }

// tighten takes away what others may do. Only the owner's own process does so:
// root must not change what belongs to another user.
func tighten(path string, stat fs.FileInfo) error {
	owner := os.Geteuid()
	if system, ok := stat.Sys().(*syscall.Stat_t); ok {
		owner = int(system.Uid)
	}
	if owner != os.Geteuid() {
		return fmt.Errorf("%s is open to other users (mode %04o) and belongs to user %d, but this process runs as user %d; run chmod go-rwx %s as its owner, or chown it",
			path, stat.Mode().Perm(), owner, os.Geteuid(), path)
	}
	return os.Chmod(path, stat.Mode().Perm()&^0o077)
}
