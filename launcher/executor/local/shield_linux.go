package local

import (
	"fmt"
	"syscall"
)

// Shield protects this process from others of the same user: they cannot read its
// environment, memory and open files in /proc, nor trace it, and it leaves no core
// dump. Commands that run as root still can. The kernel gives these files of
// /proc/PID to root, so a process without root cannot read its own
// /proc/self/environ, mem and io either; fd, stat, status and limits stay readable.
func Shield() error {
	const setDumpable = 4 // PR_SET_DUMPABLE, prctl(2)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setDumpable, 0, 0); errno != 0 {
		return fmt.Errorf("close this process to its commands (prctl PR_SET_DUMPABLE): %w", errno)
	}
	return nil
}
