package local_test

import (
	"os"
	"testing"

	"github.com/carillon/carillon/internal/test/services/leaks"
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
	leaks.Main(m)
}
