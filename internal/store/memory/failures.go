package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// endedRuns returns the ended runs of one schedule, newest run_at first, without those of
// a deleted schedule with the same id.
func (s *Store) endedRuns(scheduleID string) (ended []schedule.EndedRun) {
	for _, r := range s.runs {
		if r.ScheduleID == scheduleID && r.Status.Terminal() {
			_, retried := r.RetriedBy()
			ended = append(ended, schedule.EndedRun{
				Retried: retried, Key: r.Key, RunAt: r.RunAt, EndedAt: r.CompletedAt, Status: r.Status, Reason: r.Reason, ErrorCode: r.ErrorCode,
			})
		}
	}
	slices.SortFunc(ended, func(a, b schedule.EndedRun) int {
		return cmp.Or(b.RunAt.Compare(a.RunAt), slices.Compare(b.Key[:], a.Key[:]))
	})
	return ended
}

// conclude completes a run that has ended, and keeps its next attempt for followUp.
func (t *tx) conclude(r *schedule.Run) (next *schedule.Run) {
	var facts *ledger.AttemptFacts
	if ledger.NeedsAttemptFacts(r) {
		facts = &ledger.AttemptFacts{Setting: t.opts.QueuedRetry}
		if v := t.revisions[revisionID{r.ScheduleID, r.Revision}]; v != nil {
			facts.Planned = &v.Definition
		}
		if s := t.schedules[r.ScheduleID]; s != nil && s.Alive() {
			facts.InForce = &s.Definition
		}
		if q := t.queueOf(r.Queue.No); q != nil {
			facts.Queue = q.Retry
		}
	}
	if next = ledger.Conclude(r, facts); next == nil {
		return nil
	}
	if t.follows == nil {
		t.follows = make(map[schedule.Key]*schedule.Run)
	}
	t.follows[r.Key] = next
	t.next = append(t.next, *next)
	return &t.next[len(t.next)-1]
}

// followUp writes what follows the ends of the transaction.
func (t *tx) followUp() error {
	t.silent, t.planUntil = false, time.Time{} // the leader reads the attempts, also after a claim
	for i := range t.next {
		t.drawFair(t.next[i].CreatedAt, &t.next[i])
		t.insert(t.next[i], t.next[i].CreatedAt)
	}
	t.next = nil
	if err := t.endHandlers(); err != nil {
		return err
	}
	t.settleUniques()
	t.settleGroups()
	t.countEnds()
	after, err := ledger.FollowUp(t.ended, t)
	if err != nil {
		return err
	}
	for _, id := range after.Recovered {
		t.putFailure(id, nil)
	}
	for _, f := range slices.Concat(after.Began, after.Continued) {
		t.putFailure(f.ScheduleID, f)
	}
	for _, r := range t.ended {
		var webhook schedule.QueueWebhook
		if q := t.queueOf(r.Queue.No); q != nil {
			webhook = q.WebhookOf()
		}
		if m, ok := ledger.MessageOf(r, webhook); ok {
			t.insertDeliveries([]schedule.AlertDelivery{m})
		}
	}
	return nil
}

func (t *tx) putFailure(scheduleID string, f *schedule.Failure) {
	before := t.failing[scheduleID]
	t.failing[scheduleID] = f
	t.undo = append(t.undo, func() { t.failing[scheduleID] = before })
}

// Failures returns how the schedules of ended runs fail; see ledger.EndReader.
func (t *tx) Failures(ended []*schedule.Run) (map[schedule.Key]*schedule.Failure, error) {
	found := make(map[schedule.Key]*schedule.Failure, len(ended))
	for _, r := range ended {
		if f := t.failing[r.ScheduleID]; f != nil {
			found[r.Key] = f
		}
	}
	return found, nil
}

