package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/seen"
)

// oneInFlight is the last guard of overlap.
const oneInFlight = "schedule_runs_one_in_flight"

// How many rows left behind one claim stamps: after others were launched, and
// when none could be.
const (
	stampBeside = 1000
	stampAlone  = 5000
)

// Claim takes due runs, at most req.Limit, and lets judge decide on those of
// exclusive policies; see worker.FireStore. If the database finds that two
// exclusive runs would be in flight together, whatever judge said, nothing of
// the batch is written and its overlap keys are claimed one by one; if that fails
// half-way, what was claimed until then is the result.
func (s *Store) Claim(ctx context.Context, req schedule.ClaimRequest, judge func(schedule.OverlapGroup) []schedule.Verdict) (schedule.ClaimResult, error) {
	req.Limit = max(req.Limit, 0)
	pass := &claimPass{store: s, req: req, judge: judge, look: s.bounds.Next(req.Term, req.Now)}
	err := pass.whole(ctx)
	if errors.Is(err, errLoneUnreadable) {
		pass.req.LoneUnjudged = false // read first, it is refused
		err = pass.whole(ctx)
	}
	if violates(err, oneInFlight) {
		s.log.WarnContext(ctx, "overlap detected by the database", "err", err)
		err = pass.oneByOne(ctx)
		pass.stamped = false // which of its transactions was committed?
		if c := &pass.result; err != nil && len(c.Launches)+len(c.Skipped)+len(c.Cancels)+c.Waiting > 0 {
			// What is committed is in flight and must be launched.
			s.log.WarnContext(ctx, "cannot claim the rest of the batch", "launches", len(c.Launches), "err", err)
			c.More, err = true, nil
		}
	}
	if err != nil {
		return schedule.ClaimResult{}, fmt.Errorf("claim runs: %w", err)
	}
	if pass.stamped {
		s.bounds.Stamped(pass.look)
	}
	order := claimOrderAt(req.Now)
	slices.SortFunc(pass.result.Launches, func(a, b schedule.Launch) int { return order(turnOf(&a.Run), turnOf(&b.Run)) })
	return pass.result, nil
}

// candidate is a row that a claim may take, or the first of those that wait.
type candidate struct {
	turn
	ref        revision.ID
	overlapKey string
	exclusive  bool
	halted     string // deleted, paused or ""
	stranded   bool   // see sqlClaimCandidates
	waits      bool
	place      pgtype.TID    // of the row as it was found
	run        *schedule.Run // once it was read
}

func candidateRefs(candidates []candidate) map[revision.ID]struct{} {
	refs := make(map[revision.ID]struct{}, len(candidates))
	for i := range candidates {
		refs[candidates[i].ref] = struct{}{}
	}
	return refs
}

// claimPass is one claim under way: what was found, and what is to be written.
type claimPass struct {
	store *Store
	req   schedule.ClaimRequest
	judge func(schedule.OverlapGroup) []schedule.Verdict
	look  seen.Look // what is looked through

	tx         pgx.Tx
	candidates []candidate
	result     schedule.ClaimResult
	cramped    bool // an owner had less room than the limit
	stamped    bool // all that was left behind

	claims  []candidate
	ends    []schedule.Settlement
	waits   []schedule.Key
	cancels []schedule.Verdict
}

// whole is all of the claim in one transaction.
func (p *claimPass) whole(ctx context.Context) error {
	return p.store.fenced(ctx, p.req.Term, func(tx pgx.Tx) error {
		p.begin(tx)
		if err := p.readCandidates(ctx); err != nil {
			return err
		}
		return p.claim(ctx, p.candidates)
	})
}

func (p *claimPass) begin(tx pgx.Tx) {
	p.tx, p.candidates, p.result, p.stamped, p.cramped = tx, nil, schedule.ClaimResult{}, false, false
	p.forget()
}

// forget drops what was to be written.
func (p *claimPass) forget() { p.claims, p.ends, p.waits, p.cancels = nil, nil, nil, nil }

func (p *claimPass) readCandidates(ctx context.Context) error {
	if _, err := p.tx.Exec(ctx, sqlClaimGuard, p.req.Term.Shard); err != nil {
		return fmt.Errorf("wait for the claim before: %w", err)
	}
	if len(p.req.Without) > 0 {
		p.result.More, p.cramped = true, true // more is due, and of whom it is known
		if p.req.Limit == 0 {
			return nil
		}
		return p.shareOut(ctx)
	}
	if crowded, err := p.stillCrowded(ctx); crowded || err != nil {
		return err
	}
	statement := sqlClaimFirst
	if p.req.Room == nil {
		statement = sqlClaimCandidates
	}
	var err error
	if p.candidates, err = p.find(ctx, statement, p.window(p.req.Limit+1)...); err != nil {
		return fmt.Errorf("find due runs: %w", err)
	}
	p.candidates = p.candidates[:min(len(p.candidates), p.req.Limit+1)]
	p.result.More = len(p.candidates) > p.req.Limit
	switch {
	case p.req.Room == nil || p.req.Limit == 0:
		p.candidates = p.candidates[:min(len(p.candidates), p.req.Limit)]
	case p.result.More && !p.plenty():
		return p.shareOut(ctx)
	default:
		p.candidates = p.withRoom(p.candidates[:min(len(p.candidates), p.req.Limit)])
	}
	return nil
}

