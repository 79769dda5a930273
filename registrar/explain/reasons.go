package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// reason tells why: first that no worker was available, then what happened when one
// was.
func (t *text) reason() {
	t.leaderless()
	switch t.Why {
	case Why(schedule.ReasonOverlap), Why(schedule.ReasonQueueFull):
		t.overlap()
	case Why(schedule.ReasonMissed):
		t.missed()
	case Why(schedule.ReasonCoalesced):
		t.coalesced()
	case Why(schedule.ReasonPaused):
		t.paused()
	case Why(schedule.ReasonDeleted):
		if t.DeletedAt.IsZero() {
			t.say("It entered a queue while the queue was deleted")
		} else {
			t.say("The schedule was deleted at %s%s", describe.Instant(t.DeletedAt), by(t.DeletedBy))
		}
	case Why(schedule.ReasonGrantExpired), Why(schedule.ReasonGrantRevoked), Why(schedule.ReasonGrantDenied):
		t.say("Its execution grant does not allow it: %s", t.Detail)
	case WhyUnclaimed:
		t.say("It was planned for %s; no worker has claimed it yet", describe.Instant(t.Slot.FireAt))
	case WhyUnplanned:
		if len(t.Gaps) == 0 {
			t.say("It is not planned yet; `carillon doctor` shows whether there is a leader")
		}
	case WhyBacklog:
		t.backlog()
	default:
		t.ended()
	}
	if t.Verdict == VerdictRetrying {
		t.retrying()
	}
	t.outlook()
}

// ended is the reason of a run that was or should have been launched.
func (t *text) ended() {
	if t.Run == nil || t.Why == "" || t.Why == Why(schedule.ReasonAccepted) {
		return
	}
	words := endings[schedule.Reason(t.Why)]
	if t.Why == Why(schedule.ReasonLost) && t.Run.ErrorCode == string(schedule.CodeLost) {
		words = "The executor accepted it, and lost it: its process ended before the run"
	}
	if t.Detail != "" {
		words += ": " + t.Detail
	}
	if t.Run.ErrorCode != "" {
		words += " (" + t.Run.ErrorCode + ")"
	}
	t.say("%s", words)
	t.nextAttempt()
}

// nextAttempt tells which automatic retry follows a failed run, or why none does.
func (t *text) nextAttempt() {
	r := t.Run
	next, retried := r.RetriedBy()
	if r.Snoozed() {
		t.afterSnooze(next, retried)
	}
	if r.Status != schedule.StatusFailed || r.MaxAttempts <= 1 {
		return
	}
	i := slices.IndexFunc(t.Others, func(o schedule.Run) bool { return o.Key == next })
	switch {
	case retried && r.StartsAgain():
		t.say("The same attempt, %d of %d, starts again at once as run %s", r.Attempt, r.MaxAttempts, next)
	case retried && i >= 0 && t.Others[i].Stage() == schedule.StatusPlanned:
		t.say("It was attempt %d of %d. The next attempt is due at %s", r.Attempt, r.MaxAttempts, describe.Instant(t.Others[i].FireAt))
		if t.PausedNow {
			t.say("It waits while the schedule is paused")
		} else if !t.Others[i].WaitingSince.IsZero() {
			t.say("It waits until its overlap key is free (overlap_policy %s)", t.Others[i].OverlapPolicy)
		}
	case retried:
		t.say("It was attempt %d of %d. The next attempt is %s", r.Attempt, r.MaxAttempts, next)
	case !r.IsDead():
		t.say("It was attempt %d of %d, and was retried by hand", r.Attempt, r.MaxAttempts)
	default:
		facts := ledger.AttemptFacts{}
		if t.Rule != nil {
			facts.Planned = t.Rule.Definition
			if t.DeletedAt.IsZero() || t.DeletedAt.After(r.CompletedAt) {
				facts.InForce = facts.Planned
			}
		}
		_, why := ledger.NextAttempt(r, &facts)
		t.say("No retry follows: %s", cmp.Or(why, "the retry policy of the schedule was another one when it failed"))
	}
}

