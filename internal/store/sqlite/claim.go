package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/seen"
)

// Claim takes what is due, judged under the write lock on what is read after
// it is held.
func (s *Store) Claim(ctx context.Context, req schedule.ClaimRequest, judge func(schedule.OverlapGroup) []schedule.Verdict) (schedule.ClaimResult, error) {
	var c claiming
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		c = claiming{t: t, req: req, store: s, look: s.bounds.Next(req.Term, req.Now), rows: make(map[schedule.Key]place), ended: make(map[schedule.Key]bool)}
		c.first, c.last = req.Term.Buckets()
		return c.claim(ctx, judge)
	})
	if err != nil {
		return schedule.ClaimResult{}, fmt.Errorf("claim runs: %w", err)
	}
	s.places.keep(c.out.Launches, c.rows)
	if c.stamped {
		s.bounds.Stamped(c.look)
	}
	return c.out, nil
}

// stampPortion is how many rows left behind one claim stamps.
const stampPortion = 5000

// claiming is one claim transaction.
type claiming struct {
	t     tx
	req   schedule.ClaimRequest
	out   schedule.ClaimResult
	take  []schedule.Run  // to become LAUNCHING
	ends  []schedule.Skip // to end before they were launched
	ended map[schedule.Key]bool

	look    seen.Look // what is looked through
	stamped bool      // all that was left behind
	cramped bool      // an owner had less room than the limit

	store       *Store
	first, last int                                  // the term's buckets
	rows        map[schedule.Key]place               // of the rows that were read
	definitions map[revision.ID]*schedule.Definition // of the rows that were read; nil where one cannot be
}

func (c *claiming) claim(ctx context.Context, judge func(schedule.OverlapGroup) []schedule.Verdict) error {
	if err := fence(ctx, c.t, c.req.Term); err != nil {
		return err
	}
	if c.look.All {
		if _, err := c.readStanding(ctx, sqlClaimStranded, c.first, c.last); err != nil {
			return fmt.Errorf("end late runs of deleted and paused schedules: %w", err)
		}
	}
	turns, err := c.turns(ctx)
	if err != nil || len(turns) == 0 && !c.out.More {
		return err
	}
	groups, err := c.read(ctx, turns)
	if err != nil {
		return err
	}
	for _, key := range groups.keys {
		if err := c.judge(ctx, groups.of[key], judge); err != nil {
			return err
		}
	}
	if err := c.writeEnds(ctx); err != nil {
		return err
	}
	if err := c.launch(ctx); err != nil {
		return err
	}
	return c.stampRest(ctx)
}

// stampRest marks what is left behind as seen in time: it can no longer be
// missed.
func (c *claiming) stampRest(ctx context.Context) error {
	if !c.out.More {
		return nil
	}
	dueBy, deferred := c.req.Now, c.req.Spare && !c.cramped
	if deferred { // a stamp costs half as much as a claim, and most of it is claimed in a moment
		dueBy = dueBy.Add(-c.req.Grace / 4)
	}
	n, err := c.t.exec(ctx, sqlClaimStamp, c.req.Now.UnixMicro(), c.late(), c.first, c.last, c.look.After.UnixMicro(), stampPortion, dueBy.UnixMicro())
	if err != nil {
		return fmt.Errorf("stamp what is left: %w", err)
	}
	c.stamped = n < stampPortion && !deferred
	return nil
}

// late is the instant before which a Missable row is the planner's.
func (c *claiming) late() int64 { return c.req.Now.Add(-c.req.Grace).UnixMicro() }

// soon is the instant until which rows are armed.
func (c *claiming) soon() int64 { return c.req.Now.Add(c.req.Ahead).UnixMicro() }

// inOrder compares runs in the order of claims.
func (c *claiming) inOrder(a, b *schedule.Run) int {
	return cmp.Or(schedule.Last(a.FireAt.After(c.req.Now), b.FireAt.After(c.req.Now)), schedule.Last(a.Trigger.AfterOthers(), b.Trigger.AfterOthers()),
		cmp.Compare(b.Priority, a.Priority), schedule.ByFireAt(a, b))
}

