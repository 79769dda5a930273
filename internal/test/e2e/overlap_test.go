package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// stretch is a run's time in flight as the executor saw it: from its first
// call until the first definite word on its end left.
type stretch struct {
	row         run
	from, until time.Time
}

// overlap: under one overlap key no two runs are in flight together, and what
// was skipped for an overlap had one.
func (c *checker) overlap() {
	groups := make(map[string][]run)
	for id, rows := range c.rows {
		d := c.journal.schedules[id].definition
		if d.OverlapPolicy == "allow" {
			continue
		}
		key := d.OverlapKey
		if key == "" {
			key = id
		}
		groups[key] = append(groups[key], rows...)
	}
	for _, rows := range groups {
		c.disjoint(rows)
		c.trueSkips(rows)
	}
}

func (c *checker) disjoint(rows []run) {
	var flights []stretch
	for _, r := range rows {
		if e := c.oracle.effects[r.Key]; e != nil {
			flights = append(flights, stretch{r, e.first, c.until(r, e)})
		}
	}
	slices.SortFunc(flights, func(a, b stretch) int { return a.from.Compare(b.from) })
	for i := 1; i < len(flights); i++ {
		before, now := flights[i-1], flights[i]
		if now.from.Before(before.until) && !c.cancelTimedOut(before.row) {
			c.violate(now.row, "its first call came at %s, while another run was in flight from %s until %s: %s",
				clock(now.from), clock(before.from), clock(before.until), describe(before.row))
		}
	}
}

// until is when a run was over: when the executor said so, or when a bound
// ended it before.
func (c *checker) until(r run, e *effect) time.Time {
	until := e.said
	if bounded := r.Reason == "timeout" || r.Reason == "lost" || r.Reason == "launch_unavailable"; bounded && (until.IsZero() || r.CompletedAt.Before(until)) {
		until = r.CompletedAt
	}
	if until.IsZero() {
		until = r.CompletedAt // cancelled before the executor had begun with it
	}
	return until
}

// cancelTimedOut: the schedule's log says that an overlap is possible.
func (c *checker) cancelTimedOut(r run) bool {
	return slices.ContainsFunc(c.events[r.ScheduleID], func(e event) bool {
		return e.Kind == "cancel_timed_out" && e.From.Equal(r.RunAt)
	})
}

// skipSlack is how far the instant at which a run ended may lie from that at
// which its end was committed and seen: on a busy machine a commit takes seconds.
const skipSlack = 3 * time.Second

func (c *checker) trueSkips(rows []run) {
	for _, skipped := range rows {
		if skipped.Reason != "overlap" {
			continue
		}
		at := skipped.CompletedAt
		if !slices.ContainsFunc(rows, func(r run) bool {
			return r.Key != skipped.Key && r.Status != "SKIPPED" && !r.FireAt.After(at) && r.CompletedAt.After(at.Add(-skipSlack))
		}) {
			c.violate(skipped, "it was skipped at %s, when nothing else was in flight", clock(at))
		}
	}
}

func describe(r run) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s run_at %s fire_at %s %s", r.ScheduleID, clock(r.RunAt), clock(r.FireAt), r.Status)
	if r.Reason != "" {
		fmt.Fprintf(&out, "(%s)", r.Reason)
	}
	fmt.Fprintf(&out, " %s deliveries %d epoch %d revision %d", r.Trigger, r.Deliveries, r.Epoch, r.Revision)
	for _, at := range []struct {
		name string
		time time.Time
	}{
		{"waiting_since", r.WaitingSince},
		{"claimed_at", r.ClaimedAt},
		{"launched_at", r.LaunchedAt},
		{"started_at", r.StartedAt},
		{"cancel_requested_at", r.CancelAsked},
		{"completed_at", r.CompletedAt},
	} {
		if !at.time.IsZero() {
			fmt.Fprintf(&out, " %s %s", at.name, clock(at.time))
		}
	}
	fmt.Fprintf(&out, " key %.12s", r.Key)
	return out.String()
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func unmarshal(text []byte, into any) error { return json.Unmarshal(text, into) }

func readAll(r io.Reader) string {
	text, _ := io.ReadAll(r) // what was cut off is not found in it
	return string(text)
}