// afterSnooze tells which run follows a snoozed one.
func (t *text) afterSnooze(next schedule.Key, followed bool) {
	i := slices.IndexFunc(t.Others, func(o schedule.Run) bool { return o.Key == next })
	switch {
	case !followed:
		t.say("No run follows, because the schedule was deleted")
	case i >= 0 && t.Others[i].Stage() == schedule.StatusPlanned:
		t.say("The same attempt starts again at %s", describe.Instant(t.Others[i].FireAt))
		if t.PausedNow {
			t.say("It waits while the schedule is paused")
		}
	default:
		t.say("The same attempt went on as run %s", next)
	}
}

var endings = map[schedule.Reason]string{
	schedule.ReasonLaunchRefused:     "The executor rejected it",
	schedule.ReasonLaunchUnavailable: "The executor could not be reached in time",
	schedule.ReasonWorkflowNotFound:  "The workflow store has no such version of the workflow that the owner may run",
	schedule.ReasonWorkflowFailed:    "The executor reported a failure",
	schedule.ReasonTimeout:           "The executor did not report within the run timeout",
	schedule.ReasonDeadline:          "It was not over max_run_ms after its acceptance, and the executor was asked to cancel it",
	schedule.ReasonExpired:           "It waited in its dispatch queue for too long",
	schedule.ReasonLost:              "The executor did not accept it in time. It may have received it",
	schedule.ReasonReplaced:          "A newer slot replaced it (overlap_policy replace)",
	schedule.ReasonCancelled:         "Its cancel was requested",
	schedule.ReasonSnoozed:           "The executor asked to get it again later",
	schedule.ReasonSnoozeLimit:       "The executor asked to get it again later, and had done so too often",
	schedule.ReasonPredecessorFailed: "A member of its group before it has failed, and the group stops then (on_failure stop)",
	schedule.ReasonInterrupted:       "A shutdown of the executor stopped it",
	schedule.ReasonQueueClosed:       "It could not enter its dispatch queue",
	schedule.ReasonQueueNotFound:     "It could not enter its dispatch queue",
	schedule.ReasonKeyConflict:       "Its idempotency key was used before for another request",
}

func (t *text) overlap() {
	switch {
	case t.Verdict == VerdictWaiting:
		t.say("It waits for the run in flight (overlap_policy %s)", t.Run.OverlapPolicy)
	case t.Why == Why(schedule.ReasonQueueFull) && t.Run.ErrorMessage != "":
		t.say("It could not enter its dispatch queue: %s", t.Run.ErrorMessage)
		return
	case t.Why == Why(schedule.ReasonQueueFull):
		t.say("A run was in flight, and the queue was full (max_queued %d)", t.Run.MaxQueued)
	case len(t.Gaps) > 0:
		t.say("It could not start on time for that reason. At %s another run of its overlap key was in flight, and overlap_policy is skip", describe.Instant(t.Run.CompletedAt))
	default:
		t.say("Another run of its overlap key was in flight, and overlap_policy is skip")
	}
	t.blocking("Blocked by")
}

func (t *text) blocking(lead string) {
	for i := range t.Blocking {
		r := &t.Blocking[i]
		s := fmt.Sprintf("%s run %s of %s, run_at %s, %s%s", lead, r.Key, r.ScheduleID, describe.Instant(r.RunAt), r.Status, inBrackets(r.Reason.WithCode(r.ErrorCode)))
		if !r.LaunchedAt.IsZero() {
			s += ", launched at " + describe.Instant(r.LaunchedAt)
		}
		if !r.CompletedAt.IsZero() {
			s += ", ended at " + describe.Instant(r.CompletedAt)
		}
		if r.LaunchedAt.IsZero() && r.ErrorMessage != "" {
			s += ": " + r.ErrorMessage
		}
		t.say("%s", s)
	}
}

func (t *text) missed() {
	if t.Run != nil {
		t.say("It was late by more than the misfire grace (MISFIRE_GRACE_MS)%s", t.policy())
		return
	}
	t.span("It was not planned in time")
}

