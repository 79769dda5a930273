package simulate

import (
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
)

// Assumed draws the duration and the result of a run from the seed and the run's key, so that a
// scenario is repeatable.
func Assumed(run registrar.AssumedRun, seed uint32, key schedule.Key) (took time.Duration, fails bool) {
	drawn := sha256.Sum256(append(binary.BigEndian.AppendUint32(nil, seed), key[:]...))
	part := func(i int) float64 { // in (0, 1)
		return (float64(binary.BigEndian.Uint64(drawn[8*i:])>>11) + 0.5) / (1 << 53)
	}
	took = run.Duration
	if run.P95 > run.Duration && run.Duration > 0 {
		const z95 = 1.6448536269514722
		sigma := math.Log(float64(run.P95)/float64(run.Duration)) / z95
		z := math.Sqrt2 * math.Erfinv(2*part(0)-1)
		longest := float64(schedule.MaxRunTimeout)
		took = time.Duration(min(longest, float64(run.Duration)*math.Exp(sigma*z))).Truncate(time.Millisecond)
		took += run.Duration % time.Millisecond // a finer duration keeps its fraction, so that no run ends exactly at a slot
	}
	return took, part(1)*100 < float64(run.FailurePercent)
}

// executor accepts every run outside its outages and holds their ends.
type executor struct {
	*world
	assumed map[string]registrar.AssumedRun
	ends    ends
	ending  map[schedule.Key]*ending
	order   int
}

// ending is the future end of a run.
type ending struct {
	at     time.Time
	order  int // of acceptance, for runs that end at the same instant
	key    schedule.Key
	status schedule.Status
	code   string
	index  int // in the heap
}

func newExecutor(w *world) *executor {
	e := &executor{world: w, assumed: make(map[string]registrar.AssumedRun), ending: make(map[schedule.Key]*ending)}
	for i := range w.Schedules {
		e.assumed[w.Schedules[i].Schedule.ScheduleID] = w.Schedules[i].Run
	}
	return e
}

// Run accepts a run. A run without a duration returns its result.
func (e *executor) Run(_ context.Context, call launcher.Call) (schedule.Outcome, error) {
	if slices.ContainsFunc(e.ExecutorOutages, func(s registrar.Span) bool { return !e.now().Before(s.From) && e.now().Before(s.Until) }) {
		return schedule.Outcome{}, &launcher.CallError{Code: schedule.CodeExecutorUnreachable, Err: launcher.ErrNotSent}
	}
	took, fails := Assumed(e.assumed[call.ScheduleID], e.Seed, call.Key)
	end := &ending{at: e.now().Add(took), order: e.order, key: call.Key, status: schedule.StatusSuccess}
	if fails {
		end.status, end.code = schedule.StatusFailed, "simulated"
	}
	if took == 0 {
		return schedule.Outcome{Status: end.status, ErrorCode: end.code}, nil
	}
	e.order++
	heap.Push(&e.ends, end)
	e.ending[call.Key] = end
	return schedule.Outcome{Status: schedule.StatusEnqueued}, nil
}

// Cancel ends a run at once.
func (e *executor) Cancel(_ context.Context, ref schedule.CancelRequest) error {
	if end := e.ending[ref.Key]; end != nil {
		heap.Remove(&e.ends, end.index)
		delete(e.ending, ref.Key)
	}
	return nil
}

// GetByKey finds nothing, because every call has been answered.
func (e *executor) GetByKey(context.Context, schedule.RunRef) (schedule.Outcome, error) {
	return schedule.Outcome{}, schedule.ErrNotFound
}

func (e *executor) nextEnd() (at time.Time, ok bool) {
	if len(e.ends) == 0 {
		return time.Time{}, false
	}
	return e.ends[0].at, true
}

func (e *executor) popEnd() *ending {
	end := heap.Pop(&e.ends).(*ending)
	delete(e.ending, end.key)
	return end
}

// ends is a heap with the next end first.
type ends []*ending

func (h ends) Len() int { return len(h) }

func (h ends) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || h[i].at.Equal(h[j].at) && h[i].order < h[j].order
}

func (h ends) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *ends) Push(x any) {
	end := x.(*ending)
	end.index = len(*h)
	*h = append(*h, end)
}

// Pop implements heap.Interface.
func (h *ends) Pop() any {
	last := len(*h) - 1
	end := (*h)[last]
	*h = (*h)[:last]
	return end
}
