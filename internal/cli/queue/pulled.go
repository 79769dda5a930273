package queue

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// pulledRun is a run that was fetched, with its command.
type pulledRun struct {
	*carillonv1.ExecutorRunRequest
	p      *pulling
	cancel context.CancelFunc // ends the command
	output tail
}

// start runs the command of a run.
func (p *pulling) start(ctx context.Context, req *carillonv1.ExecutorRunRequest) {
	ctx, cancel := context.WithCancel(ctx)
	run := &pulledRun{ExecutorRunRequest: req, p: p, cancel: cancel}
	p.running[req.GetIdempotencyKey()] = run
	go func() {
		defer cancel()
		report := run.execute(ctx)
		run.report(context.WithoutCancel(ctx), report)
		p.ended <- run
	}()
}

// execute runs the command, and returns how the run has ended.
func (r *pulledRun) execute(ctx context.Context) *carillonv1.ReportRunRequest {
	cmd := exec.CommandContext(ctx, r.p.words[0], r.p.words[1:]...)
	cmd.Stdin = bytes.NewReader(r.GetInput())
	cmd.Stdout, cmd.Stderr = io.MultiWriter(r.p.process.Out, &r.output), io.MultiWriter(r.p.process.ErrOut, &r.output)
	cmd.Cancel = func() error { return terminate(cmd.Process) }
	cmd.WaitDelay = r.p.grace
	cmd.SysProcAttr = apart() // ^C is for this process: the command may end
	cmd.Env = append(os.Environ(),
		"CARILLON_KEY="+r.GetIdempotencyKey(), "CARILLON_QUEUE_ID="+r.p.queue, "CARILLON_SCHEDULE_ID="+r.GetScheduleId(), "CARILLON_WORKFLOW_ID="+r.GetWorkflowId(),
		"CARILLON_VERSION="+strconv.Itoa(int(r.GetVersion())), "CARILLON_USER_ID="+r.GetUserId(), "CARILLON_ATTEMPT="+strconv.Itoa(int(r.GetAttempt())),
		"CARILLON_TRIGGER="+r.GetTrigger(), "CARILLON_RUN_AT="+r.GetScheduledFor().AsTime().Format(time.RFC3339Nano))
	beating, stop := context.WithCancel(ctx)
	var beats sync.WaitGroup
	beats.Go(func() { r.beat(beating) })
	err := cmd.Run()
	stop()
	beats.Wait()
	end := &carillonv1.ReportRunRequest{Status: string(schedule.StatusSuccess), Output: r.output.text()}
	if err == nil {
		code := int32(0)
		end.ExitCode = &code
		return end
	}
	end.Status, end.ErrorCode, end.ErrorMessage = string(schedule.StatusFailed), "command_failed", err.Error()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= 0 {
		code := int32(exit.ExitCode())
		end.ExitCode = &code
	}
	return end
}

// beat reports STARTED, at once and before each run timeout.
func (r *pulledRun) beat(ctx context.Context) {
	every := max(time.Duration(r.GetRunTimeoutMs())*time.Millisecond/3, time.Second)
	for {
		started := &carillonv1.ReportRunRequest{Status: string(schedule.StatusStarted)}
		if _, err := r.send(ctx, started); err != nil && ctx.Err() == nil && !client.Unanswered(err) {
			r.p.say("run %.12s: cannot report STARTED: %v", r.GetIdempotencyKey(), err)
		}
		if sleep(ctx, every) != nil {
			return
		}
	}
}

func (r *pulledRun) send(ctx context.Context, req *carillonv1.ReportRunRequest) (*carillonv1.ReportRunResponse, error) {
	req.IdempotencyKey = r.GetIdempotencyKey()
	ctx = metadata.AppendToOutgoingContext(ctx, "x-carillon-report-token", r.GetReportToken())
	return client.Call(ctx, r.p.l, r.p.l.Runs().ReportRun, req)
}

// report reports the end of a run, again and again until a server answers: its worker lists it as
// running meanwhile. A queue may keep no row of a success: then a repeat of the report finds no run.
func (r *pulledRun) report(ctx context.Context, end *carillonv1.ReportRunRequest) {
	for unsure := false; ; unsure = true {
		_, err := r.send(ctx, end)
		switch {
		case err == nil, unsure && codeOf(err) == codes.NotFound && end.GetStatus() == string(schedule.StatusSuccess):
			r.p.say("run %.12s: %s", r.GetIdempotencyKey(), end.GetStatus())
			return
		case !client.Unanswered(err):
			r.p.say("run %.12s: cannot report %s: %v", r.GetIdempotencyKey(), end.GetStatus(), err)
			return
		}
		_ = sleep(ctx, client.MaxPause/2)
	}
}

// tail keeps the end of what a command writes.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - schedule.MaxReportedOutput; over > schedule.MaxReportedOutput {
		t.kept = append([]byte(nil), t.kept[over:]...)
	}
	return len(b), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.kept[max(0, len(t.kept)-schedule.MaxReportedOutput):], []byte("�")))
}
