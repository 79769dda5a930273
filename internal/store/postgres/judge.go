package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// judgeGroups locks the schedules of the candidates' overlap keys, reads in
// statements of their own what then stands, and has every key judged. What is
// alone is taken without that, unless little was at the last claim.
func (p *claimPass) judgeGroups(ctx context.Context, candidates []candidate) error {
	locked, err := p.lock(ctx, candidates)
	if err != nil {
		return fmt.Errorf("lock schedules: %w", err)
	}
	left, alone := candidates, 0
	if p.req.LoneUnjudged && !p.store.contended.Is(p.req.Term) {
		single, shared := locked.part(candidates)
		if single, err = p.takeLone(ctx, locked, single); err != nil {
			return fmt.Errorf("take lone runs: %w", err)
		}
		left = append(shared, single...)
		alone = len(candidates) - len(left)
	}
	if len(left) > 0 {
		groups, err := p.readGroups(ctx, locked, left)
		if err != nil {
			return fmt.Errorf("read overlap groups: %w", err)
		}
		for _, key := range overlapKeysOf(left) {
			g := groups[key]
			if g == nil {
				continue
			}
			if len(g.InFlight)+len(g.Waiting)+len(g.Due) == 1 {
				alone++
			}
			p.apply(g, p.judge(*g))
		}
	}
	p.store.contended.Note(p.req.Term, alone < len(candidates)/2)
	return nil
}

// overlapKeysOf are the overlap keys of candidates in their order, once each.
func overlapKeysOf(candidates []candidate) []string {
	var keys []string
	seen := make(map[string]bool, len(candidates))
	for _, c := range candidates {
		if !seen[c.overlapKey] {
			seen[c.overlapKey] = true
			keys = append(keys, c.overlapKey)
		}
	}
	return keys
}

// lockedSchedules are the schedules under which rows of the candidates' overlap
// keys may stand: the locked ones, and those of the candidates, also when gone.
type lockedSchedules struct {
	ids  []string
	live map[string]bool   // neither deleted nor paused
	of   map[string]string // an overlap key's schedule
	many map[string]bool   // it has several
}

func (l *lockedSchedules) add(overlapKey, id string) {
	l.ids = append(l.ids, id)
	if other, known := l.of[overlapKey]; known && other != id {
		l.many[overlapKey] = true
	}
	l.of[overlapKey] = id
}

func (p *claimPass) lock(ctx context.Context, candidates []candidate) (*lockedSchedules, error) {
	l := &lockedSchedules{
		of: make(map[string]string, len(candidates)), many: make(map[string]bool), live: make(map[string]bool, len(candidates)),
	}
	for _, c := range candidates {
		l.add(c.overlapKey, c.ref.ScheduleID)
	}
	unlocked := make(map[string]bool, len(l.ids))
	for _, id := range l.ids {
		unlocked[id] = true
	}
	var (
		id, overlapKey string
		halted         bool
	)
	lock := func(statement string, names []string) error {
		return each(ctx, p.tx, []any{&id, &overlapKey, &halted}, func() error {
			l.add(overlapKey, id)
			l.live[id] = !halted
			delete(unlocked, id)
			return nil
		}, statement, names, p.req.Now)
	}
	if err := lock(sqlClaimLock, overlapKeysOf(candidates)); err != nil {
		return nil, err
	}
	if len(unlocked) > 0 {
		if err := lock(sqlClaimLockNamed, slices.Collect(maps.Keys(unlocked))); err != nil {
			return nil, err
		}
	}
	slices.Sort(l.ids)
	l.ids = slices.Compact(l.ids)
	return l, nil
}

// part parts the candidates by whether another may share their overlap key.
func (l *lockedSchedules) part(candidates []candidate) (single, shared []candidate) {
	times := make(map[string]int, len(candidates))
	for _, c := range candidates {
		times[c.overlapKey]++
	}
	for _, c := range candidates {
		if l.many[c.overlapKey] || times[c.overlapKey] > 1 || c.waits {
			shared = append(shared, c)
		} else {
			single = append(single, c)
		}
	}
	return single, shared
}

// readGroups reads all runs of the candidates' overlap keys.
func (p *claimPass) readGroups(ctx context.Context, locked *lockedSchedules, candidates []candidate) (map[string]*schedule.OverlapGroup, error) {
	var (
		row    runRow
		halted string
		runs   []schedule.Run
	)
	statement, within := sqlClaimGroups, any(column(candidates, func(c *candidate) []byte { return c.key[:] }))
	if p.result.More {
		statement, within = sqlClaimGroupsBeyond, locked.ids
	}
	err := each(ctx, p.tx, append(row.targets(), &halted), func() error {
		runs = p.judgeable(runs, &row, halted)
		return nil
	}, statement, p.req.Now, p.req.Now.Add(-p.req.Grace), overlapKeysOf(candidates), p.req.Now.Add(p.req.Ahead), within)
	if err != nil {
		return nil, err
	}
	return p.groupsOf(ctx, runs)
}

// judgeable adds the row to runs, or ends it where it is halted or cannot be
// read: then it is not judged.
func (p *claimPass) judgeable(runs []schedule.Run, row *runRow, halted string) []schedule.Run {
	run, err := row.run()
	switch {
	case halted != "" && run.FireAt.After(p.req.Now): // not final before fire_at
	case halted != "":
		p.end(run.Key, halted)
	case err != nil && run.Status == schedule.StatusPlanned:
		p.refuse(run.Key, run.FireAt, schedule.CodeRunUnreadable, err.Error())
	default: // in flight it blocks, readable or not
		runs = append(runs, run)
	}
	return runs
}

// groupsOf puts runs together by overlap key. What no grant allows ends here.
func (p *claimPass) groupsOf(ctx context.Context, runs []schedule.Run) (map[string]*schedule.OverlapGroup, error) {
	definitions, err := p.store.definitionsOf(ctx, p.tx, revisionsOf(runs))
	if err != nil {
		return nil, err
	}
	grants, err := p.grantsOf(ctx, definitions)
	if err != nil {
		return nil, err
	}
	groups := make(map[string]*schedule.OverlapGroup, len(runs))
	for i := range runs {
		run := runs[i]
		d := definitions[revision.Of(&run)]
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
		schedule.SortRuns(g.InFlight, schedule.ByFireAt)
		schedule.SortRuns(g.Waiting, schedule.ByFireAt)
		schedule.SortRuns(g.Due, func(a, b *schedule.Run) int { return order(turnOf(a), turnOf(b)) })
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
		case v.Action == schedule.VerdictClaim && len(p.result.Launches)+len(p.claims) >= p.req.Limit:
			p.result.More = true
		case v.Action == schedule.VerdictClaim:
			p.claims = append(p.claims, candidate{turn: *turnOf(run), ref: revision.Of(run), overlapKey: g.OverlapKey, exclusive: true, run: run})
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
	p.req.LoneUnjudged = false // whose statement would end with the transaction
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
