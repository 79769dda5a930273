package pgsession

import (
	"errors"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not name.
const tcpUserTimeout = 18

// userTimeout bounds how long unacknowledged bytes may hang.
func userTimeout(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, 5000)
	})
	return errors.Join(err, failed)
}
