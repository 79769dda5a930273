package ledger

import (
	"slices"
	"time"
)

// keptTimes is how many of the last run times of a workflow, or of a queue, an estimate uses.
const keptTimes = 50

// RunTime is how long an ended run was in flight.
type RunTime struct {
	QueueNo  int32
	Workflow string
	Took     time.Duration
}

// RunTimes are the last run times of queues and of workflows in them.
type RunTimes struct {
	ofQueue    map[int32][]time.Duration
	ofWorkflow map[workflowIn][]time.Duration
}

type workflowIn struct {
	queueNo  int32
	workflow string
}

// NewRunTimes takes the run times of ended runs, newest first.
func NewRunTimes(ended []RunTime) *RunTimes {
	t := &RunTimes{make(map[int32][]time.Duration), make(map[workflowIn][]time.Duration)}
	for _, e := range ended {
		took, of := max(0, e.Took), workflowIn{e.QueueNo, e.Workflow}
		if len(t.ofQueue[e.QueueNo]) < keptTimes {
			t.ofQueue[e.QueueNo] = append(t.ofQueue[e.QueueNo], took)
		}
		if len(t.ofWorkflow[of]) < keptTimes {
			t.ofWorkflow[of] = append(t.ofWorkflow[of], took)
		}
	}
	for _, times := range t.ofQueue {
		slices.Sort(times)
	}
	for _, times := range t.ofWorkflow {
		slices.Sort(times)
	}
	return t
}

// of are the ascending run times of a workflow in a queue, or else of the queue.
func (t *RunTimes) of(queueNo int32, workflow string) []time.Duration {
	if times := t.ofWorkflow[workflowIn{queueNo, workflow}]; len(times) > 0 {
		return times
	}
	return t.ofQueue[queueNo]
}

// At is the run time that a share q of the runs does not exceed. known = false: no run of the queue
// has ended.
func (t *RunTimes) At(queueNo int32, workflow string, q float64) (took time.Duration, known bool) {
	return quantile(t.of(queueNo, workflow), q)
}

// Left is At of the time that is left for a run in flight: of those that took longer than it has
// until now. One that takes longer than all others has a tenth of their time left.
func (t *RunTimes) Left(queueNo int32, workflow string, elapsed time.Duration, q float64) (left time.Duration, known bool) {
	times := t.of(queueNo, workflow)
	longer, _ := slices.BinarySearch(times, elapsed+1)
	if longer < len(times) {
		left, _ = quantile(times[longer:], q)
		return left - elapsed, true
	}
	took, known := quantile(times, q)
	return max(took/10, time.Millisecond), known
}

// quantile is of ascending values, by nearest rank.
func quantile(values []time.Duration, q float64) (v time.Duration, known bool) {
	n := len(values)
	if n == 0 {
		return 0, false
	}
	rank := int(q * float64(n))
	if float64(rank) < q*float64(n) {
		rank++
	}
	return values[min(max(rank, 1), n)-1], true
}

// Quantile is the value that a share q of ascending durations does not exceed; 0 of none.
func Quantile(ascending []time.Duration, q float64) time.Duration {
	v, _ := quantile(ascending, q)
	return v
}
