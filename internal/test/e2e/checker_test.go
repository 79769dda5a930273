package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"
)

// checker compares three views of one time: the slots there should have been,
// by its own cron; the ledger and the schedules' logs, by REST; and what the
// executor saw, by its own clock.
type checker struct {
	t       testing.TB
	journal *journal
	oracle  *oracle
	watched *watch
	grace   time.Duration
	// steadiness is how the machine's clock was set while the test ran.
	steadiness steadiness

	logs   []*logTail
	rows   map[string][]run // by schedule
	events map[string][]event
	ledger map[string]run // by key

	violations []violation
	missed     int            // slots that were recorded instead of fired
	ended      map[string]int // rows by "STATUS(reason)"
}

type violation struct {
	at         time.Time
	scheduleID string
	key        string
	text       string
}

func (c *checker) violate(r run, format string, args ...any) {
	c.violations = append(c.violations, violation{r.RunAt, r.ScheduleID, r.Key, fmt.Sprintf(format, args...) + "\n    row: " + describe(r)})
}

// check runs every check and reports all that they found.
func (c *checker) check() {
	c.t.Helper()
	c.journal.settle(c.t, c.events)
	for _, id := range slices.Sorted(maps.Keys(c.rows)) {
		s := c.journal.schedules[id]
		slices.SortFunc(c.rows[id], func(a, b run) int { return a.RunAt.Compare(b.RunAt) })
		c.conservation(s)
		c.lateEnough(id)
		for _, r := range c.rows[id] {
			c.ledger[r.Key] = r
			c.ended[strings.TrimSuffix(r.Status+"("+r.Reason+")", "()")]++
			c.row(s, r)
		}
	}
	c.executor()
	c.overlap()
	c.liveness()
	for _, wrong := range append(c.oracle.wrongs, c.watched.wrongs...) {
		c.violations = append(c.violations, violation{text: wrong})
	}
	c.report()
}

// conservation: every slot is exactly one row, or lies in exactly one range
// that the schedule's log records; and there is no other row.
func (c *checker) conservation(s *registered) {
	id := s.definition.ScheduleID
	rows := make(map[int64]int)
	expected := make(map[int64]bool)
	for _, r := range c.rows[id] {
		rows[r.RunAt.Unix()]++
	}
	for _, slot := range s.slots(c.t) {
		expected[slot.Unix()] = true
		n, ranges := rows[slot.Unix()], c.covering(id, slot)
		if n+len(ranges) != 1 {
			c.violations = append(c.violations, violation{
				slot, id, slotKey(id, slot),
				fmt.Sprintf("the slot %s has %d rows and lies in %d recorded ranges; want one of either: %v", clock(slot), n, len(ranges), ranges),
			})
		}
		c.missed += len(ranges)
	}
	for _, r := range c.rows[id] {
		if !expected[r.RunAt.Unix()] && !s.claimedBefore(c.t, r) {
			c.violate(r, "there is no such slot")
		}
	}
}

// slots are the expected ones, from creation to the end without the lapses.
func (s *registered) slots(t testing.TB) []time.Time {
	return slices.DeleteFunc(expectedSlots(t, s, s.createdAt, s.stoppedAt), func(slot time.Time) bool {
		return slices.ContainsFunc(s.lapses, func(l lapse) bool { return slot.After(l.from) && !slot.After(l.until) })
	})
}

// arming is how far ahead a slot may be claimed, and how long the check that
// was made then is good.
const arming = time.Second

// claimedBefore: the slot was claimed before a pause, a deletion or an edit (of
// end_at, which may lie before the edit) that came before its nominal instant, for
// jitter had brought it forward or it was armed.
func (s *registered) claimedBefore(t testing.TB, r run) bool {
	ends := []time.Time{s.changedAt}
	if !s.stoppedAt.Equal(s.definition.EndAt) { // else the edit stopped it
		ends = append(ends, s.stoppedAt)
	}
	for _, l := range s.lapses {
		ends = append(ends, l.from)
	}
	return slices.ContainsFunc(ends, func(end time.Time) bool {
		return r.RunAt.After(end) && s.matchesAs(t, s.before, r.RunAt) && !r.FireAt.After(end.Add(arming))
	})
}

var recording = []string{"missed", "coalesced", "backlog_closed"}

func (c *checker) covering(id string, slot time.Time) []event {
	var found []event
	for _, e := range c.events[id] {
		if slices.Contains(recording, e.Kind) && !slot.Before(e.From) && !slot.After(e.To) {
			found = append(found, e)
		}
	}
	return found
}

