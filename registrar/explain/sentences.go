package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// Sentences is the answer in sentences, the verdict first. They use only the fields
// of the answer.
func (a *Answer) Sentences() []string {
	t := &text{Answer: a}
	t.verdict()
	t.lines = append(t.lines, t.InQueue...)
	t.slotStart()
	t.reading()
	t.rule()
	t.times()
	t.result()
	t.attempts()
	t.told()
	t.others()
	t.around()
	return t.lines
}

// text collects the sentences of an answer.
type text struct {
	*Answer
	sentences
}

// sentences are collected one after the other.
type sentences struct{ lines []string }

func (t *sentences) say(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if s == "" {
		return
	}
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	t.lines = append(t.lines, s)
}

func (t *text) verdict() {
	switch t.Verdict {
	case VerdictNoSchedule:
		t.noSchedule()
		return
	case VerdictNotASlot:
		t.say("No slot: %s", t.noSlot())
		return
	}
	when := t.Slot.Local
	if t.Slot.Note != "" {
		when += " (" + t.Slot.Note + ")"
	}
	t.say("The slot at %s %s", when, t.outcome())
	t.reason()
}

func (t *text) noSchedule() {
	if t.Why == WhyNotCreated {
		t.say("The schedule did not exist yet: it was created at %s%s", describe.Instant(t.CreatedAt), by(t.CreatedBy))
		return
	}
	t.say("The schedule did not exist: it was deleted at %s%s", describe.Instant(t.DeletedAt), by(t.DeletedBy))
}

func (t *text) noSlot() string {
	d := t.Rule.Definition
	switch t.Why {
	case WhyByHand:
		if d.Consume.Any() {
			return "the schedule has no time rule; it starts " + describe.OnEvents(d.Consume.Topics)
		}
		return "the schedule has no rule; it is triggered manually"
	case WhyEventDriven:
		return "the schedule has no time rule; events of " + strings.Join(d.Consume.Topics, " and ") + " start its runs"
	case WhyUnreadable:
		return "the rule can no longer be read: " + t.Detail
	case WhyBeforeStart:
		return "it is before start_at, " + describe.Instant(d.StartAt)
	case WhyAfterEnd:
		return "it is after end_at, " + describe.Instant(d.EndAt)
	case WhyFraction:
		return "slots are whole seconds"
	case WhyGap:
		return t.gapWords()
	case WhySecondPass:
		return "the clock went back and this time occurs again; a fixed time runs only the first time (with dst: literal both times)"
	}
	local := t.At.In(zoneOf(d)).Format(describe.LocalFormat)
	switch {
	case !d.OnceAt.IsZero():
		return "the only slot is at " + describe.Instant(d.OnceAt)
	case d.IntervalMS > 0:
		return "the slots are every " + describe.Span(d.Interval()) + ", and none at this time"
	case t.Detail != "":
		return fmt.Sprintf("%s does not match %q: %s", local, d.CronExpr, t.Detail)
	}
	return fmt.Sprintf("%s does not match %q", local, d.CronExpr)
}

func (t *text) outcome() string {
	switch t.Verdict {
	case VerdictRan:
		if t.Run.Reason == schedule.ReasonAccepted {
			return "ran: the executor accepted it, and does not report how runs end"
		}
		return "ran and succeeded"
	case VerdictFailed:
		switch {
		case t.Run.Reason == schedule.ReasonLost && t.Run.LaunchedAt.IsZero():
			return "failed: it is unknown whether the executor accepted it"
		case t.Run.LaunchedAt.IsZero():
			return "failed before it was launched"
		}
		return "ran and failed"
	case VerdictSkipped:
		return "was skipped"
	case VerdictCancelled:
		return "was cancelled"
	case VerdictRetrying:
		return "is retrying: no launch attempt has succeeded yet"
	case VerdictInFlight:
		return "is in progress: " + stage(t.Run)
	case VerdictWaiting:
		return "is queued since " + describe.Instant(t.Run.WaitingSince)
	case VerdictDue:
		return "is due and has not been started yet"
	case VerdictNotFired:
		return "did not fire"
	case VerdictWillFire:
		return "will fire at " + describe.Instant(t.Slot.FireAt) + t.moved()
	case VerdictWillNotFire:
		return "will not fire"
	case VerdictExpired:
		return "was a slot of the schedule; its outcome is no longer stored: runs that ended before " + describe.Instant(t.KeptSince) + " may be deleted (RETENTION_DAYS)"
	}
	return "has neither a run nor a recorded range. This is a bug: please report it with this answer"
}

