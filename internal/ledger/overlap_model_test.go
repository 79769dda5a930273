package ledger_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// drawGroup draws rows of mixed policies whose claim order is not the order of
// their slots. Some are automatic retries.
func drawGroup(t *rapid.T) schedule.OverlapGroup {
	names := rapid.Permutation([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}).Draw(t, "names")
	maxQueued := rapid.Uint32Range(1, 4).Draw(t, "max_queued")
	draw := func(label string, most int, policies []schedule.OverlapPolicy) []schedule.Run {
		var rows []schedule.Run
		for range rapid.IntRange(0, most).Draw(t, label) {
			policy := rapid.SampledFrom(policies).Draw(t, "policy")
			r := overlapRow(names[0], policy, maxQueued)
			// Of policy skip only an automatic retry waits.
			if label == "waiting" && policy == schedule.OverlapSkip || rapid.SampledFrom([]bool{false, false, true}).Draw(t, "automatic") {
				r = retriedAutomatically(r)
			}
			rows = append(rows, r)
			names = names[1:]
		}
		return rows
	}
	g := schedule.OverlapGroup{OverlapKey: "u/k"}
	g.InFlight = draw("in flight", 2, schedule.OverlapPolicies)
	for i := range g.InFlight {
		if rapid.Bool().Draw(t, "cancelled") {
			g.InFlight[i].CancelRequestedAt = g.InFlight[i].RunAt
		}
	}
	g.Waiting = waitingRows(draw("waiting", 3, []schedule.OverlapPolicy{schedule.OverlapQueue, schedule.OverlapReplace, schedule.OverlapSkip, schedule.OverlapCoalesce}))
	g.Due = draw("due", 4, schedule.OverlapPolicies)
	return g
}

// overlapModel computes the verdict on each row in closed form: the newest replacing
// row, the row that gets the key if it is free, and how many wait before.
type overlapModel struct {
	schedule.OverlapGroup
	newest string // the replacing row that stays
	winner string // the row that a free key goes to
}

func newOverlapModel(g schedule.OverlapGroup) overlapModel {
	m := overlapModel{OverlapGroup: g}
	for _, r := range append(append([]schedule.Run{}, g.Waiting...), g.Due...) {
		if r.OverlapPolicy == schedule.OverlapReplace && r.ScheduleID > m.newest && !m.superseded(r) {
			m.newest = r.ScheduleID
		}
	}
	switch {
	case len(g.InFlight) > 0:
	case m.newest != "":
		m.winner = m.newest
	default:
		m.winner = m.firstOfAll()
	}
	return m
}

// firstOfAll is the row that a free key goes to where none replaces. Of policy coalesce each competes,
// of the others together only the first.
func (m overlapModel) firstOfAll() string {
	var candidates []schedule.Run
	others := 0
	for _, r := range append(append([]schedule.Run{}, m.Waiting...), m.Due...) {
		if r.OverlapPolicy != schedule.OverlapCoalesce {
			if others++; others > 1 {
				continue
			}
		}
		candidates = append(candidates, r)
	}
	if len(candidates) == 0 {
		return ""
	}
	since := func(r schedule.Run) time.Time {
		if r.WaitingSince.IsZero() {
			return overlapMinute("z")
		}
		return r.WaitingSince
	}
	return slices.MinFunc(candidates, func(a, b schedule.Run) int {
		return cmp.Or(since(a).Compare(since(b)), a.FireAt.Compare(b.FireAt), a.RunAt.Compare(b.RunAt))
	}).ScheduleID
}

// retries: the row is an automatic retry.
func retries(r schedule.Run) bool { return !r.RetryOf.IsZero() }

// superseded: a newer slot than that of an automatic retry is in flight.
func (m overlapModel) superseded(r schedule.Run) bool {
	newest := ""
	for _, other := range m.InFlight {
		newest = max(newest, other.ScheduleID)
	}
	return retries(r) && newest > r.ScheduleID
}

// waitingBefore counts the rows that wait when the i-th due row is judged, without
// automatic retries.
func (m overlapModel) waitingBefore(i int) int {
	n := 0
	for _, r := range m.Waiting {
		if m.kept(r) && r.ScheduleID != m.winner && !retries(r) && r.OverlapPolicy != schedule.OverlapCoalesce {
			n++
		}
	}
	for j, r := range m.Due {
		first := r.OverlapPolicy == schedule.OverlapReplace // judged before all others
		if (first || j < i && r.OverlapPolicy == schedule.OverlapQueue) && j != i && m.kept(r) && !retries(r) && m.due(j) == "wait" {
			n++
		}
	}
	return n
}

func (m overlapModel) kept(r schedule.Run) bool {
	return r.OverlapPolicy != schedule.OverlapReplace || r.ScheduleID == m.newest
}

func (m overlapModel) due(i int) string {
	r := m.Due[i]
	switch {
	case !m.kept(r):
		return "skip coalesced"
	case r.OverlapPolicy == schedule.OverlapAllow, r.ScheduleID == m.winner:
		return "claim"
	case retries(r):
		return "wait"
	case r.OverlapPolicy == schedule.OverlapSkip:
		return "skip overlap"
	case r.OverlapPolicy == schedule.OverlapQueue && m.waitingBefore(i) >= int(r.MaxQueued):
		return "skip queue_full"
	}
	return "wait"
}

