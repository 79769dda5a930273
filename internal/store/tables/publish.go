package tables

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// Events and their inbox entries.
const (
	sqlSubscribe = `INSERT INTO subscriptions (user_id, topic, sid, prefix) SELECT $2, $3, s.sid, $4 FROM schedules s WHERE s.schedule_id = $1`
	// Of a schedule that was deleted and is created again: what waits is not for the new one.
	sqlSkipOld = `UPDATE inbox SET state = 4, reason = $3, ended_at = $2 WHERE sid = (SELECT s.sid FROM schedules s WHERE s.schedule_id = $1) AND state = 1`
)

func eventFields(e *topic.Event) []any {
	return []any{
		&e.Seq, &e.UserID, &e.Topic, &e.Source, &e.EventID, &e.Type, &e.Subject, &e.Time, &e.DataHash, &e.Fanout, &e.PublishedBy, &e.PublishedAt, &e.CausedBy, &e.Hops,
	}
}

// WokenConsumer is a consumer that the leader of its shard must look at.
type WokenConsumer struct {
	SID        int32
	ScheduleID string
	OverlapKey string // qualified
	At         time.Time
}

// Publish writes events, and for each consumer that they match an inbox entry and a wake row, in one
// transaction. The i-th answer is for the i-th event. An event that exists is left as it is.
func (t *Tables) Publish(ctx context.Context, p *topic.Publication) (out []topic.Published, err error) {
	err = t.write(ctx, func(ctx context.Context, q Queries) error {
		out, err = t.dialect.publish(ctx, q, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	return out, nil
}

func (d *Dialect) publish(ctx context.Context, q Queries, p *topic.Publication) ([]topic.Published, error) {
	route, inserted, woken, err := d.insertPublication(ctx, q, p)
	if err != nil {
		return nil, err
	}
	if err := d.wakeConsumers(ctx, q, woken); err != nil {
		return nil, err
	}
	return d.published(ctx, q, p, &route, inserted)
}

// insertPublication writes the events that are new, and their inbox entries. The caller wakes their
// consumers, after all other writes.
func (d *Dialect) insertPublication(ctx context.Context, q Queries, p *topic.Publication) (route topic.Route, inserted map[topic.ID]int64, wake []WokenConsumer, err error) {
	subscriptions, err := d.subscriptions(ctx, q, p)
	if err != nil {
		return route, nil, nil, err
	}
	route = topic.RouteOf(p, subscriptions)
	if err := route.Refusal(p); err != nil {
		return route, nil, nil, err
	}
	if inserted, err = d.insertEvents(ctx, q, p, &route); err != nil {
		return route, nil, nil, fmt.Errorf("insert: %w", err)
	}
	wake, err = d.fillInboxes(ctx, q, p, &route, inserted)
	return route, inserted, wake, err
}

func (d *Dialect) subscriptions(ctx context.Context, q Queries, p *topic.Publication) ([]topic.Subscription, error) {
	var topics []string
	for i := range p.Events {
		if t := p.Events[i].Topic; !slices.Contains(topics, t) {
			topics = append(topics, t)
		}
	}
	return d.subscriptionsOf(ctx, q, p.UserID, topics)
}

// subscriptionsOf are those of topics, and those of prefixes, of an owner.
func (d *Dialect) subscriptionsOf(ctx context.Context, q Queries, userID string, topics []string) (found []topic.Subscription, err error) {
	var s topic.Subscription
	var consume string
	err = q.Each(ctx, d.SubscriptionsOf, []any{&s.SID, &s.ScheduleID, &s.OverlapKey, &s.Topic, &s.Prefix, &consume}, func(bad error) error {
		s.Filter = nil
		if c, unreadable := schedule.ConsumeOf(consume); unreadable == nil { // otherwise it gets all events
			s.Filter = c.Filter
		}
		found = append(found, s)
		return bad
	}, userID, topics)
	if err != nil {
		return nil, fmt.Errorf("look for consumers: %w", err)
	}
	return found, nil
}

// insertEvents inserts the events that are new, and returns the numbers of those.
func (d *Dialect) insertEvents(ctx context.Context, q Queries, p *topic.Publication, route *topic.Route) (map[topic.ID]int64, error) {
	numbers, err := d.eventNumbers(ctx, q, p, route)
	if err != nil {
		return nil, err
	}
	var (
		seqs, times                                                 []int64
		topics, sources, ids, types, subjects, contents, hashes, by []string
		fanouts, hops                                               []int32
		causes                                                      []string
	)
	for _, i := range route.Fresh {
		e := &p.Events[i]
		at := int64(0)
		if !e.Time.IsZero() {
			at = e.Time.UnixMicro()
		}
		seqs, times, fanouts = append(seqs, numbers[i]), append(times, at), append(fanouts, int32(len(route.Consumers[i])))
		topics, sources, ids, types = append(topics, e.Topic), append(sources, e.Source), append(ids, e.EventID), append(types, e.Type)
		subjects, contents, hashes, by = append(subjects, e.Subject), append(contents, string(e.Data)), append(hashes, e.DataHash.String()), append(by, e.PublishedBy)
		cause := ""
		if !e.CausedBy.IsZero() {
			cause = e.CausedBy.String()
		}
		causes, hops = append(causes, cause), append(hops, e.Hops)
	}
	var e topic.Event
	inserted := make(map[topic.ID]int64, len(route.Fresh))
	err = q.Each(ctx, d.InsertEvents, []any{&e.Seq, &e.Topic, &e.Source, &e.EventID}, func(bad error) error {
		inserted[e.ID()] = e.Seq
		return bad
	}, p.UserID, p.Now, Rows{seqs, topics, sources, ids, types, subjects, times, contents, hashes, fanouts, by, causes, hops})
	return inserted, err
}

// eventNumbers draws the numbers of the events, in the order of the publication.
func (d *Dialect) eventNumbers(ctx context.Context, q Queries, p *topic.Publication, route *topic.Route) (map[int]int64, error) {
	var drawn []int64
	var value int64
	err := q.Each(ctx, d.DrawEvents, []any{&value}, func(bad error) error {
		drawn = append(drawn, value)
		return bad
	}, len(route.Fresh))
	if err != nil {
		return nil, fmt.Errorf("draw numbers: %w", err)
	}
	for len(drawn) < len(route.Fresh) { // a writer that is alone gets the first one
		drawn = append(drawn, drawn[len(drawn)-1]+1)
	}
	numbers := make(map[int]int64, len(drawn))
	for i := range p.Events {
		if route.First[p.Events[i].ID()] == i {
			numbers[i], drawn = drawn[0], drawn[1:]
		}
	}
	return numbers, nil
}

// fillInboxes gives new events to their consumers, and returns those to wake.
func (d *Dialect) fillInboxes(ctx context.Context, q Queries, p *topic.Publication, route *topic.Route, inserted map[topic.ID]int64) ([]WokenConsumer, error) {
	var sids []int32
	var seqs []int64
	var loops []Call
	wake := make(map[int32]WokenConsumer)
	for _, i := range route.Fresh {
		seq, fresh := inserted[p.Events[i].ID()]
		if !fresh {
			continue
		}
		looped := p.Events[i].Loops()
		if looped {
			loops = append(loops, Call{sqlSkipLooped, []any{seq, string(topic.ReasonLoop), p.Now}})
		}
		for _, s := range route.Consumers[i] {
			if sids, seqs = append(sids, s.SID), append(seqs, seq); looped {
				continue
			}
			wake[s.SID] = WokenConsumer{s.SID, s.ScheduleID, s.OverlapKey, p.Now}
		}
	}
	if len(sids) == 0 {
		return nil, nil
	}
	if _, err := q.Exec(ctx, d.InsertInbox, p.Now, Rows{sids, seqs}); err != nil {
		return nil, fmt.Errorf("write inboxes: %w", err)
	}
	if err := q.ExecAll(ctx, loops); err != nil {
		return nil, fmt.Errorf("end what loops: %w", err)
	}
	return slices.Collect(maps.Values(wake)), nil
}

// wakeConsumers writes wake rows. It comes after all other writes of a transaction: it locks the rows,
// in their order, also where it writes nothing.
func (d *Dialect) wakeConsumers(ctx context.Context, q Queries, consumers []WokenConsumer) error {
	if len(consumers) == 0 {
		return nil
	}
	slices.SortFunc(consumers, bySID)
	var sids, buckets []int32
	var times []int64
	of := make(map[int32]*WokenConsumer, len(consumers))
	for i := range consumers {
		c := &consumers[i]
		if of[c.SID] != nil { // the earliest comes first
			continue
		}
		of[c.SID] = c
		sids, buckets, times = append(sids, c.SID), append(buckets, int32(schedule.Bucket(c.OverlapKey))), append(times, c.At.UnixMicro())
	}
	var written []WokenConsumer
	var sid int32
	err := q.Each(ctx, d.WakeConsumers, []any{&sid}, func(bad error) error {
		written = append(written, *of[sid])
		return bad
	}, Rows{sids, buckets, times})
	if err != nil {
		return fmt.Errorf("wake %d consumers: %w", len(sids), err)
	}
	if len(written) == 0 {
		return nil
	}
	return d.NoteWoken(ctx, q, written)
}

func bySID(a, b WokenConsumer) int { return cmp.Or(cmp.Compare(a.SID, b.SID), a.At.Compare(b.At)) }

// published returns the result of each event.
func (d *Dialect) published(ctx context.Context, q Queries, p *topic.Publication, route *topic.Route, inserted map[topic.ID]int64) ([]topic.Published, error) {
	out := make([]topic.Published, len(p.Events))
	var again []int
	for i := range p.Events {
		first := route.First[p.Events[i].ID()]
		if seq, fresh := inserted[p.Events[i].ID()]; fresh && first == i {
			out[i] = topic.Published{Seq: seq, Fanout: len(route.Consumers[i])}
			continue
		}
		again = append(again, i)
	}
	if len(again) == 0 {
		return out, nil
	}
	var topics, sources, ids []string
	for _, i := range again {
		topics, sources, ids = append(topics, p.Events[i].Topic), append(sources, p.Events[i].Source), append(ids, p.Events[i].EventID)
	}
	found, err := collect(ctx, q, eventFields, d.EventsByID, p.UserID, Rows{topics, sources, ids})
	if err != nil {
		return nil, fmt.Errorf("read what was published before: %w", err)
	}
	earlier := make(map[topic.ID]*topic.Event, len(found))
	for i := range found {
		earlier[found[i].ID()] = &found[i]
	}
	for _, i := range again {
		e := earlier[p.Events[i].ID()]
		if e == nil {
			return nil, fmt.Errorf("event %s was pruned meanwhile: publish it again", schedule.Quote(p.Events[i].EventID))
		}
		if out[i], err = topic.Repeated(p, &p.Events[i], e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Subscribe writes the topics of schedules as changes leave them, and has the consumers looked at: events
// of a topic that one named before, or all of a deleted one, end in the take. existed reports whether
// there was a row of a schedule before.
func (d *Dialect) Subscribe(ctx context.Context, q Queries, changes []schedule.Change, existed func(scheduleID string) bool) error {
	var before []string
	for i := range changes {
		if c := &changes[i]; resubscribes(c) && existed(c.ScheduleID) {
			before = append(before, c.ScheduleID)
		}
	}
	were := make(map[string]bool)
	if len(before) > 0 {
		var id string
		err := q.Each(ctx, d.Unsubscribe, []any{&id}, func(bad error) error {
			were[id] = true
			return bad
		}, before)
		if err != nil {
			return fmt.Errorf("end subscriptions: %w", err)
		}
	}
	var calls []Call
	var woken []WokenConsumer
	for i := range changes {
		c := &changes[i]
		if !resubscribes(c) {
			continue
		}
		again := c.Created && existed(c.ScheduleID)
		if again {
			calls = append(calls, Call{sqlForgetState, []any{c.ScheduleID}})
		}
		of := subscriptionCalls(c)
		if len(of) == 0 && !were[c.ScheduleID] {
			continue
		}
		if calls = append(calls, of...); again {
			calls = append(calls, Call{sqlSkipOld, []any{c.ScheduleID, c.Now, string(topic.ReasonDeleted)}})
		}
		woken = append(woken, WokenConsumer{ScheduleID: c.ScheduleID, OverlapKey: c.Row.QualifiedOverlapKey(), At: c.Now})
	}
	// The wake rows first: a take that has one may have read the entries that are skipped here.
	if err := d.wakeChanged(ctx, q, woken); err != nil {
		return err
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	return nil
}

// wakeChanged has schedules looked at that were changed.
func (d *Dialect) wakeChanged(ctx context.Context, q Queries, woken []WokenConsumer) error {
	if len(woken) == 0 {
		return nil
	}
	var ids []string
	var buckets []int32
	var times []int64
	for i := range woken {
		c := &woken[i]
		ids, buckets, times = append(ids, c.ScheduleID), append(buckets, int32(schedule.Bucket(c.OverlapKey))), append(times, c.At.UnixMicro())
	}
	if _, err := q.Exec(ctx, d.WakeChanged, Rows{ids, buckets, times}); err != nil {
		return fmt.Errorf("wake: %w", err)
	}
	return d.NoteWoken(ctx, q, woken)
}

// resubscribes reports whether a change may change what a schedule consumes.
func resubscribes(c *schedule.Change) bool { return c.Row != nil && (c.NewRevision || !c.Row.Alive()) }

func subscriptionCalls(c *schedule.Change) (calls []Call) {
	if !c.Row.Alive() {
		return nil
	}
	for _, text := range c.Row.Consume.Topics {
		name, prefix := schedule.Subscription(text)
		calls = append(calls, Call{sqlSubscribe, []any{c.ScheduleID, c.Row.UserID, name, prefix}})
	}
	return calls
}
