package tables

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// What a copy of a queue reads at most, besides the runs that are not admitted.
const (
	copiedFlights  = schedule.MaxInFlightLimit
	copiedTimes    = 1000 // ended runs of the queue
	copiedForeign  = 100  // limits that runs of other queues use
	copiedOfLimit  = 1000 // runs and reservations that use one of them
	copiedQueues   = 20   // other queues with such runs
	copiedTimesFar = 200  // ended runs of each of these queues
)

// copyRow is an open run of a queue that is copied.
type copyRow struct {
	headRow
	queueNo           int32
	state             int16
	fireAt            time.Time
	groupNo, groupSeq int32
	claimed, launched time.Time
	workflow, userID  string
	fairKey           string
}

func copyFields(r *copyRow) []any {
	return []any{
		&r.key, &r.limits, &r.priority, &r.fair, &r.position, &r.enqueued, &r.kept, &r.queueNo, &r.state, &r.fireAt, &r.groupNo, &r.groupSeq, &r.claimed, &r.launched, &r.workflow, &r.userID, &r.fairKey,
	}
}

func (r *copyRow) copied() ledger.CopiedRun {
	state, _ := schedule.QueueStateOf(r.state)
	c := ledger.CopiedRun{
		WaitingRun: r.run(), QueueNo: r.queueNo, Workflow: r.workflow, State: state, Ready: r.fireAt, GroupNo: r.groupNo, Seq: r.groupSeq,
		FairKey: cmp.Or(r.fairKey, r.userID), Began: ledger.InFlightSince(r.claimed, r.launched),
	}
	c.Owner = r.userID
	return c
}

// ReadQueueCopy copies a queue with its open runs. The rows are not of one instant. Queue is nil if there
// is none.
func (t *Tables) ReadQueueCopy(ctx context.Context, req schedule.QueueCopyRequest) (c ledger.QueueCopy, err error) {
	if c.QueueFacts, _, err = t.dialect.readQueueFacts(ctx, t.read, req.QueueNo, 0); err != nil || c.Queue == nil {
		return c, err
	}
	read := func(statement string, limit int) ([]ledger.CopiedRun, error) {
		rows, err := collect(ctx, t.read, copyFields, statement, req.QueueNo, limit)
		found := make([]ledger.CopiedRun, len(rows))
		for i := range rows {
			found[i] = rows[i].copied()
		}
		return found, err
	}
	for _, statement := range []string{sqlCopyWaiting, sqlCopyDelayed, sqlCopyChained} {
		found, err := read(statement, req.Runs+1-len(c.Runs))
		if err != nil {
			return c, fmt.Errorf("copy the runs of queue %d: %w", req.QueueNo, err)
		}
		if c.Runs = append(c.Runs, found...); len(c.Runs) > req.Runs {
			c.Runs, c.More = c.Runs[:req.Runs], true
			break
		}
	}
	if c.Flights, err = read(sqlCopyFlights, copiedFlights); err != nil {
		return c, fmt.Errorf("copy the runs in flight of queue %d: %w", req.QueueNo, err)
	}
	c.DropRepeated()
	c.Heads = ledger.HeadsOfSets(c.Runs, req.Limits)
	err = t.dialect.readLimits(ctx, t.read, &c.QueueFacts, nil, req.Now, false)
	if c.Heads = nil; err != nil {
		return c, err
	}
	if c.Ended, err = t.runTimes(ctx, req.QueueNo, copiedTimes); err != nil {
		return c, err
	}
	return c, t.readElsewhere(ctx, &c)
}

// runTimes are the run times of the last runs of a queue that have ended. Where history keeps only
// failures, the minutes come first: they have the successes.
func (t *Tables) runTimes(ctx context.Context, queueNo int32, limit int) ([]ledger.RunTime, error) {
	minutes, err := t.QueueMinutes(ctx, queueNo, time.Time{}, limit)
	if err != nil {
		return nil, err
	}
	times := ledger.MinuteRunTimes(minutes)
	var (
		workflow                     string
		status                       int16
		claimed, launched, completed time.Time
	)
	err = t.read.Each(ctx, sqlRunTimes, []any{&workflow, &status, &claimed, &launched, &completed}, func(bad error) error {
		if s, _ := schedule.StatusOf(status); ledger.TellsRunTime(s, claimed) {
			times = append(times, ledger.RunTime{QueueNo: queueNo, Workflow: workflow, Took: completed.Sub(ledger.InFlightSince(claimed, launched))})
		}
		return bad
	}, queueNo, limit)
	if err != nil {
		return nil, fmt.Errorf("read the run times of queue %d: %w", queueNo, err)
	}
	return times, nil
}

// readElsewhere adds what runs and reservations of other queues use of the limits.
func (t *Tables) readElsewhere(ctx context.Context, c *ledger.QueueCopy) error {
	type user struct {
		copyRow
		heldBy int32 // the queue of a reservation
		ends   time.Time
	}
	foreign := c.UsedElsewhere()
	c.UsesCut = make(map[schedule.LimitRef]bool)
	known := make(map[int32]bool)
	for i, ref := range foreign {
		if i == copiedForeign {
			for _, ref := range foreign[i:] {
				c.UsesCut[ref] = true
			}
			break
		}
		users, err := collect(ctx, t.read, func(u *user) []any {
			return []any{&u.key, &u.queueNo, &u.state, &u.claimed, &u.launched, &u.workflow, &u.heldBy, &u.ends}
		}, sqlCopyUsers, ref.ID, ref.Key, copiedOfLimit)
		if err != nil {
			return fmt.Errorf("read who uses limit %s: %w", ref, err)
		}
		c.UsesCut[ref] = len(users) == copiedOfLimit
		for j := range users {
			u := &users[j]
			if u.heldBy == c.Queue.No || u.queueNo+u.heldBy == 0 {
				continue
			}
			run, no := u.copied(), u.queueNo
			if u.heldBy != 0 {
				run.State = schedule.QueueRunning
				c.Elsewhere = append(c.Elsewhere, ledger.HeldLimit{Ref: ref, Until: u.ends, Run: run})
			} else if !c.AddElsewhere(ref, run) {
				continue
			}
			if no != 0 && no != c.Queue.No && !known[no] && len(known) < copiedQueues {
				known[no] = true
				times, err := t.runTimes(ctx, no, copiedTimesFar)
				if err != nil {
					return err
				}
				c.Ended = append(c.Ended, times...)
			}
		}
	}
	return nil
}
