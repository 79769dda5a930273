package local

import "syscall"

// ownGroup puts a command into a process group of its own, so that all of it
// can be ended, and Ctrl-C in a terminal reaches Carillon alone. If this
// process is killed, the kernel kills the command: the next start finds no
// half of it still at work.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
