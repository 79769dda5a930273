package ledger_test

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// overlapCase writes rows as "name:policy", in the order in which the judge
// gets them. A row's name is the minute of its run_at (a < b < c), and "!"
// marks a cancel that was asked for before, "+" an automatic retry. The verdicts are
// "name action reason".
type overlapCase struct {
	name      string
	inFlight  string
	waiting   string
	due       string
	now       string // the minute, by its letter; empty = all that are due are due now
	maxQueued uint32 // 0 = 100
	want      string
}

var overlapOfOnePolicy = []overlapCase{
	{name: "nobody is there: nothing is decided"},

	{name: "allow: fires though another is in flight", inFlight: "a:allow", due: "b:allow", want: "b claim"},
	{name: "allow: all that are due fire together", due: "a:allow b:allow", want: "a claim, b claim"},

	{name: "skip: fires when nothing is in flight", due: "a:skip", want: "a claim"},
	{name: "skip: does not fire while another is in flight", inFlight: "a:skip", due: "b:skip", want: "b skip overlap"},
	{name: "skip: a run that is being cancelled is still in flight", inFlight: "a:skip!", due: "b:skip", want: "b skip overlap"},
	{name: "skip: of two that are due together the first fires", due: "a:skip b:skip", want: "a claim, b skip overlap"},

	{name: "queue: fires when nothing is in flight and nobody waits", due: "a:queue", want: "a claim"},
	{name: "queue: waits while another is in flight", inFlight: "a:queue", due: "b:queue", want: "b wait"},
	{name: "queue: of many that are due together one fires and the others wait in order", due: "a:queue b:queue c:queue", want: "a claim, b wait, c wait"},
	{name: "queue: the first that waits fires before one that becomes due", waiting: "a:queue b:queue", due: "c:queue", want: "a claim, c wait"},
	{name: "queue: rows that wait for a key which is free are let go one at a time", waiting: "a:queue b:queue", want: "a claim"},
	{name: "queue: nobody moves while the one before runs", inFlight: "a:queue", waiting: "b:queue c:queue"},
	{name: "queue: the newest beyond max_queued are skipped", inFlight: "a:queue", waiting: "b:queue", due: "c:queue d:queue e:queue", maxQueued: 2, want: "c wait, d skip queue_full, e skip queue_full"},
	{name: "queue: max_queued 1 coalesces all that come while one waits", inFlight: "a:queue", due: "b:queue c:queue d:queue", maxQueued: 1, want: "b wait, c skip queue_full, d skip queue_full"},
	{name: "queue: the one that is let go makes room for one more", waiting: "a:queue", due: "b:queue c:queue", maxQueued: 1, want: "a claim, b wait, c skip queue_full"},
	{name: "queue: more rows wait than a lowered max_queued allows, and they stay", inFlight: "a:queue", waiting: "b:queue c:queue", due: "d:queue", maxQueued: 1, want: "d skip queue_full"},

	{name: "replace: fires when nothing is in flight", due: "a:replace", want: "a claim"},
	{name: "replace: cancels what is in flight and waits", inFlight: "a:replace", due: "b:replace", want: "b wait, a cancel replaced"},
	{name: "replace: does not ask again for a cancel that was asked for", inFlight: "a:replace!", due: "b:replace", want: "b wait"},
	{name: "replace: a newer due slot takes the place of one that waits", inFlight: "a:replace!", waiting: "b:replace", due: "c:replace", want: "b skip coalesced, c wait"},
	{name: "replace: of several due slots only the newest stays", inFlight: "a:replace", due: "b:replace c:replace d:replace", want: "b skip coalesced, c skip coalesced, d wait, a cancel replaced"},
	{name: "replace: of several due slots only the newest fires when nothing is in flight", due: "a:replace b:replace", want: "a skip coalesced, b claim"},
	{name: "replace: fires when what it replaced has ended", waiting: "b:replace", want: "b claim"},
	{name: "replace: the newest is the one with the latest run_at, whatever the claim order", inFlight: "a:replace", due: "d:replace b:replace", want: "d wait, b skip coalesced, a cancel replaced"},
	{name: "replace: an older slot that becomes due late does not push out a newer one that waits", inFlight: "a:replace!", waiting: "c:replace", due: "b:replace", want: "b skip coalesced"},
	{name: "replace: an older slot that becomes due late leaves the free key to the newer one", waiting: "c:replace", due: "b:replace", want: "c claim, b skip coalesced"},
}

