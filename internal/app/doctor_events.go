package app

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule/describe"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/registrar"
)

// eventsAudited is how far back doctor audits events.
const eventsAudited = time.Hour

// events audits the events of the last hour, of all topics.
func (d *doctor) events(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	now := store.Now()
	a, cut, err := registrar.AuditEvents(ctx, store, topic.AuditFilter{From: now.Add(-eventsAudited), Until: now, Limit: topic.MaxAudited}, now.Add(-d.cfg.retention()))
	if err != nil {
		d.unread("events", err)
		return
	}
	if a.Events == 0 {
		return
	}
	if a.Broken > 0 {
		v := &a.Violations[0]
		d.fail("events", fmt.Sprintf("%s among the events of the last hour; the first: event %q of topic %q, consumer %q: %s", describe.Count(a.Broken, "problem"), v.EventID, v.Topic, v.ScheduleID, v.What),
			"this is a bug: report it with `carillon event explain`; `carillon topic audit` lists the problems of a topic")
		return
	}
	of := "of the last hour"
	if cut {
		of = fmt.Sprintf("from %s until %s", now.Add(-eventsAudited).Format(time.TimeOnly), a.Last.Format(time.TimeOnly))
	}
	d.ok("events", "%s %s, each where it must be", describe.Count(a.Events, "event"), of)
}
