//go:build unix && !linux

package local

import "os"

// missingRights says what this process lacks to run commands as another user.
func missingRights() string {
	if os.Geteuid() != 0 {
		return "the rights of root"
	}
	return ""
}
