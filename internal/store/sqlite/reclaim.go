package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// Reclaim takes LAUNCHING rows that are to be sent again: of other epochs at
// once, of this one after claimed_until, as far as their owners have room.
func (s *Store) Reclaim(ctx context.Context, req schedule.ReclaimRequest) ([]schedule.Launch, error) {
	var launches []schedule.Launch
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		launches = nil
		if err := fence(ctx, t, req.Term); err != nil {
			return err
		}
		runs, err := readReclaimable(ctx, t, &req)
		if err != nil || len(runs) == 0 {
			return err
		}
		ids := make([]revision.ID, len(runs))
		for i := range runs {
			ids[i] = revision.Of(&runs[i])
		}
		definitions, err := s.definitionsOf(ctx, t, ids)
		if err != nil {
			return err
		}
		for i := range runs {
			r, definition := runs[i], definitions[ids[i]]
			r.Epoch, r.ClaimedUntil, r.UpdatedAt = req.Term.Epoch, req.Now.Add(req.Lease), req.Now
			_, err := t.exec(ctx, sqlReclaim, r.Epoch, r.ClaimedUntil.UnixMicro(), r.UpdatedAt.UnixMicro(), keyArg(r.Key))
			if err != nil {
				return fmt.Errorf("run %s: %w", r.Key, err)
			}
			if definition == nil { // was readable when it was claimed; its timeout ends it
				s.log.Error("definition unreadable", "schedule_id", r.ScheduleID, "revision", r.Revision, "key", r.Key)
				continue
			}
			launches = append(launches, schedule.Launch{Run: r, Definition: definition, Again: true})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reclaim runs: %w", err)
	}
	return launches, nil
}

func readReclaimable(ctx context.Context, t tx, req *schedule.ReclaimRequest) ([]schedule.Run, error) {
	first, last := req.Term.Buckets()
	window, limit := []any{req.Term.Epoch, req.Now.UnixMicro(), first, last}, max(req.Limit, 0)
	var rooms [][2]any
	err := t.query(ctx, sqlReclaimOwners, func(scan scan) error {
		var owner string
		err := scan(&owner)
		room := limit
		if req.Room != nil {
			room = min(max(req.Room(owner), 0), room)
		}
		rooms = append(rooms, [2]any{owner, room})
		return err
	}, window...)
	if err != nil || len(rooms) == 0 {
		return nil, err
	}
	arg, err := json.Marshal(rooms)
	if err != nil {
		return nil, fmt.Errorf("write the rooms of owners: %w", err)
	}
	return readRuns(ctx, t, sqlReclaimable, append(window, limit, string(arg))...)
}

// CancelsDue are runs in flight whose cancel was asked for, oldest first.
func (s *Store) CancelsDue(ctx context.Context, term schedule.Term, limit int) ([]schedule.Run, error) {
	first, last := term.Buckets()
	runs, err := readRuns(ctx, s.readers, sqlCancelsDue, limitOf(limit), first, last)
	if err != nil {
		return nil, fmt.Errorf("read cancels: %w", err)
	}
	return runs, nil
}
