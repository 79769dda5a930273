package explain

import (
	"fmt"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// unique says what the unique key of a run does to it and to further requests.
func (x *runText) unique() {
	h := x.Run.Queue.Unique
	if h == nil {
		return
	}
	s := fmt.Sprintf("It holds the unique key %s since %s", schedule.Quote(h.Key), describe.Instant(h.FirstAt))
	switch h.Scope {
	case schedule.UniqueWaiting:
		if !ledger.NeverAdmitted(x.Run) {
			return // its admission has freed it
		}
		s += ", until its queue admits it"
	case schedule.UniqueOpen:
		s += ", until it and its retries are over"
	case schedule.UniquePeriod:
		if !h.Until.After(x.Now) {
			return
		}
		s += ", until " + describe.Instant(h.Until)
	}
	x.say("%s", s)
	switch {
	case h.Replaced == 1:
		x.say("It was replaced once")
	case h.Replaced > 1:
		x.say("It was replaced %d times", h.Replaced)
	}
	if !h.FireBy.IsZero() && x.Run.Queue.State == schedule.QueueDelayed {
		x.say("It starts at %s unless another request replaces it, and at %s at the latest", describe.Instant(x.Run.FireAt), describe.Instant(h.FireBy))
	}
}
