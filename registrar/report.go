package registrar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/output"
	"github.com/carillon/carillon/internal/schedule"
)

// Report moves a run forward. Repeated, late and out-of-order reports are safe: one that moves
// nothing returns the run unchanged. The first of each status that contradicts the run leaves an
// event. A run_id other than the recorded one is ErrRunIDMismatch.
func (r *Registrar) Report(ctx context.Context, in ReportInput) (schedule.Run, bool, error) {
	if err := r.checkReport(ctx, &in); err != nil {
		return schedule.Run{}, false, err
	}
	if err := r.limit(in.Key); err != nil {
		return schedule.Run{}, false, err
	}
	return r.report(ctx, in)
}

func (r *Registrar) report(ctx context.Context, in ReportInput) (schedule.Run, bool, error) {
	late := false
	run, moved, err := r.runs.ChangeRun(ctx, in.Key, schedule.Key{}, func(found schedule.RunInput) (schedule.RunChange, error) {
		if err := r.checkLate(&found.Run, &in); err != nil {
			return schedule.RunChange{}, err
		}
		change, err := report(found, in, r.now())
		late = change.LateReport.Terminal() && found.Run.Status.Terminal()
		return change, err
	})
	if err != nil {
		return schedule.Run{}, false, err
	}
	failpoint.Hit(failpoint.Reported)
	if moved {
		if run.Status.Terminal() {
			r.ended(run.Status, run.Reason)
		}
		r.log.Log(ctx, logthrottle.RunLevel(run.Status), "run reported", "schedule_id", run.ScheduleID, "key", run.Key.String(), "run_at", run.RunAt,
			"status", string(run.Status), "reason", string(run.Reason), "error_code", run.ErrorCode, "error_message", run.ErrorMessage)
	}
	if late {
		r.endedLate()
	}
	return run, moved, nil
}

// KnowsReportToken reports whether a token is the one of the run's reports.
func (r *Registrar) KnowsReportToken(key schedule.Key, token string) bool {
	return r.cfg.ReportSecret != nil && schedule.CheckReportToken(r.cfg.ReportSecret, key, token)
}

// ReportOutcome is Report for executors inside this process.
func (r *Registrar) ReportOutcome(ctx context.Context, o schedule.ExecutorReport) error {
	in := ReportInput{Key: o.Key, Status: o.Status, RunID: o.RunID, ErrorCode: o.ErrorCode, ErrorMessage: o.ErrorMessage, FailureClass: o.FailureClass, ExitCode: o.ExitCode, LogURL: o.LogURL, Result: o.Result, Commit: o.Commit, DelayMS: o.SnoozeFor.Milliseconds()}
	if err := r.checkReport(ctx, &in); err != nil {
		return err
	}
	_, _, err := r.report(ctx, in)
	return err
}

func (r *Registrar) checkReport(ctx context.Context, in *ReportInput) error {
	// A caller without an identity must show the right token, and so must an executor: the token
	// shows that the run was given to it.
	caller := auth.FromContext(ctx)
	must := caller.Via == auth.ViaReport || caller.Has(auth.Executor) && !caller.Has(auth.Launcher)
	looks := r.cfg.ReportSecret != nil && in.Token != ""
	if must && !looks || looks && !schedule.CheckReportToken(r.cfg.ReportSecret, in.Key, in.Token) {
		return schedule.Explain(schedule.ErrUnauthenticated, "the report token is for another run; send the one that came with the run, as Authorization: Bearer … or X-Carillon-Report-Token")
	}
	in.byToken = looks
	var c schedule.Collect
	checkWord(&c, "status", in.Status, []schedule.Status{schedule.StatusStarted, schedule.StatusSuccess, schedule.StatusFailed, schedule.StatusSnooze})
	if in.Status == schedule.StatusSnooze {
		schedule.CheckSnooze(&c, in.DelayMS)
	}
	if in.Progress != nil && in.Status == schedule.StatusStarted {
		schedule.CheckProgress(&c, *in.Progress)
	}
	if len(in.RunID) > schedule.MaxIDLength {
		c.Add("run_id", in.RunID, fmt.Sprintf("is over %d bytes", schedule.MaxIDLength), "")
	}
	if !utf8.ValidString(in.RunID) || strings.ContainsFunc(in.RunID, isControl) {
		c.Add("run_id", in.RunID, "contains control characters or invalid text", "")
	}
	// Cut rather than refused: losing the end of a message is better than losing
	// the end of a run.
	in.ErrorCode = schedule.ExecutorErrorCode(in.ErrorCode)
	in.ErrorMessage = schedule.Storable(r.cfg.Mask.Mask(in.ErrorMessage), schedule.MaxErrorMessage)
	if err := c.Err(); err != nil {
		return err
	}
	r.readOutput(ctx, in)
	in.Result = in.Result.Until(r.now().Add(cmp.Or(r.cfg.KeepResults, keepResults)))
	if problem := in.Result.ProblemText(); problem != "" {
		r.log.WarnContext(ctx, "a result was not kept", "key", in.Key.String(), "problem", problem)
	}
	return nil
}

