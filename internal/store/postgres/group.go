package postgres

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// Changes of single schedules that arrive during a write are written together, in one
// transaction. Each is decided and answered by itself, as if they came one after the
// other: a refusal concerns one change only. A change that would delay the others, or let
// them fail, is written alone.

// mostGrouped caps the changes in one transaction.
const mostGrouped = 128

// changeCall is one call of ChangeSchedules.
type changeCall struct {
	ctx    context.Context
	req    schedule.ChangeRequest
	decide func([]schedule.ChangeInput) ([]schedule.Change, error)
}

// changeAnswer is the result of a changeCall.
type changeAnswer struct {
	alone bool // nothing: it is to go alone
	err   error
}

// groupable reports whether a request changes one schedule and nothing else.
func groupable(req *schedule.ChangeRequest) bool {
	return len(req.ScheduleIDs) == 1 && !req.CountInFlight && req.Managed.By == "" &&
		len(req.Workflows) == 0 && len(req.Grants) == 0 && req.Deploy == nil
}

// group is one transaction of grouped changes.
type group struct {
	calls   []changeCall
	answers []changeAnswer
	ids     []string

	rows    map[string]*schedule.Schedule // that are locked
	taken   map[string]bool               // that others have locked
	changes [][]schedule.Change           // of each call
	touched [][]schedule.ExpectationID    // by them
}

// changeTogether is the flush of Store.changes. An error concerns all calls.
func (s *Store) changeTogether(ctx context.Context, calls []changeCall) ([]changeAnswer, error) {
	g := &group{calls: calls, answers: make([]changeAnswer, len(calls))}
	ctx, cancel := whileOneWaits(ctx, calls)
	defer cancel()
	decided := false
	err := s.once(ctx, func(tx pgx.Tx) error {
		err := g.changeAll(ctx, tx)
		decided = err == nil
		return err
	})
	if err != nil && (!decided || transient(err)) { // not committed: one of them is the cause, and the others need not fail with it
		for i := range g.answers {
			g.answers[i] = changeAnswer{alone: true}
		}
		return g.answers, nil
	}
	if err != nil {
		return nil, err
	}
	return g.answers, nil
}

