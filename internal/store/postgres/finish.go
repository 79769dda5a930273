package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Finish records definite outcomes and returns the valid ones; see launcher.Store.
func (s *Store) Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) ([]schedule.Outcome, error) {
	if len(done) == 0 {
		return nil, nil
	}
	var standing map[schedule.Key]schedule.Outcome
	err := s.transact(ctx, func(tx pgx.Tx) error {
		f := finishing{now: now, standing: make(map[schedule.Key]schedule.Outcome, len(done))}
		standing = f.standing
		return f.record(ctx, tx, oncePerKey(done))
	})
	if err != nil {
		return nil, fmt.Errorf("finish: %w", err)
	}
	outcomes := make([]schedule.Outcome, len(done))
	for i := range done {
		outcomes[i] = standing[done[i].Key]
	}
	return outcomes, nil
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
	standing map[schedule.Key]schedule.Outcome
}

func (f *finishing) record(ctx context.Context, tx pgx.Tx, done []schedule.FinishRequest) error {
	recorded, err := keysOf(ctx, tx, sqlFinish, f.args(done)...)
	if err != nil {
		return err
	}
	var late []schedule.FinishRequest
	for i := range done {
		if !recorded[done[i].Key] {
			late = append(late, done[i])
		}
		f.standing[done[i].Key] = done[i].Outcome
	}
	if len(late) == 0 {
		return nil
	}
	return f.supersede(ctx, tx, late)
}

// supersede handles keys that are DONE already: their first outcome stays, or is replaced
// together with the end of the run.
func (f *finishing) supersede(ctx context.Context, tx pgx.Tx, late []schedule.FinishRequest) error {
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
	var ends []schedule.FinishRequest
	var settlements []schedule.Settlement
	for i := range late {
		first, known := there[late[i].Key]
		switch {
		case !known:
		case late[i].Outcome.Supersedes(first):
			ends, settlements = append(ends, late[i]), append(settlements, ledger.SettlementOfOutcome(&late[i], f.now))
		default:
			f.standing[late[i].Key] = first
		}
	}
	if len(ends) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, sqlFinishSuperseded, f.args(ends)...); err != nil {
		return err
	}
	_, err = settleAndWake(ctx, tx, f.now, settlements)
	return err
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
