package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// Reclaim sends runs again; see worker.FireStore.
func (s *Store) Reclaim(ctx context.Context, req ledger.ReclaimRequest) (ledger.Reclaimed, error) {
	var out ledger.Reclaimed
	err := s.fenced(ctx, req.Term, func(tx pgx.Tx) error {
		out = ledger.Reclaimed{}
		runs, err := s.resend(ctx, tx, &req)
		if err != nil {
			return err
		}
		definitions, err := s.definitionsOf(ctx, tx, revisionsOf(runs))
		if err != nil {
			return err
		}
		missing := out.Add(&req, runs, func(r *schedule.Run) *schedule.Definition {
			d := definitions[revision.Of(r)]
			if d == nil {
				s.log.ErrorContext(ctx, "revision missing", "key", r.Key, "schedule_id", r.ScheduleID, "revision", r.Revision)
			}
			identify(r, d)
			return d
		})
		if len(missing) == 0 {
			return nil
		}
		named := &changesNamed{keys: make(map[schedule.Key]bool), ended: make(map[schedule.Key]bool)}
		for _, key := range missing {
			named.keys[key] = true
		}
		reader := claimReader{ctx: ctx, store: s, tx: tx, term: req.Term}
		if err := reader.readRuns(named, &out.Read, make(map[schedule.Key]bool)); err != nil {
			return fmt.Errorf("read runs that were not sent again: %w", err)
		}
		out.Read.Ended = slices.Collect(maps.Keys(named.ended))
		return nil
	})
	if err != nil {
		return ledger.Reclaimed{}, fmt.Errorf("reclaim runs: %w", err)
	}
	return out, nil
}

// resend writes which runs are sent again. It leaves out what cannot be read as a run.
func (s *Store) resend(ctx context.Context, tx pgx.Tx, req *ledger.ReclaimRequest) (runs []schedule.Run, err error) {
	rows, err := lockOpen(ctx, tx, sqlLockResent, keyBytes(req.Keys))
	if err != nil {
		return nil, err
	}
	if err := nameSchedules(ctx, tx, rows); err != nil {
		return nil, err
	}
	for _, r := range rows {
		if s.logUnreadable(ctx, r) {
			continue
		}
		if after, ok := req.Resend(r.Run); ok {
			runs = append(runs, after)
		}
	}
	if len(runs) == 0 {
		return nil, nil
	}
	_, err = tx.Exec(ctx, sqlResend, runs[0].Epoch, runs[0].ClaimedUntil, runs[0].UpdatedAt, column(runs, func(r *schedule.Run) []byte { return r.Key[:] }))
	if err != nil {
		return nil, fmt.Errorf("write what is sent again: %w", err)
	}
	return runs, nil
}

// runsReturned runs a statement that returns openColumns; the other fields of a run come
// from its definition. Of an unreadable row it returns only the key.
func (s *Store) runsReturned(ctx context.Context, tx pgx.Tx, statement string, args ...any) (runs []schedule.Run, unreadable []schedule.Key, err error) {
	var row openRow
	err = eachRun(ctx, tx, &row, runTargets(&row), func() error {
		if s.logUnreadable(ctx, &row) {
			unreadable = append(unreadable, row.Key)
			return nil
		}
		runs = append(runs, row.Run)
		return nil
	}, statement, args...)
	if err != nil {
		return nil, nil, err
	}
	definitions, err := s.definitionsOf(ctx, tx, revisionsOf(runs))
	if err != nil {
		return nil, nil, err
	}
	for i := range runs {
		identify(&runs[i], definitions[revision.Of(&runs[i])])
	}
	return runs, unreadable, nil
}

// CancelRequests reads runs whose cancel is requested; see worker.FireStore.
func (s *Store) CancelRequests(ctx context.Context, keys []schedule.Key) ([]schedule.Run, error) {
	runs, err := collectRuns(ctx, s.pool, sqlCancelRequests, keyBytes(keys))
	if err != nil {
		return nil, fmt.Errorf("read requested cancels: %w", err)
	}
	return runs, nil
}
