package explain_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/explain"
)

// The slot of these tests is due at 07:30:00.
const due = "2026-03-07T07:30:00Z"

func term(epoch int64, from, until string, reason schedule.EndReason) schedule.LeaderTerm {
	t := schedule.LeaderTerm{Epoch: epoch, WorkerID: "w", Host: "box:1", StartedAt: at("2026-03-07T" + from + "Z"), End: schedule.TermEnd{Reason: reason}}
	if until != "" {
		t.EndedAt = at("2026-03-07T" + until + "Z")
	}
	return t
}

func led(terms ...schedule.LeaderTerm) func(*explain.Facts) {
	return func(f *explain.Facts) { f.Terms = terms }
}

// away is a database outage from 07:29:58 to 07:30:10.
var away = led(term(7, "05:00:00", "07:29:58", schedule.EndDatabase), term(8, "07:30:10", "", ""))

const awayWords = "No worker led shard 0 from 2026-03-07T07:29:58Z to 2026-03-07T07:30:10Z (database unreachable)."

func TestSlotsWithoutALeaderSaySo(t *testing.T) {
	stable := led(term(7, "05:00:00", "", ""))
	for _, tt := range []expectation{
		{
			name: "one that was claimed late", facts: asked(nightly(), due, row(ended(schedule.StatusSuccess, ""), claimedLater(10*time.Second)), away),
			verdict: explain.VerdictRan, says: []string{awayWords, "No worker claimed it for 10 seconds: no worker led the shard."},
		},
		{
			name: "one that was planned late",
			facts: asked(nightly(), due, row(ended(schedule.StatusSuccess, ""), claimedLater(11*time.Second), func(r *schedule.Run) {
				r.CreatedAt = r.FireAt.Add(10500 * time.Millisecond)
			}), away),
			verdict: explain.VerdictRan, says: []string{awayWords, "Planned 11 seconds after its fire time: until then no worker led the shard."},
		},
		{
			name: "one that was claimed, and could not be sent",
			facts: asked(nightly(), due, row(ended(schedule.StatusSuccess, ""), func(r *schedule.Run) {
				r.ClaimedAt, r.LaunchedAt = r.FireAt.Add(-500*time.Millisecond), r.FireAt.Add(10*time.Second)
			}), away),
			verdict: explain.VerdictRan, says: []string{awayWords, "Claimed, but not sent for 10 seconds: no worker led the shard."},
		},
		{
			name: "one that was sent twice",
			facts: asked(nightly(), due, row(ended(schedule.StatusSuccess, ""), func(r *schedule.Run) {
				r.LaunchedAt, r.Deliveries = r.FireAt.Add(12*time.Second), 2
			}), away),
			sent: at(due), verdict: explain.VerdictRan,
			says: []string{awayWords, "sent at most 2 times", "It may have been sent at about 2026-03-07T07:30:00Z; no answer was recorded. The same key was sent again at 2026-03-07T07:30:12Z."},
		},
		{
			name: "one that was claimed by a leader that was killed just before it was due",
			facts: asked(nightly(), due, row(ended(schedule.StatusSuccess, ""), func(r *schedule.Run) {
				r.ClaimedAt, r.LaunchedAt, r.Deliveries = r.FireAt.Add(-950*time.Millisecond), r.FireAt.Add(3*time.Second), 2
			}), led(term(7, "05:00:00", "07:29:58", schedule.EndLockFreed), func() schedule.LeaderTerm {
				next := term(8, "07:29:59", "", "")
				next.StartedAt = next.StartedAt.Add(600 * time.Millisecond)
				return next
			}())),
			sent: at(due), verdict: explain.VerdictRan,
			says: []string{"box:1, which claimed it, led shard 0 until 2026-03-07T07:29:58Z (leader's lock came free: killed or cut off).", "It may have been sent at about 2026-03-07T07:30:00Z"},
		},
		{
			name: "one that was skipped when a worker led again",
			facts: asked(nightly(), due, row(ended(schedule.StatusSkipped, schedule.ReasonOverlap), func(r *schedule.Run) {
				r.CompletedAt = r.FireAt.Add(11 * time.Second)
			}), blocked, away),
			verdict: explain.VerdictSkipped, why: "overlap",
			says: []string{awayWords, "It could not start on time for that reason. At 2026-03-07T07:30:11Z another run of its overlap key was in flight", "Blocked by run"},
		},
		{
			name: "one that fell out of the misfire grace",
			facts: asked(nightly(), due, row(ended(schedule.StatusSkipped, schedule.ReasonMissed), func(r *schedule.Run) {
				r.CompletedAt = r.FireAt.Add(90 * time.Second)
			}), led(term(7, "05:00:00", "07:29:58", schedule.EndLockFreed), term(8, "07:31:29", "", ""))),
			verdict: explain.VerdictSkipped, why: "missed",
			says: []string{"No worker led shard 0 from 2026-03-07T07:29:58Z to 2026-03-07T07:31:29Z (leader's lock came free: killed or cut off).", "misfire grace"},
		},
		{
			name: "one that was never planned",
			facts: asked(nightly(), due, event(schedule.EventMissed, "2026-03-07T09:00:00Z", func(e *schedule.Event) {
				e.From, e.To, e.Count, e.Reason = at(due), at(due), 1, schedule.ReasonMissed
			}), led(term(7, "05:00:00", "07:00:00", schedule.EndStopped), term(8, "09:00:00", "", ""))),
			verdict: explain.VerdictNotFired, why: "missed",
			says: []string{"No worker led shard 0 from 2026-03-07T07:00:00Z to 2026-03-07T09:00:00Z (process stopped)."},
		},
		{
			name: "one that is due, and nobody leads", facts: asked(nightly(), due, row(), led(expired(term(7, "05:00:00", "", ""), "07:29:58"))),
			verdict: explain.VerdictDue, why: explain.WhyUnclaimed,
			says: []string{"No worker has led shard 0 since 2026-03-07T07:29:58Z (leader stopped renewing: killed, hung or cut off).", "no worker has claimed it yet"},
		},
		{
			name: "one whose leader came back in the same epoch",
			facts: asked(nightly(), due, row(ended(schedule.StatusSuccess, ""), claimedLater(10*time.Second)),
				led(term(7, "05:00:00", "07:29:58", schedule.EndSuspended), term(7, "07:30:10", "", ""))),
			verdict: explain.VerdictRan,
			says:    []string{"The leader of shard 0 could do nothing from 2026-03-07T07:29:58Z to 2026-03-07T07:30:10Z (process suspended or starved)."},
		},
		{
			name:    "one that was claimed late although a worker led",
			facts:   asked(nightly(), due, row(ended(schedule.StatusSuccess, ""), claimedLater(10*time.Second)), stable),
			verdict: explain.VerdictRan, says: []string{"No worker claimed it for 10 seconds: a worker led, but all launch capacity was in use"},
		},
	} {
		t.Run(tt.name, tt.check)
	}
}

