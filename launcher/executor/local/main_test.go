package local_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is also the process that crash tests kill.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CRASH_DIR"); dir != "" {
		serveUntilKilled(dir)
		return
	}
	if os.Getenv("IN_CONTAINER") != "" {
		enterContainer()
	}
	goleak.VerifyTestMain(m)
}
