//go:build unix && !linux

package local

import "syscall"

// ownGroup puts a command into its own process group, so that its children can be
// ended too. On this system a command outlives a killed Carillon.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
