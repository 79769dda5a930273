package registrar

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/publication"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// PublishInput is a request to publish events.
type PublishInput struct {
	UserID    string
	Topic     string // of events that name none
	RequestID string // names events without an id; empty: drawn
	Events    []topic.Event
	Single    bool // the one event is the request itself: its fields have no index

	Strict, RequireSubscriber bool
}

// Publish publishes events, all or none. It returns them with their names, and the result of each.
func (r *Registrar) Publish(ctx context.Context, in PublishInput) ([]topic.Event, []topic.Published, error) {
	if r.events == nil {
		return nil, nil, schedule.ErrUnsupported
	}
	if err := ownUser(ctx, &in.UserID, "topics"); err != nil {
		return nil, nil, err
	}
	in.RequestID = orDefault(in.RequestID, rand.Text())
	p := topic.Publication{UserID: in.UserID, Events: in.Events, Strict: in.Strict, RequireSubscriber: in.RequireSubscriber, Now: r.now()}
	if err := in.complete(&p, auth.FromContext(ctx).Subject); err != nil {
		return nil, nil, err
	}
	if err := r.checkPending(ctx, p.UserID, len(p.Events)); err != nil {
		return nil, nil, err
	}
	out, err := r.events.Publish(ctx, &p)
	if err != nil {
		return nil, nil, err
	}
	r.pending.entered(p.UserID, written(out))
	return p.Events, out, nil
}

// written is how many entries of inboxes a publication wrote.
func written(all []topic.Published) (n int) {
	for _, p := range all {
		if !p.Duplicate {
			n += p.Fanout
		}
	}
	return n
}

// complete checks a publication, and gives its events their names.
func (in *PublishInput) complete(p *topic.Publication, by string) error {
	var c schedule.Collect
	checkOwner(&c, p.UserID)
	checkID(&c, "request_id", in.RequestID)
	if len(p.Events) == 0 {
		c.Note("events", "is empty", fmt.Sprintf("give 1 to %d events, or the fields of one", topic.MaxPublished))
	}
	for i := range p.Events {
		e := &p.Events[i]
		e.UserID, e.PublishedBy = p.UserID, by
		e.Topic = orDefault(e.Topic, in.Topic)
		if e.EventID == "" {
			e.EventID = fmt.Sprintf("%s:%d", in.RequestID, i)
		}
	}
	publication.Check(&c, "events", p.Events, func(i int, name string) string {
		if in.Single {
			return name
		}
		return fmt.Sprintf("events[%d].%s", i, name)
	})
	return c.Err()
}

// GetEvent returns an event of the caller's owner, with its state for each consumer.
func (r *Registrar) GetEvent(ctx context.Context, userID string, id topic.ID) (*topic.Event, []topic.Entry, error) {
	if err := r.ofTopic(ctx, &userID); err != nil {
		return nil, nil, err
	}
	return r.events.GetEvent(ctx, userID, id)
}

// ListTopicEvents lists events of a topic of the caller's owner, the newest first.
func (r *Registrar) ListTopicEvents(ctx context.Context, f topic.EventFilter) ([]topic.Event, error) {
	if err := r.ofTopic(ctx, &f.UserID); err != nil {
		return nil, err
	}
	return r.events.ListTopicEvents(ctx, f)
}

// ofTopic completes the owner of a topic, which no other names.
func (r *Registrar) ofTopic(ctx context.Context, userID *string) error {
	if r.events == nil {
		return schedule.ErrUnsupported
	}
	if err := ownUser(ctx, userID, "topics"); err != nil {
		return err
	}
	var c schedule.Collect
	checkOwner(&c, *userID)
	return c.Err()
}

// Inbox is a page of what a consumer has of events.
type Inbox struct {
	Entries []topic.InboxEntry
	Counts  map[topic.State]int // all of the consumer
}

// ListInbox lists the inbox of a consumer, the oldest event first.
func (r *Registrar) ListInbox(ctx context.Context, f topic.InboxFilter) (Inbox, error) {
	if r.events == nil {
		return Inbox{}, schedule.ErrUnsupported
	}
	s, err := r.schedules.GetSchedule(ctx, f.ScheduleID)
	if err != nil {
		return Inbox{}, err
	}
	f.ScheduleID = s.ScheduleID
	out := Inbox{}
	if out.Entries, err = r.events.ListInbox(ctx, f); err != nil {
		return out, err
	}
	out.Counts, err = r.events.CountInbox(ctx, f.ScheduleID)
	return out, err
}

// refuseConsumer refuses what starts a run of a consumer without events.
func refuseConsumer(s *schedule.Schedule, what string) error {
	if !s.Consume.Any() {
		return nil
	}
	return schedule.Explain(schedule.ErrPrecondition, "cannot %s: schedule %s is a consumer, and only events start its runs; publish one to %s",
		what, schedule.Quote(s.ScheduleID), strings.Join(s.Consume.Topics, " or "))
}

// checkConsumer adds what is wrong with a consumer.
func checkConsumer(c *schedule.Collect, d *schedule.Definition) {
	d.Consume.Check(c)
	checkFilter(c, d.Consume.Filter)
	if !d.Consume.Any() {
		return
	}
	if !d.ByHand() {
		c.Note("consume", "is set with a time rule", "leave out cron_expr, interval_ms and once_at: events start its runs")
	}
	if d.QueueID != "" {
		c.Note("consume", "is set with queue_id", "leave out one of them: the runs of a consumer enter no dispatch queue")
	}
	if d.OverlapPolicy != schedule.OverlapQueue {
		c.Add("overlap_policy", string(d.OverlapPolicy), "is not for a consumer", "leave it out: its runs go one after the other")
	}
}

// orderedFilter is a filter in its canonical form, so that the layout makes no new revision. One that
// is refused stays.
func orderedFilter(filter json.RawMessage) json.RawMessage {
	if len(filter) == 0 || jsonProblem(filter) != "" {
		return filter
	}
	canonical, err := schedule.CanonicalJSON(filter)
	if err != nil {
		return filter
	}
	return canonical
}

// checkFilter adds what is wrong with the filter of a consumer.
func checkFilter(c *schedule.Collect, filter []byte) {
	if len(filter) == 0 {
		return
	}
	_, bad := topic.ParsePattern(filter)
	if bad == nil {
		if problem := jsonProblem(filter); problem != "" {
			bad = &topic.PatternProblem{Problem: problem}
		}
	}
	if bad != nil {
		c.Note("consume.filter", bad.Problem, bad.Hint)
	}
}

// keepsGroup refuses another overlap key of a consumer: two groups would run it.
func keepsGroup(before, after *schedule.Definition) error {
	if before.Consume.Any() && after.Consume.Any() && before.OverlapKey != after.OverlapKey {
		return schedule.Explain(schedule.ErrPrecondition, "cannot change overlap_key of consumer %s from %s to %s: register it under another schedule_id",
			schedule.Quote(after.ScheduleID), schedule.Quote(before.OverlapKey), schedule.Quote(after.OverlapKey))
	}
	return nil
}
