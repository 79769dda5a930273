//go:build unix

package queue

import (
	"os"
	"syscall"
)

// apart starts a command in a process group of its own: a terminal sends it no signals.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// terminate asks a command that was started apart to end, with what it has started.
func terminate(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }
