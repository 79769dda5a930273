package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// EventsOf returns what a run of a consumer has taken; nil: it is none.
func (s *Store) EventsOf(ctx context.Context, key schedule.Key) (found *topic.Batch, err error) {
	err = s.read(ctx, func() error {
		b, took := s.taken[key]
		if !took {
			return nil
		}
		found = &topic.Batch{Root: b.root, Count: b.count, Digest: b.digest}
		for id, entry := range s.inbox {
			if entry.Run == key {
				found.Events = append(found.Events, topic.Offered{Event: *s.bySeq[id.seq], Round: id.round})
			}
		}
		slices.SortFunc(found.Events, bySeq)
		return nil
	})
	return found, err
}

// GetEvent returns an event with its state for each consumer.
func (s *Store) GetEvent(ctx context.Context, userID string, id topic.ID) (found *topic.Event, entries []topic.Entry, err error) {
	err = s.read(ctx, func() error {
		e := s.published[eventID{userID, id}]
		if e == nil {
			return fmt.Errorf("get event %s: %w", schedule.Quote(id.EventID), schedule.ErrNotFound)
		}
		copied := *e
		found = &copied
		for at, entry := range s.inbox {
			if at.seq == e.Seq {
				entries = append(entries, entry)
			}
		}
		slices.SortFunc(entries, func(a, b topic.Entry) int {
			return cmp.Or(cmp.Compare(a.ScheduleID, b.ScheduleID), cmp.Compare(a.Round, b.Round))
		})
		return nil
	})
	return found, entries, err
}

// Consumptions are the entries of an event with what decides on each.
func (s *Store) Consumptions(ctx context.Context, seq int64) (found []topic.Consumption, err error) {
	err = s.read(ctx, func() error {
		for at, entry := range s.inbox {
			row := s.schedules[at.scheduleID]
			if at.seq != seq || row == nil {
				continue
			}
			c := topic.Consumption{Entry: entry, Deleted: !row.Alive(), Pause: row.Pause, OverlapKey: row.QualifiedOverlapKey(), WakeAt: s.wakeRows[at.scheduleID], Own: s.ownRun(at.scheduleID)}
			if r := s.runs[entry.Run]; r != nil {
				c.RunOpen, c.TakenAt = !r.Status.Terminal(), r.CreatedAt
			}
			found = append(found, c)
		}
		slices.SortFunc(found, func(a, b topic.Consumption) int {
			return cmp.Or(cmp.Compare(a.ScheduleID, b.ScheduleID), cmp.Compare(a.Round, b.Round))
		})
		return nil
	})
	return found, err
}

// ListTopicEvents lists events of a topic, the newest first.
func (s *Store) ListTopicEvents(ctx context.Context, f topic.EventFilter) (found []topic.Event, err error) {
	err = s.read(ctx, func() error {
		for id, e := range s.published {
			if id.userID == f.UserID && id.Topic == f.Topic && (f.Before <= 0 || e.Seq < f.Before) {
				found = append(found, *e)
			}
		}
		slices.SortFunc(found, func(a, b topic.Event) int { return cmp.Compare(b.Seq, a.Seq) })
		found = found[:min(len(found), schedule.PageSize(f.Limit))]
		return nil
	})
	return found, err
}

// ListInbox lists entries of a consumer, in the order of the events.
func (s *Store) ListInbox(ctx context.Context, f topic.InboxFilter) (found []topic.InboxEntry, err error) {
	err = s.read(ctx, func() error {
		for at, entry := range s.inbox {
			after := cmp.Or(cmp.Compare(at.seq, f.AfterSeq), cmp.Compare(at.round, f.AfterRound)) > 0
			if at.scheduleID == f.ScheduleID && after && (f.State == 0 || entry.State == f.State) {
				e := *s.bySeq[at.seq]
				e.Data = nil
				found = append(found, topic.InboxEntry{Entry: entry, Event: e})
			}
		}
		slices.SortFunc(found, func(a, b topic.InboxEntry) int {
			return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Round, b.Round))
		})
		found = found[:min(len(found), schedule.PageSize(f.Limit))]
		return nil
	})
	return found, err
}

// CountInbox counts the entries of a consumer by state.
func (s *Store) CountInbox(ctx context.Context, scheduleID string) (counts map[topic.State]int, err error) {
	counts = make(map[topic.State]int)
	err = s.read(ctx, func() error {
		for at, entry := range s.inbox {
			if at.scheduleID == scheduleID {
				counts[entry.State]++
			}
		}
		return nil
	})
	return counts, err
}

// CountPendingOf counts the pending entries of an owner's consumers, up to limit.
func (s *Store) CountPendingOf(ctx context.Context, userID string, limit int) (n int, err error) {
	err = s.read(ctx, func() error {
		for at, entry := range s.inbox {
			if of := s.schedules[at.scheduleID]; entry.State == topic.Pending && of != nil && of.UserID == userID && n < limit {
				n++
			}
		}
		return nil
	})
	return n, err
}

// pruneTopics deletes up to limit each of ended entries, batches without entries, and events without
// entries.
func (t *tx) pruneTopics(before time.Time, limit int) (pruned int) {
	events, runs := make(map[int64]bool), make(map[schedule.Key]bool)
	n := 0
	for id, entry := range t.inbox {
		if n < limit && entry.State.Ended() && entry.EndedAt.Before(before) {
			t.setEntry(id, topic.Entry{})
			n++
			continue
		}
		events[id.seq], runs[entry.Run] = true, true
	}
	pruned, n = n, 0
	for key := range t.taken {
		if r := t.runs[key]; n < limit && !runs[key] && (r == nil || r.CreatedAt.Before(before)) {
			setUndone(t, t.taken, key, batch{})
			n++
		}
	}
	pruned, n = pruned+n, 0
	for id, e := range t.published {
		if n < limit && !events[e.Seq] && e.PublishedAt.Before(before) {
			setUndone(t, t.published, id, nil)
			setUndone(t, t.bySeq, e.Seq, nil)
			n++
		}
	}
	return pruned + n
}
