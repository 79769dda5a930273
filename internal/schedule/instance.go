package schedule

import (
	"slices"
	"time"
)

// Instance is one running process, with any roles. One that launches holds a presence
// lock: while another process finds that lock taken, the instance lives.
type Instance struct {
	No         int32    // of this registration; never used again
	ID         string   // of the process, random at each start; a worker is the Holder of its terms by it
	Host       string   // host:pid, for people
	Version    string   // release of the binary
	Roles      []string // none: it has not started yet, or has left
	Features   []string // formats that it understands besides those of every release
	Unhealthy  string   // why its launches would fail; empty: healthy
	Generation string   // of the server on which it took the lock; empty: it holds none yet
	StartedAt  time.Time
	SeenAt     time.Time // of the last heartbeat; the store sets it
}

// FeatureQueues: the process knows dispatch queues and automatic retries.
const FeatureQueues = "queues"

// FeatureEvents: the process knows overlap policy coalesce, and consumers.
const FeatureEvents = "events"

// Features are those of this release.
var Features = []string{FeatureQueues, FeatureEvents}

// Has reports whether the instance has a role.
func (i *Instance) Has(role string) bool { return slices.Contains(i.Roles, role) }

// Workers returns the instances that may lead a shard.
func Workers(all []Instance) []Instance {
	return slices.DeleteFunc(all, func(i Instance) bool { return !i.Has("worker") })
}
