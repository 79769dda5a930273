package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// SettlementOf converts a definite answer to the settlement of its run.
func SettlementOf(r *schedule.Run, f *schedule.FinishRequest, now time.Time) schedule.Settlement {
	o := &f.Outcome
	s := schedule.Settlement{
		Key: f.Key, To: o.Status, Reason: o.Reason, RunID: o.RunID, TraceID: o.TraceID,
		ErrorCode: o.ErrorCode, ErrorMessage: o.ErrorMessage, FailureClass: o.FailureClass, LaunchedAt: f.LaunchedAt,
		ExitCode: o.ExitCode, Result: o.Result, Commit: o.Commit, Deliveries: f.Deliveries, Unsent: f.Unsent,
	}
	if s.LaunchedAt.IsZero() && (o.OK() || tellsEnd(o)) {
		// The answer belongs to an earlier call, and the time of that call is lost.
		s.LaunchedAt = r.NotLaunchedBefore()
	}
	if !o.Status.Terminal() {
		alive(&s, r, f.RunTimeout, f.MaxRun, now)
		return s
	}
	s.CompletedAt = now
	if s.Reason == schedule.ReasonSnoozed {
		snooze(&s, r, o.SnoozeFor)
	}
	afterCancel(&s, r, "answered ")
	return s
}

// alive notes a sign of life of a run: its acceptance or a report. The first one begins maxRun, and
// each begins the run timeout again.
func alive(s *schedule.Settlement, r *schedule.Run, runTimeout, maxRun time.Duration, now time.Time) {
	s.TimeoutAt, s.DeadlineAt = now.Add(runTimeout), r.DeadlineAt
	if s.DeadlineAt.IsZero() && maxRun > 0 {
		s.DeadlineAt = now.Add(maxRun)
	}
	if !s.DeadlineAt.IsZero() && s.DeadlineAt.Before(s.TimeoutAt) {
		s.TimeoutAt = s.DeadlineAt
	}
}

// MayAnswer reports whether an answer of the launcher may settle a run. After a lost lease
// two calls of a key can be open: then only the end of the run itself settles a run that
// was accepted, not another acceptance or the refusal of a call.
func MayAnswer(r *schedule.Run, o *schedule.Outcome) bool {
	if r.Stage() == schedule.StatusLaunching {
		return true
	}
	return tellsEnd(o) && r.Stage().InFlight()
}

// tellsEnd reports whether an answer tells the end of the run, not only of its launch.
func tellsEnd(o *schedule.Outcome) bool {
	return o.Status == schedule.StatusSuccess && o.Reason != schedule.ReasonAccepted ||
		o.Status == schedule.StatusFailed && (o.Reason == schedule.ReasonWorkflowFailed || o.Reason == schedule.ReasonInterrupted) ||
		o.Status == schedule.StatusSkipped && o.Reason == schedule.ReasonSnoozed
}

// LateAnswer returns the event of an answer that tells another end than the run has had
// before; ok = false: it does not.
func LateAnswer(ended *schedule.Run, o *schedule.Outcome, now time.Time) (event schedule.Event, ok bool) {
	return schedule.Event{
		ScheduleID: ended.ScheduleID, Time: now, Kind: schedule.EventReportIgnored, From: ended.RunAt, To: ended.RunAt, Count: 1,
		Reason: ended.Reason, Revision: ended.Revision,
		Note: fmt.Sprintf("%s was answered while the run is %s (key %s)", o.Status, ended.Status, ended.Key),
	}, o.Status.Terminal() && o.Status != ended.Status
}

// AnswerEnded answers for keys at some places of done that have no open run: with the end
// of the run if it is among ended. Events tell of answers with another end; the ledger does
// not have the keys at the other places.
func AnswerEnded(done []schedule.FinishRequest, places []int, ended []schedule.Run, finished []schedule.Finished, now time.Time) (events []schedule.Event, outside []int) {
	byKey := make(map[schedule.Key]*schedule.Run, len(ended))
	for i := range ended {
		byKey[ended[i].Key] = &ended[i]
	}
	for _, at := range places {
		r := byKey[done[at].Key]
		if r == nil {
			outside = append(outside, at)
			continue
		}
		finished[at] = schedule.Finished{Outcome: OutcomeOf(r)}
		if event, late := LateAnswer(r, &done[at].Outcome, now); late {
			events = append(events, event)
		}
	}
	return events, outside
}

