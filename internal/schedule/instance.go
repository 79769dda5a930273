package schedule

import "time"

// Instance is one running process that launches. It holds a presence lock: while
// another process finds that lock taken, the instance lives.
type Instance struct {
	No         int32  // of this registration; never used again
	ID         string // of the process, random at each start
	Host       string // host name and process id
	Generation string // of the server on which it took the lock; "": it holds none yet
	StartedAt  time.Time
	SeenAt     time.Time
}
