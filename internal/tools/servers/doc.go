// Package servers starts throw-away Postgres and Redis servers on random
// loopback ports, with a random password, as a user without rights where we are
// root; it installs what is missing where that can be done without asking. Tests
// get theirs through internal/tools/withservices, the chaos rig starts its own.
//
// It takes no step in a slot's life.
package servers

import "os"

// Options are choices of a start. The zero value is for tests.
type Options struct {
	// Durable keeps the files on the disk of the temporary folder and syncs
	// every commit of Postgres, as in production.
	Durable bool

	// CommitTimes lets Postgres keep the time of each commit.
	CommitTimes bool
}

// Base is where the servers' folders go.
func (o Options) Base() string {
	if o.Durable {
		return os.TempDir() // folderBase may be memory
	}
	return folderBase()
}
