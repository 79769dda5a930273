package topic

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Publication is a request to publish events of one owner, all or none.
type Publication struct {
	UserID string
	Events []Event
	// RequireSubscriber refuses the request if an event has no consumer; Strict, if an event was
	// published before with other data.
	RequireSubscriber, Strict bool
	Now                       time.Time
}

// Published is the result of one event of a publication.
type Published struct {
	Seq       int64
	Duplicate bool // it was published before, and nothing was written
	Differs   bool // with other data
	Fanout    int
}

// Route is where the events of a publication go.
type Route struct {
	Fresh     []int                   // events by their place, without later ones of the same name, in order of their ids
	First     map[ID]int              // the place of each name
	Consumers map[int][]*Subscription // of each place
}

// RouteOf matches the events of a publication with consumers.
func RouteOf(p *Publication, subscriptions []Subscription) Route {
	r := Route{First: make(map[ID]int, len(p.Events)), Consumers: make(map[int][]*Subscription, len(p.Events))}
	byTopic := make(map[string][]*Subscription)
	f := filters{patterns: make(map[int32]*Pattern)}
	for i := range p.Events {
		e := &p.Events[i]
		if _, again := r.First[e.ID()]; again {
			continue
		}
		r.First[e.ID()] = i
		of, known := byTopic[e.Topic]
		if !known {
			of = Consumers(subscriptions, e.Topic)
			byTopic[e.Topic] = of
		}
		r.Fresh, r.Consumers[i] = append(r.Fresh, i), f.matching(e, of)
	}
	// Publishers that send the same events take their locks in one order.
	slices.SortFunc(r.Fresh, func(a, b int) int { return compare(p.Events[a].ID(), p.Events[b].ID()) })
	return r
}

// filters are the patterns of consumers, each read once.
type filters struct{ patterns map[int32]*Pattern }

// matching are the consumers that do not leave the event out.
func (f *filters) matching(e *Event, of []*Subscription) (matching []*Subscription) {
	v := view{event: e}
	for _, s := range of {
		p, known := f.patterns[s.SID]
		if !known {
			p = filterOf(s.Filter)
			f.patterns[s.SID] = p
		}
		if p == nil || p.whyNot(&v) == nil {
			matching = append(matching, s)
		}
	}
	return matching
}

func compare(a, b ID) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Source, b.Source), cmp.Compare(a.EventID, b.EventID))
}

// Refusal is why a publication is refused before anything is written, or nil.
func (r *Route) Refusal(p *Publication) error {
	if !p.RequireSubscriber {
		return nil
	}
	for _, i := range r.Fresh {
		if len(r.Consumers[i]) == 0 {
			return schedule.Explain(schedule.ErrPrecondition, "no_subscriber: no schedule of %s consumes event %s of topic %s; register one, see the filters of those that are there, or publish without require_subscriber",
				schedule.Quote(p.UserID), schedule.Quote(p.Events[i].EventID), schedule.Quote(p.Events[i].Topic))
		}
	}
	return nil
}

// Repeated is the result of an event that exists already.
func Repeated(p *Publication, e, earlier *Event) (Published, error) {
	out := Published{Seq: earlier.Seq, Duplicate: true, Differs: earlier.DataHash != e.DataHash, Fanout: earlier.Fanout}
	if out.Differs && p.Strict {
		return out, schedule.Explain(schedule.ErrKeyConflict, "event %s of topic %s was published before with other data; give it another event_id, or publish without strict",
			schedule.Quote(e.EventID), schedule.Quote(e.Topic))
	}
	return out, nil
}
