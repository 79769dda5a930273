package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Finish settles the runs of keys with definite answers; see launcher.Store.
func (s *Store) Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) ([]schedule.Finished, error) {
	if len(done) == 0 {
		return nil, nil
	}
	finished := make([]schedule.Finished, len(done))
	err := s.transact(ctx, func(tx pgx.Tx) error { return finish(ctx, tx, done, finished, now) })
	if err != nil {
		return nil, fmt.Errorf("finish: %w", err)
	}
	return finished, nil
}

func finish(ctx context.Context, tx pgx.Tx, done []schedule.FinishRequest, finished []schedule.Finished, now time.Time) error {
	keys := make([]schedule.Key, len(done))
	failed := false
	for i := range done {
		keys[i] = done[i].Key
		failed = failed || done[i].Outcome.Status == schedule.StatusFailed
	}
	open, err := lockSettled(ctx, tx, keys, failed)
	if err != nil {
		return err
	}
	var (
		moved []*openRow
		wake  = make(map[*openRow]bool)
		rest  []int // in done
	)
	for i := range done {
		f, r := &done[i], open[done[i].Key]
		switch {
		case r == nil:
			rest = append(rest, i)
		case !ledger.MayAnswer(&r.Run, &f.Outcome):
			finished[i] = schedule.Finished{Outcome: ledger.OutcomeOf(&r.Run)}
		default:
			if !r.moved {
				moved = append(moved, r)
			}
			s := ledger.SettlementOf(&r.Run, f, now)
			finished[i] = schedule.Finished{Outcome: f.Outcome, Settled: r.settle(&s, now)}
			if f.WakeLeader {
				wake[r] = true
			}
		}
	}
	ended, err := writeMoved(ctx, tx, moved, now)
	if err != nil {
		return err
	}
	var waking []*openRow
	for _, r := range ended {
		if wake[r] {
			waking = append(waking, r)
		}
	}
	wakeLeaders(tx, waking)
	return finishRest(ctx, tx, done, rest, finished, now)
}

// finishRest answers for keys whose run has ended, or that the ledger does not have.
func finishRest(ctx context.Context, tx pgx.Tx, done []schedule.FinishRequest, rest []int, finished []schedule.Finished, now time.Time) error {
	if len(rest) == 0 {
		return nil
	}
	keys := make([]schedule.Key, len(rest))
	for i, at := range rest {
		keys[i] = done[at].Key
	}
	runs, err := collectRuns(ctx, tx, sqlEndedRuns, keyBytes(keys))
	if err != nil {
		return fmt.Errorf("read ended runs: %w", err)
	}
	ended := make(map[schedule.Key]*schedule.Run, len(runs))
	for i := range runs {
		ended[runs[i].Key] = &runs[i]
	}
	var (
		events  []schedule.Event
		outside []schedule.FinishRequest
		places  []int
	)
	for _, at := range rest {
		r := ended[done[at].Key]
		if r == nil {
			outside, places = append(outside, done[at]), append(places, at)
			continue
		}
		finished[at] = schedule.Finished{Outcome: ledger.OutcomeOf(r)}
		if event, late := ledger.LateAnswer(r, &done[at].Outcome, now); late {
			events = append(events, event)
		}
	}
	if err := insertEvents(ctx, tx, events); err != nil || len(outside) == 0 {
		return err
	}
	outcomes, err := finishRecords(ctx, tx, outside, now)
	if err != nil {
		return err
	}
	for i, at := range places {
		finished[at] = schedule.Finished{Outcome: outcomes[i]}
	}
	return nil
}
