package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// Store has the transactions of a Dispatcher.
type Store interface {
	// QueuesWaiting are the queues in which runs wait for their admission.
	QueuesWaiting(ctx context.Context) ([]schedule.QueueNow, error)
	// Admit lets ledger.AdmitRuns decide on a queue under its lock, and writes what it says.
	// The admitted runs count as called. Alone = false: another process has the lock.
	Admit(ctx context.Context, req schedule.AdmitRequest) (ledger.Dispatched, error)
	// PutBack lets admitted runs wait again (ledger.PutBack says which), and writes stalls.
	PutBack(ctx context.Context, backs []schedule.PutBack, stalls []schedule.StallChange, now time.Time) (put []bool, err error)
	// SweepQueues lets ledger.SweepQueued decide on runs that are due. It does nothing while
	// another process sweeps.
	SweepQueues(ctx context.Context, req schedule.QueueSweep) (ledger.SweptQueues, error)
	// SettleLaunched moves runs forward where their stage allows. moved[i] answers
	// settlement i.
	SettleLaunched(ctx context.Context, now time.Time, settlements []schedule.Settlement) (moved []schedule.Moved, err error)
	// JobGroupID is the id of a group by its number; "": it was pruned.
	JobGroupID(ctx context.Context, groupNo int32) (id string, err error)
	// MeasureQueues are up to limit queues, by queue_id, with their runs counted up to counted.
	MeasureQueues(ctx context.Context, limit, counted int, now time.Time) ([]schedule.QueueMeasure, error)
	// GetQueue returns a queue, also a deleted one, or schedule.ErrNotFound.
	GetQueue(ctx context.Context, queueID string) (*schedule.Queue, error)
	// ChangeRun lets decide change a run.
	ChangeRun(ctx context.Context, key, existing schedule.Key, decide func(schedule.RunInput) (schedule.RunChange, error)) (schedule.Run, bool, error)
	// ListenQueues calls wake after runs have entered a queue or left one, in any process.
	// A call may be missing. It returns when ctx ends.
	ListenQueues(ctx context.Context, wake func()) error
}

// Begun is the launcher's store in a process that admits runs: their admission has recorded
// their first call already.
type Begun struct {
	launcher.Store

	mu       sync.Mutex
	admitted map[schedule.Key]schedule.BeginResult
}

// NewBegun returns the store of a launcher.
func NewBegun(store launcher.Store) *Begun {
	return &Begun{Store: store, admitted: make(map[schedule.Key]schedule.BeginResult)}
}

// note keeps the answer for the first Begin of each admitted run.
func (b *Begun) note(dispatches []ledger.Dispatch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range dispatches {
		b.admitted[dispatches[i].Run.Key] = dispatches[i].Begun
	}
}

// drop forgets a run that has an answer. unbegun: its launch was given up before it was begun.
func (b *Begun) drop(key schedule.Key) (admitted schedule.BeginResult, unbegun bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	admitted, unbegun = b.admitted[key]
	delete(b.admitted, key)
	return admitted, unbegun
}

// Begin answers for runs that were just admitted, each once, and asks the tables for the rest.
func (b *Begun) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	results := make([]schedule.BeginResult, len(reqs))
	var rest []int
	b.mu.Lock()
	for i := range reqs {
		admitted, ok := b.admitted[reqs[i].Key]
		if !ok {
			rest = append(rest, i)
			continue
		}
		delete(b.admitted, reqs[i].Key)
		admitted.Request.RequestHash = reqs[i].RequestHash
		results[i] = admitted
	}
	b.mu.Unlock()
	if len(rest) == 0 {
		return results, nil
	}
	asked := make([]schedule.BeginRequest, len(rest))
	for i, at := range rest {
		asked[i] = reqs[at]
	}
	answers, err := b.Store.Begin(ctx, asked, now)
	if err != nil {
		return nil, err
	}
	for i, at := range rest {
		results[at] = answers[i]
	}
	return results, nil
}
