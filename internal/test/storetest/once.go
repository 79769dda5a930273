package storetest

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Claimer is the part of a store that claims.
type Claimer interface {
	LoadOpen(ctx context.Context, term schedule.Term, from, until time.Time) (ledger.Open, error)
	Claim(ctx context.Context, req ledger.ClaimRequest, claim *ledger.Claim) (ledger.Claimed, error)
}

// Reclaimer is the part of a store that sends runs again.
type Reclaimer interface {
	LoadOpen(ctx context.Context, term schedule.Term, from, until time.Time) (ledger.Open, error)
	Reclaim(ctx context.Context, req ledger.ReclaimRequest) (ledger.Reclaimed, error)
}

// Times are the spans of a claim.
type Times struct {
	Grace      time.Duration // see ledger.Pass
	Lease      time.Duration // see ledger.ClaimRequest
	RetryFor   time.Duration
	ClaimAhead time.Duration // see ledger.Pass
}

// ClaimOnce claims what is due at now, at most 1,000 runs, as a leader that has just
// taken over. It is for tests that need runs in flight.
func ClaimOnce(ctx context.Context, s Claimer, term schedule.Term, now time.Time, times Times) (ledger.Claimed, error) {
	until := now.Add(window)
	open, err := s.LoadOpen(ctx, term, time.Time{}, until)
	if err != nil {
		return ledger.Claimed{}, err
	}
	return s.Claim(ctx, ledger.ClaimRequest{Term: term, Now: now, Position: open.Position, Lease: times.Lease, RetryFor: times.RetryFor},
		&ledger.Claim{State: ledger.Rebuild(term.Epoch, &open, until), Pass: ledger.Pass{Now: now, ClaimAhead: times.ClaimAhead, Grace: times.Grace, Limit: 1000}})
}

// ReclaimOnce sends again what is due at now, at most 1,000 runs, as a leader that has
// just taken over.
func ReclaimOnce(ctx context.Context, s Reclaimer, term schedule.Term, now time.Time, lease time.Duration) ([]schedule.Launch, error) {
	open, err := s.LoadOpen(ctx, term, time.Time{}, now)
	if err != nil {
		return nil, err
	}
	state := ledger.Rebuild(term.Epoch, &open, now)
	sent, err := s.Reclaim(ctx, ledger.ReclaimRequest{Term: term, Now: now, Lease: lease, Keys: state.SendAgain(now, 1000, nil)})
	return sent.Launches, err
}