// lateEnough: slots recorded as missed were later than the grace.
func (c *checker) lateEnough(id string) {
	for _, e := range c.events[id] {
		if late := e.Time.Sub(e.To); (e.Kind == "missed" || e.Kind == "coalesced") && late <= c.grace {
			c.violations = append(c.violations, violation{at: e.To, scheduleID: id, text: fmt.Sprintf(
				"%d slots until %s are %s after %s, within the grace of %s", e.Count, clock(e.To), e.Kind, late, c.grace)})
		}
	}
}

// tolerance is what clocks of one machine may differ by, in their rounding.
const tolerance = time.Millisecond

// sloppiness is for comparisons of the executor's clock with the ledger's that
// need no precision.
const sloppiness = time.Second

// row checks a row by itself and against what the executor knows of its key.
func (c *checker) row(s *registered, r run) {
	if rank[r.Status] != 4 {
		c.violate(r, "it has not ended")
	}
	if want := slotKey(r.ScheduleID, r.RunAt); r.Key != want {
		c.violate(r, "its key is not sha256 of schedule_id:epoch_seconds, %s", want)
	}
	jitter := time.Duration(s.definition.JitterMS) * time.Millisecond
	if off := r.FireAt.Sub(r.RunAt); off < -jitter || r.Trigger == "schedule" && off > jitter {
		c.violate(r, "fire_at is %s off run_at; jitter_ms is %d", off, s.definition.JitterMS)
	}
	if !r.LaunchedAt.IsZero() && r.LaunchedAt.Before(r.FireAt) {
		c.violate(r, "launched_at is before fire_at")
	}
	if ahead := r.FireAt.Sub(r.ClaimedAt); !r.LaunchedAt.IsZero() && (ahead > time.Second || r.ClaimedAt.After(r.LaunchedAt)) {
		c.violate(r, "claimed_at %s is more than a second before fire_at, or after launched_at", clock(r.ClaimedAt))
	}
	if late := r.CompletedAt.Sub(laterOf(r.FireAt, r.RunAt)); r.Reason == "missed" && late <= c.grace-tolerance {
		c.violate(r, "it is missed after %s, within the grace of %s", late, c.grace)
	}
	c.words(r, c.oracle.effects[r.Key])
}

// words: what the row says is what the executor knows.
func (c *checker) words(r run, e *effect) {
	ended := e != nil && e.status != ""
	switch {
	case r.Status == "SKIPPED" && e != nil:
		c.violate(r, "it is SKIPPED, and the executor was called %d times, first at %s", e.calls, clock(e.first))
	case r.Status == "SUCCESS" && (!ended || e.status != "SUCCESS"):
		c.violate(r, "the executor does not know of this success: %+v", e)
	case r.Reason == "workflow_failed" && (!ended || e.status != "FAILED"):
		c.violate(r, "the executor does not know of this failure: %+v", e)
	case r.Reason == "launch_refused" && (e == nil || !e.refused):
		c.violate(r, "the executor did not refuse it: %+v", e)
	case r.Status == "CANCELLED" && r.Reason == "replaced" && r.OverlapPolicy != "replace":
		c.violate(r, "only a replacing run can end so")
	case r.Reason == "timeout" && c.journal.outageBetween(r.FireAt, r.CompletedAt)+c.steadiness.rose < runTimeout/2:
		// No run of these tests lasts that long, and a report is repeated until
		// it is taken.
		c.violate(r, "it timed out: %+v", e)
	case r.Reason == "lost" || r.Reason == "launch_unavailable":
		// Keys that a crash left open are sent again, but not forever, and not after a
		// pause or deletion.
		quiet := c.journal.schedules[r.ScheduleID].quietFrom
		if (quiet.IsZero() || r.CompletedAt.Before(quiet)) && !c.journal.killedBetween(r.FireAt.Add(-arming), r.CompletedAt) {
			c.violate(r, "it was given up, and nothing had crashed: %+v", e)
		}
	}
}

// liveness: whatever is killed, the executor soon hears of something due every
// second again.
func (c *checker) liveness() {
	const bound = 8 * time.Second
	for i := 1; i < len(c.oracle.calls); i++ {
		before, now := c.oracle.calls[i-1], c.oracle.calls[i]
		if now.number > 1 || now.at.After(c.journal.ended) {
			continue
		}
		if outage := c.journal.outageBetween(before.at, now.at); now.at.Sub(before.at) > bound+outage+c.steadiness.rose {
			c.violations = append(c.violations, violation{
				now.at, now.body.ScheduleID, now.key,
				fmt.Sprintf("nothing was launched from %s until %s", clock(before.at), clock(now.at)),
			})
		}
	}
}