// Successes returns newest successes; see ledger.EndReader.
func (t *tx) Successes(failed []*schedule.Run) (map[schedule.Key]ledger.Decided, error) {
	found := make(map[schedule.Key]ledger.Decided, len(failed))
	for _, r := range failed {
		for _, ended := range t.endedRuns(r.ScheduleID) {
			newest, known := found[r.Key]
			if ended.Status == schedule.StatusSuccess && !ended.RunAt.Before(r.RunAt) &&
				(!known || ended.RunAt.Equal(newest.RunAt) && ended.EndedAt.After(newest.EndedAt)) {
				found[r.Key] = ledger.Decided{RunAt: ended.RunAt, EndedAt: ended.EndedAt}
			}
		}
	}
	return found, nil
}

// failureOf returns how a schedule fails; nil: it does not.
func (s *Store) failureOf(scheduleID string) *schedule.Failure {
	row, f := s.schedules[scheduleID], s.failing[scheduleID]
	if f == nil || row == nil || !row.Alive() {
		return nil
	}
	now := *f
	if run := s.runs[f.LastKey]; run != nil {
		now.ErrorMessage = run.ErrorMessage
	}
	return &now
}

// RecentOutcomes returns the newest n outcomes of each schedule, and whether it fails.
func (s *Store) RecentOutcomes(ctx context.Context, scheduleIDs []string, n int) (map[string]schedule.Recent, error) {
	recent := make(map[string]schedule.Recent, len(scheduleIDs))
	err := s.read(ctx, func() error {
		for _, id := range scheduleIDs {
			ended := s.endedRuns(id)
			recent[id] = schedule.Recent{Outcomes: ended[:min(len(ended), n)], Failure: s.failureOf(id)}
		}
		return nil
	})
	return recent, err
}

// FailureGroups returns the failing schedules grouped by how they fail, the largest group
// first.
func (s *Store) FailureGroups(ctx context.Context, userID string) (groups []schedule.FailureGroup, err error) {
	err = s.read(ctx, func() error {
		var failing []*schedule.Failure
		for id, row := range s.schedules {
			if f := s.failureOf(id); f != nil && (userID == "" || row.UserID == userID) {
				failing = append(failing, f)
			}
		}
		slices.SortFunc(failing, func(a, b *schedule.Failure) int {
			return cmp.Or(b.LastEndedAt.Compare(a.LastEndedAt), cmp.Compare(a.ScheduleID, b.ScheduleID))
		})
		for _, f := range failing {
			groups = addToGroup(groups, f)
		}
		return nil
	})
	slices.SortFunc(groups, func(a, b schedule.FailureGroup) int {
		return cmp.Or(cmp.Compare(b.Schedules, a.Schedules), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.ErrorCode, b.ErrorCode))
	})
	return groups, err
}

func addToGroup(groups []schedule.FailureGroup, f *schedule.Failure) []schedule.FailureGroup {
	i := slices.IndexFunc(groups, func(g schedule.FailureGroup) bool { return g.Reason == f.Reason && g.ErrorCode == f.ErrorCode })
	if i < 0 {
		i = len(groups)
		groups = append(groups, schedule.FailureGroup{Reason: f.Reason, ErrorCode: f.ErrorCode, FirstAt: f.FirstEndedAt, LastAt: f.LastEndedAt})
	}
	g := &groups[i]
	g.Schedules++
	g.Failures += f.Failures
	if f.FirstEndedAt.Before(g.FirstAt) {
		g.FirstAt = f.FirstEndedAt
	}
	if f.LastEndedAt.After(g.LastAt) {
		g.LastAt = f.LastEndedAt
	}
	if len(g.Examples) < schedule.FailureExamples {
		g.Examples = append(g.Examples, f.ScheduleID)
	}
	return groups
}

