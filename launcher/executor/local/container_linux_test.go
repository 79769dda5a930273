package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// In a container that was entered from outside, a process's session is 0: its
// leader has no number there. What a killed Carillon left behind must be found
// all the same.
func TestAKillInAContainerLosesNoKeyAndRunsNoneTwice(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestAKillLosesNoKeyAndRunsNoneTwice$")
	cmd.Env = append(os.Environ(), "IN_CONTAINER=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil && (cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == noContainer) {
		t.Logf("this system makes no container inside its own, nothing was tried: %v %s", err, out)
		return
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// noContainer is the exit code that says that nothing was tried.
const noContainer = 77

// enterContainer makes /proc show the container's processes.
func enterContainer() {
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("proc", "/proc", "proc", 0, "")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mount /proc:", err)
		os.Exit(noContainer)
	}
}
