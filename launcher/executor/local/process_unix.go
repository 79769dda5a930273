//go:build unix

package local

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// terminateGroup asks a command and its children to end.
func terminateGroup(leader *os.Process) error {
	err := syscall.Kill(-leader.Pid, syscall.SIGTERM)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// killGroup kills the remaining processes of a command.
func killGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGKILL) }

// claimFolder holds a lock on a file for as long as the file is open.
func claimFolder(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("another process runs workflows in this folder; give each its own DATA_DIR (%w)", err)
	}
	return file, nil
}
