package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// errLoneUnreadable: a row was taken that is no run. It has to be read before.
var errLoneUnreadable = errors.New("a lone run cannot be read")

// takeLone claims candidates that are alone under their overlap keys, as mostly
// all are, and returns those that are not, are halted or are gone: they are read
// and judged. So are those whose definition is missing or whom no grant allows,
// to be ended with the reason.
func (p *claimPass) takeLone(ctx context.Context, locked *lockedSchedules, candidates []candidate) (left []candidate, err error) {
	definitions, err := p.store.definitionsOf(ctx, p.tx, candidateRefs(candidates))
	if err != nil {
		return nil, err
	}
	grants, err := p.grantsOf(ctx, definitions)
	if err != nil {
		return nil, err
	}
	lone := make([]candidate, 0, len(candidates))
	for _, c := range candidates {
		reason := schedule.ReasonNone
		d := definitions[c.ref]
		if d != nil {
			reason, _ = p.grantVerdict(c.fireAt, d, grants)
		}
		if d == nil || reason != schedule.ReasonNone || !locked.live[c.ref.ScheduleID] {
			left = append(left, c)
		} else {
			lone = append(lone, c)
		}
	}
	if len(lone) == 0 {
		return left, nil
	}
	taken, err := p.writeLone(ctx, lone, definitions)
	for _, c := range lone {
		if !taken[c.key] {
			left = append(left, c)
		}
	}
	return left, err
}

func (p *claimPass) writeLone(ctx context.Context, lone []candidate, definitions map[revision.ID]*schedule.Definition) (taken map[schedule.Key]bool, err error) {
	now := p.req.Now
	taken = make(map[schedule.Key]bool, len(lone))
	var row runRow
	err = each(ctx, p.tx, row.targets(), func() error {
		run, err := row.run()
		if err != nil {
			return errors.Join(errLoneUnreadable, err)
		}
		d := definitions[revision.Of(&run)]
		identify(&run, d)
		taken[run.Key] = true
		p.result.Launches = append(p.result.Launches, schedule.Launch{Run: run, Definition: d})
		return nil
	}, sqlClaimLone, now, now.Add(-p.req.Grace), column(lone, func(c *candidate) []byte { return c.key[:] }),
		now.Add(p.req.Ahead), p.result.More, p.req.Term.Epoch, now.Add(p.req.Lease), p.timeouts(lone, definitions),
		column(lone, func(c *candidate) int64 { return c.ref.Revision }), column(lone, func(c *candidate) pgtype.TID { return c.place }))
	return taken, err
}
