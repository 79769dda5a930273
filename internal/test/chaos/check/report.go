package check

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// Print writes the report for people: the sums, the figures, and the first
// violations of each invariant with what happened around them.
func (r *Report) Print(to io.Writer) {
	n := r.Counts
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(to, format+"\n", args...) }
	p("slots %d (and %d that fell while a change took place), rows %d, in recorded ranges %d, keys sent %d, sent again %d",
		n.Slots, n.Optional, n.Rows, n.Recorded, n.Keys, n.Redelivered)
	if n.Jobs > 0 {
		p("runs of dispatch queues %d, of them sent %d; calls by gRPC %d, fetched %d; only counted %d; reservations granted %d", n.Jobs, n.JobKeys, n.ByGRPC, n.Fetched, n.Counted, n.Reserved)
	}
	p("faults %d, of them leader kills %d, leader pauses %d; terms %d", n.Faults, n.Kills, n.Pauses, n.Terms)
	var hands []string
	for _, shard := range slices.Sorted(maps.Keys(r.Hands)) {
		hands = append(hands, fmt.Sprintf("shard %d: %d", shard, r.Hands[shard]))
	}
	p("changes of hands %d (%s); calls repeated %d; caught up %d missed slots, during which %d of the probes fell due",
		n.Hands, strings.Join(hands, ", "), n.Repeats, n.CaughtUp, n.Meanwhile)
	var ended []string
	for _, word := range slices.Sorted(maps.Keys(r.Ended)) {
		ended = append(ended, fmt.Sprintf("%s %d", word, r.Ended[word]))
	}
	p("runs: %s", strings.Join(ended, ", "))
	for _, f := range r.Figures {
		p("%s", f)
	}
	shown := make(map[string]int)
	const most = 3
	for _, v := range r.Violations {
		if shown[v.Invariant]++; shown[v.Invariant] <= most {
			p("\nVIOLATION %s %s %s key %.12s: %s", v.Invariant, v.ScheduleID, clock(v.At), v.Key, v.Text)
			for _, line := range v.Context {
				p("    %s", line)
			}
		}
	}
	p("lost %d, doubled %d, early %d, wrong skips %d, violations %d %s", n.Lost, n.Doubled, n.Early, n.WrongSkips, len(r.Violations), r.byInvariant())
}

// Broken counts the violations by invariant.
func (r *Report) Broken() map[string]int {
	sums := make(map[string]int)
	for _, v := range r.Violations {
		sums[v.Invariant]++
	}
	return sums
}

func (r *Report) byInvariant() string {
	sums := r.Broken()
	var all []string
	for _, name := range slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	}) {
		all = append(all, fmt.Sprintf("%s×%d", name, sums[name]))
	}
	return strings.Join(all, " ")
}

// context is the evidence around a violation.
func (c *checker) context(v Violation) []string {
	var lines []string
	if r, known := c.ledger[v.Key]; known {
		lines = append(lines, "row: "+describe(r))
	}
	if v.Key != "" {
		lines = append(lines, c.effects[v.Key].String())
	}
	const near = 2 * time.Second
	for _, w := range c.Writes {
		if w.Key == v.Key && v.Key != "" {
			lines = append(lines, fmt.Sprintf("%s write by %s: %s→%s, row's epoch %d, newest epoch %d of %s", clock(w.At), w.Writer, w.Before, w.After, w.Epoch, w.Leader, w.Holder))
		}
	}
	for _, act := range c.Acts {
		if act.ScheduleID == v.ScheduleID && act.Asked.Before(v.At.Add(5*time.Second)) && act.Answered.After(v.At.Add(-5*time.Second)) {
			lines = append(lines, fmt.Sprintf("%s–%s %s, revision %d", clock(act.Asked), clock(act.Answered), act.Verb, act.Revision))
		}
	}
	for _, f := range c.Faults {
		if f.Kind != record.Clock && f.Began.Before(v.At.Add(near)) && later(f.Began, later(f.Ended, f.Calm)).After(v.At.Add(-near)) {
			lines = append(lines, fmt.Sprintf("%s fault %s %s %s, ended %s, calm %s", clock(f.Began), f.Kind, f.Target, f.Point, clock(f.Ended), clock(f.Calm)))
		}
	}
	for _, e := range c.events[v.ScheduleID] {
		if e.Time.Sub(v.At).Abs() < 10*time.Second || !e.From.IsZero() && !v.At.Before(e.From) && !v.At.After(e.To) {
			lines = append(lines, fmt.Sprintf("%s event %s, %s–%s, count %d", clock(e.Time), e.Kind, clock(e.From), clock(e.To), e.Count))
		}
	}
	const most = 40
	return lines[:min(len(lines), most)]
}

func describe(r record.Run) string {
	var out strings.Builder
	_, _ = fmt.Fprintf(&out, "%s run_at %s fire_at %s %s", r.ScheduleID, clock(r.RunAt), clock(r.FireAt), r.Status)
	if r.Reason != "" {
		_, _ = fmt.Fprintf(&out, "(%s)", r.Reason)
	}
	_, _ = fmt.Fprintf(&out, " %s %s deliveries %d epoch %d revision %d", r.Trigger, r.Overlap, r.Deliveries, r.Epoch, r.Revision)
	for _, at := range []struct {
		name string
		time time.Time
	}{
		{"waiting_since", r.WaitingSince},
		{"launched_at", r.LaunchedAt},
		{"started_at", r.StartedAt},
		{"cancel_requested_at", r.CancelAsked},
		{"completed_at", r.CompletedAt},
	} {
		if !at.time.IsZero() {
			_, _ = fmt.Fprintf(&out, " %s %s", at.name, clock(at.time))
		}
	}
	_, _ = fmt.Fprintf(&out, " key %.12s", r.Key)
	return out.String()
}