// find reads candidates, and has them in the order of claims.
func (p *claimPass) find(ctx context.Context, statement string, args ...any) ([]candidate, error) {
	var (
		c     candidate
		raw   []byte
		found []candidate
	)
	err := each(ctx, p.tx, []any{
		&raw, &c.ref.ScheduleID, &c.ref.Revision, &c.overlapKey, &c.exclusive, &c.halted,
		&c.fireAt, &c.runAt, &c.priority, &c.behind, &c.stranded, &c.waits, &c.place,
	}, func() error {
		c.key = schedule.Key(raw)
		found = append(found, c)
		return nil
	}, statement, args...)
	order := claimOrderAt(p.req.Now)
	slices.SortFunc(found, func(a, b candidate) int { return order(&a.turn, &b.turn) })
	return found, err
}

// window are the arguments that all readings of candidates begin with.
func (p *claimPass) window(limit int) []any {
	first, last := p.req.Term.Buckets()
	return []any{p.req.Now, p.req.Now.Add(-p.req.Grace), limit, p.req.Now.Add(p.req.Ahead), first, last, p.look.All}
}

// claim judges the candidates and writes what comes of it.
func (p *claimPass) claim(ctx context.Context, candidates []candidate) error {
	var exclusive []candidate
	for _, c := range candidates {
		switch {
		case c.halted != "" && c.fireAt.After(p.req.Now): // not final before fire_at
		case c.halted != "":
			p.end(c.key, c.halted)
		case c.exclusive:
			exclusive = append(exclusive, c)
		default:
			p.claims = append(p.claims, c)
		}
	}
	if len(exclusive) > 0 {
		if err := p.judgeGroups(ctx, exclusive); err != nil {
			return err
		}
	}
	if err := p.write(ctx); err != nil {
		return err
	}
	return p.stampRest(ctx)
}

// end is for rows whose schedule is halted.
func (p *claimPass) end(key schedule.Key, halted string) {
	e := schedule.Settlement{Key: key, To: schedule.StatusSkipped, Reason: schedule.ReasonPaused, CompletedAt: p.req.Now}
	if halted == string(schedule.ReasonDeleted) {
		e.To, e.Reason = schedule.StatusCancelled, schedule.ReasonDeleted
	}
	p.ends = append(p.ends, e)
}

// write writes the verdicts: first what ends or waits, last what is launched.
func (p *claimPass) write(ctx context.Context) error {
	definitions, err := p.launchable(ctx)
	if err != nil {
		return err
	}
	skipped, err := endPlannedKeys(ctx, p.tx, p.req.Now, time.Time{}, p.ends)
	if err != nil {
		return err
	}
	p.result.Skipped = append(p.result.Skipped, skipped...)
	if len(p.waits) > 0 {
		n, err := affect(ctx, p.tx, sqlClaimWait, p.req.Now, keyBytes(p.waits))
		if err != nil {
			return fmt.Errorf("let runs wait: %w", err)
		}
		p.result.Waiting += n
	}
	if err := p.writeCancels(ctx); err != nil {
		return err
	}
	return p.writeClaims(ctx, definitions)
}

// launchable reads the definitions of what is to be launched. A run whose
// definition is gone or unreadable can never be launched, and would stand first
// in every claim: it ends here. So does one that no grant allows; the exclusive
// ones were looked at with their groups.
func (p *claimPass) launchable(ctx context.Context) (map[revision.ID]*schedule.Definition, error) {
	definitions, err := p.store.definitionsOf(ctx, p.tx, candidateRefs(p.claims))
	if err != nil {
		return nil, err
	}
	grants, err := p.grantsOf(ctx, definitions)
	if err != nil {
		return nil, err
	}
	p.claims = slices.DeleteFunc(p.claims, func(c candidate) bool {
		if d := definitions[c.ref]; d != nil {
			return !c.exclusive && p.denied(c.key, c.fireAt, d, grants)
		}
		p.refuse(c.key, c.fireAt, schedule.CodeDefinitionUnreadable, fmt.Sprintf("revision %d of %s is missing or cannot be read", c.ref.Revision, c.ref.ScheduleID))
		return true
	})
	return definitions, nil
}

