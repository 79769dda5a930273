package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	"github.com/carillon/carillon/internal/wording"
)

// reason says why it came as it did.
func (t *text) reason() {
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
		t.say("The schedule was deleted at %s%s", wording.Instant(t.DeletedAt), by(t.DeletedBy))
	case Why(schedule.ReasonGrantExpired), Why(schedule.ReasonGrantRevoked), Why(schedule.ReasonGrantDenied):
		t.say("Its execution grant does not allow it: %s", t.Detail)
	case WhyUnclaimed:
		t.say("It was planned for %s; no worker has claimed it yet", wording.Instant(t.Slot.FireAt))
	case WhyUnplanned:
		t.say("The planner has not come to it yet; `carillon doctor` says whether there is a leader")
	case WhyBacklog:
		t.backlog()
	default:
		t.ended()
	}
	t.standing()
}

// ended is the reason of a run that took place, or nearly.
func (t *text) ended() {
	if t.Run == nil || t.Why == "" || t.Why == Why(schedule.ReasonAccepted) {
		return
	}
	words := endings[schedule.Reason(t.Why)]
	if t.Detail != "" {
		words += ": " + t.Detail
	}
	if t.Run.ErrorCode != "" {
		words += " (" + t.Run.ErrorCode + ")"
	}
	t.say("%s", words)
}

var endings = map[schedule.Reason]string{
	schedule.ReasonLaunchRefused:     "The executor refused it",
	schedule.ReasonLaunchUnavailable: "No request could be delivered to the executor in time",
	schedule.ReasonWorkflowNotFound:  "The workflow store holds no such version of the workflow that the owner may run",
	schedule.ReasonWorkflowFailed:    "The executor reported a failure",
	schedule.ReasonTimeout:           "There was no sign of life within the run timeout",
	schedule.ReasonLost:              "Whether the executor ever got it did not become known",
	schedule.ReasonReplaced:          "A newer slot replaced it (overlap_policy replace)",
	schedule.ReasonCancelled:         "Its cancel was asked for",
	schedule.ReasonKeyConflict:       "Its key was used before for another request",
}

func (t *text) overlap() {
	switch {
	case t.Verdict == VerdictWaiting:
		t.say("Under overlap_policy %s it waits for the run that is in flight", t.Run.OverlapPolicy)
	case t.Why == Why(schedule.ReasonQueueFull):
		t.say("A run was in flight, and %s waited already, as many as max_queued allows", wording.Count(int(t.Run.MaxQueued), "slot"))
	default:
		t.say("Another run of its overlap key was in flight, and overlap_policy is skip")
	}
	t.blocking("In its way")
}

func (t *text) blocking(lead string) {
	for i := range t.Blocking {
		r := &t.Blocking[i]
		s := fmt.Sprintf("%s: run %s of %s, run_at %s, %s%s", lead, r.Key, r.ScheduleID, wording.Instant(r.RunAt), r.Status, inBrackets(string(r.Reason)))
		if !r.LaunchedAt.IsZero() {
			s += ", launched at " + wording.Instant(r.LaunchedAt)
		}
		if !r.CompletedAt.IsZero() {
			s += ", ended at " + wording.Instant(r.CompletedAt)
		}
		t.say("%s", s)
	}
}

func (t *text) missed() {
	if t.Run != nil {
		t.say("It was first looked at more than the misfire grace after it was due (MISFIRE_GRACE_MS)%s", t.policy())
		return
	}
	t.span("Nobody planned it in time")
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
	s := fmt.Sprintf("%s: it is one of %s from %s to %s, recorded at %s", lead, wording.Count(int(e.Count), "slot"),
		wording.Instant(e.From), wording.Instant(e.To), wording.Instant(e.Time))
	if e.Note != "" {
		s += ", " + e.Note
	}
	t.say("%s", s+by(e.Actor))
}

func (t *text) coalesced() {
	if t.Range != nil {
		t.span("A newer slot stands in for it")
		return
	}
	t.say("A newer slot took its place%s", t.policy())
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
		s += " since " + wording.Instant(p.From)
	}
	s += by(p.By)
	if p.Note != "" {
		s += ", with the note " + schedule.Quote(p.Note)
	}
	switch {
	case p.EndedBy != "":
		s += ", until " + wording.Instant(p.Until) + by(p.EndedBy)
	case !p.Until.IsZero():
		s += ", until " + wording.Instant(p.Until)
	default:
		s += ", until somebody resumes it"
	}
	t.say("%s; slots that fall into a pause are not made up for", s)
}

func (t *text) backlog() {
	s := fmt.Sprintf("It was missed and is to be made up for: the backlog reaches from %s to %s%s", wording.Instant(t.Backlog.From), wording.Instant(t.Backlog.Until), t.policy())
	if t.Backlog.At.After(t.Now) {
		s += ", its next portion is due at " + wording.Instant(t.Backlog.At)
	}
	t.say("%s", s)
}

// standing is what a slot ahead, or one that is due, meets as things stand.
func (t *text) standing() {
	switch t.Verdict {
	case VerdictWillFire, VerdictDue:
	case VerdictWillNotFire:
		return
	default:
		if t.Why != Why(schedule.ReasonMissed) && t.Range != nil && t.Run != nil {
			t.span("Before that run it had been recorded")
		}
		return
	}
	if t.Trouble != nil {
		t.say("The planner has trouble with this schedule since %s: %s", wording.Instant(t.Trouble.Time), t.Trouble.Note)
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
	t.blocking("In flight now")
	t.say("If that still runs then, %s (overlap_policy %s)", what, policy)
}

var meets = map[schedule.OverlapPolicy]string{
	schedule.OverlapSkip:    "this slot is skipped",
	schedule.OverlapQueue:   "this slot waits for its end",
	schedule.OverlapReplace: "that one is cancelled and this slot takes its place",
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
