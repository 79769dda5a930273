//go:build !linux

package e2e_test

import "syscall"

// dieWithParent needs a kernel that can do it; elsewhere only t.Cleanup ends
// the children.
func dieWithParent(*syscall.SysProcAttr) {}