// executor checks every call: it has a row, is not early, not changed, and not late
// after a stop.
func (c *checker) executor() {
	first := make(map[string]call)
	for _, got := range c.oracle.calls {
		r, known := c.ledger[got.key]
		if !known {
			c.violate(run{Key: got.key, ScheduleID: got.body.ScheduleID, RunAt: got.body.ScheduledFor}, "the executor was called, and there is no row")
			continue
		}
		if got.at.Before(r.FireAt.Add(-tolerance - c.steadiness.fell)) {
			c.violate(r, "call %d came at %s, %s before fire_at", got.number, clock(got.at), r.FireAt.Sub(got.at))
		}
		if quiet := c.journal.schedules[r.ScheduleID].quietFrom; !quiet.IsZero() && got.at.After(quiet.Add(time.Second)) {
			c.violate(r, "call %d came at %s, more than a second after the answer to a pause or deletion at %s", got.number, clock(got.at), clock(quiet))
		}
		if !r.CompletedAt.IsZero() && got.number == 1 && got.at.After(r.CompletedAt.Add(sloppiness+c.steadiness.rose)) {
			c.violate(r, "its first call came at %s, after its end", clock(got.at))
		}
		if got.number == 1 {
			first[got.key] = got
		} else if difference := changed(first[got.key].raw, got.raw); difference != "" {
			c.violate(r, "call %d is another request than the first: %s", got.number, difference)
		}
	}
}

// changed names a member in which a redelivery differs. The epoch is that of
// the leader that sends, and the report may go to another process.
func changed(first, again map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(again)) {
		before, now := fmt.Sprint(first[name]), fmt.Sprint(again[name])
		if name != "epoch" && name != "report_url" && before != now {
			return fmt.Sprintf("%s was %s and is %s", name, before, now)
		}
	}
	if len(first) != len(again) {
		return fmt.Sprintf("it has %d members instead of %d", len(again), len(first))
	}
	return ""
}

// report fails the test with what was found, and what went on around it.
func (c *checker) report() {
	c.t.Helper()
	c.t.Log(c.summary())
	sort.SliceStable(c.violations, func(i, j int) bool { return c.violations[i].at.Before(c.violations[j].at) })
	const shown = 6
	for i, v := range c.violations {
		if i < shown {
			c.t.Errorf("%s %s: %s\n%s", v.scheduleID, clock(v.at), v.text, c.context(v))
		}
	}
	if hidden := len(c.violations) - shown; hidden > 0 {
		c.t.Errorf("and %d violations more", hidden)
	}
}

// context is the journal, the executor's log and the processes' logs around a
// violation.
func (c *checker) context(v violation) string {
	var lines []journalLine
	if !v.at.IsZero() {
		lines = c.journal.around(v.at)
	}
	for _, got := range c.oracle.calls {
		if got.key == v.key {
			lines = append(lines, journalLine{got.at, fmt.Sprintf("call %d of the key, epoch %d", got.number, got.body.Epoch)})
		}
	}
	if e := c.oracle.effects[v.key]; e != nil {
		lines = append(lines, journalLine{e.done, fmt.Sprintf("the effect is over: %+v", *e)})
	}
	for _, r := range c.rows[v.scheduleID] {
		if r.RunAt.Sub(v.at).Abs() <= 3*time.Second {
			lines = append(lines, journalLine{r.RunAt, "row " + describe(r)})
		}
	}
	slices.SortStableFunc(lines, func(a, b journalLine) int { return a.at.Compare(b.at) })
	var out strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&out, "    %s %s\n", clock(line.at), line.text)
	}
	for _, log := range c.logs {
		for _, line := range log.about(v.key) {
			if v.key != "" {
				fmt.Fprintf(&out, "    log: %s\n", line)
			}
		}
	}
	return out.String()
}

// summary says how many runs ended how.
func (c *checker) summary() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d rows, %d slots recorded without one, %d calls of %d keys:", len(c.ledger), c.missed, len(c.oracle.calls), len(c.oracle.effects))
	for _, word := range slices.Sorted(maps.Keys(c.ended)) {
		fmt.Fprintf(&out, " %s %d", word, c.ended[word])
	}
	return out.String()
}