// EndedTwice returns the event of an open run whose end is in history already. The first
// end stays.
func EndedTwice(r *schedule.Run, now time.Time) schedule.Event {
	return schedule.Event{
		ScheduleID: r.ScheduleID, Time: now, Kind: schedule.EventReportIgnored, From: r.RunAt, To: r.RunAt, Count: 1,
		Reason: r.Reason, Revision: r.Revision,
		Note: fmt.Sprintf("the run ended %s although history has its end (key %s)", r.Status, r.Key),
	}
}

// SettlementOfReport converts a report to the settlement of a run in flight. STARTED
// is also a heartbeat: the timeout counts from now.
func SettlementOfReport(r *schedule.Run, report *schedule.ExecutorReport, runTimeout, maxRun time.Duration, now time.Time) schedule.Settlement {
	s := schedule.Settlement{Key: r.Key, To: report.Status, RunID: report.RunID}
	if r.LaunchedAt.IsZero() {
		// The report arrived before the launcher's answer, or the answer is lost.
		s.LaunchedAt = r.NotLaunchedBefore()
	}
	if report.Status == schedule.StatusStarted {
		if r.StartedAt.IsZero() {
			s.StartedAt = now
		}
		alive(&s, r, runTimeout, maxRun, now)
		return s
	}
	s.CompletedAt, s.ExitCode, s.LogURL, s.Result, s.Commit = now, report.ExitCode, report.LogURL, report.Result, report.Commit
	if report.Status == schedule.StatusSnooze {
		snooze(&s, r, report.SnoozeFor)
		afterCancel(&s, r, "reported ")
		return s
	}
	s.ErrorCode, s.ErrorMessage, s.FailureClass = report.ErrorCode, report.ErrorMessage, report.FailureClass
	if report.Status == schedule.StatusFailed {
		s.Reason = schedule.ReasonWorkflowFailed
		if report.ErrorCode == string(schedule.CodeLost) { // an executor in this process has lost the run
			s.Reason = schedule.ReasonLost
		}
		if report.ErrorCode == string(schedule.CodeInterrupted) {
			s.Reason = schedule.ReasonInterrupted
		}
	}
	afterCancel(&s, r, "reported ")
	return s
}

// snooze ends a run that the executor wants to get again after a delay. Too many snoozes in a
// row are a failure: the executor will not finish this work.
func snooze(s *schedule.Settlement, r *schedule.Run, delay time.Duration) {
	if r.Snoozes < schedule.MaxSnoozes {
		s.To, s.Reason, s.SnoozeUntil = schedule.StatusSkipped, schedule.ReasonSnoozed, s.CompletedAt.Add(delay)
		return
	}
	s.To, s.Reason = schedule.StatusFailed, schedule.ReasonSnoozeLimit
	s.ErrorMessage = fmt.Sprintf("the executor snoozed the run %d times in a row, which is the limit", schedule.MaxSnoozes+1)
}

// afterCancel applies the requested cancel of a run to its end. With reason `replaced`
// a success and a failure become CANCELLED(replaced); with any other reason only a
// failure and a snooze become CANCELLED.
func afterCancel(s *schedule.Settlement, r *schedule.Run, verb string) {
	cancel := cancelled(r.CancelReason)
	failed, ok := s.To == schedule.StatusFailed || s.Reason == schedule.ReasonSnoozed, s.To == schedule.StatusSuccess
	if r.CancelRequestedAt.IsZero() || !failed && (!ok || cancel != schedule.ReasonReplaced) {
		return
	}
	if s.ErrorMessage == "" {
		said := s.To
		if s.Reason == schedule.ReasonSnoozed {
			said = schedule.StatusSnooze
		}
		s.ErrorMessage = verb + string(said) + " after its cancel was requested"
	}
	s.To, s.Reason, s.SnoozeUntil = schedule.StatusCancelled, cancel, time.Time{}
}