// moved tells why the slot does not fire at its nominal time.
func (t *text) moved() string {
	why := "jitter"
	if t.Run != nil && t.Run.Trigger != schedule.TriggerSchedule {
		why = trigger(t.Run.Trigger)
	}
	if off := t.Slot.FireAt.Sub(t.Slot.RunAt); off != 0 {
		side := "later"
		if off < 0 {
			side = "earlier"
		}
		return ", " + describe.Span(off.Abs()) + " " + side + " than its nominal time (" + why + ")"
	}
	return ""
}

func stage(r *schedule.Run) string {
	switch {
	case !r.CancelRequestedAt.IsZero():
		return "its cancel was requested at " + describe.Instant(r.CancelRequestedAt)
	case r.Queue.In() && r.Stage() == schedule.StatusPlanned:
		return "it entered its dispatch queue at " + describe.Instant(r.Queue.EnqueuedAt)
	case r.Queue.In() && r.Stage() == schedule.StatusLaunching:
		return "its dispatch queue admitted it at " + describe.Instant(r.ClaimedAt) + ", and it is being sent"
	case r.Status == schedule.StatusStarted:
		return "the executor reports that it runs" + progress(r) + limit(r)
	case r.Status == schedule.StatusEnqueued:
		return "the executor accepted it and has not reported since" + limit(r)
	case r.LaunchedAt.IsZero():
		return "a worker claimed it and is launching it"
	}
	return "it was sent, and the executor has not answered yet"
}

// progress is how far the run was at its last report.
func progress(r *schedule.Run) string {
	if r.Progress == "" {
		return ""
	}
	return ", and that it has done " + r.Progress.String()
}

// limit is when a run that the executor has accepted fails with the reason timeout.
func limit(r *schedule.Run) string {
	if r.TimeoutAt.IsZero() {
		return ""
	}
	if r.TimeoutAt.Equal(r.DeadlineAt) {
		return "; it fails at " + describe.Instant(r.DeadlineAt) + " unless its end is reported before (max_run_ms)"
	}
	return "; it fails at " + describe.Instant(r.TimeoutAt) + " unless its end is reported before (run_timeout_ms)"
}

// rule is the definition in force, and who made it.
func (t *text) rule() {
	r := t.Rule
	if r == nil {
		return
	}
	s := fmt.Sprintf("The rule was %s: revision %d, made at %s%s", r.Words, r.Revision, describe.Instant(r.MadeAt), by(r.MadeBy))
	if r.ReplacedAt.IsZero() {
		s = strings.Replace(s, "rule was", "rule is", 1)
	} else {
		s += ", replaced at " + describe.Instant(r.ReplacedAt)
	}
	t.say("%s", s)
	if t.DeletedAt.After(t.At) && t.Why != Why(schedule.ReasonDeleted) {
		t.say("The schedule was deleted later, at %s%s", describe.Instant(t.DeletedAt), by(t.DeletedBy))
	}
}

// times are those of the run.
func (t *text) times() {
	r := t.Run
	if r == nil {
		return
	}
	t.say("Run %s: planned at %s%s", r.Key, describe.Instant(r.CreatedAt), t.history())
	if late, ok := t.Lateness(); ok {
		drift, _ := t.Drift()
		t.launched(late, drift)
		t.delays()
	}
	if r.Trigger != schedule.TriggerSchedule && t.Verdict != VerdictWillFire {
		t.say("Started by %s", trigger(r.Trigger))
	}
}

// launched tells how long after its fire time a run was launched, and how long
// after its nominal time if jitter or a delay makes that different.
func (t *text) launched(late, drift time.Duration) {
	s := "Launched on time"
	if late >= time.Millisecond {
		s = fmt.Sprintf("Launched %s after its fire time %s", describe.Span(late), describe.Instant(t.Run.FireAt))
	}
	if !t.Run.FireAt.Equal(t.Run.RunAt) {
		s += ", " + describe.Span(drift) + " from its nominal time"
	}
	t.say("%s", s)
}

