package ledger_test

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// coalesceCase writes rows as "schedule/minute" with marks, in the order in which the judge gets
// them: "!" a manual run, "+" an automatic retry, "~" catch-up, "^" priority 1. "=a" is since when a
// row waits; it waits since its own minute without. A verdict is "row action reason", with the
// instant that a row inherits.
type coalesceCase struct {
	name      string
	inFlight  string
	waiting   string
	due       string
	maxQueued uint32 // 0 = 100
	want      string
}

var coalesceOfOneSchedule = []coalesceCase{
	{name: "it fires when nothing is in flight", due: "s/a", want: "s/a claim"},
	{name: "it waits while another is in flight", inFlight: "s/a", due: "s/b", want: "s/b wait"},
	{name: "a newer slot takes the place of one that waits, and has waited as long", inFlight: "s/a", waiting: "s/b", due: "s/c", want: "s/b skip coalesced, s/c wait since b"},
	{name: "the instant is handed on from slot to slot", inFlight: "s/a", waiting: "s/c=b", due: "s/d", want: "s/c skip coalesced, s/d wait since b"},
	{name: "of many due slots the newest waits", inFlight: "s/a", due: "s/b s/c s/d", want: "s/b skip coalesced, s/c skip coalesced, s/d wait"},
	{name: "of many due slots the newest fires when nothing is in flight", due: "s/b s/c s/d", want: "s/b skip coalesced, s/c skip coalesced, s/d claim"},
	{name: "the newest fires when the key is free, also in place of one that waits", waiting: "s/b", due: "s/c", want: "s/b skip coalesced, s/c claim"},
	{name: "what waits fires when the key is free", waiting: "s/b", want: "s/b claim"},
	{name: "nobody moves while the one before runs", inFlight: "s/a", waiting: "s/b"},
	{name: "an older slot that is due late does not push out a newer one", inFlight: "s/a", waiting: "s/c", due: "s/b~", want: "s/b~ skip coalesced"},
	{name: "an older slot does not count as replaced by a newer one in flight", inFlight: "s/c", due: "s/b~", want: "s/b~ wait"},

	{name: "a manual run waits", inFlight: "s/a", due: "s/b!", want: "s/b! wait"},
	{name: "a manual run that waits takes the place of a due slot", inFlight: "s/a", waiting: "s/b!", due: "s/c", want: "s/c skip coalesced"},
	{name: "a manual run takes the place of a slot that waits, and has waited as long", inFlight: "s/a", waiting: "s/b", due: "s/c!", want: "s/b skip coalesced, s/c! wait since b"},
	{name: "a manual run starts after the slot was due, and serves it too", waiting: "s/b!", due: "s/c", want: "s/b! claim, s/c skip coalesced"},
	{name: "a slot that is due after the manual run has started waits", inFlight: "s/b!", due: "s/c", want: "s/c wait"},
	{name: "manual runs take no place of each other", inFlight: "s/a", waiting: "s/b!", due: "s/c! s/d", want: "s/c! wait, s/d skip coalesced"},
	{name: "of two manual runs the first that begins to wait has waited as long as the slot", inFlight: "s/a", waiting: "s/b", due: "s/c! s/d!", want: "s/b skip coalesced, s/c! wait since b, s/d! wait"},
	{name: "manual runs beyond max_queued are skipped", inFlight: "s/a", waiting: "s/b!", due: "s/c! s/d!", maxQueued: 2, want: "s/c! wait, s/d! skip queue_full"},
	{name: "a slot waits whatever max_queued is", inFlight: "s/a", due: "s/b t/b u/b", maxQueued: 1, want: "s/b wait, t/b wait, u/b wait"},

	{name: "an automatic retry waits", inFlight: "s/b", due: "s/a+", want: "s/a+ wait"},
	{name: "an automatic retry counts as its slot: a newer one takes its place", inFlight: "t/a", waiting: "s/a+", due: "s/b", want: "s/a+ skip coalesced, s/b wait since a"},
	{name: "an automatic retry of the newest slot takes the place of an older one", inFlight: "t/a", waiting: "s/b", due: "s/c+", want: "s/b skip coalesced, s/c+ wait since b"},
	{name: "a manual run takes the place of an automatic retry", inFlight: "t/a", waiting: "s/b+", due: "s/c!", want: "s/b+ skip coalesced, s/c! wait since b"},
}

var coalesceOfManySchedules = []coalesceCase{
	{name: "one slot of each schedule waits", inFlight: "s/a", waiting: "s/b t/b", due: "s/c t/c", want: "s/b skip coalesced, t/b skip coalesced, s/c wait since b, t/c wait since b"},
	{name: "the one that has waited longest fires first", waiting: "s/d=c t/c=b", want: "t/c claim"},
	{name: "a slot keeps the turn of those whose place it takes", waiting: "s/b t/c", due: "s/d", want: "s/b skip coalesced, s/d claim"},
	{name: "a higher priority fires first, though it has waited less", waiting: "s/b t/c^", want: "t/c^ claim"},
	{name: "a higher priority that is just due fires before one that waits", waiting: "s/b", due: "t/c^", want: "t/c^ claim"},
	{name: "catch-up fires after what is on time, whatever its priority", waiting: "s/b~^ t/c", want: "t/c claim"},
	{name: "what is just due waits behind what has waited", waiting: "s/b", due: "t/c", want: "s/b claim, t/c wait"},
	{name: "of those that wait equally long the first to fire goes first", waiting: "s/c=a t/b=a", want: "t/b claim"},
	{name: "of those that are due together the first to fire goes first", due: "s/b t/a", want: "s/b wait, t/a claim"},
}