func (t *text) policy() string {
	if t.Rule == nil {
		return ""
	}
	return "; catchup_policy is " + string(t.Rule.Definition.CatchupPolicy)
}

// span is the recorded range.
func (t *text) span(lead string) {
	e := t.Range
	if e == nil {
		return
	}
	s := fmt.Sprintf("%s: it is one of %s from %s to %s, recorded at %s", lead, describe.Count(int(e.Count), "slot"),
		describe.Instant(e.From), describe.Instant(e.To), describe.Instant(e.Time))
	if e.Note != "" {
		s += ", " + e.Note
	}
	t.say("%s", s+by(e.Actor))
}

func (t *text) coalesced() {
	if t.Range != nil {
		t.span("A newer slot replaced it")
		return
	}
	if t.Run != nil && t.Run.OverlapPolicy == schedule.OverlapCoalesce {
		t.say("A newer slot or a manual run of its schedule took its place; overlap_policy is coalesce%s", t.policy())
		return
	}
	t.say("A newer slot replaced it%s", t.policy())
}

func (t *text) paused() {
	p := t.Pause
	switch {
	case p == nil && t.Range != nil:
		t.span("It was due when the schedule was paused")
		return
	case p == nil:
		t.say("It was due when the schedule was paused")
		return
	}
	s := "The schedule is paused"
	if !p.Until.IsZero() && !p.Until.After(t.Now) {
		s = "The schedule was paused"
	}
	if !p.From.IsZero() {
		s += " since " + describe.Instant(p.From)
	}
	s += by(p.By)
	if p.Note != "" {
		s += ", note " + schedule.Quote(p.Note)
	}
	switch {
	case p.EndedBy != "":
		s += ", until " + describe.Instant(p.Until) + by(p.EndedBy)
	case !p.Until.IsZero():
		s += ", until " + describe.Instant(p.Until)
	default:
		s += ", until it is resumed"
	}
	t.say("%s; slots in a pause are not caught up", s)
}

func (t *text) backlog() {
	s := fmt.Sprintf("It was missed and will be caught up: the backlog reaches from %s to %s%s", describe.Instant(t.Backlog.From), describe.Instant(t.Backlog.Until), t.policy())
	if t.Backlog.At.After(t.Now) {
		s += ", its next part is due at " + describe.Instant(t.Backlog.At)
	}
	t.say("%s", s)
}

// outlook tells what a future or due slot meets by the current state.
func (t *text) outlook() {
	switch t.Verdict {
	case VerdictWillFire, VerdictDue:
	case VerdictWillNotFire:
		return
	default:
		if t.Why != Why(schedule.ReasonMissed) && t.Range != nil && t.Run != nil {
			t.span("Before that run it was recorded as skipped")
		}
		return
	}
	if t.PlanFailure != nil {
		t.say("Planning this schedule has failed since %s: %s", describe.Instant(t.PlanFailure.Time), t.PlanFailure.Note)
	}
	if len(t.Blocking) == 0 || t.Rule == nil {
		return
	}
	policy := t.Rule.Definition.OverlapPolicy
	if t.Run != nil {
		policy = t.Run.OverlapPolicy
	}
	what, ok := meets[policy]
	if !ok {
		return
	}
	t.blocking("In flight:")
	t.say("If it is still in flight then, %s (overlap_policy %s)", what, policy)
}

var meets = map[schedule.OverlapPolicy]string{
	schedule.OverlapSkip:     "this slot is skipped",
	schedule.OverlapQueue:    "this slot waits",
	schedule.OverlapReplace:  "it is cancelled and this slot runs",
	schedule.OverlapCoalesce: "this slot waits, unless a newer one takes its place",
}

func zoneOf(d *schedule.Definition) *time.Location {
	zone, err := cronexpr.LoadLocation(d.Timezone)
	if err != nil {
		return time.UTC
	}
	return zone
}

// String is the answer as one text.
func (a *Answer) String() string { return strings.Join(a.Sentences(), "\n") }
