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
)

// Reclaim hands out LAUNCHING rows again: those of older epochs at once, those
// of this one after claimed_until, as far as their owners have room.
func (s *Store) Reclaim(ctx context.Context, req schedule.ClaimRequest) ([]schedule.Launch, error) {
	var launches []schedule.Launch
	err := s.fenced(ctx, req.Term, func(tx pgx.Tx) error {
		launches = nil
		runs, err := s.reclaim(ctx, tx, &req)
		if err != nil || len(runs) == 0 {
			return err
		}
		definitions, err := s.definitionsOf(ctx, tx, revisionsOf(runs))
		if err != nil {
			return err
		}
		for i := range runs {
			definition := definitions[revision.Of(&runs[i])]
			if definition == nil { // nothing to send; a sweep ends it
				s.log.ErrorContext(ctx, "revision missing", "key", runs[i].Key, "schedule_id", runs[i].ScheduleID, "revision", runs[i].Revision)
				continue
			}
			launches = append(launches, schedule.Launch{Run: runs[i], Definition: definition, Again: true})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reclaim runs: %w", err)
	}
	order := claimOrderAt(req.Now)
	slices.SortFunc(launches, func(a, b schedule.Launch) int { return order(turnOf(&a.Run), turnOf(&b.Run)) })
	return launches, nil
}

func (s *Store) reclaim(ctx context.Context, tx pgx.Tx, req *schedule.ClaimRequest) ([]schedule.Run, error) {
	first, last := req.Term.Buckets()
	window := []any{req.Term.Epoch, req.Now, first, last}
	var (
		owner  string
		owners pgtype.FlatArray[string]
		rooms  pgtype.FlatArray[int32]
	)
	err := each(ctx, tx, []any{&owner}, func() error {
		room := req.Limit
		if req.Room != nil {
			room = min(max(req.Room(owner), 0), room)
		}
		owners, rooms = append(owners, owner), append(rooms, int32(room))
		return nil
	}, sqlReclaimOwners, window...)
	if err != nil || len(owners) == 0 {
		return nil, err
	}
	return s.runsReturned(ctx, tx, sqlReclaim, append(window, req.Now.Add(req.Lease), req.Limit, owners, rooms)...)
}

// runsReturned runs a statement that returns runColumns; the rest of a run comes
// from its definition. A run that cannot be read is left out: a sweep ends it.
func (s *Store) runsReturned(ctx context.Context, tx pgx.Tx, statement string, args ...any) ([]schedule.Run, error) {
	var (
		row  runRow
		runs []schedule.Run
	)
	err := each(ctx, tx, row.targets(), func() error {
		run, err := row.run()
		if err != nil {
			s.log.ErrorContext(ctx, "run unreadable", "key", run.Key, "schedule_id", run.ScheduleID, "err", err)
			return nil
		}
		runs = append(runs, run)
		return nil
	}, statement, args...)
	if err != nil {
		return nil, err
	}
	definitions, err := s.definitionsOf(ctx, tx, revisionsOf(runs))
	if err != nil {
		return nil, err
	}
	for i := range runs {
		identify(&runs[i], definitions[revision.Of(&runs[i])])
	}
	return runs, nil
}

// NextFireAt is the earliest fire_at later than now of what is planned and does
// not wait; zero = none.
func (s *Store) NextFireAt(ctx context.Context, term schedule.Term, now time.Time) (time.Time, error) {
	first, last := term.Buckets()
	var next time.Time
	err := s.pool.QueryRow(ctx, sqlNextFireAt, now, first, last).Scan(&next)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("find the next fire time: %w", err)
	}
	return next.UTC(), nil
}

// CancelsDue are runs in flight whose cancel was asked for, oldest first.
func (s *Store) CancelsDue(ctx context.Context, term schedule.Term, limit int) ([]schedule.Run, error) {
	first, last := term.Buckets()
	runs, err := collectRuns(ctx, s.pool, sqlCancelsDue, limit, first, last)
	if err != nil {
		return nil, fmt.Errorf("list cancels: %w", err)
	}
	return runs, nil
}

// Gauges are the ledger's own counts for the term's shard.
func (s *Store) Gauges(ctx context.Context, term schedule.Term, now time.Time) (schedule.Gauges, error) {
	first, last := term.Buckets()
	var g schedule.Gauges
	if err := s.pool.QueryRow(ctx, sqlGauges, now, first, last).Scan(&g.InFlight, &g.Waiting, &g.Due); err != nil {
		return schedule.Gauges{}, fmt.Errorf("count runs: %w", err)
	}
	return g, nil
}
