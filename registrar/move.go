package registrar

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// MaxMoved bounds the runs of one move.
const MaxMoved = 1000

// The places that a move may name.
const (
	MoveFirst    = "first"
	MoveLast     = "last"
	MoveBefore   = "before"
	MoveAfter    = "after"
	MovePosition = "position"
)

// MoveInput is a request to move runs that wait in one queue, as one block.
type MoveInput struct {
	Keys     []schedule.Key // in the order that they get
	To       string
	Anchor   schedule.Key // of before and after
	Position uint32       // of position; 1 = next
}

// MoveRuns moves runs of a queue among those of their priority, and returns the first one.
// schedule.ErrMoveStale: one was admitted meanwhile, and nothing was moved.
func (r *Registrar) MoveRuns(ctx context.Context, in MoveInput) (*schedule.Run, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if r.entries == nil {
		return nil, schedule.ErrUnsupported
	}
	m := schedule.QueueMove{Runs: make([]schedule.Run, len(in.Keys)), Position: int(in.Position), After: in.To == MoveAfter, Now: r.now()}
	for i, key := range in.Keys {
		run, err := r.runs.GetRun(ctx, key) // of the caller
		if err != nil {
			return nil, fmt.Errorf("%w (run %s)", err, key)
		}
		if err := movable(run, &m.Runs[0], i); err != nil {
			return nil, err
		}
		m.Runs[i] = *run
	}
	m.QueueID = m.Runs[0].Queue.ID
	switch in.To {
	case MoveFirst:
		m.Position = 1
	case MoveBefore, MoveAfter:
		anchor, err := r.runs.GetRun(ctx, in.Anchor)
		if err != nil {
			return nil, fmt.Errorf("%w (relative_to %s)", err, in.Anchor)
		}
		if err := anchors(anchor, &m.Runs[0]); err != nil {
			return nil, err
		}
		m.Anchor = anchor
	}
	call := auth.CallFrom(ctx)
	if call != nil && call.Audited {
		m.Audit = entry(call, in.Keys[0].String(), m.Now)
		m.Audit.UserID = m.Runs[0].UserID
	}
	if err := r.entries.MoveQueued(ctx, m); err != nil {
		return nil, err
	}
	if call != nil {
		call.Recorded = call.Audited
	}
	return r.runs.GetRun(ctx, in.Keys[0])
}

func (in *MoveInput) check() error {
	var c schedule.Collect
	if n := len(in.Keys); n > MaxMoved {
		c.Note("then", fmt.Sprintf("makes %d runs in all, more than %d", n, MaxMoved), "use several requests")
	}
	seen := make(map[schedule.Key]bool, len(in.Keys))
	for _, key := range in.Keys {
		if seen[key] {
			c.Add("then", key.String(), "is named twice", "")
		}
		seen[key] = true
	}
	relative := in.To == MoveBefore || in.To == MoveAfter
	switch in.To {
	case MoveFirst, MoveLast, MoveBefore, MoveAfter, MovePosition:
	default:
		c.Add("to", in.To, "is not one of first, last, before, after, position", "")
	}
	switch {
	case relative && in.Anchor.IsZero():
		c.Note("relative_to", "is required with to = "+in.To, "name a waiting run")
	case relative && seen[in.Anchor]:
		c.Add("relative_to", in.Anchor.String(), "is one of the runs that move", "name another run")
	case !relative && !in.Anchor.IsZero():
		c.Add("relative_to", in.Anchor.String(), "is for to = before and after only", "")
	}
	switch {
	case in.To == MovePosition && (in.Position < 1 || in.Position > maxPosition):
		c.Add("position", in.Position, fmt.Sprintf("is not within 1 to %d", maxPosition), "1 is next")
	case in.To != MovePosition && in.Position != 0:
		c.Add("position", in.Position, "is for to = position only", "")
	}
	return c.Err()
}

// movable refuses the i-th run of a move.
func movable(run, first *schedule.Run, i int) error {
	switch {
	case !run.Queue.In():
		return schedule.Explain(schedule.ErrPrecondition, "cannot move: run %s is not in a queue", run.Key)
	case run.Status.Terminal():
		return schedule.Explain(schedule.ErrPrecondition, "cannot move: run %s %s", run.Key, run.Status.Clause())
	case run.Queue.State == schedule.QueueChained:
		return schedule.Explain(schedule.ErrPrecondition, "cannot move: run %s waits for the member of group %s before it; members of a sequential group keep their order", run.Key, schedule.Quote(run.Queue.GroupID))
	case run.Queue.State.Admitted():
		return schedule.Explain(schedule.ErrPrecondition, "cannot move: run %s was admitted at %s", run.Key, run.ClaimedAt.Format(time.RFC3339))
	case i > 0 && run.Queue.No != first.Queue.No:
		return schedule.Explain(schedule.ErrPrecondition, "cannot move: run %s is in queue %s, and run %s in queue %s", run.Key, schedule.Quote(run.Queue.ID), first.Key, schedule.Quote(first.Queue.ID))
	case i > 0 && run.Queue.Priority != first.Queue.Priority:
		return otherPriority(run, first)
	}
	return nil
}

// anchors refuses a run that others cannot be moved to.
func anchors(anchor, first *schedule.Run) error {
	switch {
	case anchor.Queue.No != first.Queue.No:
		return schedule.Explain(schedule.ErrPrecondition, "cannot move: run %s is not in queue %s", anchor.Key, schedule.Quote(first.Queue.ID))
	case anchor.Status.Terminal():
		return schedule.Explain(schedule.ErrPrecondition, "cannot move: run %s %s", anchor.Key, anchor.Status.Clause())
	case anchor.Queue.State != schedule.QueueWaiting:
		return schedule.Explain(schedule.ErrPrecondition, "cannot move: run %s does not wait, it is %s", anchor.Key, anchor.Queue.State)
	case anchor.Queue.Priority != first.Queue.Priority:
		return otherPriority(anchor, first)
	}
	return nil
}

func otherPriority(run, first *schedule.Run) error {
	return schedule.Explain(schedule.ErrPrecondition, "cannot move: run %s has priority %d, and run %s priority %d; update the priority instead, or first", run.Key, run.Priority, first.Key, first.Priority)
}
