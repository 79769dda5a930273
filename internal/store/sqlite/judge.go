package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// judge carries out the verdicts on one overlap key, but for the claims: those
// go through launch in the order of claims.
func (c *claiming) judge(ctx context.Context, g *schedule.OverlapGroup, judge func(schedule.OverlapGroup) []schedule.Verdict) error {
	if len(g.Waiting) == 0 && len(g.Due) == 0 {
		return nil // they all ended with their schedule
	}
	planned := make(map[schedule.Key]*schedule.Run, len(g.Waiting)+len(g.Due))
	for _, runs := range [][]schedule.Run{g.Waiting, g.Due} {
		for i := range runs {
			planned[runs[i].Key] = &runs[i]
		}
	}
	for _, v := range judge(*g) {
		if v.Action == schedule.VerdictCancel {
			if err := c.cancel(ctx, g, v); err != nil {
				return err
			}
			continue
		}
		r := planned[v.Key]
		if r == nil {
			return fmt.Errorf("a verdict on run %s, which is not one of overlap key %s", v.Key, g.OverlapKey)
		}
		switch v.Action {
		case schedule.VerdictClaim:
			c.take = append(c.take, *r)
		case schedule.VerdictWait:
			n, err := c.t.exec(ctx, sqlClaimWait, c.req.Now.UnixMicro(), keyArg(v.Key))
			if err != nil {
				return fmt.Errorf("let run %s wait: %w", v.Key, err)
			}
			c.out.Waiting += int(n)
		case schedule.VerdictSkip:
			c.end(r, schedule.Settlement{To: schedule.StatusSkipped, Reason: v.Reason})
		}
	}
	return nil
}

// cancel asks for the cancel of a run in flight, unless that was done before.
func (c *claiming) cancel(ctx context.Context, g *schedule.OverlapGroup, v schedule.Verdict) error {
	i := slices.IndexFunc(g.InFlight, func(r schedule.Run) bool { return r.Key == v.Key })
	if i < 0 {
		return fmt.Errorf("a cancel of run %s, which is not in flight under overlap key %s", v.Key, g.OverlapKey)
	}
	n, err := c.t.exec(ctx, sqlAskCancel, c.req.Now.UnixMicro(), word(v.Reason), keyArg(v.Key))
	if err != nil {
		return fmt.Errorf("ask for the cancel of run %s: %w", v.Key, err)
	}
	if n == 1 {
		r := g.InFlight[i]
		r.CancelRequestedAt, r.CancelReason, r.UpdatedAt = c.req.Now, v.Reason, c.req.Now
		c.out.Cancels = append(c.out.Cancels, r)
	}
	return nil
}

// end notes that a PLANNED row ends, once.
func (c *claiming) end(r *schedule.Run, e schedule.Settlement) {
	if c.ended[r.Key] {
		return
	}
	c.ended[r.Key] = true
	e.Key, e.CompletedAt = r.Key, c.req.Now
	c.ends = append(c.ends, schedule.Skip{Settlement: e, ScheduleID: r.ScheduleID, RunAt: r.RunAt})
}

// writeEnds ends what was noted, all that end alike in one statement: behind a
// pause of the machine it may be 10,000.
func (c *claiming) writeEnds(ctx context.Context) error {
	alike := make(map[schedule.Settlement][]int64)
	for i := range c.ends {
		e := c.ends[i].Settlement
		row := c.rows[e.Key].row
		e.Key = schedule.Key{}
		alike[e] = append(alike[e], row)
	}
	for e, rows := range alike {
		n, err := c.t.exec(ctx, sqlClaimEnd, string(e.To), word(e.Reason), word(e.ErrorCode), word(e.ErrorMessage), c.req.Now.UnixMicro(), rowList(rows))
		if err != nil {
			return fmt.Errorf("end %d runs: %w", len(rows), err)
		}
		if n != int64(len(rows)) {
			return fmt.Errorf("of %d PLANNED runs %d could be ended as %s", len(rows), n, e.To)
		}
	}
	var ends endings
	for i := range c.ends {
		ends.add(c.ends[i].Key, c.ends[i].To)
	}
	if err := ends.note(ctx, c.t); err != nil {
		return err
	}
	c.out.Skipped = append(c.out.Skipped, c.ends...)
	c.ends = nil
	return nil
}