func TestCoalescingOfOneSchedule(t *testing.T)   { checkCoalescing(t, coalesceOfOneSchedule) }
func TestCoalescingOfManySchedules(t *testing.T) { checkCoalescing(t, coalesceOfManySchedules) }

func checkCoalescing(t *testing.T, cases []coalesceCase) {
	t.Parallel()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := schedule.OverlapGroup{
				OverlapKey: "u/k", Now: overlapMinute("y"),
				InFlight: coalesceRows(c.inFlight, c.maxQueued), Waiting: waitingRows(coalesceRows(c.waiting, c.maxQueued)), Due: coalesceRows(c.due, c.maxQueued),
			}
			if got := sinceText(g, ledger.JudgeOverlap(g)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func coalesceRows(text string, maxQueued uint32) []schedule.Run {
	var rows []schedule.Run
	for word := range strings.FieldsSeq(text) {
		name, since, inherits := strings.Cut(word, "=")
		id, minute, _ := strings.Cut(name, "/")
		r := overlapRow(minute, schedule.OverlapCoalesce, cmp.Or(maxQueued, 100))
		r.ScheduleID, r.RunID, r.Key = id, name, sha256.Sum256([]byte(name))
		for _, mark := range minute[1:] {
			switch mark {
			case '!':
				r.Trigger = schedule.TriggerManual
			case '~':
				r.Trigger = schedule.TriggerCatchup
			case '^':
				r.Priority = 1
			case '+':
				r = retriedAutomatically(r)
			}
		}
		if inherits {
			r.WaitingSince = overlapMinute(since)
		}
		rows = append(rows, r)
	}
	return rows
}

// sinceText writes verdicts as coalesceCase does.
func sinceText(g schedule.OverlapGroup, verdicts []schedule.Verdict) string {
	var texts []string
	for _, v := range verdicts {
		text := verdictText(g, []schedule.Verdict{v})
		if !v.Since.IsZero() {
			text += " since " + string(rune('a'+v.Since.Minute()))
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// drawCoalescing draws runs of three schedules under policy coalesce.
func drawCoalescing(t *rapid.T) schedule.OverlapGroup {
	n := 0
	draw := func(label string, most int) []schedule.Run {
		var rows []schedule.Run
		for range rapid.IntRange(0, most).Draw(t, label) {
			name := string(rune('a' + rapid.IntRange(0, 6).Draw(t, "minute")))
			r := overlapRow(name, schedule.OverlapCoalesce, rapid.Uint32Range(1, 2).Draw(t, "max_queued"))
			n++
			r.ScheduleID = rapid.SampledFrom([]string{"s", "t", "u"}).Draw(t, "schedule")
			r.RunID = fmt.Sprint(r.ScheduleID, "/", name, n)
			r.Key = sha256.Sum256([]byte(r.RunID))
			r.Priority = rapid.Int32Range(0, 1).Draw(t, "priority")
			r.Trigger = rapid.SampledFrom([]schedule.Trigger{schedule.TriggerSchedule, schedule.TriggerSchedule, schedule.TriggerCatchup, schedule.TriggerManual, schedule.TriggerRetry}).Draw(t, "trigger")
			if r.Trigger == schedule.TriggerRetry && rapid.Bool().Draw(t, "automatic") {
				r = retriedAutomatically(r)
			}
			if label == "waiting" {
				r.WaitingSince = overlapMinute(rapid.SampledFrom([]string{"f", "g", "h"}).Draw(t, "since"))
			}
			rows = append(rows, r)
		}
		slices.SortFunc(rows, func(a, b schedule.Run) int { return schedule.ByFireAt(&a, &b) })
		return rows
	}
	return schedule.OverlapGroup{OverlapKey: "u/k", Now: overlapMinute("y"), InFlight: draw("in flight", 1), Waiting: draw("waiting", 4), Due: draw("due", 5)}
}

// coalesceOracle says of each run how it goes on, from the runs of its schedule and from how many
// of the others come before it.
type coalesceOracle struct {
	schedule.OverlapGroup
	all []schedule.Run
}

func (o coalesceOracle) isSlot(r schedule.Run) bool {
	return r.Trigger == schedule.TriggerSchedule || r.Trigger == schedule.TriggerCatchup || !r.RetryOf.IsZero()
}

func (o coalesceOracle) gives(r schedule.Run) bool {
	return o.isSlot(r) && slices.ContainsFunc(o.all, func(other schedule.Run) bool {
		return other.ScheduleID == r.ScheduleID && (other.Trigger == schedule.TriggerManual ||
			o.isSlot(other) && (other.RunAt.After(r.RunAt) || other.RunAt.Equal(r.RunAt) && slices.Compare(other.Key[:], r.Key[:]) > 0))
	})
}

// heir is the run of a schedule that takes the turn of those that give theirs: the first to begin to
// wait.
func (o coalesceOracle) heir(id string) (heir schedule.Run) {
	for _, r := range o.Due {
		if r.ScheduleID == id && !o.gives(r) && (o.isSlot(r) || r.Trigger == schedule.TriggerManual) && (heir.Key.IsZero() || o.order(r, heir, o.Now, o.Now) < 0) {
			heir = r
		}
	}
	return heir
}

func (o coalesceOracle) since(r schedule.Run) time.Time {
	if !r.WaitingSince.IsZero() {
		return r.WaitingSince
	}
	since := o.Now
	if o.heir(r.ScheduleID).Key == r.Key {
		for _, other := range o.Waiting {
			if other.ScheduleID == r.ScheduleID && o.gives(other) && other.WaitingSince.Before(since) {
				since = other.WaitingSince
			}
		}
	}
	return since
}

func (o coalesceOracle) order(a, b schedule.Run, aSince, bSince time.Time) int {
	return cmp.Or(schedule.FalseFirst(a.Trigger.AfterOthers(), b.Trigger.AfterOthers()), cmp.Compare(b.Priority, a.Priority), aSince.Compare(bSince), schedule.ByFireAt(&a, &b))
}

// before counts the runs that stay and come before one, and for which so holds.
func (o coalesceOracle) before(r schedule.Run, so func(schedule.Run) bool) (n int) {
	for _, other := range o.all {
		if !o.gives(other) && other.Key != r.Key && o.order(other, r, o.since(other), o.since(r)) < 0 && so(other) {
			n++
		}
	}
	return n
}

func (o coalesceOracle) isClaimed(r schedule.Run) bool {
	return len(o.InFlight) == 0 && !o.gives(r) && o.before(r, func(schedule.Run) bool { return true }) == 0
}

func (o coalesceOracle) verdict(r schedule.Run) string {
	manual := func(other schedule.Run) bool {
		return other.ScheduleID == r.ScheduleID && other.Trigger == schedule.TriggerManual && other.WaitingSince.IsZero() && !o.isClaimed(other)
	}
	waiting := 0
	for _, other := range o.Waiting {
		if other.ScheduleID == r.ScheduleID && other.Trigger == schedule.TriggerManual && !o.isClaimed(other) {
			waiting++
		}
	}
	switch {
	case o.gives(r):
		return r.RunID + " skip coalesced"
	case o.isClaimed(r):
		return r.RunID + " claim"
	case !r.WaitingSince.IsZero():
		return ""
	case r.Trigger == schedule.TriggerManual && waiting+o.before(r, manual) >= int(r.MaxQueued):
		return r.RunID + " skip queue_full"
	case o.since(r).Before(o.Now):
		return r.RunID + " wait since " + string(rune('a'+o.since(r).Minute()))
	}
	return r.RunID + " wait"
}

func TestCoalescingAgreesWithTheOracle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawCoalescing(t)
		// Two manual runs of a schedule with different limits would need an order of the limits.
		for i := range g.Due {
			g.Due[i].MaxQueued = 2
		}
		o := coalesceOracle{g, append(append([]schedule.Run{}, g.Waiting...), g.Due...)}
		var want []string
		for _, r := range o.all {
			if v := o.verdict(r); v != "" {
				want = append(want, v)
			}
		}
		if got, want := sinceText(g, ledger.JudgeOverlap(g)), strings.Join(want, ", "); got != want {
			t.Fatalf("got  %s\nwant %s\nof %s", got, want, groupText(g))
		}
	})
}

// Whatever is drawn: one run of the group starts, and of each schedule one slot at most is left.
func TestCoalescingLeavesOneSlotOfASchedule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawCoalescing(t)
		over := make(map[schedule.Key]bool)
		claims := 0
		for _, v := range ledger.JudgeOverlap(g) {
			switch v.Action {
			case schedule.VerdictClaim:
				claims++
			case schedule.VerdictSkip:
				over[v.Key] = true
			}
		}
		slots, pending := make(map[string]int), make(map[string]bool)
		for _, r := range append(append([]schedule.Run{}, g.Waiting...), g.Due...) {
			if pending[r.ScheduleID] = pending[r.ScheduleID] || !over[r.Key]; !over[r.Key] && (r.Trigger.FromSpec() || r.IsAutomaticRetry()) {
				slots[r.ScheduleID]++
			}
		}
		for id, left := range pending {
			if !left || slots[id] > 1 {
				t.Fatalf("schedule %s: a run is left: %t, slots: %d\nof %s", id, left, slots[id], groupText(g))
			}
		}
		if free := len(g.InFlight) == 0 && len(pending) > 0; claims != map[bool]int{true: 1}[free] {
			t.Fatalf("%d claims of %s", claims, groupText(g))
		}
	})
}