// whileOneWaits ends when the contexts of all calls have ended.
func whileOneWaits(ctx context.Context, calls []changeCall) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting atomic.Int64
	waiting.Store(int64(len(calls)))
	stops := make([]func() bool, len(calls))
	for i := range calls {
		stops[i] = context.AfterFunc(calls[i].ctx, func() {
			if waiting.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

func (g *group) changeAll(ctx context.Context, tx pgx.Tx) error {
	g.chooseCalls()
	grants, err := g.lockFree(ctx, tx)
	if err != nil {
		return err
	}
	g.changes, g.touched = make([][]schedule.Change, len(g.calls)), make([][]schedule.ExpectationID, len(g.calls))
	for i := range g.calls {
		if a := &g.answers[i]; !a.alone && a.err == nil {
			g.ask(i, grants)
		}
	}
	if err := g.holdToQuotas(ctx, tx); err != nil {
		return err
	}
	var all []schedule.Change
	var touched []schedule.ExpectationID
	for i, changes := range g.changes {
		if all = append(all, changes...); len(changes) > 0 {
			touched = append(touched, g.touched[i]...)
		}
	}
	if len(all) == 0 {
		return nil
	}
	known := make(map[string]bool, len(g.rows))
	for id := range g.rows {
		known[id] = true
	}
	if err := writeChanges(ctx, tx, all, known); err != nil {
		return err
	}
	return wakeExpectations(ctx, tx, touched, all[0].Now)
}

// chooseCalls takes one call for each schedule, of calls with a live context.
func (g *group) chooseCalls() {
	chosen := make(map[string]bool, len(g.calls))
	for i := range g.calls {
		c := &g.calls[i]
		id := c.req.ScheduleIDs[0]
		switch err := c.ctx.Err(); {
		case err != nil:
			g.answers[i].err = fmt.Errorf("change schedules: %w", err)
		case chosen[id]:
			g.answers[i].alone = true
		default:
			chosen[id] = true
			g.ids = append(g.ids, id)
		}
	}
}

// lockFree locks the rows that no other transaction has locked, and reads the requested
// grants.
func (g *group) lockFree(ctx context.Context, tx pgx.Tx) (map[schedule.GrantRef]*schedule.Grant, error) {
	rows, err := collectSchedules(ctx, tx, sqlGroupLock, g.ids)
	if err != nil {
		return nil, fmt.Errorf("lock schedules: %w", err)
	}
	g.rows, g.taken = byID(rows), make(map[string]bool)
	var id string
	var missing []string
	var refs []schedule.GrantRef
	for _, id := range g.ids {
		if g.rows[id] == nil {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		err := each(ctx, tx, []any{&id}, func() error {
			g.taken[id] = true
			return nil
		}, sqlGroupThere, missing)
		if err != nil {
			return nil, fmt.Errorf("look for locked schedules: %w", err)
		}
	}
	if err := attachPlanned(ctx, tx, g.rows); err != nil {
		return nil, err
	}
	for i := range g.calls {
		refs = append(refs, g.calls[i].req.GrantRefs...)
	}
	return dialect.ReadGrants(ctx, queries{tx}, refs)
}

// ask lets one call decide. A panic is raised again in that call only.
func (g *group) ask(i int, grants map[schedule.GrantRef]*schedule.Grant) {
	c := &g.calls[i]
	id := c.req.ScheduleIDs[0]
	g.answers[i].alone = true
	if g.taken[id] {
		return
	}
	defer func() {
		if recover() != nil {
			g.answers[i], g.changes[i] = changeAnswer{alone: true}, nil
		}
	}()
	inputs := []schedule.ChangeInput{{Schedule: g.rows[id]}}
	c.req.AttachGrants(inputs, grants)
	changes, touched, err := schedule.Decide(inputs, c.decide)
	g.answers[i] = changeAnswer{err: err}
	if err == nil {
		g.changes[i], g.touched[i] = changes, touched
	}
}

// holdToQuotas refuses calls that exceed an owner's quota. Unlike checkQuotas it counts
// before the writes, so that refused changes are not written; each call is counted with
// those before it.
func (g *group) holdToQuotas(ctx context.Context, tx pgx.Tx) error {
	var creating []schedule.Change
	for i, changes := range g.changes {
		if g.calls[i].req.OwnerLimit > 0 {
			creating = append(creating, changes...)
		}
	}
	owners := schedule.Creators(creating)
	if len(owners) == 0 {
		return nil
	}
	living, err := countLiving(ctx, tx, owners)
	if err != nil {
		return err
	}
	for i, changes := range g.changes {
		grown := make(map[string]int)
		for j := range changes {
			grown[ownerOf(&changes[j])] += g.growth(&changes[j])
		}
		for _, owner := range schedule.Creators(changes) {
			if err := schedule.CheckQuota(owner, living[owner]+grown[owner], g.calls[i].req.OwnerLimit); err != nil {
				g.answers[i].err, g.changes[i], grown = err, nil, nil
				break
			}
		}
		for owner, n := range grown {
			living[owner] += n
		}
	}
	return nil
}

func ownerOf(c *schedule.Change) string {
	if c.Row == nil {
		return ""
	}
	return c.Row.UserID
}

// growth returns by how many schedules a change raises the owner's number.
func (g *group) growth(c *schedule.Change) int {
	if c.Row == nil {
		return 0
	}
	was := g.rows[c.ScheduleID]
	switch alive := was != nil && was.Alive(); {
	case alive && !c.Row.Alive():
		return -1
	case !alive && c.Row.Alive():
		return 1
	}
	return 0
}
