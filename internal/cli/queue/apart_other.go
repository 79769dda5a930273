//go:build !unix

package queue

import (
	"os"
	"syscall"
)

func apart() *syscall.SysProcAttr { return nil }

func terminate(p *os.Process) error { return p.Kill() }
