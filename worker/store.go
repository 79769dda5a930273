package worker

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// PlanStore is the store of the plan loop. Each method is one transaction. Plan and Prune
// first check the term's epoch (schedule.ErrFenced). Plan sees the schedules of the term's
// buckets, Prune those of all.
type PlanStore interface {
	// Plan locks a batch of schedules, gives them to decide, and writes the decisions: rows
	// with new keys; cursor, plan_at, backlog, failures and pause of the schedules; verdicts
	// on late rows; events. Schedules that others have locked wait for the next tick.
	// decide is pure and may be called again with fresh candidates if the transaction is
	// retried.
	Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error)
	// Instances returns the processes with roles that had a heartbeat within a duration,
	// this one included.
	Instances(ctx context.Context, within time.Duration) ([]schedule.Instance, error)
	// Prune deletes up to limit rows each of terminal runs, events, execution requests,
	// and tombstones (with their revisions) that are older than before, and instances that
	// were not seen for a day. A request stays while its lease is not older than before, an
	// instance while it holds the key of a run in flight. It returns the number of deleted
	// rows; 0: nothing is left to delete.
	Prune(ctx context.Context, term schedule.Term, before time.Time, limit int) (int, error)
}

// FireStore is the store of the fire loop. Its methods see only runs of the term's buckets,
// except Settle, which takes any run. Writes check the term's epoch in their transaction
// (schedule.ErrFenced).
type FireStore interface {
	// LoadOpen reads the open runs of the term's buckets in one snapshot: all runs in
	// flight, all that wait for their overlap group, and planned ones with fire_at up to
	// until. If from is not zero, it reads only planned runs that do not wait, with fire_at
	// after from and up to until.
	LoadOpen(ctx context.Context, term schedule.Term, from, until time.Time) (ledger.Open, error)
	// Claim is one claim transaction: it gives claim a reader of the tables, writes
	// its verdicts and the term's seen_until, and returns what it has written.
	//
	// It writes a verdict only if the run is still PLANNED (a cancel: in flight). It waits
	// at most 100 ms for locks of others. If a run is locked longer or is not found, it
	// starts again: it reads changes and judges once more, and leaves out the groups of
	// runs that are still missing (Claimed.Missing). If the database refuses a claim
	// because another exclusive run of the group is in flight, it writes the claims one by
	// one, and Claimed.Refused has the refused ones.
	//
	// ledger.ErrPositionLost: nothing was written, and the state must be rebuilt. After any
	// other error except schedule.ErrFenced the commit may have succeeded.
	Claim(ctx context.Context, req ledger.ClaimRequest, claim *ledger.Claim) (ledger.Claimed, error)
	// Take looks at consumers, whose wake rows it locks, and writes what ledger.LookNow says: entries of
	// their inboxes, wake rows, and a planned run for each that takes events. Rows that publishers have
	// locked are passed over (Taken.Locked). It inserts the runs with a change, so that Claim knows them.
	Take(ctx context.Context, req ledger.TakeRequest) (ledger.Taken, error)
	// Reclaim prepares runs that ShardState.SendAgain chose to be sent again: those that are
	// still LAUNCHING and of another epoch or past their claimed_until. They get the term's
	// epoch and a new claimed_until. It leaves out runs that another transaction has locked,
	// and runs with cancel_requested_at. It reads the runs that it left out (Reclaimed.Read).
	Reclaim(ctx context.Context, req ledger.ReclaimRequest) (ledger.Reclaimed, error)
	// Settle moves runs forward if their status allows; moved[i] is the answer to the i-th.
	// A settlement to LAUNCHING only renews claimed_until, which is a change that a claim
	// reads, and records its error, which is cleared when the run leaves LAUNCHING, and its
	// attempt, which stays; with GivesUp it can end the run (ledger.Settle). A launched run
	// counts for last_run_at of its schedule.
	Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) (moved []schedule.Moved, err error)
	// Sweep ends runs that are past their bound:
	//   - ENQUEUED and STARTED past timeout_at: FAILED(timeout).
	//   - LAUNCHING past timeout_at: FAILED(launch_unavailable) if nothing was ever sent
	//     (deliveries = 0), else FAILED(lost). It ends RetryFor later if a call of it is
	//     open, or it was sent and not yet tried again in this term.
	//   - in flight, with a cancel requested CancelWait ago: CANCELLED with its cancel_reason
	//     and an event cancel_timed_out.
	//
	// It looks at the runs whose due_at has passed, and moves the due_at of those that
	// stay open to their next bound. One call looks at about Limit runs.
	Sweep(ctx context.Context, req schedule.SweepRequest) (ledger.Swept, error)
	// CancelRequests reads the runs that are in flight and have a requested cancel, the
	// oldest request first.
	CancelRequests(ctx context.Context, keys []schedule.Key) ([]schedule.Run, error)
	// Flights reads ended runs of exclusive policies that were launched and delivered once,
	// in order of recorded_at.
	Flights(ctx context.Context, req ledger.FlightsRequest) ([]ledger.Flight, error)
}

// BackfillStore is the store of the feed loop.
type BackfillStore interface {
	// FeedBackfills locks a batch of the term's open backfills with their schedules, the
	// least recently fed first, gives them to feeder, and writes its decisions: the
	// backfill's row, its slots as rows with new keys, events. Backfills that others have
	// locked wait for the next call. All is one transaction that first checks the term's
	// epoch (schedule.ErrFenced); without open backfills it writes nothing and may skip the
	// check. feeder is pure and may be called again if the transaction is retried.
	FeedBackfills(ctx context.Context, req schedule.FeedRequest, feeder schedule.BackfillFeeder) (schedule.FeedResult, error)
}
