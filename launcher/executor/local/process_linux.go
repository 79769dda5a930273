package local

import "syscall"

// ownGroup puts a command into its own process group, so that its children can be
// ended too and Ctrl-C in a terminal reaches only Carillon. If this process is
// killed, the kernel kills the command, so it has ended before the next start.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
