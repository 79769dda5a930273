package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// Settle moves runs forward, each where its status allows; moved[i] says
// whether the i-th did. Settlements of one run apply in their order.
func (s *Store) Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) ([]bool, error) {
	var moved []bool
	err := s.fenced(ctx, term, func(tx pgx.Tx) (err error) {
		moved, _, err = settleAll(ctx, tx, now, settlements)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("settle runs: %w", err)
	}
	return moved, nil
}

// SettleLaunched is Settle for a launcher, which leads nothing: only the status
// of each run says whether it moves.
func (s *Store) SettleLaunched(ctx context.Context, now time.Time, settlements []schedule.Settlement) ([]bool, error) {
	var moved []bool
	err := s.transact(ctx, func(tx pgx.Tx) (err error) {
		moved, err = settleAndWake(ctx, tx, now, settlements)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("settle launched runs: %w", err)
	}
	return moved, nil
}

// settleAndWake is for whoever is not the term: what ended concerns it.
func settleAndWake(ctx context.Context, tx pgx.Tx, now time.Time, settlements []schedule.Settlement) ([]bool, error) {
	moved, ended, err := settleAll(ctx, tx, now, settlements)
	if err != nil || len(ended) == 0 {
		return moved, err
	}
	return moved, wakeListeners(ctx, tx, ended...)
}

func settleAll(ctx context.Context, tx pgx.Tx, now time.Time, settlements []schedule.Settlement) (moved []bool, ended []schedule.Key, err error) {
	moved = make([]bool, len(settlements))
	for _, round := range rounds(settlements) {
		keys, err := settleRound(ctx, tx, now, round.settlements)
		if err != nil {
			return nil, nil, err
		}
		for i, st := range round.settlements {
			moved[round.places[i]] = keys[st.Key]
			if keys[st.Key] && st.To.Terminal() {
				ended = append(ended, st.Key)
			}
		}
	}
	return moved, ended, nil
}

// round is settlements of different runs, and their places in the whole.
type round struct {
	settlements []schedule.Settlement
	places      []int
}

// rounds parts settlements so that no statement names one run twice, each round
// sorted by key, the order in which rows are locked.
func rounds(settlements []schedule.Settlement) []round {
	var all []round
	seen := make(map[schedule.Key]int, len(settlements))
	order := make([]int, len(settlements))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return bytes.Compare(settlements[a].Key[:], settlements[b].Key[:])
	})
	for _, i := range order {
		n := seen[settlements[i].Key]
		seen[settlements[i].Key]++
		if n == len(all) {
			all = append(all, round{})
		}
		all[n].settlements = append(all[n].settlements, settlements[i])
		all[n].places = append(all[n].places, i)
	}
	return all
}

// settleRound settles different runs and returns the keys that moved.
func settleRound(ctx context.Context, tx pgx.Tx, now time.Time, settlements []schedule.Settlement) (map[schedule.Key]bool, error) {
	var forward, renewals []schedule.Settlement
	for _, st := range settlements {
		if st.To == schedule.StatusLaunching {
			renewals = append(renewals, st)
		} else {
			forward = append(forward, st)
		}
	}
	moved, err := moveForward(ctx, tx, now, forward)
	if err != nil {
		return nil, err
	}
	if len(renewals) == 0 {
		return moved, nil
	}
	type settlement = schedule.Settlement
	renewed, err := keysOf(ctx, tx, sqlSettleRenew, now,
		column(renewals, func(st *settlement) []byte { return st.Key[:] }),
		column(renewals, func(st *settlement) pgtype.Timestamptz { return noneOrTime(st.ClaimedUntil) }),
		column(renewals, func(st *settlement) pgtype.Text { return noneOrText(st.ErrorCode) }),
		column(renewals, func(st *settlement) pgtype.Text { return noneOrText(st.ErrorMessage) }),
		column(renewals, func(st *settlement) int32 { return st.Deliveries }),
		column(renewals, func(st *settlement) pgtype.Text {
			if st.Attempt == nil {
				return pgtype.Text{}
			}
			return noneOrText(st.Attempt.Text())
		}))
	if err != nil {
		return nil, fmt.Errorf("renew claims: %w", err)
	}
	for key := range renewed {
		moved[key] = true
	}
	return moved, nil
}

