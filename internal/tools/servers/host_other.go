//go:build !linux

package servers

import (
	"os"
	"syscall"
)

// DieWithParent is Linux only: elsewhere a server outlives us if we are killed
// without a chance to stop it.
func DieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

func folderBase() string { return os.TempDir() }

// lockFile guards apt-get, which only Linux has.
func lockFile(string) (unlock func(), err error) { return func() {}, nil }
