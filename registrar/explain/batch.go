package explain

import (
	"fmt"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule/describe"
	"github.com/carillon/carillon/internal/topic"
)

// batch says which events a run of a consumer has, or had.
func (x *runText) batch() {
	if x.Batch == nil {
		return
	}
	events := describe.Count(x.Batch.Count, "event")
	if x.Run.Status.Terminal() {
		x.say("It had %s: %s", events, x.batchEnd())
		return
	}
	s := "It has " + events
	if len(x.Batch.Events) > 0 {
		first := &x.Batch.Events[0]
		s += fmt.Sprintf(", the oldest of topic %s, published at %s", first.Topic, describe.Instant(first.PublishedAt))
	}
	x.say("%s", s)
}

// batchEnd is how the events of a run have ended.
func (x *runText) batchEnd() string {
	switch end := ledger.EventsAfter(x.Run, x.Next, x.Now); end.To {
	case topic.Reserved:
		return "the next attempt has them"
	case topic.Pending:
		return "they wait for another run"
	case topic.Skipped:
		return "they are skipped, because the consumer was deleted"
	case topic.Dead:
		return "they are dead, and no run gets them again"
	}
	return "they are consumed"
}
