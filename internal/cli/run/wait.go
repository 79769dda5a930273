package run

import (
	"context"
	"fmt"
	"time"

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
		if *run, err = waitForEnd(ctx, l, *run, wait.For); err != nil {
			return err
		}
		ended = failure(*run)
	}
	if err := c.Show(resp, func(p *render.Page) { writeRun(p, *run) }); err != nil {
		return err
	}
	return ended
}

// waitForEnd calls GetRun until the run has ended and no attempt follows it, with growing pauses, and
// returns the last attempt. most bounds the wait; 0: nothing does.
func waitForEnd(ctx context.Context, l *client.Link, r *carillonv1.Run, most time.Duration) (*carillonv1.Run, error) {
	answered := time.Now()
	var over <-chan time.Time
	if most > 0 {
		over = time.After(most)
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
			return nil, goesOn(key, fmt.Sprintf(" after %s", render.Duration(most)))
		case <-time.After(pause):
		}
		resp, err := client.Call(ctx, l, l.Runs().GetRun, &carillonv1.GetRunRequest{IdempotencyKey: key})
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