// delays tells which step cost the run a second or more: planning, claiming or
// sending.
func (t *text) delays() {
	r := t.Run
	if late := r.CreatedAt.Sub(r.FireAt); late >= time.Second {
		why := "until then no worker led the shard, or the planner was behind"
		switch {
		case t.inGap(r.FireAt, r.CreatedAt):
			why = "until then no worker led the shard"
		case t.TermsKnown:
			why = "a worker led, but the planner was behind"
		}
		t.say("Planned %s after its fire time: %s", describe.Span(late), why)
	}
	t.claimDelay()
	from := r.ClaimedAt
	if r.FireAt.After(from) {
		from = r.FireAt
	}
	switch took := r.LaunchedAt.Sub(from); {
	case r.ClaimedAt.IsZero() || took < time.Second:
	case !t.FirstSentAt.IsZero():
		if c := t.Claimer; c != nil && len(t.Gaps) == 0 {
			t.say("%s, which claimed it, led shard %d until %s (%s)", c.Host, c.Shard, describe.Instant(c.EndedAt), c.End.Reason.Words())
		}
		t.say("It may have been sent at about %s; no answer was recorded. The same key was sent again at %s",
			describe.Instant(t.FirstSentAt), describe.Instant(r.LaunchedAt))
	case t.inGap(from, r.LaunchedAt):
		t.say("Claimed, but not sent for %s: no worker led the shard", describe.Span(took))
	default:
		t.say("Sending it to the executor took %s", describe.Span(took))
	}
}

func (t *text) claimDelay() {
	r := t.Run
	if entered := r.Queue.EnqueuedAt; r.Queue.In() && !r.ClaimedAt.IsZero() {
		if waited := r.ClaimedAt.Sub(entered); waited >= time.Second {
			t.say("It waited in its dispatch queue for %s, from %s on", describe.Span(waited), describe.Instant(entered))
		}
		return
	}
	switch waited := r.ClaimedAt.Sub(r.Ready()); {
	case r.ClaimedAt.IsZero() || waited < time.Second:
	case t.inGap(r.Ready(), r.ClaimedAt):
		t.say("No worker claimed it for %s: no worker led the shard", describe.Span(waited))
	case r.WaitedForTurn() && len(t.Blocking) > 0:
		t.say("Queued for %s (overlap_policy %s)", describe.Span(waited), r.OverlapPolicy)
		t.blocking("Blocked by")
	case t.TermsKnown:
		t.say("No worker claimed it for %s: a worker led, but all launch capacity was in use (MAX_LAUNCHES, or its owner's share)", describe.Span(waited))
	default:
		t.say("No worker claimed it for %s: no worker led the shard, or all launch capacity was in use", describe.Span(waited))
	}
}

func (t *text) history() string {
	r := t.Run
	var s strings.Builder
	for _, step := range []struct {
		name string
		at   time.Time
	}{
		{"claimed", r.ClaimedAt},
		{"launched", r.LaunchedAt},
		{"started", r.StartedAt},
		{"cancel requested", r.CancelRequestedAt},
		{"ended", r.CompletedAt},
	} {
		if !step.at.IsZero() {
			s.WriteString(", " + step.name + " at " + describe.Instant(step.at))
		}
	}
	switch times := describe.Count(int(r.Deliveries), "time"); {
	case r.Deliveries <= 1:
	case !t.FirstSentAt.IsZero():
		s.WriteString(", sent at most " + times)
	default:
		s.WriteString(", sent " + times)
	}
	return s.String()
}

func trigger(t schedule.Trigger) string {
	switch t {
	case schedule.TriggerCatchup:
		return "catch-up, because it was late"
	case schedule.TriggerBackfill:
		return "a backfill"
	case schedule.TriggerRetry:
		return "a retry"
	case schedule.TriggerManual:
		return "a manual trigger"
	case schedule.TriggerEvent:
		return "events"
	}
	return "the schedule"
}

func (t *text) others() {
	for i := range t.Others {
		r := &t.Others[i]
		s := fmt.Sprintf("Also in this second: a run started by %s, %s%s: %s", trigger(r.Trigger), r.Status, inBrackets(string(r.Reason)), r.Key)
		if !r.RetryOf.IsZero() {
			s += fmt.Sprintf(", attempt %d, of %s", r.Attempt, r.RetryOf)
		}
		t.say("%s", s)
	}
}

func (t *text) around() {
	show := func(where string, s *Slot) {
		if s == nil {
			return
		}
		state := ""
		if s.Run != nil {
			state = ", " + string(s.Run.Status) + inBrackets(string(s.Run.Reason))
		}
		note := ""
		if s.Note != "" {
			note = " (" + s.Note + ")"
		}
		t.say("The slot %s is %s%s%s", where, s.Local, note, state)
	}
	show("before", t.Previous)
	show("after", t.Next)
	if t.Next == nil && t.Rule != nil && t.Rule.ReplacedAt.IsZero() && t.Why != WhyByHand && t.Why != WhyEventDriven && t.Why != WhyUnreadable {
		t.say("There is no next slot")
	}
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}
