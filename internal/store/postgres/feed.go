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
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// FeedBackfills gives open backfills to feeder and writes its decisions: the position in
// the range and the inserted rows are durable together. A read of an index, without a
// transaction, comes first, because mostly no backfill is open. See worker.BackfillStore.
func (s *Store) FeedBackfills(ctx context.Context, req schedule.FeedRequest, feeder schedule.BackfillFeeder) (schedule.FeedResult, error) {
	any := false
	first, last := req.Term.Buckets()
	if err := s.pool.QueryRow(ctx, sqlFeedAny, first, last).Scan(&any); err != nil {
		return schedule.FeedResult{}, fmt.Errorf("look for backfills: %w", err)
	}
	if !any {
		return schedule.FeedResult{}, nil
	}
	return s.feedBackfills(ctx, req, feeder)
}

func (s *Store) feedBackfills(ctx context.Context, req schedule.FeedRequest, feeder schedule.BackfillFeeder) (schedule.FeedResult, error) {
	var out schedule.FeedResult
	err := s.fenced(ctx, req.Term, func(tx pgx.Tx) error {
		out = schedule.FeedResult{}
		low, high := req.Term.Buckets()
		candidates, err := s.feedCandidates(ctx, tx, req, &out)
		if err != nil || len(candidates) == 0 {
			return err
		}
		for i := range candidates {
			c := &candidates[i]
			c.Slots = feeder.Window(c)
			if c.SlotStates, err = dialect.SlotStates(ctx, queries{tx}, c.Backfill.ScheduleID, c.Slots); err != nil {
				return err
			}
		}
		pending := 0
		if err := tx.QueryRow(ctx, sqlFeedPending, low, high).Scan(&pending); err != nil {
			return fmt.Errorf("count what is under way: %w", err)
		}
		out.Decisions = feeder.Decide(candidates, pending)
		for i := range out.Decisions {
			d := &out.Decisions[i]
			inserted, err := writeFeed(ctx, tx, d, req)
			if err != nil {
				return fmt.Errorf("backfill %s: %w", d.Backfill.BackfillID, err)
			}
			out.Inserted += inserted
			out.More = out.More || d.More
		}
		return nil
	})
	if err != nil {
		return schedule.FeedResult{}, fmt.Errorf("feed backfills: %w", err)
	}
	return out, nil
}

// feedCandidates locks schedules, then backfills. It leaves out backfills with a locked
// schedule.
func (s *Store) feedCandidates(ctx context.Context, tx pgx.Tx, req schedule.FeedRequest, out *schedule.FeedResult) ([]schedule.BackfillCandidate, error) {
	var (
		id, scheduleID string
		scheduleIDs    []string
		of             = make(map[string][]string) // schedule → backfills
		low, high      = req.Term.Buckets()
	)
	err := each(ctx, tx, []any{&id, &scheduleID}, func() error {
		out.Candidates++
		scheduleIDs = append(scheduleIDs, scheduleID)
		of[scheduleID] = append(of[scheduleID], id)
		return nil
	}, sqlFeedBackfills, low, high, req.Limit)
	if err != nil || out.Candidates == 0 {
		return nil, err
	}
	locked, err := collectSchedules(ctx, tx, sqlFeedSchedules, scheduleIDs)
	if err != nil {
		return nil, fmt.Errorf("lock schedules: %w", err)
	}
	schedules := byID(locked)
	err = each(ctx, tx, []any{&scheduleID}, func() error {
		if schedules[scheduleID] == nil {
			delete(of, scheduleID)
		}
		return nil
	}, sqlFeedHeld, scheduleIDs)
	if err != nil {
		return nil, fmt.Errorf("look for schedules that others hold: %w", err)
	}
	var ids []string
	for _, backfills := range of {
		ids = append(ids, backfills...)
	}
	slices.Sort(ids)
	rows, err := tables.Backfills(ctx, queries{tx}, sqlLockBackfills, ids)
	if err != nil {
		return nil, fmt.Errorf("lock backfills: %w", err)
	}
	candidates := make([]schedule.BackfillCandidate, len(rows))
	for i := range rows {
		candidates[i] = schedule.BackfillCandidate{Backfill: rows[i], Schedule: schedules[rows[i].ScheduleID]}
	}
	return candidates, s.attachFeed(ctx, tx, candidates, ids, req)
}

// attachFeed adds the other facts that decisions on backfills need.
func (s *Store) attachFeed(ctx context.Context, tx pgx.Tx, candidates []schedule.BackfillCandidate, ids []string, req schedule.FeedRequest) error {
	at := make(map[string]*schedule.BackfillCandidate, len(candidates))
	refs := make(map[revision.ID]struct{})
	for i := range candidates {
		b := &candidates[i].Backfill
		at[b.BackfillID] = &candidates[i]
		refs[revision.ID{ScheduleID: b.ScheduleID, Revision: b.Revision}] = struct{}{}
	}
	definitions, err := s.definitionsOf(ctx, tx, refs)
	if err != nil {
		return err
	}
	runs, err := collectRuns(ctx, tx, sqlFeedRuns, ids)
	if err != nil {
		return fmt.Errorf("read their runs: %w", err)
	}
	byKey := make(map[schedule.Key]*schedule.Run, len(runs))
	for i := range runs {
		byKey[runs[i].Key] = &runs[i]
	}
	var (
		id    string
		runAt time.Time
		raw   []byte
	)
	err = each(ctx, tx, []any{&id, &runAt, &raw}, func() error {
		key := schedule.Key(raw)
		at[id].Unsettled = append(at[id].Unsettled, schedule.BackfillSlot{RunAt: runAt.UTC(), Key: key, Run: byKey[key]})
		return nil
	}, sqlFeedSlots, ids)
	if err != nil {
		return fmt.Errorf("read their slots: %w", err)
	}
	for i := range candidates {
		c := &candidates[i]
		c.Definition = definitions[revision.ID{ScheduleID: c.Backfill.ScheduleID, Revision: c.Backfill.Revision}]
		if !c.Backfill.OverlapPolicy.Exclusive() {
			continue
		}
		var group ledger.GroupNow
		var next pgtype.Timestamptz
		if err := tx.QueryRow(ctx, sqlFeedGroup, c.Backfill.OverlapKey).Scan(&group.Occupied, &next); err != nil {
			return fmt.Errorf("read the overlap group %s: %w", c.Backfill.OverlapKey, err)
		}
		group.NextFireAt = next.Time
		c.Busy = group.BusyUntil(req.Now.Add(req.Ahead))
	}
	return nil
}

func writeFeed(ctx context.Context, tx pgx.Tx, d *schedule.BackfillDecision, req schedule.FeedRequest) (inserted int, err error) {
	type slot = schedule.BackfillSlot
	b := &d.Backfill
	if err := dialect.PutBackfill(ctx, queries{tx}, b, req.Now); err != nil {
		return 0, err
	}
	if len(d.Slots) > 0 {
		_, err := tx.Exec(ctx, sqlFeedWrite, b.BackfillID, column(d.Slots, func(s *slot) time.Time { return s.RunAt }),
			column(d.Slots, func(s *slot) []byte { return s.Key[:] }), column(d.Slots, func(s *slot) bool { return s.Settled }))
		if err != nil {
			return 0, fmt.Errorf("note slots: %w", err)
		}
	}
	if inserted, err = insertRuns(ctx, tx, d.Rows, req.Now); err != nil {
		return 0, err
	}
	return inserted, insertEvents(ctx, tx, d.Events)
}
