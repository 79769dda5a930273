package tables

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// Topics and their numbers.
const (
	// sqlNextTopic is the first topic after ($1, $2) of owners up to $3: one probe of events_topic and one of
	// subscriptions, so that a list costs the number of topics, not of events.
	sqlNextTopic = `SELECT x.user_id, x.topic FROM (
	SELECT * FROM (SELECT e.user_id, e.topic FROM events e WHERE (e.user_id, e.topic) > ($1, $2) AND e.user_id <= $3 ORDER BY e.user_id, e.topic LIMIT 1) a
	UNION ALL
	SELECT * FROM (SELECT b.user_id, b.topic FROM subscriptions b WHERE (b.user_id, b.topic) > ($1, $2) AND b.user_id <= $3 AND NOT b.prefix ORDER BY b.user_id, b.topic LIMIT 1) b
) x ORDER BY x.user_id, x.topic LIMIT 1`

	// sqlTopicRate reads the newest $5 events of a topic, by events_topic.
	sqlTopicRate = `SELECT coalesce(sum(CASE WHEN r.published_at >= $3 THEN 1 ELSE 0 END), 0), coalesce(sum(CASE WHEN r.published_at >= $4 THEN 1 ELSE 0 END), 0), max(r.published_at)
FROM (SELECT e.published_at FROM events e WHERE e.user_id = $1 AND e.topic = $2 ORDER BY e.seq DESC LIMIT $5) r`

	// sqlTopicInbox reads the oldest $3 pending and dead entries of a consumer, by inbox_pending and
	// inbox_dead.
	sqlTopicInbox = `SELECT i.state, count(*), sum(CASE WHEN e.topic = $2 THEN 1 ELSE 0 END), min(CASE WHEN e.topic = $2 THEN i.created_at END) FROM (
	SELECT * FROM (SELECT p.seq, p.state, p.created_at FROM inbox p WHERE p.sid = $1 AND p.state = 1 ORDER BY p.seq LIMIT $3) a
	UNION ALL
	SELECT * FROM (SELECT d.seq, d.state, d.created_at FROM inbox d WHERE d.sid = $1 AND d.state = 5 ORDER BY d.seq LIMIT $3) b
) i JOIN events e ON e.seq = i.seq GROUP BY i.state`
)

// afterOwners is above every id of an owner.
const afterOwners = "\U0010FFFF"

// ListTopics lists topics that have events or a consumer, by owner and name.
func (t *Tables) ListTopics(ctx context.Context, f topic.NameFilter) (found []topic.Name, err error) {
	after, last := f.After, cmp.Or(f.UserID, afterOwners)
	if after.UserID < f.UserID {
		after = topic.Name{UserID: f.UserID}
	}
	for range schedule.PageSize(f.Limit) {
		var next topic.Name
		there, err := one(ctx, t.read, []any{&next.UserID, &next.Topic}, sqlNextTopic, after.UserID, after.Topic, last)
		if err != nil {
			return nil, fmt.Errorf("list topics: %w", err)
		}
		if !there {
			break
		}
		found, after = append(found, next), next
	}
	return found, nil
}

// ReadTopic reads the numbers of a topic; those of one that does not exist are zero.
func (t *Tables) ReadTopic(ctx context.Context, name topic.Name, ask topic.StatsAsk) (topic.Stats, error) {
	out := topic.Stats{Name: name}
	_, err := one(ctx, t.read, []any{&out.LastHour, &out.LastDay, &out.LastAt}, sqlTopicRate,
		name.UserID, name.Topic, ask.Now.Add(-time.Hour), ask.Now.AddDate(0, 0, -1), ask.Most)
	if err != nil {
		return out, fmt.Errorf("count the events of topic %s: %w", schedule.Quote(name.Topic), err)
	}
	out.AtLeast = out.LastDay == ask.Most
	subscriptions, err := t.dialect.subscriptionsOf(ctx, t.read, name.UserID, []string{name.Topic})
	if err != nil {
		return out, err
	}
	for _, s := range topic.Consumers(subscriptions, name.Topic) {
		c := topic.ConsumerStats{ScheduleID: s.ScheduleID, By: s.By()}
		if err := t.addWaiting(ctx, &c, &out, s.SID, ask.Most); err != nil {
			return out, err
		}
		out.Consumers = append(out.Consumers, c)
	}
	slices.SortFunc(out.Consumers, func(a, b topic.ConsumerStats) int { return cmp.Compare(a.ScheduleID, b.ScheduleID) })
	return out, nil
}

func (t *Tables) addWaiting(ctx context.Context, c *topic.ConsumerStats, of *topic.Stats, sid int32, most int) error {
	var state topic.State
	var all, own int
	var oldest time.Time
	err := t.read.Each(ctx, sqlTopicInbox, []any{&state, &all, &own, &oldest}, func(bad error) error {
		of.AtLeast = of.AtLeast || all == most
		if state == topic.Pending {
			c.Pending, c.OldestAt = own, oldest
		} else {
			c.Dead = own
		}
		return bad
	}, sid, of.Topic, most)
	if err != nil {
		return fmt.Errorf("count the entries of %s: %w", schedule.Quote(c.ScheduleID), err)
	}
	return nil
}