func expired(t schedule.LeaderTerm, renewed string) schedule.LeaderTerm {
	t.RenewedAt, t.Expired = at("2026-03-07T"+renewed+"Z"), true
	return t
}

func TestGapsClaimOnlyWhatIsRecorded(t *testing.T) {
	for _, c := range []struct {
		name  string
		terms []schedule.LeaderTerm
		want  int
	}{
		{"nothing is known", nil, 0},
		{"one leads", []schedule.LeaderTerm{term(1, "05:00:00", "", "")}, 0},
		{"one leads whose renewal is due", []schedule.LeaderTerm{{StartedAt: now.Add(-time.Hour), RenewedAt: now.Add(-2 * time.Second)}}, 0},
		{"one leads whose renewals stopped", []schedule.LeaderTerm{{StartedAt: now.Add(-time.Hour), RenewedAt: now.Add(-5 * time.Second)}}, 1},
		{"an end that nobody recorded", []schedule.LeaderTerm{term(1, "05:00:00", "06:00:00", schedule.EndUnknown), term(3, "07:00:00", "", "")}, 0},
		{"terms that touch", []schedule.LeaderTerm{term(1, "05:00:00", "06:00:00", schedule.EndBalanced), term(2, "06:00:00", "", "")}, 0},
		{"two gaps", []schedule.LeaderTerm{
			term(1, "05:00:00", "05:01:00", schedule.EndStopped), term(2, "05:02:00", "05:03:00", schedule.EndStopped), term(3, "05:04:00", "", ""),
		}, 2},
		{"the last one resigned", []schedule.LeaderTerm{term(1, "05:00:00", "05:01:00", schedule.EndStopped)}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := explain.Gaps(c.terms, now); len(got) != c.want {
				t.Errorf("%d gaps, want %d: %+v", len(got), c.want, got)
			}
		})
	}
}
