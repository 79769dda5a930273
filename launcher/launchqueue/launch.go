package launchqueue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
)

// storeTimeout bounds one call of the store.
const storeTimeout = 10 * time.Second

// launch starts one run and settles its outcome.
func (c *Consumer) launch(ctx context.Context, m redis.XMessage) (done bool) {
	req, err := readStart(m)
	if err != nil {
		return c.drop(m, err)
	}
	// The run was queued again while its key is open here: that start settles it.
	// If it does not, the run is queued once more when the claim's lease ends.
	if !c.keys.begin(req.Key) {
		c.Metrics.redelivered.Inc()
		return true
	}
	defer c.keys.end(req.Key)
	req.WakeLeader = true
	reply, err := c.Launcher.Start(ctx, req)
	switch {
	case err != nil && ctx.Err() != nil:
		return false // this process is ending: another consumer takes it over
	case err != nil:
		c.unknown(ctx, req, err)
	default:
		c.retries.Answered(req.Key)
		c.settleReply(ctx, req, reply)
		if !reply.LaunchedAt.IsZero() {
			c.recovered(ctx)
		}
	}
	return true
}

// cancel sends one cancel to the launcher. The leader queues an unconfirmed one
// again, for as long as CANCEL_WAIT_MS allows.
func (c *Consumer) cancel(ctx context.Context, m redis.XMessage) (done bool) {
	req, err := readCancel(m)
	if err != nil {
		return c.drop(m, err)
	}
	confirmed, err := c.Launcher.Cancel(ctx, req)
	switch {
	case errors.Is(err, schedule.ErrUnsupported):
		c.log.Debug("the executor cannot cancel: the run continues", "schedule_id", req.ScheduleID, "key", req.Key.String())
	case err != nil:
		c.log.Warn("cannot send the cancel", "schedule_id", req.ScheduleID, "key", req.Key.String(), "err", err)
	case confirmed:
		c.settle(ctx, req.ScheduleID, time.Time{}, schedule.Settlement{
			Key: req.Key, To: schedule.StatusCancelled, Reason: req.Reason, CompletedAt: c.now(),
		})
	}
	return true
}

// drop removes an unreadable entry, which would be delivered again without end.
// Its run is sent again when the claim's lease ends.
func (c *Consumer) drop(m redis.XMessage, err error) (done bool) {
	c.Metrics.dropped.Inc()
	c.log.Error("launch queue entry dropped: unreadable", "entry", m.ID, "err", err)
	return true
}

func (c *Consumer) now() time.Time { return c.Now().UTC().Truncate(time.Microsecond) }

// settleReply settles a definite answer by the same rule as the worker, unless the
// launcher has done so.
func (c *Consumer) settleReply(ctx context.Context, req schedule.StartRequest, reply schedule.StartReply) {
	run := &schedule.Run{Key: req.Key, ScheduleID: req.ScheduleID, RunAt: req.ScheduledFor, FireAt: req.FireAt}
	if !reply.LaunchedAt.IsZero() && c.Observer != nil {
		c.Observer.RunLaunched(run, reply.LaunchedAt)
	}
	done := schedule.FinishRequest{
		Key: req.Key, Outcome: reply.Outcome, LaunchedAt: reply.LaunchedAt, Deliveries: reply.Deliveries, RunTimeout: req.RunTimeout, MaxRun: req.MaxRun,
	}
	if reply.Settled {
		c.settled(ctx, req.ScheduleID, req.ScheduledFor, ledger.SettlementOf(run, &done, c.now()))
		return
	}
	if reply.LaunchedAt.IsZero() || reply.Outcome.Status.Terminal() {
		// The claim time and a requested cancel are in the ledger only.
		row, err := c.row(ctx, req.Key)
		if err != nil {
			c.notSettled(req.ScheduleID, req.Key, reply.Outcome.Status, err)
			return
		}
		run = row
	}
	c.settle(ctx, req.ScheduleID, req.ScheduledFor, ledger.SettlementOf(run, &done, c.now()))
}

// recovered is called after the executor accepted a run. It makes the waiting keys
// due, and the leader queues them again with its next tick.
func (c *Consumer) recovered(ctx context.Context) {
	for some := range slices.Chunk(c.retries.Recovered(c.now()), maxPipeline) {
		if _, err := c.settleAll(ctx, some); err != nil {
			return // each key is tried when its pause is over
		}
	}
}

// unknown leaves a run LAUNCHING: the leader sends the same key again after a
// backoff, unless the run's launch time is over.
func (c *Consumer) unknown(ctx context.Context, req schedule.StartRequest, cause error) {
	s := c.retries.Settlement(&req, cause, c.now())
	c.log.Warn("launch attempt failed", "schedule_id", req.ScheduleID, "run_at", req.ScheduledFor, "key", req.Key.String(),
		"error_code", s.ErrorCode, "next_attempt_at", s.ClaimedUntil, "gives_up_at", req.SendUntil, "err", cause)
	switch moved := c.settle(ctx, req.ScheduleID, req.ScheduledFor, s); {
	case moved.To == schedule.StatusLaunching:
		c.retries.Written(&s, c.now())
	case moved.To.Terminal():
		c.retries.Answered(s.Key)
	}
}

func (c *Consumer) row(ctx context.Context, key schedule.Key) (*schedule.Run, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return c.Store.GetRun(ctx, key)
}

// settle writes one settlement, batched with those of other entries. runAt is zero for a cancel.
func (c *Consumer) settle(ctx context.Context, scheduleID string, runAt time.Time, s schedule.Settlement) (moved schedule.Moved) {
	moved, err := c.settles.Do(ctx, s)
	if err != nil {
		c.notSettled(scheduleID, s.Key, s.To, err)
		return schedule.Moved{}
	}
	if moved.To == "" || moved.To == schedule.StatusLaunching {
		return moved // a report was faster, or the key is sent again
	}
	s.To, s.Reason = moved.To, moved.Reason
	c.settled(ctx, scheduleID, runAt, s)
	return moved
}

// settled counts and logs a run that has ended or was accepted.
func (c *Consumer) settled(ctx context.Context, scheduleID string, runAt time.Time, s schedule.Settlement) {
	if c.Observer != nil {
		c.Observer.RunEnded(s.To, s.Reason, s.LaunchedAt.IsZero())
	}
	fields := []any{"schedule_id", scheduleID, "key", s.Key.String(), "status", string(s.To), "reason", string(s.Reason), "error_code", s.ErrorCode, "run_id", s.RunID}
	if !runAt.IsZero() {
		fields = append(fields, "run_at", runAt)
	}
	c.log.Log(ctx, logthrottle.RunLevel(s.To), "run settled", fields...)
}

// notSettled logs an outcome that was not written. Nothing is lost: the run is
// sent again when the claim's lease ends and answered from the launcher's record.
func (c *Consumer) notSettled(scheduleID string, key schedule.Key, to schedule.Status, err error) {
	c.log.Error("cannot record the run's outcome; it is sent again when its lease ends", "schedule_id", scheduleID, "key", key.String(), "to", string(to), "err", err)
}

func (c *Consumer) settleAll(ctx context.Context, settlements []schedule.Settlement) ([]schedule.Moved, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return c.Store.SettleLaunched(ctx, c.now(), settlements)
}
