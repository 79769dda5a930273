package dumps_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
)

// executor answers by the id of the schedule and by how often that schedule's
// runs were called before.
type executor struct {
	*world
	called    map[string]int
	behaviour map[string]behaviour
}

// behaviour answers the n-th call (from 0) of a schedule.
type behaviour func(e *executor, call launcher.Call, n int) (schedule.Outcome, error)

func newExecutor(w *world) *executor {
	return &executor{world: w, called: make(map[string]int), behaviour: make(map[string]behaviour)}
}

// Run answers one call.
func (e *executor) Run(_ context.Context, call launcher.Call) (schedule.Outcome, error) {
	n := e.called[call.ScheduleID]
	e.called[call.ScheduleID]++
	do := e.behaviour[call.ScheduleID]
	if do == nil {
		do = done
	}
	return do(e, call, n)
}

// Cancel confirms, except for schedules with a name that says otherwise.
func (e *executor) Cancel(_ context.Context, ref schedule.CancelRequest) error {
	switch {
	case strings.HasPrefix(ref.ScheduleID, "stubborn"):
		return launcher.ErrUnsupported
	case strings.HasPrefix(ref.ScheduleID, "slow-to-cancel"):
		return launcher.ErrCancelAccepted
	}
	return nil
}

// GetByKey is not supported, so that an unknown outcome stays unknown.
func (e *executor) GetByKey(context.Context, schedule.RunRef) (schedule.Outcome, error) {
	return schedule.Outcome{}, launcher.ErrUnsupported
}

func runID(call launcher.Call, n int) string { return fmt.Sprintf("%s-%d", call.ScheduleID, n) }

// report makes the executor report a run after some time.
func (e *executor) report(after time.Duration, in registrar.ReportInput) {
	e.at(e.now().Add(after), func() {
		_, _, err := e.users.Report(e.ctx, in)
		e.ok(err, "report", in.Key, in.Status)
	})
}

// done answers at once that the run succeeded.
func done(_ *executor, call launcher.Call, n int) (schedule.Outcome, error) {
	return schedule.Outcome{Status: schedule.StatusSuccess, RunID: runID(call, n), TraceID: call.Key.TraceID()}, nil
}

// takes accepts the run, reports that it started, and later how it ended.
func takes(took time.Duration) behaviour {
	return func(e *executor, call launcher.Call, n int) (schedule.Outcome, error) {
		code := int32(0)
		e.report(2*time.Second, registrar.ReportInput{Key: call.Key, Status: schedule.StatusStarted, RunID: runID(call, n)})
		e.report(took, registrar.ReportInput{Key: call.Key, Status: schedule.StatusSuccess, RunID: runID(call, n), ExitCode: &code, LogURL: "https://logs.example.org/" + runID(call, n)})
		return schedule.Outcome{Status: schedule.StatusEnqueued, RunID: runID(call, n)}, nil
	}
}

// silent accepts the run and never reports.
func silent(_ *executor, call launcher.Call, n int) (schedule.Outcome, error) {
	return schedule.Outcome{Status: schedule.StatusEnqueued, RunID: runID(call, n)}, nil
}

// fails accepts the run and reports a failure; every fifth run succeeds.
func fails(e *executor, call launcher.Call, n int) (schedule.Outcome, error) {
	code := int32(3)
	in := registrar.ReportInput{
		Key: call.Key, Status: schedule.StatusFailed, RunID: runID(call, n), ErrorCode: "disk_full", ErrorMessage: "no space left on /var",
		ExitCode: &code, Output: "copying\nno space left on /var\n",
	}
	if n%5 == 4 {
		in.Status, in.ErrorCode, in.ErrorMessage = schedule.StatusSuccess, "", ""
	}
	e.report(time.Minute, in)
	return schedule.Outcome{Status: schedule.StatusEnqueued, RunID: runID(call, n)}, nil
}

// ends answers at once: a failure of the workflow, then a success without feedback,
// and so on.
func ends(_ *executor, call launcher.Call, n int) (schedule.Outcome, error) {
	if n%2 == 0 {
		return schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, RunID: runID(call, n), ErrorCode: "exit_1", ErrorMessage: "exit status 1"}, nil
	}
	return schedule.Outcome{Status: schedule.StatusSuccess, Reason: schedule.ReasonAccepted, RunID: runID(call, n)}, nil
}

// refuses refuses the run, each time for the next reason.
func refuses(_ *executor, _ launcher.Call, n int) (schedule.Outcome, error) {
	reasons := []schedule.Reason{"", schedule.ReasonWorkflowNotFound, schedule.ReasonKeyConflict}
	return schedule.Outcome{}, &launcher.Refusal{Code: "http_403", Message: "not allowed here", Reason: reasons[n%len(reasons)]}
}

// timeless sets the duration of failed attempts to 0: it is measured by the machine's
// clock.
type timeless struct{ *launcher.Launcher }

// Start starts one run.
func (l timeless) Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error) {
	reply, err := l.Launcher.Start(ctx, req)
	if failed, ok := errors.AsType[*schedule.LaunchError](err); ok {
		failed.Took = 0
	}
	return reply, err
}

var errCut = errors.New("connection reset by peer")

// flaky cannot be reached twice, does not answer once, and takes the fourth call.
func flaky(e *executor, call launcher.Call, n int) (schedule.Outcome, error) {
	switch n % 4 {
	case 0, 1:
		return schedule.Outcome{}, &launcher.CallError{Code: schedule.CodeExecutorUnreachable, Err: launcher.ErrNotSent}
	case 2:
		return schedule.Outcome{}, &launcher.CallError{Code: schedule.CodeExecutorTimeout, Err: errCut}
	}
	return takes(time.Minute)(e, call, n)
}

// unreachable never takes a call; deaf never answers one.
func unreachable(*executor, launcher.Call, int) (schedule.Outcome, error) {
	return schedule.Outcome{}, &launcher.CallError{Code: schedule.CodeExecutorUnreachable, Err: launcher.ErrNotSent}
}

func deaf(*executor, launcher.Call, int) (schedule.Outcome, error) {
	return schedule.Outcome{}, &launcher.CallError{Code: schedule.CodeExecutorTimeout, Err: errCut}
}
