package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// judgeGroups locks the schedules of the candidates' overlap keys, reads in
// statements of their own what then stands, and has every key judged.
func (p *claimPass) judgeGroups(ctx context.Context, candidates []candidate) error {
	var overlapKeys, owners []string
	seen := make(map[string]bool, len(candidates))
	for _, c := range candidates {
		if !seen[c.overlapKey] {
			seen[c.overlapKey] = true
			overlapKeys = append(overlapKeys, c.overlapKey)
		}
		owners = append(owners, c.ref.scheduleID)
	}
	scheduleIDs, err := p.lock(ctx, overlapKeys, owners)
	if err != nil {
		return fmt.Errorf("lock schedules: %w", err)
	}
	groups, err := p.readGroups(ctx, overlapKeys, scheduleIDs, candidates)
	if err != nil {
		return err
	}
	for _, key := range overlapKeys {
		if g := groups[key]; g != nil {
			p.apply(g, p.judge(*g))
		}
	}
	return nil
}

// lock takes the schedules of the overlap keys, those that are named besides,
// and returns both, also the named ones that are gone.
func (p *claimPass) lock(ctx context.Context, overlapKeys, named []string) ([]string, error) {
	locked := slices.Clone(named)
	var id string
	err := each(ctx, p.tx, []any{&id}, func() error {
		locked = append(locked, id)
		return nil
	}, sqlClaimLock, overlapKeys, named)
	slices.Sort(locked)
	return slices.Compact(locked), err
}

// readGroups reads the runs of the overlap keys. Rows that are halted, that no
// grant allows or that cannot be read end here and are not judged.
func (p *claimPass) readGroups(ctx context.Context, overlapKeys, scheduleIDs []string, candidates []candidate) (map[string]*schedule.OverlapGroup, error) {
	var (
		row    runRow
		halted string
		runs   []schedule.Run
	)
	statement, within := sqlClaimGroups, any(column(candidates, func(c *candidate) []byte { return c.key[:] }))
	if p.result.More {
		statement, within = sqlClaimGroupsBeyond, scheduleIDs
	}
	err := each(ctx, p.tx, append(row.targets(), &halted), func() error {
		run, err := row.run()
		switch {
		case halted != "" && run.FireAt.After(p.req.Now): // not final before fire_at
		case halted != "":
			p.end(run.Key, halted)
		case err != nil && run.Status == schedule.StatusPlanned:
			p.refuse(run.Key, schedule.CodeRunUnreadable, err.Error())
		default: // in flight it blocks, readable or not
			runs = append(runs, run)
		}
		return nil
	}, statement, p.req.Now, p.req.Now.Add(-p.req.Grace), overlapKeys, p.req.Now.Add(p.req.Ahead), within)
	if err != nil {
		return nil, fmt.Errorf("read overlap groups: %w", err)
	}
	definitions, err := p.store.definitionsOf(ctx, p.tx, refsOf(runs))
	if err != nil {
		return nil, err
	}
	grants, err := p.grantsOf(ctx, definitions)
	if err != nil {
		return nil, err
	}
	groups := make(map[string]*schedule.OverlapGroup, len(overlapKeys))
	for i := range runs {
		run := runs[i]
		d := definitions[refOf(&run)]
		if d != nil && run.Status == schedule.StatusPlanned && p.denied(run.Key, run.FireAt, d, grants) {
			continue // it neither stands in another's way nor takes its place
		}
		identify(&run, d)
		g := groups[run.OverlapKey]
		if g == nil {
			g = &schedule.OverlapGroup{OverlapKey: run.OverlapKey, Now: p.req.Now}
			groups[run.OverlapKey] = g
		}
		switch {
		case run.Status.InFlight():
			g.InFlight = append(g.InFlight, run)
		case !run.WaitingSince.IsZero():
			g.Waiting = append(g.Waiting, run)
		default:
			g.Due = append(g.Due, run)
		}
	}
	order := claimOrderAt(p.req.Now)
	for _, g := range groups {
		slices.SortFunc(g.InFlight, byFireAt)
		slices.SortFunc(g.Waiting, byFireAt)
		slices.SortFunc(g.Due, order)
	}
	return groups, nil
}

