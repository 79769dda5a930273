package topic

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Add adds the events that a run of a schedule publishes with its success. hops is the greatest one of the events that
// the run has taken; -1: it has none.
func (p *Publication) Add(run schedule.Key, scheduleID string, events []schedule.CommitEvent, hops int32) {
	for i := range events {
		e := &events[i]
		p.Events = append(p.Events, Event{
			UserID: p.UserID, Topic: e.Topic, Source: e.Source, EventID: e.EventID, Type: e.Type, Subject: e.Subject, Time: stored(e.Time),
			Data: e.Data, DataHash: e.DataHash, PublishedBy: "schedules/" + scheduleID, CausedBy: run, Hops: hops + 1,
		})
	}
}

func stored(t time.Time) time.Time { return t.Truncate(time.Microsecond) }

// Loops reports whether so many runs came before the event that no other one gets it: consumers that
// publish to each other would go on without end.
func (e *Event) Loops() bool { return e.Hops > MaxHops }
