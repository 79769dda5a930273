package worker

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// PlanStore is what the planning loop needs. Each method is one transaction;
// Plan and Prune begin by checking the term's epoch (schedule.ErrFenced). Plan
// sees the schedules of the term's buckets, Prune those of all.
type PlanStore interface {
	// Plan locks a batch of schedules (those that others have locked are passed
	// over until the next tick), hands them to decide, and writes the decisions:
	// rows inserted where their key is new, cursor, plan_at, backlog, failures and
	// pause of the schedules, late rows judged, events. decide is pure and may be
	// called again with fresh candidates if the transaction is retried.
	Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error)
	// Heartbeat notes that this worker process is alive, and what it says of
	// itself; its WorkerID is random per process start, SeenAt is the store's.
	Heartbeat(ctx context.Context, w schedule.WorkerSeen) error
	// Leave takes the note back: this process is about to end.
	Leave(ctx context.Context, workerID string) error
	// Workers are those heard of within so long, this one included.
	Workers(ctx context.Context, within time.Duration, now time.Time) ([]schedule.WorkerSeen, error)
	// Prune deletes up to limit rows each of terminal runs, events, execution
	// requests, workers (by when they were last seen) and tombstones (with their
	// revisions) that are older than before. A request, DONE or not, stays while
	// its run is yet to end or its lease is not older than before. It returns how many rows went; 0 = nothing is left to delete.
	Prune(ctx context.Context, term schedule.Term, before time.Time, limit int) (int, error)
}

// FireStore is what the firing loop needs. All of it sees the runs of the
// term's buckets only, but for Settle, which takes any. What writes checks the
// term's epoch in its transaction (schedule.ErrFenced).
type FireStore interface {
	// LoadOpen reads what the term's buckets have open, in one snapshot: all runs in
	// flight, all that wait for their overlap group, and the planned ones that fire
	// at until or before. With a from that is not zero it reads only planned runs that
	// do not wait and fire after from and at until or before.
	LoadOpen(ctx context.Context, term schedule.Term, from, until time.Time) (ledger.Open, error)
	// Claim is one claim transaction: it gives claim a reader of the tables, writes
	// its verdicts and the term's seen_until, and returns what it has written.
	//
	// It writes a verdict only where the run is still PLANNED (a cancel: in flight).
	// It waits at most 100 ms for the locks of others. If a run is locked longer or
	// was not found, it starts again: changes are read and judged once more, and the
	// groups of the runs that are missing even then keep their runs (Claimed.Missing).
	// If the database refuses a claim because another exclusive run of the group is in
	// flight, the claims are written one by one, and Claimed.Refused has the refused
	// ones.
	//
	// ledger.ErrPositionLost: nothing was written, and the state must be rebuilt.
	// After any other error but schedule.ErrFenced the commit may have succeeded.
	Claim(ctx context.Context, req ledger.ClaimRequest, claim *ledger.Claim) (ledger.Claimed, error)
	// Reclaim sends runs again that ShardState.SendAgain chose: those that are still
	// LAUNCHING, and are of another epoch or past their claimed_until. They get the
	// term's epoch and a new claimed_until. It leaves out runs that another
	// transaction has locked, and runs with cancel_requested_at, unless their
	// execution request is DONE: then the resend is answered from the record, and
	// settles them. What it left out it reads again (Reclaimed.Read).
	Reclaim(ctx context.Context, req ledger.ReclaimRequest) (ledger.Reclaimed, error)
	// Settle moves runs forward, each where its status allows; moved[i] says
	// whether the i-th did. A settlement to LAUNCHING only renews claimed_until,
	// which is a change that a claim reads, and notes its error, which ends when the run leaves LAUNCHING, and its
	// attempt, which stays.
	// A run that was launched counts as last_run_at of its schedule from then on.
	Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) (moved []bool, err error)
	// Sweep ends what is past its bound: ENQUEUED and STARTED past timeout_at
	// (FAILED timeout); LAUNCHING past timeout_at (FAILED launch_unavailable where
	// nothing was ever sent, i.e. without an execution request or with sent =
	// false, else FAILED lost), unless its outcome is recorded, a call of it is
	// open, or what may have been sent was not yet tried again in this term (those
	// end RetryFor later); in-flight rows whose cancel was asked for CancelWait ago (CANCELLED with their
	// cancel_reason, plus a cancel_timed_out event), LAUNCHING ones whose
	// execution request is DONE only RetryFor after timeout_at: Reclaim comes for
	// them.
	Sweep(ctx context.Context, req schedule.SweepRequest) ([]schedule.Ended, error)
	// CancelRequests reads those of the runs that are in flight and whose cancel is
	// requested, the oldest request first.
	CancelRequests(ctx context.Context, keys []schedule.Key) ([]schedule.Run, error)
}

// BackfillStore is what feeding backfills needs.
type BackfillStore interface {
	// FeedBackfills locks a batch of the term's backfills that are not done, with
	// their schedules (those that others have locked are passed over until the
	// next time), hands them to feeder, and writes its decisions: the backfill's
	// row, its slots, rows inserted where their key is new, events; all in one
	// transaction that begins by checking the term's epoch (schedule.ErrFenced).
	// With none that is not done it writes nothing, and need not look at the epoch.
	// Those that were not looked at for the longest time come first. feeder is
	// pure, and may be called again if the transaction is retried.
	FeedBackfills(ctx context.Context, req schedule.FeedRequest, feeder schedule.BackfillFeeder) (schedule.FeedResult, error)
}
