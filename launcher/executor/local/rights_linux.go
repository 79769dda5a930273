package local

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// needed are the capabilities (bits of capabilities(7)) for running commands as
// another user, giving it folders, and ending and removing them.
var needed = []struct {
	bit  int
	name string
}{{0, "CAP_CHOWN"}, {1, "CAP_DAC_OVERRIDE"}, {5, "CAP_KILL"}, {6, "CAP_SETGID"}, {7, "CAP_SETUID"}}

// missingRights names the capabilities that this process lacks to run commands as
// another user; "" if it has all.
func missingRights() string {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return "a readable /proc/self/status: " + err.Error()
	}
	defer file.Close()
	var effective uint64
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if digits, ok := strings.CutPrefix(lines.Text(), "CapEff:"); ok {
			effective, _ = strconv.ParseUint(strings.TrimSpace(digits), 16, 64)
		}
	}
	var missing []string
	for _, capability := range needed {
		if effective>>capability.bit&1 == 0 {
			missing = append(missing, capability.name)
		}
	}
	return strings.Join(missing, ", ")
}