// RepeatsEnd reports whether a report repeats the end that the run already has.
func RepeatsEnd(r *schedule.Run, report *schedule.ExecutorReport) bool {
	switch r.Status {
	case schedule.StatusSuccess:
		return report.Status == schedule.StatusSuccess
	case schedule.StatusFailed:
		reported := r.Reason == schedule.ReasonWorkflowFailed || r.Reason == schedule.ReasonLost || r.Reason == schedule.ReasonInterrupted
		return report.Status == schedule.StatusFailed && reported && report.ErrorCode == r.ErrorCode ||
			report.Status == schedule.StatusSnooze && r.Reason == schedule.ReasonSnoozeLimit
	case schedule.StatusSkipped:
		return report.Status == schedule.StatusSnooze && r.Snoozed()
	}
	return false
}

// RequestCancel decides what a cancel does to a run. A run that was never sent ends at
// once; for any other in flight, request is the reason to record. ok = false: the run has ended, and
// not as CANCELLED. A run that is CANCELLED already does not change.
func RequestCancel(r *schedule.Run, reason schedule.Reason, now time.Time) (end *schedule.Settlement, request schedule.Reason, ok bool) {
	unsent := r.Stage() == schedule.StatusLaunching && r.Deliveries == 0
	switch {
	case r.Stage() == schedule.StatusPlanned, unsent:
		return &schedule.Settlement{Key: r.Key, To: schedule.StatusCancelled, Reason: reason, CompletedAt: now}, "", true
	case r.Stage().InFlight():
		return nil, reason, true
	}
	return nil, "", r.Status == schedule.StatusCancelled
}

// AskCancel returns a run whose cancel is requested. asked = false: it is not in flight, or
// its cancel was requested before; the first request stays. A run that waits in a queue is in
// flight for its overlap group.
func AskCancel(r schedule.Run, reason schedule.Reason, now time.Time) (after schedule.Run, asked bool) {
	if !r.Status.InFlight() || !r.CancelRequestedAt.IsZero() {
		return r, false
	}
	r.CancelRequestedAt, r.CancelReason, r.UpdatedAt = stored(now), reason, stored(now)
	return r, true
}

// MaySettle reports whether a settlement may move a run from one status to another:
// forward, STARTED to STARTED (a heartbeat), or LAUNCHING to LAUNCHING (the claim is
// renewed; only a claim makes a planned run LAUNCHING).
func MaySettle(from, to schedule.Status) bool {
	if to == schedule.StatusLaunching {
		return from == schedule.StatusLaunching
	}
	return from.CanBecome(to) || from == schedule.StatusStarted && to == schedule.StatusStarted
}

// Settle applies a settlement to a run; lease is that of its key. See LogAttempt for the
// attempt that it may record.
func Settle(r schedule.Run, lease schedule.KeyLease, s *schedule.Settlement, now time.Time) (after schedule.Run, moved bool) {
	may := MaySettle(r.Stage(), s.To)
	if s.Reason == schedule.ReasonSnoozed {
		may = r.Stage().InFlight()
	}
	if !may {
		return r, false
	}
	r.UpdatedAt = stored(now)
	if s.To != schedule.StatusLaunching {
		settle(&r, s, now)
		return r, true
	}
	renew(&r, s)
	if s.GivesUp && launchOver(&r, lease, now) {
		giveUp(&r, now)
	}
	return r, true
}

// renew postpones the next call of a run after an unknown outcome.
func renew(r *schedule.Run, s *schedule.Settlement) {
	r.ClaimedUntil = cmp.Or(stored(s.ClaimedUntil), r.ClaimedUntil)
	r.ErrorCode, r.ErrorMessage = cmp.Or(s.ErrorCode, r.ErrorCode), cmp.Or(s.ErrorMessage, r.ErrorMessage)
	r.Deliveries = max(r.Deliveries, s.Deliveries)
	if s.Attempt != nil {
		r.FailedAttempts++
	}
}