func moveForward(ctx context.Context, tx pgx.Tx, now time.Time, settlements []schedule.Settlement) (map[schedule.Key]bool, error) {
	if len(settlements) == 0 {
		return make(map[schedule.Key]bool), nil
	}
	type settlement = schedule.Settlement
	moved, err := keysOf(ctx, tx, sqlSettle, now,
		column(settlements, func(st *settlement) []byte { return st.Key[:] }),
		column(settlements, func(st *settlement) string { return string(st.To) }),
		column(settlements, func(st *settlement) pgtype.Text { return noneOrText(st.Reason) }),
		column(settlements, func(st *settlement) pgtype.Text { return noneOrText(st.RunID) }),
		column(settlements, func(st *settlement) pgtype.Text { return noneOrText(st.TraceID) }),
		column(settlements, func(st *settlement) pgtype.Text { return noneOrText(st.ErrorCode) }),
		column(settlements, func(st *settlement) pgtype.Text { return noneOrText(st.ErrorMessage) }),
		column(settlements, func(st *settlement) pgtype.Timestamptz { return noneOrTime(st.LaunchedAt) }),
		column(settlements, func(st *settlement) pgtype.Timestamptz { return noneOrTime(st.StartedAt) }),
		column(settlements, func(st *settlement) pgtype.Timestamptz { return noneOrTime(st.CompletedAt) }),
		column(settlements, func(st *settlement) pgtype.Timestamptz { return noneOrTime(st.TimeoutAt) }),
		column(settlements, func(st *settlement) bool { return st.To.Terminal() }),
		column(settlements, func(st *settlement) int32 { return st.Deliveries }))
	if err != nil {
		return nil, fmt.Errorf("move runs: %w", err)
	}
	var failed []schedule.Key
	for _, st := range settlements {
		if st.To == schedule.StatusFailed && moved[st.Key] {
			failed = append(failed, st.Key)
		}
	}
	return moved, noteFailed(ctx, tx, failed)
}

// Sweep ends what is past its bound; see worker.FireStore.
func (s *Store) Sweep(ctx context.Context, req schedule.SweepRequest) ([]schedule.Ended, error) {
	var ended []schedule.Ended
	err := s.fenced(ctx, req.Term, func(tx pgx.Tx) error {
		var err error
		if ended, err = s.sweep(ctx, tx, req); err != nil || len(ended) == 0 {
			return err
		}
		var events []schedule.Event
		var failed []schedule.Key
		for i := range ended {
			switch run := &ended[i].Run; run.Status {
			case schedule.StatusCancelled:
				events = append(events, ledger.CancelTimedOut(run))
			case schedule.StatusFailed:
				failed = append(failed, run.Key)
			}
		}
		if err := noteFailed(ctx, tx, failed); err != nil {
			return err
		}
		return insertEvents(ctx, tx, events)
	})
	if err != nil {
		return nil, fmt.Errorf("sweep runs: %w", err)
	}
	return ended, nil
}

func (s *Store) sweep(ctx context.Context, tx pgx.Tx, req schedule.SweepRequest) ([]schedule.Ended, error) {
	ended, err := ledger.Sweep(&req, func(b ledger.Bound, after *ledger.Candidate) ([]ledger.Candidate, error) {
		return s.sweepCandidates(ctx, tx, &req, b, after)
	})
	if err != nil || len(ended) == 0 {
		return nil, err
	}
	type end = schedule.Ended
	_, err = tx.Exec(ctx, sqlSweepEnd, req.Now,
		column(ended, func(e *end) []byte { return e.Run.Key[:] }),
		column(ended, func(e *end) string { return string(e.Run.Status) }),
		column(ended, func(e *end) string { return string(e.Run.Reason) }),
		column(ended, func(e *end) pgtype.Text { return noneOrText(e.Run.ErrorCode) }),
		column(ended, func(e *end) int32 { return e.Run.Deliveries }))
	if err != nil {
		return nil, fmt.Errorf("end runs: %w", err)
	}
	runs := make([]schedule.Run, len(ended))
	for i := range ended {
		runs[i] = ended[i].Run
	}
	definitions, err := s.definitionsOf(ctx, tx, revisionsOf(runs))
	if err != nil {
		return nil, err
	}
	for i := range ended {
		identify(&ended[i].Run, definitions[revision.Of(&ended[i].Run)])
	}
	return ended, nil
}

var sweepStatements = map[ledger.Bound]string{
	ledger.CancelBound: sqlSweepCancels, ledger.LaunchBound: sqlSweepLaunches, ledger.TimeoutBound: sqlSweepTimeouts,
}

// sweepCandidates reads and locks runs that may be past a bound. A row with unreadable
// columns is swept by the others: else it would stay in flight forever.
func (s *Store) sweepCandidates(ctx context.Context, tx pgx.Tx, req *schedule.SweepRequest, b ledger.Bound, after *ledger.Candidate) (found []ledger.Candidate, err error) {
	since, key := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}, []byte{}
	if after != nil {
		since, key = noneOrTime(b.Since(&after.Run)), after.Run.Key[:]
	}
	var (
		row   runRow
		known requestRow
	)
	first, last := req.Term.Buckets()
	err = each(ctx, tx, append(row.targets(), known.targets()...), func() error {
		run, err := row.run()
		c := ledger.Candidate{Run: run}
		if known.key != nil {
			there, problem := known.request()
			c.Record, err = &there, errors.Join(err, problem)
		}
		if err != nil {
			s.log.ErrorContext(ctx, "run unreadable", "key", run.Key, "schedule_id", run.ScheduleID, "err", err)
		}
		found = append(found, c)
		return nil
	}, sweepStatements[b], b.Until(req), since, key, req.Limit, first, last)
	return found, err
}
