package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Position is up to where a reader has read the changes. Only the store that made
// it can read it.
type Position string

// ErrPositionLost means that changes after a position may be gone: they were pruned,
// or the database is not the one that the position was read on (a failover, a
// restore). The reader must rebuild what it keeps.
var ErrPositionLost = errors.New("the read position no longer counts")

// Open is what a shard has open, or the part of it that was read.
type Open struct {
	Position  Position // read before the runs: changes after it may come again
	SeenUntil time.Time
	Runs      []Run
	Stopped   []ScheduleNow // of Runs, those that are paused or deleted; Planned is nil
	Wakes     []Wake        // all of the shard, if runs in flight were read
}

// Rebuild is the state of a term as the tables have it. until is the end of the
// window that was loaded.
func Rebuild(epoch int64, open *Open, until time.Time) *ShardState {
	s := NewShardState(epoch, open.SeenUntil, len(open.Runs))
	s.Load(open)
	s.LoadedUntil(until)
	return s
}

// ClaimRequest is what a store needs for a claim transaction besides the verdicts.
type ClaimRequest struct {
	Term     schedule.Term
	Now      time.Time
	Position Position      // changes after it are read
	Lease    time.Duration // claimed_until = Now + Lease
	RetryFor time.Duration // how long a launch is tried where the schedule does not say; see schedule.LaunchUntil
	// JobAttempts is how many attempts a run in a queue has if its schedule has no retry policy.
	JobAttempts uint32
	BoundQueues bool // runs in queues use the limit of all queues
}

// Claimed is what a claim transaction has read and written.
type Claimed struct {
	Position Position
	Verdicts Verdicts          // what was written, for ShardState.Commit
	Launches []schedule.Launch // Verdicts.Claims, now LAUNCHING, in their order
	Entered  []schedule.Run    // Verdicts.Entries, now in their queues, in their order
	Skipped  []schedule.Skip   // Verdicts.Ends
	Cancels  []schedule.Run    // Verdicts.Cancels: runs with a requested cancel
	// Missing are runs on which no verdict could be written: they are locked or were
	// not found as the state has them.
	Missing []schedule.Key
	// Refused are claims that the table refused because another exclusive run of
	// their group is in flight. There should be none.
	Refused []schedule.Key
}

// Reader reads the tables in the claim transaction.
type Reader interface {
	// Changes are those that were committed since the last call.
	Changes() (Changes, error)
	// InFlight are those of the runs that are in flight.
	InFlight([]schedule.Key) (map[schedule.Key]bool, error)
	// Facts are the definitions of revisions, which may repeat, and the grants that these
	// name.
	Facts([]schedule.RevisionID) (Facts, error)
	// Queues are those of the ids that ever existed.
	Queues(ids []string) (map[string]*schedule.Queue, error)
	// Waiting counts the runs of a queue that are not admitted; above limit it need not be exact.
	Waiting(queueNo int32, limit int) (int, error)
	// Superseded are those of the planned runs whose schedule has claimed a run of a later
	// slot.
	Superseded([]schedule.Key) (map[schedule.Key]bool, error)
}

// Claim is one pass over a state, for a store to run in its claim transaction. A
// store may run it again in another transaction if the first one failed.
type Claim struct {
	State *ShardState
	Pass  Pass
	Swept []schedule.Key // in flight when a sweep looked at them
	// Clock gives Verdicts.At; nil: that is Pass.Now. A store can wait long before it reads
	// the changes of a pass. A run that is claimed because another has ended must not be
	// claimed at an instant before that end.
	Clock func() time.Time

	// Strays are the runs on which the state differed from the tables although no change
	// has said so. There should be none.
	Strays []schedule.Key
}

// Decide reads changes, judges, and looks up the runs that block a verdict. If one
// of them is gone, changes are read and judged once more before its group counts
// as free: what follows it may be in flight already.
func (c *Claim) Decide(read Reader) (Verdicts, error) {
	v, err := c.decide(read)
	v.now = micro(c.Pass.Now)
	if c.Clock != nil {
		v.now = max(v.now, micro(c.Clock()))
	}
	return v, err
}

