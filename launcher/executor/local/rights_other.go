//go:build unix && !linux

package local

import "os"

// missingRights names what this process lacks to run commands as another user.
func missingRights() string {
	if os.Geteuid() != 0 {
		return "the rights of root"
	}
	return ""
}
