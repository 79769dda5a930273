package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// setIn writes one entry of a map.
func setIn[K comparable, V any](t *tx, m map[K]V, id K, to V) {
	before, was := m[id]
	m[id] = to
	t.undo = append(t.undo, func() {
		if m[id] = before; !was {
			delete(m, id)
		}
	})
}

// drop deletes one entry of a map.
func drop[K comparable, V any](t *tx, m map[K]V, id K) {
	before, was := m[id]
	delete(m, id)
	t.undo = append(t.undo, func() {
		if was {
			m[id] = before
		}
	})
}

// wakeExpectations makes the expectations of changed schedules due for evaluation.
func (t *tx) wakeExpectations(touched []schedule.ExpectationID, now time.Time) {
	for _, id := range touched {
		e, known := t.expected[id]
		if !known {
			e = schedule.ExpectationState{
				ScheduleID: id.ScheduleID, Kind: id.Kind, Status: schedule.ExpectationOK, WatchedSince: at(now), JudgedUntil: at(now),
			}
		}
		e.JudgeAt = at(now)
		setIn(t, t.expected, id, e)
	}
}

// EvaluateExpectations gives due expectations to decide and writes its verdicts with their
// messages; see alert.ExpectationStore.
func (s *Store) EvaluateExpectations(ctx context.Context, req schedule.EvaluateRequest, decide func([]schedule.ExpectationCase) []schedule.ExpectationVerdict) (judged int, err error) {
	err = s.write(ctx, func(t *tx) error {
		var cases []schedule.ExpectationCase
		for _, e := range t.expected {
			if !e.JudgeAt.IsZero() && !e.JudgeAt.After(req.Now) {
				cases = append(cases, schedule.ExpectationCase{State: e})
			}
		}
		slices.SortFunc(cases, func(a, b schedule.ExpectationCase) int {
			return cmp.Or(a.State.JudgeAt.Compare(b.State.JudgeAt), cmp.Compare(a.State.ScheduleID, b.State.ScheduleID), cmp.Compare(a.State.Kind, b.State.Kind))
		})
		cases = cases[:min(len(cases), req.Limit)]
		if judged = len(cases); judged == 0 {
			return nil
		}
		for i := range cases {
			t.fill(&cases[i], &req)
		}
		for _, v := range decide(cases) {
			t.writeVerdict(&v)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("judge expectations: %w", err)
	}
	return judged, nil
}

// fill adds the facts of a case.
func (s *Store) fill(c *schedule.ExpectationCase, req *schedule.EvaluateRequest) {
	id := c.State.ScheduleID
	if a, open := s.alerts[c.State.AlertID]; open {
		c.Alert = &a
	}
	row := s.schedules[id]
	if row == nil {
		return
	}
	if c.NeedsFailure() && row.Alive() {
		c.Failure = s.failureOf(id)
	}
	c.Schedule, c.Unreadable = copyOf(row), s.unreadable[id]
	if !row.Alive() || c.Unreadable != nil {
		return
	}
	if row.RevisedAt.After(c.State.JudgedUntil) {
		for _, v := range s.revisions {
			if v.ScheduleID == id {
				c.Revisions = append(c.Revisions, *v)
			}
		}
		slices.SortFunc(c.Revisions, func(a, b schedule.Revision) int { return cmp.Compare(b.Revision, a.Revision) })
		c.Revisions = c.Revisions[:min(len(c.Revisions), req.MaxHistory)]
	}
	for _, e := range s.events {
		switch e.Kind {
		case schedule.EventPaused, schedule.EventResumed, schedule.EventPauseEnded:
			if e.ScheduleID == id {
				c.Pauses = append(c.Pauses, e)
			}
		}
	}
	c.Pauses = c.Pauses[max(0, len(c.Pauses)-req.MaxHistory):]
	s.fillRuns(c, req)
}

func (s *Store) fillRuns(c *schedule.ExpectationCase, req *schedule.EvaluateRequest) {
	var again []schedule.SlotRun
	for _, r := range s.runs {
		if r.ScheduleID != c.State.ScheduleID || r.RunAt.After(req.Now) {
			continue
		}
		if c.State.Kind == schedule.ExpectNoFailure {
			continue
		}
		if c.State.Kind == schedule.ExpectSuccess {
			if r.Status == schedule.StatusSuccess && !r.RunAt.Before(at(c.SuccessFrom())) && r.CompletedAt.After(c.LastSuccess) {
				c.LastSuccess = r.CompletedAt
			}
			continue
		}
		run := schedule.SlotRun{
			RunAt: r.RunAt, Status: r.Status, Reason: r.Reason,
			ClaimedAt: r.ClaimedAt, LaunchedAt: r.LaunchedAt, StartedAt: r.StartedAt, CompletedAt: r.CompletedAt,
		}
		switch {
		case r.Trigger == schedule.TriggerManual:
		case r.RunAt.After(c.State.JudgedUntil):
			c.Runs = append(c.Runs, run)
		case c.Alert != nil && r.RunAt.Equal(c.Alert.LastSlot):
			again = append(again, run)
		}
	}
	slices.SortFunc(c.Runs, func(a, b schedule.SlotRun) int { return a.RunAt.Compare(b.RunAt) })
	if len(c.Runs) >= req.MaxRuns {
		c.Runs = c.Runs[:req.MaxRuns]
		c.RunsUntil = c.Runs[req.MaxRuns-1].RunAt
	}
	c.Runs = append(again, c.Runs...)
}

func (t *tx) writeVerdict(v *schedule.ExpectationVerdict) {
	e := v.State
	id := schedule.ExpectationID{ScheduleID: e.ScheduleID, Kind: e.Kind}
	for _, at := range []*time.Time{&e.LateSince, &e.WatchedSince, &e.JudgedUntil, &e.MetAt, &e.JudgeAt, &e.JudgedAt} {
		*at = kept(*at)
	}
	if v.Drop {
		drop(t, t.expected, id)
	} else {
		setIn(t, t.expected, id, e)
	}
	for _, a := range v.Alerts {
		known := t.alerts[a.AlertID]
		a.AckedAt, a.AckedBy, a.AckNote = known.AckedAt, known.AckedBy, known.AckNote
		for _, at := range []*time.Time{&a.FirstSlot, &a.LastSlot, &a.Deadline, &a.OpenedAt, &a.ClosedAt, &a.NotifiedAt} {
			*at = kept(*at)
		}
		setIn(t, t.alerts, a.AlertID, a)
	}
	t.insertDeliveries(v.Deliveries)
}

// kept is at, where a variable has taken its name.
func kept(t time.Time) time.Time { return at(t) }

// UnmetExpectations counts the late and alerting expectations by kind.
func (s *Store) UnmetExpectations(ctx context.Context) (map[schedule.ExpectationKind]int, error) {
	unmet := make(map[schedule.ExpectationKind]int)
	err := s.read(ctx, func() error {
		for id, e := range s.expected {
			if e.Status != schedule.ExpectationOK {
				unmet[id.Kind]++
			}
		}
		return nil
	})
	return unmet, err
}

// ListExpectations returns the states of one schedule, in order of kind.
func (s *Store) ListExpectations(ctx context.Context, scheduleID string) (states []schedule.ExpectationState, err error) {
	err = s.read(ctx, func() error {
		for id, e := range s.expected {
			if id.ScheduleID == scheduleID {
				states = append(states, e)
			}
		}
		return nil
	})
	slices.SortFunc(states, func(a, b schedule.ExpectationState) int { return cmp.Compare(a.Kind, b.Kind) })
	return states, err
}
