package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// Reclaim hands out LAUNCHING rows again: those of older epochs at once, those
// of this one after claimed_until, as far as their owners have room.
func (s *Store) Reclaim(ctx context.Context, req schedule.ReclaimRequest) ([]schedule.Launch, error) {
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
	slices.SortFunc(launches, func(a, b schedule.Launch) int { return byLaunch(&a.Run, &b.Run) })
	return launches, nil
}

func (s *Store) reclaim(ctx context.Context, tx pgx.Tx, req *schedule.ReclaimRequest) ([]schedule.Run, error) {
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
	runs, _, err := s.runsReturned(ctx, tx, sqlReclaim, append(window, req.Now.Add(req.Lease), req.Limit, owners, rooms)...)
	return runs, err
}

// byLaunch orders runs that are due as claims do.
func byLaunch(a, b *schedule.Run) int {
	return cmp.Or(schedule.Last(a.Trigger.AfterOthers(), b.Trigger.AfterOthers()), cmp.Compare(b.Priority, a.Priority), schedule.ByFireAt(a, b))
}

// runsReturned runs a statement that returns runColumns; the rest of a run comes
// from its definition. A row that cannot be read as a run is only named.
func (s *Store) runsReturned(ctx context.Context, tx pgx.Tx, statement string, args ...any) (runs []schedule.Run, unreadable []schedule.Key, err error) {
	var row runRow
	err = each(ctx, tx, row.targets(), func() error {
		run, err := row.run()
		if err != nil {
			s.log.ErrorContext(ctx, "run unreadable", "key", run.Key, "schedule_id", run.ScheduleID, "err", err)
			unreadable = append(unreadable, run.Key)
			return nil
		}
		runs = append(runs, run)
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

// CancelsDue are runs in flight whose cancel was asked for, oldest first.
func (s *Store) CancelsDue(ctx context.Context, term schedule.Term, limit int) ([]schedule.Run, error) {
	first, last := term.Buckets()
	runs, err := collectRuns(ctx, s.pool, sqlCancelsDue, limit, first, last)
	if err != nil {
		return nil, fmt.Errorf("list cancels: %w", err)
	}
	return runs, nil
}
