//go:build !linux

package pgsession

import "syscall"

// userTimeout does nothing: only Linux has the option, and the same number
// means something else elsewhere. Keepalives notice a vanished server too.
func userTimeout(string, string, syscall.RawConn) error { return nil }
