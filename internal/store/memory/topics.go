package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

func compareNames(a, b topic.Name) int {
	return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.Topic, b.Topic))
}

// ListTopics lists topics that have events or a consumer.
func (s *Store) ListTopics(ctx context.Context, f topic.NameFilter) (found []topic.Name, err error) {
	err = s.read(ctx, func() error {
		for id := range s.published {
			found = append(found, topic.Name{UserID: id.userID, Topic: id.Topic})
		}
		for _, row := range s.schedules {
			if !row.Alive() {
				continue
			}
			for _, text := range row.Consume.Topics {
				if name, prefix := schedule.Subscription(text); !prefix {
					found = append(found, topic.Name{UserID: row.UserID, Topic: name})
				}
			}
		}
		slices.SortFunc(found, compareNames)
		found = slices.DeleteFunc(slices.Compact(found), func(n topic.Name) bool {
			return compareNames(n, f.After) <= 0 || f.UserID != "" && n.UserID != f.UserID
		})
		found = found[:min(len(found), schedule.PageSize(f.Limit))]
		return nil
	})
	return found, err
}

// ReadTopic reads the numbers of a topic.
func (s *Store) ReadTopic(ctx context.Context, name topic.Name, ask topic.StatsAsk) (out topic.Stats, err error) {
	out.Name = name
	err = s.read(ctx, func() error {
		var newest []*topic.Event
		for id, e := range s.published {
			if id.userID == name.UserID && id.Topic == name.Topic {
				newest = append(newest, e)
			}
		}
		slices.SortFunc(newest, func(a, b *topic.Event) int { return cmp.Compare(b.Seq, a.Seq) })
		for _, e := range newest[:min(len(newest), ask.Most)] {
			out.LastAt = schedule.Later(out.LastAt, e.PublishedAt)
			if !e.PublishedAt.Before(ask.Now.Add(-time.Hour)) {
				out.LastHour++
			}
			if !e.PublishedAt.Before(ask.Now.AddDate(0, 0, -1)) {
				out.LastDay++
			}
		}
		out.AtLeast = out.LastDay == ask.Most
		for _, sub := range topic.Consumers(s.subscriptions(name.UserID), name.Topic) {
			c := topic.ConsumerStats{ScheduleID: sub.ScheduleID, By: sub.By()}
			for _, state := range []topic.State{topic.Pending, topic.Dead} {
				s.countOldest(&c, &out, state, ask.Most)
			}
			out.Consumers = append(out.Consumers, c)
		}
		slices.SortFunc(out.Consumers, func(a, b topic.ConsumerStats) int { return cmp.Compare(a.ScheduleID, b.ScheduleID) })
		return nil
	})
	return out, err
}

// countOldest counts the oldest entries of a consumer in a state that are of the topic.
func (s *Store) countOldest(c *topic.ConsumerStats, of *topic.Stats, state topic.State, most int) {
	var entries []topic.Entry
	for at, entry := range s.inbox {
		if at.scheduleID == c.ScheduleID && entry.State == state {
			entries = append(entries, entry)
		}
	}
	slices.SortFunc(entries, func(a, b topic.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	entries = entries[:min(len(entries), most)]
	of.AtLeast = of.AtLeast || len(entries) == most
	for i := range entries {
		switch {
		case s.bySeq[entries[i].Seq].Topic != of.Topic:
		case state == topic.Dead:
			c.Dead++
		default:
			if c.Pending++; c.Pending == 1 {
				c.OldestAt = entries[i].CreatedAt
			}
		}
	}
}

// AuditEvents passes the events of a range with their entries to visit.
func (s *Store) AuditEvents(ctx context.Context, f topic.AuditFilter, visit func(*topic.AuditRow)) (cut bool, err error) {
	err = s.read(ctx, func() error {
		var events []*topic.Event
		for id, e := range s.published {
			if (f.Topic == "" || id.userID == f.UserID && id.Topic == f.Topic) && !e.PublishedAt.Before(f.From) && e.PublishedAt.Before(f.Until) {
				events = append(events, e)
			}
		}
		slices.SortFunc(events, func(a, b *topic.Event) int {
			return cmp.Or(a.PublishedAt.Compare(b.PublishedAt), cmp.Compare(a.Seq, b.Seq))
		})
		cut = len(events) > f.Limit
		for _, e := range events[:min(len(events), f.Limit)] {
			s.auditEvent(e, visit)
		}
		return nil
	})
	return cut, err
}

func (s *Store) auditEvent(e *topic.Event, visit func(*topic.AuditRow)) {
	any := false
	for at, entry := range s.inbox {
		if at.seq != e.Seq {
			continue
		}
		any, entry.SID = true, 1 // any number: there is an entry
		_, woken := s.wakeRows[at.scheduleID]
		run := s.runs[entry.Run]
		visit(&topic.AuditRow{
			Event: *e, Entry: entry, RunOpen: run != nil && !run.Status.Terminal(), Lost: entry.State == topic.Pending && !woken && s.ownRun(at.scheduleID).IsZero(),
		})
	}
	if !any {
		visit(&topic.AuditRow{Event: *e})
	}
}

// ownRun is a run of a consumer that has taken events and is not over.
func (s *Store) ownRun(scheduleID string) (own schedule.Key) {
	for key, b := range s.taken {
		if r := s.runs[key]; b.scheduleID == scheduleID && r != nil && !r.Status.Terminal() {
			own = key
		}
	}
	return own
}

// AuditRuns are what runs have taken.
func (s *Store) AuditRuns(ctx context.Context, keys []schedule.Key) (found []topic.AuditRun, err error) {
	err = s.read(ctx, func() error {
		for _, key := range keys {
			b, known := s.taken[key]
			r := topic.AuditRun{Key: key, Known: known, Count: b.count, Digest: b.digest}
			if run := s.runs[key]; run != nil && run.Status.Terminal() {
				r.Status = run.Status
			} else {
				r.Open = run != nil
			}
			for at, entry := range s.inbox {
				if entry.Run == key && entry.State == topic.Consumed {
					r.Batch = append(r.Batch, topic.Offered{Event: *s.bySeq[at.seq], Round: at.round})
				}
			}
			slices.SortFunc(r.Batch, bySeq)
			found = append(found, r)
		}
		return nil
	})
	return found, err
}

// StrayEntries are numbers of entries of a consumer whose event does not exist.
func (s *Store) StrayEntries(ctx context.Context, scheduleID string, first, last int64, limit int) (found []int64, err error) {
	err = s.read(ctx, func() error {
		for at := range s.inbox {
			if at.scheduleID == scheduleID && at.seq >= first && at.seq <= last && s.bySeq[at.seq] == nil && len(found) < limit {
				found = append(found, at.seq)
			}
		}
		return nil
	})
	return found, err
}
