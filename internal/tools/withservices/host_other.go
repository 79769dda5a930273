//go:build !linux

package main

import (
	"os"
	"syscall"
)

// dieWithParent is Linux only: elsewhere a server outlives us if we are killed
// without a chance to stop it.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

func folderBase() string { return os.TempDir() }

// lockFile guards apt-get, which only Linux has.
func lockFile(string) (unlock func(), err error) { return func() {}, nil }
