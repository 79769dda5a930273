package leaks

import (
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"
)

func waitForNothing(stop <-chan struct{}) { <-stop }

func TestGoroutinesThatAreLeftFailThePackage(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt) // starts a goroutine of the runtime's own
	defer signal.Stop(signals)
	stop := make(chan struct{})
	for _, c := range []struct {
		name  string
		begin func()
		code  int
		want  int
		says  string
	}{
		{name: "a failure is handed on as it is", begin: func() { go waitForNothing(stop) }, code: 2, want: 2},
		{name: "a goroutine that nobody ends", begin: func() {}, want: 1, says: "leaks.waitForNothing"},
		{name: "a goroutine that ends soon", begin: func() { time.AfterFunc(50*time.Millisecond, func() { close(stop) }) }, want: 0},
		{name: "no goroutine", begin: func() {}, want: 0},
	} {
		var out strings.Builder
		c.begin()
		if got := check(c.code, time.Second, &out); got != c.want || !strings.Contains(out.String(), c.says) || (out.Len() > 0) != (c.want == 1) {
			t.Errorf("%s: exit code %d, want %d; said %q", c.name, got, c.want, out.String())
		}
	}
}