// apply notes the verdicts on the group's own rows. What would exceed the limit
// stays for the next pass.
func (p *claimPass) apply(g *schedule.OverlapGroup, verdicts []schedule.Verdict) {
	planned := make(map[schedule.Key]*schedule.Run, len(g.Waiting)+len(g.Due))
	for _, rows := range [][]schedule.Run{g.Waiting, g.Due} {
		for i := range rows {
			planned[rows[i].Key] = &rows[i]
		}
	}
	for _, v := range verdicts {
		run := planned[v.Key]
		switch {
		case v.Action == schedule.VerdictCancel:
			p.cancels = append(p.cancels, v)
		case run == nil: // not of this group, or not planned
		case v.Action != schedule.VerdictClaim && run.FireAt.After(p.req.Now): // may only be armed
		case v.Action == schedule.VerdictClaim && len(p.claims) >= p.req.Limit:
			p.result.More = true
		case v.Action == schedule.VerdictClaim:
			p.claims = append(p.claims, candidate{key: v.Key, ref: refOf(run), overlapKey: g.OverlapKey, exclusive: true, fireAt: run.FireAt})
		case v.Action == schedule.VerdictWait:
			p.waits = append(p.waits, v.Key)
		case v.Action == schedule.VerdictSkip:
			p.ends = append(p.ends, schedule.Settlement{
				Key: v.Key, To: schedule.StatusSkipped, Reason: v.Reason, CompletedAt: p.req.Now,
			})
		}
	}
}

// oneByOne is what follows when the index refused a batch: what is not
// exclusive in one transaction, then each overlap key in its own. Who loses
// stays PLANNED.
func (p *claimPass) oneByOne(ctx context.Context) error {
	candidates, more := p.candidates, p.result.More
	byKey := make(map[string][]candidate)
	var others []candidate
	for _, c := range candidates {
		if c.exclusive {
			byKey[c.overlapKey] = append(byKey[c.overlapKey], c)
		} else {
			others = append(others, c)
		}
	}
	p.result = schedule.ClaimResult{More: more}
	if err := p.again(ctx, others, p.claim); err != nil {
		return err
	}
	for _, c := range candidates {
		group := byKey[c.overlapKey]
		if group == nil {
			continue
		}
		delete(byKey, c.overlapKey)
		if err := p.again(ctx, group, p.claimEach); err != nil {
			return fmt.Errorf("overlap key %s: %w", c.overlapKey, err)
		}
	}
	return nil
}

// again runs one part of the batch in a transaction of its own and adds what
// came of it to the result.
func (p *claimPass) again(ctx context.Context, part []candidate, claim func(context.Context, []candidate) error) error {
	total, limit := p.result, p.req.Limit
	defer func() { p.req.Limit = limit }()
	p.req.Limit = limit - len(total.Launches)
	err := p.store.fenced(ctx, p.req.Term, func(tx pgx.Tx) error {
		p.forget()
		p.tx, p.result = tx, schedule.ClaimResult{More: total.More}
		if _, err := tx.Exec(ctx, sqlClaimGuard, p.req.Term.Shard); err != nil {
			return fmt.Errorf("wait for the claim before: %w", err)
		}
		return claim(ctx, part)
	})
	if err != nil {
		p.result = total // of this part nothing was written
		return err
	}
	p.result.Launches = append(total.Launches, p.result.Launches...)
	p.result.Skipped = append(total.Skipped, p.result.Skipped...)
	p.result.Cancels = append(total.Cancels, p.result.Cancels...)
	p.result.Waiting += total.Waiting
	return nil
}

// claimEach judges one overlap key and takes its rows singly, each behind a
// savepoint.
func (p *claimPass) claimEach(ctx context.Context, group []candidate) error {
	if err := p.judgeGroups(ctx, group); err != nil {
		return err
	}
	claims := p.claims
	p.claims = nil
	if err := p.write(ctx); err != nil {
		return err
	}
	outer := p.tx
	defer func() { p.tx = outer }()
	for _, c := range claims {
		err := pgx.BeginFunc(ctx, outer, func(savepoint pgx.Tx) error {
			p.forget()
			p.tx, p.claims = savepoint, []candidate{c}
			return p.write(ctx)
		})
		if err != nil && !violates(err, oneInFlight) {
			return err
		}
	}
	return nil
}