// groups are what a claim goes through: overlap keys in the order in which
// their turn comes.
type groups struct {
	keys      []string
	of        map[string]*schedule.OverlapGroup
	schedules []string // of the exclusive rows that are due
}

// read reads the rows whose turn has come: those under policy allow are taken
// as they are, the others come in groups with all that overlap is judged on.
func (c *claiming) read(ctx context.Context, turns []turn) (*groups, error) {
	g := &groups{of: make(map[string]*schedule.OverlapGroup)}
	rows := make([]int64, 0, len(turns))
	until := c.req.Now.UnixMicro() // beyond what has its turn, nothing close changes a verdict on what is due
	for i := range turns {
		turn := &turns[i]
		until = max(until, turn.fireAt)
		if turn.exclusive && g.of[turn.overlapKey] == nil {
			g.of[turn.overlapKey] = &schedule.OverlapGroup{OverlapKey: turn.overlapKey, Now: c.req.Now}
			g.keys = append(g.keys, turn.overlapKey)
		}
		if turn.exclusive && c.out.More {
			g.schedules = append(g.schedules, turn.scheduleID) // is read with its group
		} else {
			rows = append(rows, turn.row)
		}
	}
	due, err := c.readStanding(ctx, sqlClaimRuns, rowList(rows))
	if err != nil {
		return nil, fmt.Errorf("read due runs: %w", err)
	}
	var exclusive []schedule.Run
	for i := range due {
		switch r := &due[i]; {
		case r.Exclusive && !r.WaitingSince.IsZero(): // comes with its group
		case r.Exclusive:
			exclusive = append(exclusive, *r)
		default:
			c.take = append(c.take, *r)
		}
	}
	if len(g.keys) == 0 {
		return g, nil
	}
	if c.out.More {
		if exclusive, err = c.readStanding(ctx, sqlClaimGroups, list(g.keys), until, list(g.schedules)); err != nil {
			return nil, fmt.Errorf("read due runs of the same overlap keys: %w", err)
		}
	}
	schedule.SortRuns(exclusive, c.inOrder)
	for _, r := range exclusive {
		g.of[r.OverlapKey].Due = append(g.of[r.OverlapKey].Due, r)
	}
	return g, c.readCompany(ctx, g)
}

// readCompany adds what waits and what is in flight.
func (c *claiming) readCompany(ctx context.Context, g *groups) error {
	waiting, err := c.readStanding(ctx, sqlClaimWaiting, list(g.keys))
	if err != nil {
		return fmt.Errorf("read waiting runs: %w", err)
	}
	for _, r := range waiting {
		g.of[r.OverlapKey].Waiting = append(g.of[r.OverlapKey].Waiting, r)
	}
	inFlight, err := c.inFlight(ctx, g.keys)
	if err != nil {
		return fmt.Errorf("read runs in flight: %w", err)
	}
	for _, r := range inFlight {
		g.of[r.OverlapKey].InFlight = append(g.of[r.OverlapKey].InFlight, r)
	}
	return nil
}

// inFlight are the runs in flight under the keys, in the order of their slots.
func (c *claiming) inFlight(ctx context.Context, keys []string) (found []schedule.Run, err error) {
	for _, statement := range []string{sqlClaimInFlight, sqlClaimInFlightAlone} {
		runs, err := readRuns(ctx, c.t, statement, list(keys))
		if err != nil {
			return nil, err
		}
		found = append(found, runs...)
	}
	schedule.SortRuns(found, schedule.ByFireAt)
	return found, nil
}

