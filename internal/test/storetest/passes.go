package storetest

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// window is how far ahead a claim of the suite loads planned runs.
const window = 10 * time.Second

// claimRequest is a claim as a worker makes one.
type claimRequest struct {
	Term         schedule.Term
	Now          time.Time
	Limit        int           // free launches
	ClaimAhead   time.Duration // early claim
	Grace        time.Duration
	Lease        time.Duration
	RetryFor     time.Duration
	Capacity     func(owner string) int
	RequireGrant bool
	BoundQueues  bool
	Clock        func() time.Time // see ledger.Claim
}

func (q *claimRequest) reclaim(keys ...schedule.Key) ledger.ReclaimRequest {
	return ledger.ReclaimRequest{Term: q.Term, Now: q.Now, Lease: q.Lease, Keys: keys}
}

func (q *claimRequest) pass() ledger.Pass {
	return ledger.Pass{Now: q.Now, ClaimAhead: q.ClaimAhead, Grace: q.Grace, Limit: q.Limit, Capacity: q.Capacity, RequireGrant: q.RequireGrant}
}

// claimResult is what a claim has written, and what it has left behind.
type claimResult struct {
	ledger.Claimed
	Waiting int  // runs that began to wait
	More    bool // something was left behind for want of capacity
}

// claimRequest is one of the rig's term, at its now, for more than there is.
func (r *rig) claimRequest() claimRequest {
	return claimRequest{Term: r.term, Now: r.now, Limit: 1000, Grace: grace, Lease: lease, RetryFor: retryFor}
}

// claim claims all that is due, as a leader that has just taken over.
func (r *rig) claim(edits ...func(*claimRequest)) claimResult {
	r.Helper()
	req := r.claimRequest()
	for _, edit := range edits {
		edit(&req)
	}
	result, err := r.tryClaim(req)
	r.ok(err, "claim")
	return result
}

// tryClaim loads what is open and claims from it.
func (r *rig) tryClaim(req claimRequest) (claimResult, error) {
	m, err := r.loadFor(req.Term, req.Now)
	if err != nil {
		return claimResult{}, err
	}
	return m.claim(req)
}

// memory is the state of a term in memory, as a worker keeps it.
type memory struct {
	r        *rig
	state    *ledger.ShardState
	position ledger.Position
}

// load is the memory of a leader that takes over now. forget says which runs it
// does not know although they are open: none should be.
func (r *rig) load(forget ...schedule.Key) *memory {
	r.Helper()
	m, err := r.loadFor(r.term, r.now, forget...)
	r.ok(err, "load open runs")
	return m
}

func (r *rig) loadFor(term schedule.Term, now time.Time, forget ...schedule.Key) (*memory, error) {
	until := now.Add(window)
	open, err := r.LoadOpen(r.ctx, term, time.Time{}, until)
	if err != nil {
		return nil, fmt.Errorf("load open runs: %w", err)
	}
	var known []ledger.Run
	for _, run := range open.Runs {
		forgotten := false
		for _, key := range forget {
			forgotten = forgotten || run.Key == key
		}
		if !forgotten {
			known = append(known, run)
		}
	}
	open.Runs = known
	return &memory{r: r, state: ledger.Rebuild(term.Epoch, &open, until), position: open.Position}, nil
}

// claim is one pass with its transaction.
func (m *memory) claim(req claimRequest) (claimResult, error) {
	claim := &ledger.Claim{State: m.state, Pass: req.pass(), Clock: req.Clock}
	claimed, err := m.r.Claim(m.r.ctx, ledger.ClaimRequest{
		Term: req.Term, Now: req.Now, Position: m.position, Lease: req.Lease, RetryFor: req.RetryFor, JobAttempts: 3, BoundQueues: req.BoundQueues,
	}, claim)
	if err != nil {
		return claimResult{}, err
	}
	m.state.Commit(claimed.Verdicts, req.Lease)
	m.position = claimed.Position
	if len(claim.Strays) > 0 {
		m.r.Errorf("runs are gone and no change has said so: %v", claim.Strays)
	}
	return claimResult{Claimed: claimed, Waiting: len(claimed.Verdicts.Waits), More: claimed.Verdicts.Left}, nil
}

// pass is a claim at the rig's now that must succeed.
func (m *memory) pass(edits ...func(*claimRequest)) claimResult {
	m.r.Helper()
	req := m.r.claimRequest()
	for _, edit := range edits {
		edit(&req)
	}
	result, err := m.claim(req)
	m.r.ok(err, "claim")
	return result
}

// read applies changes: a claim without free launches.
func (m *memory) read() {
	m.r.Helper()
	m.pass(limited(0))
}

// seenUntil is what the term's row says.
func (r *rig) seenUntil() time.Time {
	r.Helper()
	open, err := r.LoadOpen(r.ctx, r.term, time.Time{}, r.now)
	r.ok(err, "load open runs")
	return open.SeenUntil
}