// keepResults is how long results are kept if nobody says it.
const keepResults = 7 * 24 * time.Hour

// readOutput makes the report's output fit to be kept. A URL that cannot be kept
// is left out: refusing the report would lose the end of the run.
func (r *Registrar) readOutput(ctx context.Context, in *ReportInput) {
	if in.LogURL != "" {
		if problem := badLogURL(in.LogURL); problem != "" {
			r.log.WarnContext(ctx, "log_url of a report left out", "key", in.Key.String(), "log_url", schedule.Storable(in.LogURL, maxShownURL), "problem", problem)
			in.LogURL = ""
		}
	}
	if in.Output != "" {
		masked := r.cfg.Mask.Mask(output.Clean([]byte(in.Output)))
		in.Output, in.outputCut = output.KeepEnd(masked, schedule.MaxReportedOutput)
	}
}

// maxShownURL bounds a URL in the log.
const maxShownURL = 200

func badLogURL(text string) string {
	if len(text) > schedule.MaxLogURL {
		return fmt.Sprintf("has %d bytes, more than %d", len(text), schedule.MaxLogURL)
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsFunc(text, isControl) || !utf8.ValidString(text) {
		return "is not an absolute http or https URL"
	}
	if u.User != nil {
		return "holds credentials"
	}
	return ""
}

// output is the part of a report that is kept also when the report comes after the end of the run.
func (in *ReportInput) output() *schedule.RunReport {
	return &schedule.RunReport{Output: in.Output, OutputCut: int64(in.outputCut)}
}

// report is the pure part. The first match decides:
//
//   - another run_id is recorded: an error;
//   - the run has ended, or was never launched: a snooze is an error unless it repeats the end;
//     for any other report the run does not move, and the first report of each status writes an
//     event, unless it repeats the run's end;
//   - else the run moves by ledger.SettlementOfReport.
func report(found schedule.RunInput, in ReportInput, now time.Time) (schedule.RunChange, error) {
	run := &found.Run
	if run.RunID != "" && in.RunID != "" && run.RunID != in.RunID {
		return schedule.RunChange{}, schedule.Explain(schedule.ErrRunIDMismatch,
			"run_id %s was reported, %s is recorded", schedule.Quote(in.RunID), schedule.Quote(run.RunID))
	}
	said := schedule.ExecutorReport{
		Key: run.Key, Status: in.Status, RunID: in.RunID, ErrorCode: in.ErrorCode, ErrorMessage: in.ErrorMessage, FailureClass: in.FailureClass,
		ExitCode: in.ExitCode, LogURL: in.LogURL, Result: in.Result, Commit: in.Commit, SnoozeFor: time.Duration(in.DelayMS) * time.Millisecond,
	}
	if !run.Stage().InFlight() {
		if ledger.RepeatsEnd(run, &said) {
			return schedule.RunChange{Now: now}, nil
		}
		if in.Status == schedule.StatusSnooze {
			return schedule.RunChange{}, schedule.Explain(schedule.ErrPrecondition, "cannot snooze: the run %s", run.Stage().Clause())
		}
		change := schedule.RunChange{Now: now, LateReport: in.Status, Events: []schedule.Event{ignored(run, in, now)}}
		if in.Status.Terminal() && run.Status.Terminal() && run.Status != schedule.StatusSkipped {
			change.Report = in.output() // also of a run that timed out: its output explains why
		}
		return change, nil
	}
	settle := ledger.SettlementOfReport(run, &said, schedule.RunTimeout(found.Queue, found.Definition), schedule.MaxRun(found.Queue, found.Definition), now)
	change := schedule.RunChange{Now: now, Settle: &settle, Report: in.output()}
	if in.Status == schedule.StatusStarted {
		change.Report.ExitCode, change.Report.LogURL = in.ExitCode, in.LogURL
		if in.Progress != nil {
			change.Report.Progress = schedule.ProgressOf(*in.Progress)
		}
	}
	return change, nil
}

// checkLate refuses a token some time after the end of its run, so that a stolen token is useless
// and cannot keep the row locked.
func (r *Registrar) checkLate(run *schedule.Run, in *ReportInput) error {
	late := r.cfg.ReportLate
	if !in.byToken || late == 0 || run.CompletedAt.IsZero() || r.now().Sub(run.CompletedAt) <= late {
		return nil
	}
	return schedule.Explain(schedule.ErrUnauthenticated,
		"the report token has expired: the run ended at %s, and its token is accepted for %s after that", run.CompletedAt.Format(time.RFC3339), late)
}

func ignored(run *schedule.Run, in ReportInput, now time.Time) schedule.Event {
	return schedule.Event{
		ScheduleID: run.ScheduleID, Time: now, Kind: schedule.EventReportIgnored, From: run.RunAt, To: run.RunAt, Count: 1,
		Reason: run.Reason, Revision: run.Revision,
		Note: fmt.Sprintf("%s was reported while the run is %s (key %s)", in.Status, run.Status, run.Key),
	}
}

// CancelRun ends a run at once that was never sent, and requests the cancel of any other: the worker
// passes it to the executor, and the run ends CANCELLED when that confirms it or after
// CANCEL_WAIT_MS. A repeat is not an error; a run that ended otherwise is ErrPrecondition.
func (r *Registrar) CancelRun(ctx context.Context, in CancelInput) (schedule.Run, error) {
	if err := checkNote(in.Note); err != nil {
		return schedule.Run{}, err
	}
	var retry schedule.Key
	run, moved, err := r.runs.ChangeRun(ctx, in.Key, schedule.Key{}, func(found schedule.RunInput) (schedule.RunChange, error) {
		retry, _ = found.Run.RetriedBy()
		return cancel(found, in, r.now())
	})
	if errors.Is(err, schedule.ErrPrecondition) && !retry.IsZero() { // the cancel is for the retry, if that still waits
		refused := err
		run, moved, err = r.runs.ChangeRun(ctx, retry, schedule.Key{}, func(found schedule.RunInput) (schedule.RunChange, error) {
			if found.Run.Stage() != schedule.StatusPlanned && found.Run.Status != schedule.StatusCancelled {
				return schedule.RunChange{}, refused
			}
			return cancel(found, in, r.now())
		})
	}
	if err != nil {
		return schedule.Run{}, err
	}
	if moved {
		if run.Status.Terminal() { // it was never sent
			r.ended(run.Status, run.Reason)
		}
		r.log.InfoContext(ctx, "run cancel requested", "schedule_id", run.ScheduleID, "key", run.Key.String(), "status", string(run.Status))
	}
	return run, nil
}

func cancel(found schedule.RunInput, in CancelInput, now time.Time) (schedule.RunChange, error) {
	run := &found.Run
	change := schedule.RunChange{Now: now, Events: []schedule.Event{{
		ScheduleID: run.ScheduleID, Time: now, Kind: schedule.EventCancelAsked, From: run.RunAt, To: run.RunAt, Count: 1,
		Reason: schedule.ReasonCancelled, Actor: in.Actor, Note: in.Note, Revision: run.Revision,
	}}}
	end, request, ok := ledger.RequestCancel(run, schedule.ReasonCancelled, now)
	switch {
	case !ok:
		return schedule.RunChange{}, schedule.Explain(schedule.ErrPrecondition, "cannot cancel: the run %s", run.Status.Clause())
	case end == nil && request == "": // it is cancelled
		return schedule.RunChange{Now: now}, nil
	}
	change.Settle, change.AskCancel = end, request
	return change, nil
}
