package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// The limits of backfills, so that on-time slots go first.
const (
	feedBatch   = 50   // backfills in one transaction
	feedPortion = 1000 // slots of each backfill in one transaction
	feedPasses  = 10   // transactions in one pass
	// feedGap is the shortest time between two passes, however many runs end.
	feedGap = 50 * time.Millisecond
	// feedClear is how long an overlap key must stay free before a slot is inserted.
	feedClear = 250 * time.Millisecond
	// feedPart: all backfills together have at most 1/feedPart of the launches.
	feedPart = 4
)

// feedLoop inserts the slots of backfills in portions, at each tick and when a run has
// ended. Planning never waits for it.
func (t *term) feedLoop(ctx context.Context) {
	if t.Backfills == nil {
		return
	}
	ticker := time.NewTicker(t.cfg.Tick)
	defer ticker.Stop()
	for busy := false; ; {
		wake := t.feedWake
		if !busy {
			wake = nil // nothing to feed: the tick is soon enough
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
			drain(t.feedWake) // the ticker and a wake-up at once: one pass is enough
		case <-wake:
			if !drain(ticker.C) {
				pause(ctx, feedGap)
			}
		}
		if ctx.Err() != nil {
			return
		}
		busy = t.feed(ctx)
	}
}

// drain removes a pending value and reports whether there was one.
func drain[T any](pending <-chan T) bool {
	select {
	case <-pending:
		return true
	default:
		return false
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// feed inserts slots of open backfills and reports whether there are any.
func (t *term) feed(ctx context.Context) (any bool) {
	for range feedPasses {
		began := time.Now()
		result, err := t.feedOnce()
		t.Metrics.step("feed", began, err)
		if err != nil {
			t.failed(ctx, "feed", err)
			return true
		}
		any = any || result.Candidates > 0
		t.fed(&result)
		if !result.More && result.Candidates < feedBatch || ctx.Err() != nil {
			break
		}
	}
	return any
}

func (t *term) feedOnce() (schedule.FeedResult, error) {
	ctx, cancel := t.storeContext()
	defer cancel()
	now := t.now()
	// A slot of an exclusive schedule is inserted only if its overlap key stays free for a
	// moment: on-time slots go first.
	req := schedule.FeedRequest{Term: t.Term, Now: now, Ahead: feedClear, Limit: feedBatch}
	feeder := plan.Feeder(now, plan.FeedConfig{Ahead: t.cfg.Tick, Portion: feedPortion, Pending: max(1, t.cfg.MaxLaunches/feedPart)})
	result, err := t.Backfills.FeedBackfills(ctx, req, feeder)
	if result.Candidates > 0 {
		failpoint.Hit(failpoint.Planned)
	}
	return result, err
}

// fed logs the events of a feed transaction.
func (t *term) fed(result *schedule.FeedResult) {
	for i := range result.Decisions {
		d := &result.Decisions[i]
		for _, e := range d.Events {
			level := slog.LevelInfo
			if e.Kind == schedule.EventBackfillPaused {
				level = slog.LevelWarn
			}
			t.log.Log(context.Background(), level, "schedule event", "schedule_id", e.ScheduleID, "kind", string(e.Kind),
				"backfill_id", d.Backfill.BackfillID, "reason", string(e.Reason), "count", e.Count, "note", e.Note)
		}
	}
	if result.Inserted > 0 {
		t.wakeUp()
	}
}