var overlapOfMixedPolicies = []overlapCase{
	{name: "allow counts as in flight for skip", inFlight: "a:allow", due: "b:skip", want: "b skip overlap"},
	{name: "allow that is claimed in the same pass counts as in flight for skip", due: "a:allow b:skip", want: "a claim, b skip overlap"},
	{name: "allow is claimed behind a skipped slot", inFlight: "a:skip", due: "b:skip c:allow", want: "b skip overlap, c claim"},
	{name: "skip does not overtake one that waits", waiting: "a:queue", due: "b:skip", want: "a claim, b skip overlap"},
	{name: "queue waits behind skip", inFlight: "a:skip", due: "b:queue", want: "b wait"},
	{name: "replace cancels everything in flight, whatever its policy", inFlight: "a:allow b:skip", due: "c:replace", want: "c wait, a cancel replaced, b cancel replaced"},
	{name: "replace cancels only those of which no cancel was asked", inFlight: "a:allow! b:allow", due: "c:replace", want: "c wait, b cancel replaced"},
	{name: "replace goes first: what it would cancel at once is not claimed", due: "a:skip b:queue c:replace", want: "a skip overlap, b wait, c claim"},
	{name: "replace goes before those that wait in the queue", waiting: "a:queue", due: "b:replace", want: "b claim"},
	{name: "replace that waits fires as soon as the key is free, before the queue", waiting: "a:queue b:replace", want: "b claim"},
	{name: "replace that waits takes one place of the queue", inFlight: "a:skip", due: "b:replace c:queue", maxQueued: 1, want: "b wait, c skip queue_full, a cancel replaced"},
	{name: "replace that takes the place of one that waits leaves the rest of the queue alone", inFlight: "a:skip!", waiting: "b:queue c:replace", due: "d:replace e:queue", maxQueued: 3, want: "c skip coalesced, d wait, e wait"},
}

