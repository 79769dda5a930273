//go:build unix

package private

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// open reports whether other users may read or write. The group may have execute permission only, so
// that LOCAL_EXECUTOR_USER can reach its folders.
func open(stat fs.FileInfo) bool { return stat.Mode().Perm()&0o067 != 0 }

// tighten removes the permissions of other users. Only a process of the owner does so: root must not
// change files of another user.
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
