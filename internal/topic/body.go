package topic

import (
	"encoding/json"
	"time"
)

// Body is an event as an executor gets it in JSON. Its data are as they were sent.
type Body struct {
	Topic       string          `json:"topic"`
	EventID     string          `json:"event_id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject"`
	Seq         int64           `json:"seq"`
	Round       int32           `json:"round"`
	Time        *time.Time      `json:"time"`
	PublishedAt time.Time       `json:"published_at"`
	Data        json.RawMessage `json:"data"`
}

// Bodies are the events of a batch as an executor gets them; nil: there is none.
func (b *Batch) Bodies() (bodies []Body) {
	if b == nil {
		return nil
	}
	for i := range b.Events {
		e := &b.Events[i]
		body := Body{
			Topic: e.Topic, EventID: e.EventID, Source: e.Source, Type: e.Type, Subject: e.Subject, Seq: e.Seq, Round: e.Round,
			PublishedAt: e.PublishedAt.UTC(), Data: e.Data,
		}
		if !e.Time.IsZero() {
			at := e.Time.UTC()
			body.Time = &at
		}
		bodies = append(bodies, body)
	}
	return bodies
}
