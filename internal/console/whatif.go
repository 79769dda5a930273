package console

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// whatIf is a simulation of a queue, as in its form, and the result.
type whatIf struct {
	MaxInFlight, Takes, Every, For string
	Asked                          bool
	Fails                          *failure
	Queues                         []whatIfQueue
	Assumes                        []string
}

// whatIfQueue is a queue with the saved or the proposed settings.
type whatIfQueue struct {
	*carillonv1.SimulatedQueue
	Name string
	Ends moment
}

// Waits are the waits of its runs.
func (q whatIfQueue) Waits() []string {
	waits := make([]string, 0, 3)
	for _, ms := range []uint32{q.GetWaitP50Ms(), q.GetWaitP90Ms(), q.GetWaitMaxMs()} {
		waits = append(waits, schedule.ShortDuration((time.Duration(ms) * time.Millisecond).Round(100*time.Millisecond)))
	}
	return waits
}

// Rate is how many runs start per minute.
func (q whatIfQueue) Rate() string { return fmt.Sprintf("%.3g", q.GetStartsPerMinute()) }

// Starts says how many runs start.
func (q whatIfQueue) Starts() string {
	return fmt.Sprintf("%d of %s", q.GetStarted(), describe.Count(int(q.GetRuns()), "run"))
}

// whatIf simulates a queue if the address asks for it. A refresh of the figures does not.
func (c *Console) whatIf(v *visit, id string) whatIf {
	w := whatIf{MaxInFlight: v.param("max"), Takes: v.param("takes"), Every: v.param("every"), For: v.param("for")}
	w.Asked = v.URL.Query().Has("max")
	if !w.Asked || v.fragment() {
		return w
	}
	req := &carillonv1.SimulateQueueRequest{QueueId: id, Compare: true, Definition: &carillonv1.ProposedQueue{}}
	var problems []violation
	millis := func(field, text string, set func(uint32)) {
		if text == "" {
			return
		}
		d, err := time.ParseDuration(text)
		if ms := d.Milliseconds(); err != nil || ms < 0 || ms > schedule.MaxDelay.Milliseconds() {
			problems = append(problems, violation{field, schedule.Quote(text) + " is not a duration up to 720h, such as 90s or 2h"})
		} else {
			set(uint32(ms))
		}
	}
	if w.MaxInFlight != "" {
		n, err := strconv.ParseUint(w.MaxInFlight, 10, 32)
		if err != nil {
			problems = append(problems, violation{"max in flight", schedule.Quote(w.MaxInFlight) + " is not a number"})
		}
		req.Definition.MaxInFlight = proto.Uint32(uint32(n))
	}
	millis("run time", w.Takes, func(ms uint32) {
		req.Durations = []*carillonv1.SimulatedDuration{{Run: &carillonv1.AssumedRun{DurationMs: &ms}}}
	})
	millis("one more run every", w.Every, func(ms uint32) { req.Arrivals = []*carillonv1.SimulatedArrivals{{EveryMs: ms}} })
	millis("for", w.For, func(ms uint32) { req.ForMs = &ms })
	if len(problems) > 0 {
		w.Fails = &failure{Title: "Invalid request", Violations: problems, code: http.StatusUnprocessableEntity}
		return w
	}
	resp, err := c.queues.SimulateQueue(v.Context(), req)
	if err != nil {
		f := failureOf(err)
		w.Fails = &f
		return w
	}
	saved, proposed := resp.GetSaved(), resp.GetProposed()
	w.Queues = []whatIfQueue{{saved, "saved", v.at(saved.GetLastEndAt())}, {proposed, "proposed", v.at(proposed.GetLastEndAt())}}
	w.Assumes = resp.GetAssumes()
	return w
}
