//go:build failpoints

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The active rule: CARILLON_FAILPOINT="name:kill[:nth]" or "name:stop[:nth]" from the
// start, or the content of the file CARILLON_FAILPOINT_FILE after it has changed.
var (
	mu   sync.Mutex
	rule struct {
		name   string
		signal syscall.Signal
		left   int
	}
)

const pollEvery = 20 * time.Millisecond

func init() {
	arm(os.Getenv("CARILLON_FAILPOINT"))
	if path := os.Getenv("CARILLON_FAILPOINT_FILE"); path != "" {
		go follow(path) // for as long as this process lives
	}
}

func follow(path string) {
	last := ""
	for {
		text, err := os.ReadFile(path)
		if now := strings.TrimSpace(string(text)); err == nil && now != last {
			last = now
			arm(now)
		}
		time.Sleep(pollEvery)
	}
}

func arm(text string) {
	name, rest, _ := strings.Cut(text, ":")
	verb, nth, _ := strings.Cut(rest, ":")
	mu.Lock()
	defer mu.Unlock()
	rule.name, rule.signal, rule.left = name, syscall.SIGKILL, 1
	if verb == "stop" {
		rule.signal = syscall.SIGSTOP
	}
	if n, err := strconv.Atoi(nth); err == nil && n > 0 {
		rule.left = n
	}
}

// Hit ends or stops this process if the rule names this point and it was passed often
// enough.
func Hit(name string) {
	mu.Lock()
	fires := name == rule.name
	if fires {
		rule.left--
		fires = rule.left == 0
	}
	signal := rule.signal
	mu.Unlock()
	if fires {
		_ = syscall.Kill(os.Getpid(), signal)
		if signal == syscall.SIGKILL {
			select {} // nothing after this place may happen
		}
	}
}
