//go:build unix && !linux

package local

import "syscall"

// ownGroup puts a command into a process group of its own, so that all of it
// can be ended. Here a command outlives this process if that is killed.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
