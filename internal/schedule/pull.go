package schedule

import (
	"slices"
	"time"
)

// Delivery says how the runs of a queue reach those who do the work.
type Delivery string

// The deliveries.
const (
	DeliveryPush Delivery = "push" // launchers call the executor
	DeliveryPull Delivery = "pull" // workers fetch runs
)

// Bounds and defaults of pull workers.
const (
	DefaultHeartbeatMS = 30_000
	MaxHeartbeat       = time.Hour
	MaxFetchSlots      = 1000
	MaxFetchWait       = time.Minute
	MaxQueueWorkers    = 100            // that a definition names
	WorkerKept         = 24 * time.Hour // that a worker which fetches no more is listed
)

// Pulled reports whether workers fetch the runs of the queue.
func (d *QueueDefinition) Pulled() bool { return d.Delivery == DeliveryPull }

// Heartbeat is how long a worker of the queue may be silent before its runs are lost.
func (d *QueueDefinition) Heartbeat() time.Duration {
	if d.HeartbeatMS == 0 { // it was a pull queue before, or its definition cannot be read
		return millis(DefaultHeartbeatMS)
	}
	return millis(d.HeartbeatMS)
}

// MayFetch reports whether a subject may fetch runs: with a list of workers only those in it.
func (d *QueueDefinition) MayFetch(subject string) bool {
	return len(d.Workers) == 0 || slices.Contains(d.Workers, subject)
}

func (d *QueueDefinition) resolvePull() {
	if d.Delivery == "" {
		d.Delivery = DeliveryPush
	}
	if d.Pulled() && d.HeartbeatMS == 0 {
		d.HeartbeatMS = DefaultHeartbeatMS
	}
}

func (d *QueueDefinition) checkPull(c *Collect) {
	if d.Delivery != DeliveryPush && d.Delivery != DeliveryPull {
		c.Add("delivery", d.Delivery, "is not push or pull", "")
		return
	}
	if !d.Pulled() {
		if d.HeartbeatMS != 0 {
			c.Add("heartbeat_ms", d.HeartbeatMS, "is set for a queue of delivery push", "leave it out, or set delivery: pull")
		}
		if len(d.Workers) > 0 {
			c.Add("workers", d.Workers[0], "is set for a queue of delivery push", "leave it out, or set delivery: pull")
		}
		return
	}
	if beat := millis(d.HeartbeatMS); beat < time.Second || beat > MaxHeartbeat {
		c.Add("heartbeat_ms", d.HeartbeatMS, "is not within 1000 to 3600000", "0 takes the default, 30000")
	}
	if len(d.Workers) > MaxQueueWorkers {
		c.Add("workers", len(d.Workers), "are more than 100", "leave it out to let every caller with the role executor fetch")
	}
	for i, w := range d.Workers {
		switch {
		case !ValidOwner(w):
			c.Add("workers", w, "is not the subject of a caller: 1–128 characters without control characters", "")
		case slices.Contains(d.Workers[:i], w):
			c.Add("workers", w, "is named twice", "")
		}
	}
}

// WorkerRef names a worker in a queue.
type WorkerRef struct {
	QueueNo int32
	ID      string // caller/worker_id
}

// Fetch is what a worker says when it fetches runs. It is also its heartbeat.
type Fetch struct {
	Worker  string // caller/worker_id
	Slots   int32  // runs that it works on at once
	Running []Key  // that it works on
	Waits   bool   // it wants a run: without a free slot the fetch is refused
}

// QueueWorker is a worker that has fetched runs of a queue.
type QueueWorker struct {
	WorkerRef
	Slots  int32
	SeenAt time.Time // its last fetch
}

// Silent reports whether the worker has not fetched within its heartbeat.
func (w *QueueWorker) Silent(q *QueueDefinition, now time.Time) bool {
	return !w.SeenAt.Add(q.Heartbeat()).After(now)
}

// HeldRun is an open run that a worker has.
type HeldRun struct {
	Key     Key
	QueueNo int32
	Slot    int32 // from 1
	Cancel  bool  // its cancel is requested
}