// readStanding reads runs, and ends those whose schedule was deleted or paused
// once they are due. The change that did so has ended them already; this is the
// second lock on the door. It ends those, too, that no grant allows.
func (c *claiming) readStanding(ctx context.Context, statement string, args ...any) ([]schedule.Run, error) {
	var row runRow
	var at int64
	var gone, paused, noted flag
	columns := append(append([]any{&at}, row.planned()...), &gone, &paused, &noted)
	var runs, ended []schedule.Run
	err := c.t.query(ctx, statement, func(scan scan) error {
		if err := scan(columns...); err != nil {
			return err
		}
		r := row.run()
		c.rows[r.Key] = place{row: at, noted: bool(noted)}
		switch {
		case bool(gone):
			r.Status, r.Reason = schedule.StatusCancelled, schedule.ReasonDeleted
			ended = append(ended, r)
		case bool(paused) && r.Trigger.FromSpec():
			r.Status, r.Reason = schedule.StatusSkipped, schedule.ReasonPaused
			ended = append(ended, r)
		default:
			runs = append(runs, r)
		}
		return nil
	}, append([]any{c.req.Now.UnixMicro(), c.late()}, args...)...)
	if err != nil {
		return nil, err
	}
	runs, denied, err := c.granted(ctx, runs)
	if err != nil {
		return nil, err
	}
	for _, r := range append(ended, denied...) {
		if r.FireAt.After(c.req.Now) {
			continue // not final before fire_at, and not to be armed
		}
		c.end(&r, schedule.Settlement{To: r.Status, Reason: r.Reason, ErrorMessage: r.ErrorMessage})
	}
	return runs, c.writeEnds(ctx)
}

// launch makes what was taken LAUNCHING, in the order of claims.
func (c *claiming) launch(ctx context.Context) error {
	schedule.SortRuns(c.take, c.inOrder)
	byTimeout := make(map[time.Duration][]int64) // the rowids by how long they are tried; mostly all of them are of one
	for i := range c.take {
		if len(c.out.Launches) >= c.req.Limit {
			c.out.More = true
			break
		}
		id := revision.Of(&c.take[i])
		definition := c.definitions[id]
		if definition == nil && c.take[i].FireAt.After(c.req.Now) {
			continue // not final before fire_at
		}
		if definition == nil {
			// Left PLANNED it would come first in every claim.
			c.end(&c.take[i], schedule.Settlement{
				To: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, ErrorCode: string(schedule.CodeDefinitionUnreadable),
				ErrorMessage: fmt.Sprintf("the definition of schedule %s, revision %d, is missing or cannot be read", id.ScheduleID, id.Revision),
			})
			continue
		}
		l := c.launched(c.take[i], definition)
		c.out.Launches = append(c.out.Launches, l)
		long := schedule.LaunchFor(definition, c.req.RetryFor)
		byTimeout[long] = append(byTimeout[long], c.rows[l.Run.Key].row)
	}
	if err := c.writeEnds(ctx); err != nil {
		return err
	}
	return c.write(ctx, byTimeout)
}

// launched is a run as its claim leaves it.
func (c *claiming) launched(r schedule.Run, definition *schedule.Definition) schedule.Launch {
	now := c.req.Now
	r.Status, r.WaitingSince, r.Epoch, r.ClaimedAt, r.UpdatedAt = schedule.StatusLaunching, time.Time{}, c.req.Term.Epoch, now, now
	r.ClaimedUntil = now.Add(c.req.Lease)
	r.TimeoutAt = schedule.LaunchUntil(definition, r.FireAt, now, c.req.RetryFor)
	return schedule.Launch{Run: r, Definition: definition}
}

// write claims the rows, and leaves out of the launches what another had taken:
// whatever the judge believed, one_in_flight has the last word, and who loses
// stays PLANNED.
func (c *claiming) write(ctx context.Context, byTimeout map[time.Duration][]int64) error {
	lost := make(map[int64]bool)
	for timeout, rows := range byTimeout {
		n, err := c.t.exec(ctx, sqlClaim, c.req.Term.Epoch, c.req.Now.UnixMicro(), c.req.Now.Add(c.req.Lease).UnixMicro(), timeout.Microseconds(), rowList(rows))
		if err != nil {
			return fmt.Errorf("claim %d runs: %w", len(rows), err)
		}
		if n == int64(len(rows)) {
			continue
		}
		err = c.t.query(ctx, sqlClaimLost, func(scan scan) error {
			var row int64
			err := scan(&row)
			lost[row] = true
			return err
		}, rowList(rows))
		if err != nil {
			return fmt.Errorf("read which of %d runs were claimed: %w", len(rows), err)
		}
	}
	if len(lost) > 0 {
		c.out.Launches = slices.DeleteFunc(c.out.Launches, func(l schedule.Launch) bool { return lost[c.rows[l.Run.Key].row] })
	}
	return nil
}
