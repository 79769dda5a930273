package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// ShowRequested prints the answer to a call that requested a run; run is its field in
// resp. With wait it first waits for the end of the run and of the attempts that follow it, and
// ends with the exit code of that end.
func ShowRequested(ctx context.Context, c *client.Client, l *client.Link, resp proto.Message, run **carillonv1.Run, wait Wait) (err error) {
	var ended error
	if wait.On {
		if *run, err = waitForEnd(ctx, l, *run, wait); err != nil {
			return err
		}
		ended = failure(*run)
	}
	if err := c.Show(resp, func(p *render.Page) { writeRun(p, *run) }); err != nil {
		return err
	}
	return ended
}

// firstCall is how long the first call of a request may take, however short the wait is.
const firstCall = time.Second

// Request makes a call that requests a run. With --wait it repeats the call while no server answers,
// such as during a restart, for client.OutageTimeout and not longer than the wait. id is the
// request_id of the request, with which a repeat gives the same run.
func Request[Req, Resp any](ctx context.Context, l *client.Link, w *Wait, id *string, call func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req) (Resp, error) {
	if !w.On {
		return client.Call(ctx, l, call, req)
	}
	w.begin()
	*id = cmp.Or(*id, rand.Text())
	giveUp := time.Now().Add(w.left(client.OutageTimeout))
	for most := max(w.left(l.Timeout()), firstCall); ; most = w.left(l.Timeout()) {
		resp, err := client.Call(ctx, l.Within(most), call, req)
		if !client.Unanswered(err) || ctx.Err() != nil {
			return resp, err
		}
		select {
		case <-ctx.Done():
			return resp, err
		case <-time.After(min(client.MaxPause/2, time.Until(giveUp))):
		}
		switch {
		case time.Now().Before(giveUp):
		case !l.Reached():
			return resp, err
		default:
			return resp, fmt.Errorf("%w; whether the run exists is unknown: the same command with --request-id %s makes at most one", err, *id)
		}
	}
}

// waitForEnd calls GetRun until the run has ended and no attempt follows it, with growing pauses, and
// returns the last attempt.
func waitForEnd(ctx context.Context, l *client.Link, r *carillonv1.Run, wait Wait) (*carillonv1.Run, error) {
	answered := time.Now()
	wait.begin()
	var over <-chan time.Time
	if wait.For > 0 {
		over = time.After(wait.left(0))
	}
	for pause := client.FirstPause; ; pause = min(2*pause, client.MaxPause) {
		key := r.GetIdempotencyKey()
		if schedule.Status(r.GetStatus()).Terminal() {
			if r.GetRetriedBy() == "" {
				return r, nil
			}
			key = r.GetRetriedBy()
		}
		l.Progress.Describe("run %s of %s is %s", render.ShortKey(r.GetIdempotencyKey()), r.GetScheduleId(), r.GetStatus())
		select {
		case <-ctx.Done():
			return nil, goesOn(key, "")
		case <-over:
			return nil, goesOn(key, fmt.Sprintf(" after %s", render.Duration(wait.For)))
		case <-time.After(pause):
		}
		resp, err := client.Call(ctx, l.Within(wait.left(l.Timeout())), l.Runs().GetRun, &carillonv1.GetRunRequest{IdempotencyKey: key})
		switch {
		case ctx.Err() != nil:
			return nil, goesOn(key, "")
		case err == nil:
			r, answered = resp.GetRun(), time.Now()
		case !client.Unanswered(err) || time.Since(answered) > client.OutageTimeout:
			return nil, err
		}
	}
}

// goesOn is the error of a wait that is over before the run.
func goesOn(key, after string) error {
	key = render.ShortKey(key)
	return command.WithCode(command.ExitRunGoesOn, fmt.Errorf("run %s is still in progress%s and goes on; see it with: carillon run get %s", key, after, key))
}

// endCodes are the exit codes of ends.
var endCodes = map[schedule.Status]int{
	schedule.StatusFailed: command.ExitRunFailed, schedule.StatusSkipped: command.ExitRunSkipped, schedule.StatusCancelled: command.ExitRunCancelled,
}

// failure is the error of a run that has ended; nil for SUCCESS.
func failure(r *carillonv1.Run) error {
	if r.GetStatus() == string(schedule.StatusSuccess) {
		return nil
	}
	err := fmt.Errorf("run %s ended %s", render.ShortKey(r.GetIdempotencyKey()), outcome(r))
	if message := r.GetErrorMessage(); message != "" {
		err = fmt.Errorf("%w: %s", err, message)
	}
	return command.WithCode(endCodes[schedule.Status(r.GetStatus())], err)
}