var overlapOfRetries = []overlapCase{
	{name: "allow: a retry fires though another is in flight", inFlight: "a:allow", due: "b:allow+", want: "b claim"},

	{name: "skip: a retry waits while another is in flight", inFlight: "b:skip", due: "a:skip+", want: "a wait"},
	{name: "skip: a retry waits for the slot that is due with it and comes first", due: "b:skip a:skip+", want: "b claim, a wait"},
	{name: "skip: a retry that waits fires when the key is free, and the slot that is due is skipped", waiting: "a:skip+", due: "b:skip", want: "a claim, b skip overlap"},
	{name: "skip: of two retries that wait one fires", waiting: "a:skip+ b:skip+", want: "a claim"},

	{name: "queue: a retry waits while another is in flight", inFlight: "b:queue", due: "a:queue+", want: "a wait"},
	{name: "queue: a retry waits though the queue is full", inFlight: "a:queue", waiting: "b:queue", due: "c:queue+", maxQueued: 1, want: "c wait"},
	{name: "queue: a retry that waits takes no place of the queue", inFlight: "a:queue", waiting: "b:queue+", due: "c:queue d:queue", maxQueued: 1, want: "c wait, d skip queue_full"},
	{name: "queue: nor does a retry that begins to wait", inFlight: "a:queue", due: "b:queue+ c:queue d:queue", maxQueued: 1, want: "b wait, c wait, d skip queue_full"},
	{name: "queue: a retry that is let go leaves the queue as it was", waiting: "a:queue+ b:queue", due: "c:queue", maxQueued: 1, want: "a claim, c skip queue_full"},
	{name: "queue: a retry of policy skip that waits takes no place of the queue", inFlight: "a:queue", due: "b:skip+ c:queue", maxQueued: 1, want: "b wait, c wait"},

	{name: "replace: a retry fires when nothing is in flight", due: "a:replace+", want: "a claim"},
	{name: "replace: a retry cancels an older slot that is in flight", inFlight: "a:replace", due: "b:replace+", want: "b wait, a cancel replaced"},
	{name: "replace: a retry does not cancel a newer slot that is in flight", inFlight: "b:replace", due: "a:replace+", want: "a skip coalesced"},
	{name: "replace: a retry that waits ends when a newer slot is in flight", inFlight: "b:replace", waiting: "a:replace+", want: "a skip coalesced"},
	{name: "replace: a newer slot of another policy counts too", inFlight: "b:allow", due: "a:replace+", want: "a skip coalesced"},
	{name: "replace: a retry gives way to a newer slot that is due", due: "a:replace+ b:replace", want: "a skip coalesced, b claim"},
	{name: "replace: a retry of the newest slot stays, and the older slot goes", inFlight: "a:replace", due: "b:replace c:replace+", want: "b skip coalesced, c wait, a cancel replaced"},
	{name: "replace: a retry that must go does not push out a slot that is due", inFlight: "c:replace", due: "b:replace+ a:replace", want: "b skip coalesced, a wait, c cancel replaced"},
	{name: "replace: a retry that waits takes no place of the queue", inFlight: "a:skip", due: "b:replace+ c:queue", maxQueued: 1, want: "b wait, c wait, a cancel replaced"},
	{name: "replace: a retry that must go leaves the queue alone", inFlight: "c:allow", waiting: "a:replace+ b:queue", due: "d:queue e:queue", maxQueued: 2, want: "a skip coalesced, d wait, e skip queue_full"},
}

// overlapArmed: "c:skip@e" is the slot c that fires in minute e.
var overlapArmed = []overlapCase{
	{name: "a row that is close is claimed early when its key is free", now: "b", due: "c:skip", want: "c claim"},
	{name: "a row that is close gets no verdict while another is in flight", now: "b", inFlight: "a:skip", due: "c:skip"},
	{name: "a row that is close gets no verdict while another waits, which is let go", now: "b", waiting: "a:queue", due: "c:skip", want: "a claim"},
	{name: "a row that is close gets no verdict when another is due now", now: "b", due: "b:skip c:skip", want: "b claim"},
	{name: "a row that is close does not replace what is in flight before its time", now: "b", inFlight: "a:replace", due: "c:replace"},
	{name: "of several that are close only the first to fire is claimed", now: "b", due: "d:queue c:queue", want: "c claim"},
	{name: "of two that fire together the first in claim order is claimed", now: "b", due: "d:skip@e c:queue@e", want: "d claim"},
	{name: "of two that fire together neither is claimed early when one replaces the other", now: "b", due: "c:skip@e d:replace@e"},
	{name: "of two replacing rows that fire together the older is not claimed early", now: "b", due: "c:replace@e d:replace@e"},
	{name: "a replacing row that fires before all others is claimed early", now: "b", due: "c:replace d:replace", want: "c claim"},
	{name: "a row whose fire_at is now is due, not close", now: "b", inFlight: "a:skip", due: "b:skip", want: "b skip overlap"},
}

func TestOverlapArmed(t *testing.T)           { checkOverlap(t, overlapArmed) }
func TestOverlapOfOnePolicy(t *testing.T)     { checkOverlap(t, overlapOfOnePolicy) }
func TestOverlapOfRetries(t *testing.T)       { checkOverlap(t, overlapOfRetries) }
func TestOverlapOfMixedPolicies(t *testing.T) { checkOverlap(t, overlapOfMixedPolicies) }