func (c *Claim) decide(read Reader) (Verdicts, error) {
	v, err := c.readAndJudge(read)
	if err != nil || len(v.Blockers) == 0 {
		return v, err
	}
	gone, err := c.State.lookUp(read, &v)
	if err != nil || len(gone) == 0 {
		return v, err
	}
	changes, err := read.Changes()
	if err != nil {
		return Verdicts{}, fmt.Errorf("read changes again: %w", err)
	}
	c.State.Apply(changes)
	for _, key := range gone {
		if r := c.State.runs[key]; r != nil && r.place == placeFlight {
			c.Strays = append(c.Strays, key)
			c.State.forget(r)
		}
	}
	return c.judge(read)
}

// IsAsJudged reports whether a planned run is what a verdict of this pass was made on. A
// plan may have moved its fire_at since, and an edit may have put a run of another revision
// under its key.
func (c *Claim) IsAsJudged(r *schedule.Run) bool {
	judged, known := c.State.Run(r.Key)
	return known && r.Revision == judged.Revision && !r.FireAt.After(c.Pass.Now.Add(c.Pass.ClaimAhead))
}

func (c *Claim) readAndJudge(read Reader) (Verdicts, error) {
	changes, err := read.Changes()
	if err != nil {
		return Verdicts{}, fmt.Errorf("read changes: %w", err)
	}
	c.State.Apply(changes)
	if err := c.checkSwept(read); err != nil {
		return Verdicts{}, err
	}
	strays, blockers := c.State.checkWaiting(micro(c.Pass.Now))
	c.Strays = append(c.Strays, strays...)
	v, err := c.judge(read)
	v.Blockers = append(v.Blockers, blockers...)
	return v, err
}

// checkSwept discards the state if it does not know a run of a sweep that is still in
// flight. One that has ended since the sweep is unknown too.
func (c *Claim) checkSwept(read Reader) error {
	unknown := slices.DeleteFunc(slices.Clone(c.Swept), c.State.Knows)
	if len(unknown) == 0 {
		return nil
	}
	inFlight, err := read.InFlight(unknown)
	if err != nil {
		return fmt.Errorf("look up the runs of a sweep: %w", err)
	}
	for _, key := range unknown {
		if inFlight[key] {
			c.Strays = append(c.Strays, key)
			c.State.Discard()
		}
	}
	return nil
}

// replacingRetries are the automatic retries under policy replace that are due or early. Whether a newer
// slot has started since their failure is in the tables only.
func (s *ShardState) replacingRetries() (keys []schedule.Key) {
	for r := range s.replacing {
		if isNear(r) || r.place == placeWaiting {
			keys = append(keys, r.key)
		}
	}
	return keys
}

func (c *Claim) judge(read Reader) (Verdicts, error) {
	v, err := c.State.Judge(c.Pass, func(ids []schedule.RevisionID) (Facts, error) {
		f, err := read.Facts(ids)
		if retries := c.State.replacingRetries(); err == nil && len(retries) > 0 {
			f.Superseded, err = read.Superseded(retries)
		}
		if queues := queuesOf(&f); err == nil && len(queues) > 0 {
			if f.Queues, err = read.Queues(queues); err == nil {
				err = c.State.countWaiting(read, &f, micro(c.Pass.Now))
			}
		}
		return f, err
	})
	if err != nil {
		return Verdicts{}, fmt.Errorf("read definitions and grants: %w", err)
	}
	return v, nil
}

// lookUp returns the blockers that are not in flight any more.
func (s *ShardState) lookUp(read Reader, v *Verdicts) (gone []schedule.Key, err error) {
	inFlight, err := read.InFlight(v.Blockers)
	if err != nil {
		return nil, fmt.Errorf("look up the runs that block others: %w", err)
	}
	for _, key := range v.Blockers {
		if !inFlight[key] {
			gone = append(gone, key)
		} else if r := s.runs[key]; r != nil && r.place == placeFlight {
			r.flight.checkedAt = v.now
		}
	}
	return gone, nil
}
