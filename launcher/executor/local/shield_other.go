//go:build !linux

package local

// Shield does nothing on this system.
func Shield() error { return nil }