func checkOverlap(t *testing.T, cases []overlapCase) {
	t.Parallel()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := schedule.OverlapGroup{
				OverlapKey: "u/k",
				InFlight:   overlapRows(c.inFlight, c.maxQueued),
				Waiting:    waitingRows(overlapRows(c.waiting, c.maxQueued)),
				Due:        overlapRows(c.due, c.maxQueued),
			}
			if c.now != "" {
				g.Now = overlapMinute(c.now)
			}
			if got := verdictText(g, ledger.JudgeOverlap(g)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestOverlapLeavesItsArgumentAlone(t *testing.T) {
	t.Parallel()
	g := schedule.OverlapGroup{
		Waiting: waitingRows(overlapRows("b:replace c:queue c:coalesce", 0)), Due: overlapRows("d:replace e:replace f:queue f:coalesce d:coalesce", 0),
	}
	before := fmt.Sprintf("%+v", g)
	ledger.JudgeOverlap(g)
	if after := fmt.Sprintf("%+v", g); after != before {
		t.Errorf("the group was changed:\nbefore %s\nafter  %s", before, after)
	}
}

func overlapRows(text string, maxQueued uint32) []schedule.Run {
	if maxQueued == 0 {
		maxQueued = 100
	}
	var rows []schedule.Run
	for word := range strings.FieldsSeq(text) {
		word, cancelled := strings.CutSuffix(word, "!")
		word, automatic := strings.CutSuffix(word, "+")
		word, minute, delayed := strings.Cut(word, "@")
		name, policy, _ := strings.Cut(word, ":")
		r := overlapRow(name, schedule.OverlapPolicy(policy), maxQueued)
		if cancelled {
			r.CancelRequestedAt = r.RunAt.Add(time.Second)
		}
		if automatic {
			r = retriedAutomatically(r)
		}
		if delayed {
			r.FireAt = overlapMinute(minute)
		}
		rows = append(rows, r)
	}
	return rows
}

func overlapRow(name string, policy schedule.OverlapPolicy, maxQueued uint32) schedule.Run {
	at := overlapMinute(name)
	return schedule.Run{
		Key: sha256.Sum256([]byte(name)), ScheduleID: name, RunAt: at, FireAt: at, Trigger: schedule.TriggerSchedule,
		OverlapPolicy: policy, Exclusive: policy.Exclusive(), MaxQueued: maxQueued,
	}
}

// waitingRows let rows wait since their fire_at, unless they have another instant.
func waitingRows(rows []schedule.Run) []schedule.Run {
	for i := range rows {
		if rows[i].WaitingSince.IsZero() {
			rows[i].WaitingSince = rows[i].FireAt
		}
	}
	return rows
}

func retriedAutomatically(r schedule.Run) schedule.Run {
	r.RetryOf, r.Trigger = r.Key, schedule.TriggerRetry
	r.Key = schedule.RetryKey(r.Key, "/auto")
	return r
}

func overlapMinute(name string) time.Time {
	return time.Date(2026, 6, 1, 12, int(name[0]-'a'), 0, 0, time.UTC)
}

// verdictText writes verdicts as overlapCase does.
func verdictText(g schedule.OverlapGroup, verdicts []schedule.Verdict) string {
	names := make(map[schedule.Key]string)
	for _, rows := range [][]schedule.Run{g.InFlight, g.Waiting, g.Due} {
		for i := range rows {
			names[rows[i].Key] = cmp.Or(rows[i].RunID, rows[i].ScheduleID)
		}
	}
	actions := map[schedule.VerdictAction]string{
		schedule.VerdictClaim: "claim", schedule.VerdictWait: "wait",
		schedule.VerdictSkip: "skip", schedule.VerdictCancel: "cancel",
	}
	texts := make([]string, len(verdicts))
	for i, v := range verdicts {
		texts[i] = strings.TrimSpace(names[v.Key] + " " + actions[v.Action] + " " + string(v.Reason))
	}
	return strings.Join(texts, ", ")
}
