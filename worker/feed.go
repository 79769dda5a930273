package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// The pace of backfills: so many of them in one transaction, so many slots of
// each gone through, and so many transactions before the next look. What is on
// time has the rest.
const (
	feedBatch   = 50
	feedPortion = 1000
	feedPasses  = 10
	// feedGap is the least time between two looks, however many runs end.
	feedGap = 50 * time.Millisecond
	// feedClear is how long an overlap key must be free ahead.
	feedClear = 250 * time.Millisecond
	// feedPart: all backfills together have at most one in so many of the launches.
	feedPart = 4
)

// feedLoop puts the slots of backfills down, bit by bit: with every tick, and
// when a run has ended. It is apart from planning, which never waits for it.
func (t *term) feedLoop(ctx context.Context) {
	if t.Backfills == nil {
		return
	}
	ticker := time.NewTicker(t.cfg.Tick)
	defer ticker.Stop()
	for busy := false; ; {
		wake := t.hungry
		if !busy {
			wake = nil // nothing to feed: the tick is soon enough
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
			drain(t.hungry) // by both at once: one look is enough
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

// drain takes back what is pending, and reports whether anything was.
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

// feed looks at the backfills that are not done, and reports whether there are
// any.
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
	// A slot of an exclusive schedule is put down only where its overlap key will
	// be free for a moment: what is about to fire goes first.
	req := schedule.FeedRequest{Term: t.Term, Now: now, Ahead: feedClear, Limit: feedBatch}
	feeder := plan.Feeder(now, plan.FeedConfig{Ahead: t.cfg.Tick, Portion: feedPortion, Pending: max(1, t.cfg.MaxLaunches/feedPart)})
	result, err := t.Backfills.FeedBackfills(ctx, req, feeder)
	if result.Candidates > 0 {
		failpoint.Hit(failpoint.Planned)
	}
	return result, err
}

// fed logs what a feed transaction did.
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