// CountEnded counts runs that ended since an instant.
func (s *Store) CountEnded(ctx context.Context, since time.Time, limit int) (counts []schedule.EndedCount, err error) {
	err = s.read(ctx, func() error {
		var ended []*schedule.Run
		for _, r := range s.runs {
			if r.Status.Terminal() && !r.UpdatedAt.Before(since) && !r.CompletedAt.Before(since) {
				ended = append(ended, r)
			}
		}
		slices.SortFunc(ended, func(a, b *schedule.Run) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
		for _, r := range ended[:min(len(ended), limit)] {
			i := slices.IndexFunc(counts, func(c schedule.EndedCount) bool {
				return c.ScheduleID == r.ScheduleID && c.Status == r.Status && c.Reason == r.Reason && c.ErrorCode == r.ErrorCode
			})
			if i < 0 {
				i = len(counts)
				counts = append(counts, schedule.EndedCount{ScheduleID: r.ScheduleID, Status: r.Status, Reason: r.Reason, ErrorCode: r.ErrorCode})
			}
			counts[i].Runs++
		}
		return nil
	})
	return counts, err
}

// CountDead counts dead runs by schedule, most runs first.
func (s *Store) CountDead(ctx context.Context, since time.Time, limit int) (counts []schedule.DeadCount, err error) {
	err = s.read(ctx, func() error {
		of := make(map[string]int64)
		dead := s.listed(&schedule.RunFilter{Dead: true, From: since})
		for i := range dead[:min(len(dead), limit)] {
			of[dead[i].ScheduleID]++
		}
		for id, runs := range of {
			counts = append(counts, schedule.DeadCount{ScheduleID: id, Runs: runs})
		}
		slices.SortFunc(counts, func(a, b schedule.DeadCount) int {
			return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.ScheduleID, b.ScheduleID))
		})
		return nil
	})
	return counts, err
}

// CountCalls counts executor calls by result.
func (s *Store) CountCalls(ctx context.Context, since time.Time, limit int) (schedule.CallCounts, error) {
	var rows []schedule.CallCount
	err := s.read(ctx, func() error {
		var recent []*schedule.Run
		for _, r := range s.runs {
			if !r.UpdatedAt.Before(since) {
				recent = append(recent, r)
			}
		}
		slices.SortFunc(recent, func(a, b *schedule.Run) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
		recent = recent[:min(len(recent), limit)]
		if len(recent) > 0 {
			rows = append(rows, schedule.CallCount{Calls: int64(len(recent)), Last: recent[len(recent)-1].UpdatedAt})
		}
		for _, r := range recent {
			for _, a := range s.callsOf(r) {
				if !a.At.Before(since) {
					rows = addCall(rows, r.ScheduleID, a)
				}
			}
		}
		return nil
	})
	return schedule.CallCountsOf(rows, since, limit), err
}

// callsOf returns the kept attempts of a run, and the one that ended its launch if it
// reached an executor.
func (s *Store) callsOf(r *schedule.Run) []schedule.LaunchAttempt {
	calls, _ := schedule.ReadAttempts(s.attempts[r.Key])
	if last, ok := r.LastAttempt(); ok && (last.Result == schedule.LaunchAccepted || r.Reason == schedule.ReasonLaunchRefused && r.Deliveries > 0) {
		calls = append(calls, last)
	}
	return calls
}

func addCall(rows []schedule.CallCount, scheduleID string, a schedule.LaunchAttempt) []schedule.CallCount {
	i := slices.IndexFunc(rows, func(c schedule.CallCount) bool { return c.Result == a.Result && c.ErrorCode == a.ErrorCode })
	if i < 0 {
		i = len(rows)
		rows = append(rows, schedule.CallCount{Result: a.Result, ErrorCode: a.ErrorCode})
	}
	c := &rows[i]
	c.Calls++
	if a.At.After(c.Last) {
		c.Last, c.ScheduleID, c.ErrorMessage = a.At, scheduleID, a.ErrorMessage
	}
	return rows
}

// WakeFailures makes schedules with changed failures due for evaluation.
func (s *Store) WakeFailures(ctx context.Context, now time.Time, limit int) error {
	return s.write(ctx, func(t *tx) error {
		for id := range t.schedules {
			e, watched := t.expected[schedule.ExpectationID{ScheduleID: id, Kind: schedule.ExpectNoFailure}]
			f := t.failureOf(id)
			changed := f != nil && !watched || watched && (f == nil || f.Failures != e.Late || !f.FirstRunAt.Equal(e.LateSince))
			if changed && limit > 0 {
				limit--
				t.wakeExpectations([]schedule.ExpectationID{{ScheduleID: id, Kind: schedule.ExpectNoFailure}}, now)
			}
		}
		return nil
	})
}
