package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// FeedBackfills gives open backfills to feeder and writes its decisions: the position in
// the range and the inserted rows are durable together. A read of an index comes first,
// because mostly no backfill is open, so that it does not hold up writers.
func (s *Store) FeedBackfills(ctx context.Context, req schedule.FeedRequest, feeder schedule.BackfillFeeder) (schedule.FeedResult, error) {
	any := false
	first, last := req.Term.Buckets()
	if err := s.readers.query(ctx, sqlFeedAny, func(scan scan) error { return scan(&any) }, first, last); err != nil {
		return schedule.FeedResult{}, fmt.Errorf("look for backfills: %w", err)
	}
	if !any {
		return schedule.FeedResult{}, nil
	}
	return s.feedBackfills(ctx, req, feeder)
}

func (s *Store) feedBackfills(ctx context.Context, req schedule.FeedRequest, feeder schedule.BackfillFeeder) (schedule.FeedResult, error) {
	var out schedule.FeedResult
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		out = schedule.FeedResult{}
		if err := fence(ctx, t, req.Term); err != nil {
			return err
		}
		candidates, err := s.feedCandidates(ctx, t, req, feeder)
		if err != nil || len(candidates) == 0 {
			return err
		}
		out.Candidates = len(candidates)
		pending := 0
		first, last := req.Term.Buckets()
		if err := t.query(ctx, sqlFeedPending, func(scan scan) error { return scan(&pending) }, first, last); err != nil {
			return fmt.Errorf("count what is under way: %w", err)
		}
		out.Decisions = feeder.Decide(candidates, pending)
		for i := range out.Decisions {
			d := &out.Decisions[i]
			inserted, err := writeFeed(ctx, t, d, req)
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

func (s *Store) feedCandidates(ctx context.Context, t tx, req schedule.FeedRequest, feeder schedule.BackfillFeeder) ([]schedule.BackfillCandidate, error) {
	first, last := req.Term.Buckets()
	rows, err := tables.Backfills(ctx, queries{t}, sqlFeedBackfills, first, last, req.Limit)
	if err != nil {
		return nil, fmt.Errorf("read backfills: %w", err)
	}
	candidates := make([]schedule.BackfillCandidate, len(rows))
	for i := range rows {
		c := &candidates[i]
		c.Backfill = rows[i]
		if err := s.attachFeed(ctx, t, c, req); err != nil {
			return nil, fmt.Errorf("backfill %s: %w", c.Backfill.BackfillID, err)
		}
		c.Slots = feeder.Window(c)
		if c.SlotStates, err = dialect.SlotStates(ctx, queries{t}, c.Backfill.ScheduleID, c.Slots); err != nil {
			return nil, fmt.Errorf("backfill %s: %w", c.Backfill.BackfillID, err)
		}
	}
	return candidates, nil
}

// attachFeed adds the other facts that a decision on a backfill needs.
func (s *Store) attachFeed(ctx context.Context, t tx, c *schedule.BackfillCandidate, req schedule.FeedRequest) error {
	b := &c.Backfill
	found, err := readSchedules(ctx, t, sqlGetSchedule, b.ScheduleID)
	if err != nil {
		return fmt.Errorf("read schedule: %w", err)
	}
	if len(found) == 1 {
		c.Schedule = &found[0].Schedule
	}
	id := revision.ID{ScheduleID: b.ScheduleID, Revision: b.Revision}
	definitions, err := s.definitionsOf(ctx, t, []revision.ID{id})
	if err != nil {
		return err
	}
	c.Definition = definitions[id]
	runs, err := readRuns(ctx, t, sqlFeedRuns, b.BackfillID)
	if err != nil {
		return fmt.Errorf("read its runs: %w", err)
	}
	byKey := make(map[schedule.Key]*schedule.Run, len(runs))
	for i := range runs {
		byKey[runs[i].Key] = &runs[i]
	}
	var runAt instant
	var of key
	err = t.query(ctx, sqlFeedSlots, func(scan scan) error {
		if err := scan(&runAt, &of); err != nil {
			return err
		}
		c.Unsettled = append(c.Unsettled, schedule.BackfillSlot{RunAt: runAt.Time, Key: schedule.Key(of), Run: byKey[schedule.Key(of)]})
		return nil
	}, b.BackfillID)
	if err != nil || !b.OverlapPolicy.Exclusive() {
		return err
	}
	return t.query(ctx, sqlFeedGroup, func(scan scan) error {
		var occupied flag
		var next instant
		err := scan(&occupied, &next)
		c.Busy = ledger.GroupNow{Occupied: bool(occupied), NextFireAt: next.Time}.BusyUntil(req.Now.Add(req.Ahead))
		return err
	}, b.OverlapKey)
}

func writeFeed(ctx context.Context, t tx, d *schedule.BackfillDecision, req schedule.FeedRequest) (inserted int, err error) {
	b := &d.Backfill
	if err := dialect.PutBackfill(ctx, queries{t}, b, req.Now); err != nil {
		return 0, err
	}
	for _, slot := range d.Slots {
		if _, err := t.exec(ctx, sqlFeedWrite, b.BackfillID, slot.RunAt.UnixMicro(), keyArg(slot.Key), slot.Settled); err != nil {
			return 0, fmt.Errorf("note slot %s: %w", slot.RunAt, err)
		}
	}
	if inserted, err = insertRuns(ctx, t, d.Rows, req.Now); err != nil {
		return 0, err
	}
	return inserted, t.insertEvents(ctx, b.ScheduleID, d.Events, req.Now)
}
