//go:build !unix

package local

import (
	"os"
	"syscall"
)

// Without process groups only the command itself can be ended, not its children, and
// two processes may use one folder.

func ownGroup() *syscall.SysProcAttr { return nil }

func terminateGroup(leader *os.Process) error { return leader.Kill() }

func killGroup(*os.Process) {}

func claimFolder(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}
