package explain

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// startLine is the sentence about when a run of a queue would start. since is from when on it counts.
func startLine(e *ledger.Estimate, since time.Time) string {
	if !e.Known() {
		return e.Assumes[0]
	}
	wait := e.P50.Sub(since).Round(time.Second)
	if wait <= 0 {
		return "It would start at once if nothing comes before it"
	}
	s := fmt.Sprintf("It would start at about %s, after %s, if nothing comes before it", describe.Instant(e.P50.Round(time.Second)), describe.Span(wait))
	if slow := e.P90.Round(time.Second); slow.After(e.P50.Round(time.Second)) {
		s += "; with slow runs at about " + describe.Instant(slow)
	}
	return s
}

// wouldStart says when the run would start.
func (x *runText) wouldStart() {
	if x.Start == nil {
		return
	}
	x.out.WouldStart = x.Start
	if x.Start.Known() && len(x.out.BlockedBy) == 0 {
		return // it has been said that nothing blocks it
	}
	line := startLine(x.Start, x.Now)
	if by := x.Run.StartBy; x.Start.Known() && !by.IsZero() && x.Start.P50.After(by) {
		line += ". It will have expired by then"
	}
	x.say("%s", line)
}

// slotStart says when the run of a slot ahead would start in its queue.
func (t *text) slotStart() {
	e := t.WouldStart
	if e == nil {
		return
	}
	t.say("It goes into queue %s at %s", t.Rule.Definition.QueueID, describe.Instant(t.Slot.FireAt))
	t.say("%s", startLine(e, t.Slot.FireAt))
}
