package registrar

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/registrar/explain"
)

const (
	// maxSubscriptionRevisions bounds the revisions that are read to say since when a consumer names a topic.
	maxSubscriptionRevisions = 200
	// maxOpenOfOverlap bounds the open runs of an overlap key among which one in flight is looked for.
	maxOpenOfOverlap = 20
)

// ExplainEvent says for each consumer of an event, or for the one that is named, where the event is and
// why.
func (r *Registrar) ExplainEvent(ctx context.Context, userID string, id topic.ID, consumer string) (explain.EventAnswer, error) {
	event, _, err := r.GetEvent(ctx, userID, id)
	if err != nil {
		return explain.EventAnswer{}, err
	}
	found, err := r.events.Consumptions(ctx, event.Seq)
	if err != nil {
		return explain.EventAnswer{}, err
	}
	f := explain.EventFacts{Event: event, Now: r.now()}
	if r.cfg.Retention > 0 {
		f.KeptSince = f.Now.Add(-r.cfg.Retention)
	}
	for i := range found {
		if found[i].Round == 1 {
			f.Entries++
		}
		if last := len(f.Consumers) - 1; last >= 0 && f.Consumers[last].ScheduleID == found[i].ScheduleID {
			f.Consumers[last].Consumption = found[i]
			continue
		}
		f.Consumers = append(f.Consumers, explain.ConsumerFacts{Consumption: found[i]})
	}
	if err := r.addConsumerRuns(ctx, &f); err != nil {
		return explain.EventAnswer{}, err
	}
	if consumer != "" {
		if f.Asked, err = r.subscription(ctx, event, consumer); err != nil {
			return explain.EventAnswer{}, err
		}
	}
	return explain.DeriveEvent(&f), nil
}

// addConsumerRuns adds the runs that have the event, have ended it, or block it.
func (r *Registrar) addConsumerRuns(ctx context.Context, f *explain.EventFacts) error {
	var keys []schedule.Key
	busy := make(map[string][]schedule.Key) // open runs, by overlap key
	for i := range f.Consumers {
		c := &f.Consumers[i]
		for _, key := range []schedule.Key{c.Entry.Run, c.Own} {
			if !key.IsZero() {
				keys = append(keys, key)
			}
		}
		if _, known := busy[c.OverlapKey]; known || c.State != topic.Pending || r.overlaps == nil {
			continue
		}
		open, err := r.overlaps.OpenOfOverlap(ctx, schedule.OpenAsk{OverlapKey: c.OverlapKey, DueBy: f.Now, Limit: maxOpenOfOverlap})
		if err != nil {
			return err
		}
		busy[c.OverlapKey], keys = open, append(keys, open...)
	}
	if len(keys) == 0 {
		return nil
	}
	runs, err := r.ledger.ListRuns(ctx, schedule.RunFilter{AnyOf: keys, Now: f.Now, Limit: len(keys)})
	if err != nil {
		return err
	}
	byKey := make(map[schedule.Key]*schedule.Run, len(runs))
	for i := range runs {
		byKey[runs[i].Key] = &runs[i]
	}
	for i := range f.Consumers {
		c := &f.Consumers[i]
		c.Run = byKey[c.Entry.Run]
		for _, key := range busy[c.OverlapKey] {
			if run := byKey[key]; c.Blocking == nil && run != nil && run.Status.InFlight() {
				c.Blocking = run
			}
		}
		if own := byKey[c.Own]; c.Blocking == nil && c.WakeAt.IsZero() && own != nil && !own.Status.Terminal() {
			c.Blocking = own
		}
	}
	return nil
}

// subscription says since when a consumer of the event's owner names its topic.
func (r *Registrar) subscription(ctx context.Context, event *topic.Event, consumer string) (*explain.SubscriptionFacts, error) {
	s, err := r.schedules.GetSchedule(ctx, consumer)
	if err == nil && s.UserID != event.UserID {
		err = notFound(consumer)
	}
	if err != nil {
		return nil, err
	}
	revisions, err := r.schedules.ListRevisions(ctx, s.ScheduleID, 0, maxSubscriptionRevisions)
	if err != nil {
		return nil, err
	}
	living := revisions[:0]
	for i := range revisions {
		if s.Alive() && !revisions[i].CreatedAt.Before(s.CreatedAt) {
			living = append(living, revisions[i])
		}
	}
	return &explain.SubscriptionFacts{
		ScheduleID: s.ScheduleID, Since: explain.SubscribedSince(living, event.Topic), Mismatch: explain.FilteredOut(living, event),
	}, nil
}
