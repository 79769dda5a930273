// Package publication checks events before they are published: those of a request, and those that a run
// commits.
package publication

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// Check adds what is wrong with the events of one publication, which have their names, and notes the hash
// of their data. list is the field that has them, field names one of an event.
func Check(c *schedule.Collect, list string, events []topic.Event, field func(i int, name string) string) {
	if n := len(events); n > topic.MaxPublished {
		c.Note(list, fmt.Sprintf("has %d events, more than %d", n, topic.MaxPublished), "publish them in several requests")
		return
	}
	total := 0
	first := make(map[topic.ID]int, len(events))
	for i := range events {
		e := &events[i]
		total += len(e.Data)
		checkEvent(c, e, func(name string) string { return field(i, name) })
		if at, twice := first[e.ID()]; !twice {
			first[e.ID()] = i
		} else if events[at].DataHash != e.DataHash {
			c.Add(field(i, "event_id"), e.EventID, fmt.Sprintf("is that of %s[%d], with other data", list, at), "give each event an id of its own")
		}
	}
	if total > topic.MaxCallBytes {
		c.Note(list, fmt.Sprintf("have %d bytes of data together, more than %d", total, topic.MaxCallBytes), "publish them in several requests")
	}
}

func checkEvent(c *schedule.Collect, e *topic.Event, field func(string) string) {
	switch {
	case e.Topic == "":
		c.Note(field("topic"), "is required", schedule.IDHint)
	case !schedule.ValidID(e.Topic):
		c.Add(field("topic"), e.Topic, "is not a topic", schedule.IDHint)
	case strings.HasPrefix(e.Topic, topic.ReservedPrefix):
		c.Add(field("topic"), e.Topic, "begins with "+topic.ReservedPrefix+", which is kept for Carillon", "use another topic")
	}
	for _, part := range []struct{ name, text string }{{"event_id", e.EventID}, {"source", e.Source}, {"type", e.Type}, {"subject", e.Subject}} {
		if len(part.text) > topic.MaxEventID || !utf8.ValidString(part.text) || strings.ContainsFunc(part.text, unicode.IsControl) {
			c.Add(field(part.name), part.text, fmt.Sprintf("is over %d bytes, not UTF-8, or holds control characters", topic.MaxEventID), "")
		}
	}
	if !e.Time.IsZero() && (e.Time.Before(schedule.MinTime) || !e.Time.Before(schedule.MaxTime)) {
		c.Add(field("time"), e.Time.Format(time.RFC3339), "is outside 1970 to 2099", "")
	}
	e.DataHash = checkData(c, field("data"), e.Data)
}

func checkData(c *schedule.Collect, field string, data []byte) (hash schedule.Key) {
	switch {
	case len(data) == 0:
		c.Note(field, "is required", "give any JSON value, such as {}")
		return hash
	case len(data) > topic.MaxData:
		c.Note(field, fmt.Sprintf("has %d bytes, more than %d", len(data), topic.MaxData), "publish a reference instead of the content")
		return hash
	}
	if problem := rawjson.Problem(data, schedule.MaxJSONDepth); problem != "" {
		c.Note(field, problem, "")
		return hash
	}
	hash, err := schedule.CanonicalHash(data)
	if err != nil {
		c.Note(field, "is not JSON: "+err.Error(), "")
	}
	return hash
}
