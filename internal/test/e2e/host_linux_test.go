package e2e_test

import "syscall"

// dieWithParent has the kernel kill the child when the thread that started it
// ends, as after a panic or a timeout of the test binary.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
