package memory

import (
	"context"
	"encoding/json"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// writeCommit writes what a run commits with its success.
func (t *tx) writeCommit(r *schedule.Run, c *schedule.Commit) error {
	if c == nil {
		return nil
	}
	if c.State != nil {
		after := schedule.State{Value: c.State, Revision: 1, Run: r.Key, At: at(r.CompletedAt)}
		if before := t.states[r.ScheduleID]; before != nil {
			after.Revision = before.Revision + 1
		}
		setUndone(t, t.states, r.ScheduleID, &after)
	}
	if len(c.Events) == 0 {
		return nil
	}
	hops := int32(-1)
	for id, entry := range t.inbox {
		if entry.Run == r.Key {
			hops = max(hops, t.bySeq[id.seq].Hops)
		}
	}
	p := topic.Publication{UserID: t.schedules[r.ScheduleID].UserID, Now: r.CompletedAt}
	p.Add(r.Key, r.ScheduleID, c.Events, hops)
	_, err := t.publish(&p)
	return err
}

// GetState returns the state of a schedule; the zero value: it has none.
func (s *Store) GetState(ctx context.Context, scheduleID string) (found schedule.State, err error) {
	err = s.read(ctx, func() error {
		if state := s.states[scheduleID]; state != nil {
			found = *state
		}
		return nil
	})
	return found, err
}

// SetState replaces the state of a schedule if it has the revision; the zero value: it has another.
func (s *Store) SetState(ctx context.Context, scheduleID string, revision int64, state json.RawMessage, now time.Time) (after schedule.State, err error) {
	err = s.write(ctx, func(t *tx) error {
		before := t.states[scheduleID]
		if t.schedules[scheduleID] == nil || before == nil && revision != 0 || before != nil && before.Revision != revision {
			return nil
		}
		after = schedule.State{Value: state, Revision: revision + 1, At: at(now)}
		kept := after
		setUndone(t, t.states, scheduleID, &kept)
		return nil
	})
	return after, err
}