func (m overlapModel) text() string {
	out := ""
	add := func(r schedule.Run, verdict string) {
		if out != "" {
			out += ", "
		}
		out += r.ScheduleID + " " + verdict
	}
	for _, r := range m.Waiting {
		if !m.kept(r) {
			add(r, "skip coalesced")
		} else if r.ScheduleID == m.winner {
			add(r, "claim")
		}
	}
	replaced := false
	for i, r := range m.Due {
		add(r, m.due(i))
		replaced = replaced || r.OverlapPolicy == schedule.OverlapReplace && r.ScheduleID == m.newest
	}
	for _, r := range m.InFlight {
		if replaced && r.CancelRequestedAt.IsZero() {
			add(r, "cancel replaced")
		}
	}
	return out
}

func TestOverlapAgreesWithTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t)
		if got, want := verdictText(g, ledger.JudgeOverlap(g)), newOverlapModel(g).text(); got != want {
			t.Fatalf("got  %s\nwant %s\nof %s", got, want, groupText(g))
		}
	})
}

// TestOverlapKeepsItsPromises needs no model: it says what must never happen.
func TestOverlapKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t)
		verdicts := make(map[schedule.Key]schedule.Verdict)
		for _, v := range ledger.JudgeOverlap(g) {
			if _, twice := verdicts[v.Key]; twice {
				t.Fatalf("two verdicts on one row of %s", groupText(g))
			}
			verdicts[v.Key] = v
		}
		if broken := brokenPromise(g, verdicts); broken != "" {
			t.Fatalf("%s\nof %s", broken, groupText(g))
		}
	})
}

// TestWhatIsArmedWouldBeClaimedAtItsTime: arming must not change a verdict.
func TestWhatIsArmedWouldBeClaimedAtItsTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t)
		g.Now = overlapMinute("c")
		for i := range g.Due {
			g.Due[i].FireAt = overlapMinute(rapid.SampledFrom([]string{"b", "c", "d", "e"}).Draw(t, "fires"))
		}
		slices.SortFunc(g.Due, func(a, b schedule.Run) int { // claim order
			return cmp.Or(a.FireAt.Compare(b.FireAt), a.RunAt.Compare(b.RunAt))
		})
		armed := make(map[schedule.Key]bool)
		for _, v := range ledger.JudgeOverlap(g) {
			armed[v.Key] = v.Action == schedule.VerdictClaim
		}
		for _, r := range g.Due {
			if !r.FireAt.After(g.Now) || !armed[r.Key] {
				continue
			}
			later := g
			later.Now = r.FireAt
			if v := ledger.JudgeOverlap(later); !slices.ContainsFunc(v, func(v schedule.Verdict) bool {
				return v.Key == r.Key && v.Action == schedule.VerdictClaim
			}) {
				t.Fatalf("%s is armed, but at its time the verdicts are: %s\nof %s", r.ScheduleID, verdictText(later, v), groupText(g))
			}
		}
	})
}

func brokenPromise(g schedule.OverlapGroup, verdicts map[schedule.Key]schedule.Verdict) string {
	claims, exclusive, queueEnds := 0, 0, false
	for i, r := range append(append([]schedule.Run{}, g.Waiting...), g.Due...) {
		v, judged := verdicts[r.Key]
		switch {
		case !judged && i >= len(g.Waiting):
			return "a due row without a verdict: " + r.ScheduleID
		case v.Action == schedule.VerdictCancel:
			return "a cancel of what is not in flight: " + r.ScheduleID
		case v.Action == schedule.VerdictClaim:
			claims++
			if r.Exclusive {
				exclusive++
			}
		case v.Reason == schedule.ReasonOverlap && r.OverlapPolicy != schedule.OverlapSkip:
			return "only policy skip skips for overlap: " + r.ScheduleID
		case retries(r) && (v.Reason == schedule.ReasonOverlap || v.Reason == schedule.ReasonQueueFull):
			return "an automatic retry waits: " + r.ScheduleID
		}
		if r.OverlapPolicy != schedule.OverlapQueue || retries(r) {
			continue
		}
		if queueEnds && v.Reason != schedule.ReasonQueueFull {
			return "overtook a row that found the queue full: " + r.ScheduleID
		}
		queueEnds = queueEnds || v.Reason == schedule.ReasonQueueFull
	}
	switch rows := len(g.Waiting) + len(g.Due); {
	case exclusive > 1, exclusive == 1 && len(g.InFlight) > 0:
		return fmt.Sprintf("%d exclusive claims beside %d in flight", exclusive, len(g.InFlight))
	case rows > 0 && claims == 0 && len(g.InFlight) == 0:
		return "the key is free and nobody got it"
	}
	return ""
}

func groupText(g schedule.OverlapGroup) string {
	text := ""
	for i, rows := range [][]schedule.Run{g.InFlight, g.Waiting, g.Due} {
		text += []string{"in flight:", " waiting:", " due:"}[i]
		for _, r := range rows {
			text += fmt.Sprintf(" %s:%s", r.ScheduleID, r.OverlapPolicy)
			if retries(r) {
				text += "+"
			}
		}
	}
	return text
}
