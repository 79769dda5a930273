package registrar

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

const (
	// listedMost and readMost bound what is looked at for the numbers of one topic, in a list and alone.
	listedMost = 1000
	readMost   = 100_000
	// auditedByDefault is the range of an audit without from.
	auditedByDefault = time.Hour
	// strayMost bounds the entries without an event that an audit lists of one consumer.
	strayMost = 10
)

// ListTopics lists topics with their numbers, by owner and name.
func (r *Registrar) ListTopics(ctx context.Context, f topic.NameFilter) ([]topic.Stats, error) {
	if r.events == nil {
		return nil, schedule.ErrUnsupported
	}
	if !ownOnly(ctx, &f.UserID) {
		return nil, nil
	}
	names, err := r.events.ListTopics(ctx, f)
	if err != nil {
		return nil, err
	}
	found := make([]topic.Stats, len(names))
	for i := range names {
		if found[i], err = r.events.ReadTopic(ctx, names[i], topic.StatsAsk{Now: r.now(), Most: listedMost}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// GetTopic returns the numbers of a topic that has an event or a consumer.
func (r *Registrar) GetTopic(ctx context.Context, name topic.Name) (topic.Stats, error) {
	if err := r.ofTopic(ctx, &name.UserID); err != nil {
		return topic.Stats{}, err
	}
	found, err := r.events.ReadTopic(ctx, name, topic.StatsAsk{Now: r.now(), Most: readMost})
	if err == nil && !found.Any() {
		err = schedule.Explain(schedule.ErrNotFound, "topic %s of %s has no event and no consumer", schedule.Quote(name.Topic), schedule.Quote(name.UserID))
	}
	return found, err
}

// AuditTopic compares the events of a topic, published from From until before Until, with what their
// consumers have of them. Default: the last hour. cut: Until is earlier than asked, because the range
// has more events than one audit takes.
func (r *Registrar) AuditTopic(ctx context.Context, f topic.AuditFilter) (a *topic.Audit, of topic.AuditFilter, cut bool, err error) {
	if err := r.ofTopic(ctx, &f.UserID); err != nil {
		return nil, f, false, err
	}
	if f.Until.IsZero() {
		f.Until = r.now()
	}
	if f.From.IsZero() {
		f.From = f.Until.Add(-auditedByDefault)
	}
	if !f.From.Before(f.Until) {
		return nil, f, false, schedule.Invalid("from", f.From.Format(time.RFC3339), fmt.Sprintf("is not before until, %s", f.Until.Format(time.RFC3339)), "")
	}
	f.Limit = topic.MaxAudited
	var keptSince time.Time
	if r.cfg.Retention > 0 {
		keptSince = r.now().Add(-r.cfg.Retention)
	}
	a, cut, err = AuditEvents(ctx, r.events, f, keptSince)
	if cut {
		f.Until = a.Last
	}
	return a, f, cut, err
}

// AuditEvents compares events with what their consumers have of them. cut: there are more than f.Limit.
func AuditEvents(ctx context.Context, store EventStore, f topic.AuditFilter, keptSince time.Time) (a *topic.Audit, cut bool, err error) {
	a = topic.NewAudit(keptSince)
	if cut, err = store.AuditEvents(ctx, f, a.Add); err != nil {
		return a, cut, err
	}
	runs, err := store.AuditRuns(ctx, a.End())
	if err != nil {
		return a, cut, err
	}
	a.CheckRuns(runs)
	for id := range a.Entries {
		stray, err := store.StrayEntries(ctx, id, a.FirstSeq, a.LastSeq, strayMost)
		if err != nil {
			return a, cut, err
		}
		for _, seq := range stray {
			a.Stray(id, seq)
		}
	}
	return a, cut, nil
}