// settle moves a run forward. An empty field of the settlement keeps the run's value.
func settle(r *schedule.Run, s *schedule.Settlement, now time.Time) {
	if r.Stage() == schedule.StatusLaunching {
		// The error of failed attempts does not outlive LAUNCHING.
		r.ErrorCode, r.ErrorMessage = "", ""
	}
	r.Deliveries = max(r.Deliveries, s.Deliveries)
	if s.Unsent {
		r.Deliveries = max(r.Deliveries-1, 0)
	}
	r.Reason = reasonAfter(r, s)
	r.Enter(s.To)
	r.WaitingSince, r.ClaimedUntil = time.Time{}, time.Time{}
	r.RunID, r.TraceID = cmp.Or(s.RunID, r.RunID), cmp.Or(s.TraceID, r.TraceID)
	r.ErrorCode, r.ErrorMessage = cmp.Or(s.ErrorCode, r.ErrorCode), cmp.Or(s.ErrorMessage, r.ErrorMessage)
	r.LaunchedAt = cmp.Or(stored(s.LaunchedAt), r.LaunchedAt)
	r.StartedAt = cmp.Or(r.StartedAt, stored(s.StartedAt)) // a heartbeat does not move it
	r.TimeoutAt, r.DeadlineAt = cmp.Or(stored(s.TimeoutAt), r.TimeoutAt), cmp.Or(r.DeadlineAt, stored(s.DeadlineAt))
	if s.To.Terminal() {
		r.CompletedAt, r.FailureClass, r.SnoozeUntil = stored(cmp.Or(s.CompletedAt, now)), s.FailureClass, stored(s.SnoozeUntil)
		r.ExitCode, r.LogURL = cmp.Or(s.ExitCode, r.ExitCode), cmp.Or(s.LogURL, r.LogURL)
	}
}

// ResultOf is the result that a settlement which has moved its run brings to the history of the run;
// nil: none.
func ResultOf(r *schedule.Run, s *schedule.Settlement) *schedule.RunResult {
	if !r.Status.Terminal() || s.Result == nil {
		return nil
	}
	kept := *s.Result
	kept.ExpiresAt = stored(kept.ExpiresAt)
	return &kept
}

// CommitOf is what a settlement which has moved its run commits; nil: nothing. Only a success commits.
func CommitOf(r *schedule.Run, s *schedule.Settlement) *schedule.Commit {
	if r.Status != schedule.StatusSuccess {
		return nil
	}
	return s.Commit
}

// WasLaunched reports whether the executor was called for a run and has answered, however
// the run goes on. last_run_at of a schedule is the run_at of the newest such run.
func WasLaunched(r *schedule.Run) bool { return !r.LaunchedAt.IsZero() }

// unrecorded is the reason of a run that ends without one. The migration to ended_runs
// gives it to older rows too: only a success may have no reason there.
const unrecorded schedule.Reason = "unrecorded"

// reasonAfter returns the reason of a run after a settlement: the settlement's, else its
// cancel's. A run that is not over has none.
func reasonAfter(r *schedule.Run, s *schedule.Settlement) schedule.Reason {
	switch s.To {
	case schedule.StatusSuccess:
		return s.Reason
	case schedule.StatusCancelled:
		return cmp.Or(s.Reason, cancelled(r.CancelReason))
	case schedule.StatusFailed, schedule.StatusSkipped:
		return cmp.Or(s.Reason, unrecorded)
	}
	return schedule.ReasonNone
}

// LeaseAfter is the lease of a run's key after the run has moved: an acceptance is the
// answer to the call that holds the key.
func LeaseAfter(r *schedule.Run, lease schedule.KeyLease) schedule.KeyLease {
	if s := r.Stage(); s == schedule.StatusEnqueued || r.Queue.In() && s == schedule.StatusStarted {
		return schedule.KeyLease{}
	}
	return lease
}

// LogAttempt returns the attempt log of a run after a settlement that moved it: a JSON
// array of schedule.LaunchAttempt.Text with the newest schedule.KeptAttempts. A log that
// cannot be read starts again.
func LogAttempt(log string, s *schedule.Settlement) string {
	if s.To != schedule.StatusLaunching || s.Attempt == nil {
		return log
	}
	var kept []json.RawMessage
	if json.Unmarshal([]byte(log), &kept) != nil {
		kept = nil
	}
	kept = append(kept, json.RawMessage(s.Attempt.Text()))
	text, err := json.Marshal(kept[max(0, len(kept)-schedule.KeptAttempts):])
	if err != nil {
		panic(err) // valid JSON only
	}
	return string(text)
}
