package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Finish records definite outcomes and settles the runs of their keys; see launcher.Store.
func (s *Store) Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) ([]schedule.Finished, error) {
	if len(done) == 0 {
		return nil, nil
	}
	var f finishing
	err := s.transact(ctx, func(tx pgx.Tx) error {
		f = finishing{now: now, finished: make(map[schedule.Key]schedule.Finished, len(done))}
		return f.record(ctx, tx, oncePerKey(done))
	})
	if err != nil {
		return nil, fmt.Errorf("finish: %w", err)
	}
	finished := make([]schedule.Finished, len(done))
	for i := range done {
		finished[i] = f.finished[done[i].Key]
	}
	return finished, nil
}

// oncePerKey returns the valid outcome of each key, in order of keys.
func oncePerKey(done []schedule.FinishRequest) []schedule.FinishRequest {
	at := make(map[schedule.Key]int, len(done))
	var once []schedule.FinishRequest
	for _, f := range done {
		i, named := at[f.Key]
		switch {
		case !named:
			at[f.Key] = len(once)
			once = append(once, f)
		case f.Outcome.Supersedes(once[i].Outcome):
			once[i] = f
		}
	}
	slices.SortFunc(once, func(x, y schedule.FinishRequest) int { return slices.Compare(x.Key[:], y.Key[:]) })
	return once
}

// finishing is one open Finish.
type finishing struct {
	now      time.Time
	finished map[schedule.Key]schedule.Finished
}

func (f *finishing) record(ctx context.Context, tx pgx.Tx, done []schedule.FinishRequest) error {
	settlements := make(map[schedule.Key]settling, len(done))
	for i := range done {
		d := &done[i]
		settlements[d.Key] = settling{
			key: d.Key, of: func(r *schedule.Run) schedule.Settlement { return ledger.SettlementOf(r, d, f.now) },
			whole: needsWhole(d.Deliveries, d.Outcome.Status),
		}
		f.finished[d.Key] = schedule.Finished{Outcome: d.Outcome}
	}
	open, err := lockFor(ctx, tx, slices.Collect(maps.Values(settlements)))
	if err != nil {
		return err
	}
	recorded, err := keysOf(ctx, tx, sqlFinish, f.args(done)...)
	if err != nil {
		return err
	}
	var late []schedule.FinishRequest
	for i := range done {
		d := &done[i]
		if !recorded[d.Key] {
			late = append(late, *d)
		} else if r := open[d.Key]; d.Unsent && r != nil && r.Record != nil {
			r.Record.Calls-- // as sqlFinish has done
		}
	}
	if err := f.supersede(ctx, tx, late, settlements); err != nil {
		return err
	}
	return f.settle(ctx, tx, open, done, settlements)
}

// supersede handles keys that are DONE already: their first outcome stays, and their run
// does not change, or it is replaced.
func (f *finishing) supersede(ctx context.Context, tx pgx.Tx, late []schedule.FinishRequest, settlements map[schedule.Key]settling) error {
	if len(late) == 0 {
		return nil
	}
	var row requestRow
	there := make(map[schedule.Key]schedule.Outcome, len(late))
	key := func(f *schedule.FinishRequest) []byte { return f.Key[:] }
	err := each(ctx, tx, row.targets(), func() error {
		known, err := row.request()
		there[known.Key] = known.Outcome
		return err
	}, sqlFinishThere, column(late, key))
	if err != nil {
		return err
	}
	var superseding []schedule.FinishRequest
	for i := range late {
		first, known := there[late[i].Key]
		switch {
		case !known:
		case late[i].Outcome.Supersedes(first):
			superseding = append(superseding, late[i])
		default:
			f.finished[late[i].Key] = schedule.Finished{Outcome: first}
			delete(settlements, late[i].Key)
		}
	}
	if len(superseding) == 0 {
		return nil
	}
	_, err = tx.Exec(ctx, sqlFinishSuperseded, f.args(superseding)...)
	return err
}

// settle settles the runs of keys whose outcome was recorded just now.
func (f *finishing) settle(ctx context.Context, tx pgx.Tx, open map[schedule.Key]*openRow, done []schedule.FinishRequest, settlements map[schedule.Key]settling) error {
	var ordered []settling
	wake := make(map[schedule.Key]bool)
	for i := range done {
		if s, settles := settlements[done[i].Key]; settles {
			ordered = append(ordered, s)
			wake[s.key] = done[i].WakeLeader
		}
	}
	moved, ended, err := settleLocked(ctx, tx, f.now, open, ordered)
	if err != nil {
		return err
	}
	for i, s := range ordered {
		f.finished[s.key] = schedule.Finished{Outcome: f.finished[s.key].Outcome, Settled: moved[i]}
	}
	return wakeLeaders(ctx, tx, slices.DeleteFunc(ended, func(r *openRow) bool { return !wake[r.Key] }))
}

func (f *finishing) args(done []schedule.FinishRequest) []any {
	type finish = schedule.FinishRequest
	return []any{
		f.now,
		column(done, func(f *finish) []byte { return f.Key[:] }),
		column(done, func(f *finish) bool { return f.Outcome.OK() }),
		column(done, func(f *finish) pgtype.Text { return noneOrText(f.Outcome.Status) }),
		column(done, func(f *finish) pgtype.Text { return noneOrText(f.Outcome.Reason) }),
		column(done, func(f *finish) pgtype.Text { return noneOrText(f.Outcome.RunID) }),
		column(done, func(f *finish) pgtype.Text { return noneOrText(f.Outcome.TraceID) }),
		column(done, func(f *finish) pgtype.Text { return noneOrText(f.Outcome.ErrorCode) }),
		column(done, func(f *finish) pgtype.Text { return noneOrText(f.Outcome.ErrorMessage) }),
		column(done, func(f *finish) int32 {
			if f.Unsent {
				return 1
			}
			return 0
		}),
	}
}
