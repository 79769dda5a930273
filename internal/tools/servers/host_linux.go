package servers

import (
	"fmt"
	"os"
	"syscall"
)

// DieWithParent has the kernel send the signal to the process when we end
// without having stopped it ourselves, as by SIGKILL. To the kernel, "we" is
// the thread that starts it: see StartChild.
func DieWithParent(attributes *syscall.SysProcAttr, quit syscall.Signal) {
	attributes.Pdeathsig = quit
}

// folderBase is where the servers keep their files: in memory if there is
// room (containers often have 64 MB there, a fresh Postgres needs about 60).
func folderBase() string {
	const shared, enough = "/dev/shm", 1 << 30
	var space syscall.Statfs_t
	if err := syscall.Statfs(shared, &space); err == nil && space.Bavail*uint64(space.Bsize) >= enough {
		return shared
	}
	return os.TempDir()
}

// lockFile waits until no other process holds the lock on path.
func lockFile(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}
