package run

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// ShowRequested prints the answer to a call that requested a run; run is its field in
// resp. With wait it first waits for the end of the run, and fails if the run failed.
func ShowRequested(ctx context.Context, c *client.Client, l *client.Link, resp proto.Message, run **carillonv1.Run, wait bool) (err error) {
	var ended error
	if wait {
		if *run, err = waitForEnd(ctx, l, *run); err != nil {
			return err
		}
		ended = failure(*run)
	}
	if err := c.Show(resp, func(p *render.Page) { writeRun(p, *run) }); err != nil {
		return err
	}
	return ended
}

// waitForEnd calls GetRun until the run has ended, with growing pauses.
func waitForEnd(ctx context.Context, l *client.Link, r *carillonv1.Run) (*carillonv1.Run, error) {
	answered := time.Now()
	for pause := client.FirstPause; !schedule.Status(r.GetStatus()).Terminal(); pause = min(2*pause, client.MaxPause) {
		l.Progress.Describe("run %s of %s is %s", render.ShortKey(r.GetIdempotencyKey()), r.GetScheduleId(), r.GetStatus())
		select {
		case <-ctx.Done():
			return nil, stillRunning(r)
		case <-time.After(pause):
		}
		resp, err := client.Call(ctx, l, l.Runs().GetRun, &carillonv1.GetRunRequest{IdempotencyKey: r.GetIdempotencyKey()})
		switch {
		case ctx.Err() != nil:
			return nil, stillRunning(r)
		case err == nil:
			r, answered = resp.GetRun(), time.Now()
		case !client.Unanswered(err) || time.Since(answered) > client.OutageTimeout:
			return nil, err
		}
	}
	return r, nil
}

// stillRunning is the error of a wait that the user ended.
func stillRunning(r *carillonv1.Run) error {
	key := render.ShortKey(r.GetIdempotencyKey())
	return fmt.Errorf("run %s is still in progress; see it with: carillon run get %s", key, key)
}

// failure is the error of a run that has ended; nil for SUCCESS.
func failure(r *carillonv1.Run) error {
	if r.GetStatus() == string(schedule.StatusSuccess) {
		return nil
	}
	if message := r.GetErrorMessage(); message != "" {
		return fmt.Errorf("run %s ended %s: %s", render.ShortKey(r.GetIdempotencyKey()), outcome(r), message)
	}
	return fmt.Errorf("run %s ended %s", render.ShortKey(r.GetIdempotencyKey()), outcome(r))
}
