package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
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
			inFlight := !r.ClaimedAt.IsZero() && !r.ClaimedAt.After(at) // also before its fire_at
			return r.Key != skipped.Key && r.Status != "SKIPPED" && inFlight && r.CompletedAt.After(at.Add(-skipSlack))
		}) {
			c.violate(skipped, "it was skipped at %s, when nothing else was in flight", clock(at))
		}
	}
}

// queue-shared-b was claimed 0.7 s before its fire_at; then skip-shared-a, which shares its overlap
// key, was registered and due at once.
func TestASlotMayBeSkippedForARunThatIsClaimedAhead(t *testing.T) {
	noon := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	for claimed, want := range map[time.Time]int{at(300): 0, at(500): 1, {}: 1} {
		c := &checker{}
		c.trueSkips([]run{
			{ScheduleID: "skip-shared-a", Key: "a", FireAt: at(0), Status: "SKIPPED", Reason: "overlap", CompletedAt: at(400)},
			{ScheduleID: "queue-shared-b", Key: "b", FireAt: at(1000), Status: "SUCCESS", ClaimedAt: claimed, CompletedAt: at(1100)},
		})
		if len(c.violations) != want {
			t.Errorf("a slot is skipped at %s for a run that was claimed at %s: %d violations, want %d", clock(at(400)), clock(claimed), len(c.violations), want)
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