// refuse ends a run that can never be launched because of what its row holds. That
// is final from fire_at on only; until then the run stays PLANNED.
func (p *claimPass) refuse(key schedule.Key, fireAt time.Time, code schedule.ErrorCode, why string) {
	if fireAt.After(p.req.Now) {
		return
	}
	p.ends = append(p.ends, schedule.Settlement{
		Key: key, To: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, CompletedAt: p.req.Now,
		ErrorCode: string(code), ErrorMessage: why,
	})
}

func (p *claimPass) writeCancels(ctx context.Context) error {
	if len(p.cancels) == 0 {
		return nil
	}
	type verdict = schedule.Verdict
	cancelled, err := p.runs(ctx, sqlClaimCancel, p.req.Now,
		column(p.cancels, func(v *verdict) []byte { return v.Key[:] }),
		column(p.cancels, func(v *verdict) string { return string(v.Reason) }))
	if err != nil {
		return fmt.Errorf("ask for cancels: %w", err)
	}
	p.result.Cancels = append(p.result.Cancels, cancelled...)
	return nil
}

// writeClaims makes runs LAUNCHING and theirs the launches.
func (p *claimPass) writeClaims(ctx context.Context, definitions map[revision.ID]*schedule.Definition) error {
	var read, unread []candidate
	for _, c := range p.claims {
		if c.run == nil {
			unread = append(unread, c)
		} else {
			read = append(read, c)
		}
	}
	claimed, err := p.takeUnread(ctx, unread, definitions)
	if err != nil {
		return fmt.Errorf("take runs: %w", err)
	}
	taken, err := p.takeRead(ctx, read, definitions)
	if err != nil {
		return fmt.Errorf("take judged runs: %w", err)
	}
	for _, run := range append(claimed, taken...) {
		p.result.Launches = append(p.result.Launches, schedule.Launch{Run: run, Definition: definitions[revision.Of(&run)]})
	}
	return nil
}

func (p *claimPass) takeUnread(ctx context.Context, claims []candidate, definitions map[revision.ID]*schedule.Definition) ([]schedule.Run, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	return p.runs(ctx, sqlClaim, p.claimArguments(claims, definitions)...)
}

// takeRead reads of the runs only what may have changed since they were read.
func (p *claimPass) takeRead(ctx context.Context, claims []candidate, definitions map[revision.ID]*schedule.Definition) (runs []schedule.Run, err error) {
	if len(claims) == 0 {
		return nil, nil
	}
	read := make(map[schedule.Key]*schedule.Run, len(claims))
	for _, c := range claims {
		read[c.key] = c.run
	}
	var row runRow
	err = each(ctx, p.tx, row.claimTargets(), func() error {
		run, err := row.claimed(*read[schedule.Key(row.key)])
		if err != nil {
			p.store.log.ErrorContext(ctx, "run unreadable", "key", run.Key, "schedule_id", run.ScheduleID, "err", err)
			return nil
		}
		identify(&run, definitions[revision.Of(&run)])
		runs = append(runs, run)
		return nil
	}, sqlClaimRead, p.claimArguments(claims, definitions)...)
	return runs, err
}

func (p *claimPass) claimArguments(claims []candidate, definitions map[revision.ID]*schedule.Definition) []any {
	now := p.req.Now
	return []any{
		p.req.Term.Epoch, now, now.Add(p.req.Lease),
		column(claims, func(c *candidate) []byte { return c.key[:] }),
		p.timeouts(claims, definitions), now.Add(p.req.Ahead), column(claims, func(c *candidate) int64 { return c.ref.Revision }),
	}
}

// timeouts are when claims end if nothing else ends them.
func (p *claimPass) timeouts(claims []candidate, definitions map[revision.ID]*schedule.Definition) pgtype.FlatArray[time.Time] {
	return column(claims, func(c *candidate) time.Time {
		return schedule.LaunchUntil(definitions[c.ref], c.fireAt, p.req.Now, p.req.RetryFor)
	})
}

// runs runs a statement that returns runColumns.
func (p *claimPass) runs(ctx context.Context, statement string, args ...any) ([]schedule.Run, error) {
	return p.store.runsReturned(ctx, p.tx, statement, args...)
}

// stampRest marks what is left behind as seen in time.
func (p *claimPass) stampRest(ctx context.Context) error {
	if !p.result.More {
		return nil
	}
	dueBy, deferred := p.req.Now, p.req.Spare && !p.cramped
	if deferred { // a stamp costs half as much as a claim, and most of it is claimed in a moment
		dueBy = dueBy.Add(-p.req.Grace / 4)
	}
	portion := stampBeside
	if p.req.Limit == 0 {
		portion = stampAlone
	}
	first, last := p.req.Term.Buckets()
	n, err := affect(ctx, p.tx, sqlClaimStamp, p.req.Now, p.req.Now.Add(-p.req.Grace), portion, first, last, p.look.After, dueBy)
	if err != nil {
		return fmt.Errorf("stamp what is left: %w", err)
	}
	p.stamped = n < portion && !deferred
	return nil
}
