package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// wish is the request of a user for one schedule. It is known before the call, so that
// the checker can compare the write with it.
type wish struct {
	verb       string // upsert, pause, resume, delete
	id         string
	definition schedule.Definition // upsert
	grant      *registrar.GrantInput
	until      time.Time // pause
}

// users register schedules and then change them at random moments.
func (w *world) users() {
	names := make([]string, w.profile.schedules)
	if w.profile.grants {
		w.makeGrants()
	}
	if w.profile.queues > 0 {
		w.makeJobSchedules()
		w.running.Go(w.queueUsers)
	}
	for n := range names {
		names[n] = fmt.Sprintf("s%d", n)
		w.upsert(names[n], w.dice.of(forSchedules).of(uint64(n)))
	}
	if w.profile.queues > 0 {
		names = append(names, jobSchedules...) // their runs in queues are independent of it
	}
	for n := range w.profile.consumers {
		names = append(names, consumerID(n))
		w.upsert(consumerID(n), w.dice.of(forSchedules).of(uint64(n)))
	}
	busy := w.dice.of(forUsers + 2)
	for n := uint64(0); ; n++ {
		d := busy.of(n + 1)
		time.Sleep(d.of(1).span(50*time.Millisecond, pick(busy, time.Second, 4*time.Second, 12*time.Second)))
		if w.elapsed() > w.profile.faulty-time.Second {
			return
		}
		w.act(names[d.of(2).below(len(names))], d.of(3))
	}
}

// act does one thing to one schedule, or to a run of it.
func (w *world) act(id string, d dice) {
	if d.of(6).perMille(150) {
		w.retryByHand(id, d.of(7))
		return
	}
	switch n := d.of(1).below(100); {
	case n < 25:
		w.upsert(id, w.dice.of(forSchedules).of(uint64(d.of(2).below(4))))
	case n < 40:
		w.ask(wish{verb: "pause", id: id})
	case n < 50:
		w.ask(wish{verb: "pause", id: id, until: w.clients.now().Add(d.of(3).span(200*time.Millisecond, 5*time.Second)).UTC().Truncate(time.Microsecond)})
	case n < 68:
		w.ask(wish{verb: "resume", id: id})
	case n < 76:
		w.ask(wish{verb: "delete", id: id})
	case n < 79 && w.profile.grants:
		w.revoke(d.of(2))
	case n < 92:
		policy := pick(d.of(4), "", "", schedule.OverlapAllow, schedule.OverlapQueue)
		_ = w.insist(func(ctx context.Context) error {
			_, err := w.registrar.Trigger(ctx, registrar.TriggerInput{ScheduleID: id, RequestID: fmt.Sprintf("t%x", uint64(d)), OverlapPolicy: policy})
			return err
		})
	default:
		key, ok := w.watch.someRun(id, d.of(5))
		if d.of(8).perMille(300) {
			key, ok = w.watch.someEnded(id, d.of(5))
		}
		if ok {
			w.cancelRun(key)
		}
	}
}

// cancelRun asks for the end of a run; of a failed one, for that of its retry.
func (w *world) cancelRun(key schedule.Key) {
	err := w.insist(func(ctx context.Context) error {
		_, err := w.registrar.CancelRun(ctx, registrar.CancelInput{Key: key})
		return err
	})
	w.watch.cancelled(key, err)
}

// upsert asks for a definition, with or without a grant.
func (w *world) upsert(id string, d dice) {
	a := wish{verb: "upsert", id: id}
	if isConsumer(id) {
		a.definition = w.consumer(id, d)
	} else {
		a.definition = w.definition(id, d)
	}
	w.drawGrant(&a, d.of(13))
	w.ask(a)
}

// ask makes the request of a wish, or learns that it is refused.
func (w *world) ask(a wish) {
	w.watch.wish(&a)
	w.log.say(w.elapsed(), "user: %s %s until %v %s", a.verb, a.id, a.until, about(&a.definition))
	err := w.insist(func(ctx context.Context) (err error) {
		switch a.verb {
		case "upsert":
			jitter, queued, timeout, window := a.definition.JitterMS, a.definition.MaxQueued, a.definition.RunTimeoutMS, a.definition.CatchupWindowMS
			_, err = w.registrar.Upsert(ctx, registrar.UpsertInput{Definition: a.definition, Grant: a.grant, JitterMS: &jitter, MaxQueued: &queued, RunTimeoutMS: &timeout, CatchupWindowMS: &window})
		case "pause":
			_, err = w.registrar.Pause(ctx, registrar.PauseInput{ScheduleID: a.id, Until: a.until})
		case "resume":
			_, err = w.registrar.Resume(ctx, registrar.ResumeInput{ScheduleID: a.id})
		case "delete":
			err = w.registrar.Delete(ctx, a.id, "")
		}
		return err
	})
	w.log.say(w.elapsed(), "user: %s %s: %v", a.verb, a.id, err)
	w.watch.wish(nil)
	if err == nil {
		w.watch.acknowledged(a.id, w.elapsed())
	}
}

// insist repeats a call whose outcome is unknown, as clients do.
func (w *world) insist(call func(context.Context) error) (err error) {
	for n := range 4 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err = call(ctx)
		cancel()
		var invalid *schedule.InvalidError
		switch {
		case err == nil, errors.As(err, &invalid), errors.Is(err, schedule.ErrNotFound), errors.Is(err, schedule.ErrExists), errors.Is(err, schedule.ErrPrecondition):
			return err
		}
		time.Sleep(50*time.Millisecond<<n + time.Duration(n)*1234567)
	}
	return err
}

// definition draws the definition of a schedule.
func (w *world) definition(id string, d dice) schedule.Definition {
	p := &w.profile
	def := schedule.Definition{
		ScheduleID: id, WorkflowID: "w", Version: int32(pick(d.of(1), 1, 2)), UserID: "u" + strconv.Itoa(int(id[len(id)-1])%2),
		JitterMS: uint32(pick(d.of(2), 0, 0, 300, 900)), MaxQueued: uint32(pick(d.of(3), 1, 2, 100)),
		OverlapPolicy: pick(d.of(4), schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapReplace, schedule.OverlapCoalesce, schedule.OverlapCoalesce),
		CatchupPolicy: pick(d.of(5), schedule.CatchupPolicies...),
		RunTimeoutMS:  uint32(p.runTimeout.Milliseconds()),
		EndAt:         w.began.Add(p.faulty).UTC().Truncate(time.Second),
		Priority:      int32(d.of(6).below(2)),
	}
	if slices.Contains(jobSchedules, id) {
		def.UserID = "u0"
	}
	if p.queues > 0 && def.UserID == "u0" && d.of(19).perMille(500) {
		def.QueueID = queueID(d.of(20).below(p.queues))
		if p.limited {
			def.Limits = pick(d.of(21), limitsOfRuns...)
		}
		if d.of(22).perMille(200) {
			def.Webhook = "own"
		}
		if p.grouped && d.of(26).perMille(600) { // in one queue, so that some have an instant in common
			def.QueueID, def.Group = queueID(0), pick(d.of(27), "night", "night", "night", "day")
		}
		if d.of(23).perMille(200) {
			def.ExpiresMS = uint32(d.of(24).within(1000, 8000))
		}
	}
	if def.QueueID == "" && d.of(28).perMille(250) {
		def.Webhook = "own"
	}
	if p.queues > 0 && d.of(25).perMille(150) {
		def.MaxRunMS = 5000
	}
	if p.incidents {
		def.LaunchTimeoutMS = uint32(pick(d.of(14), 0, 0, 2000, 5000))
		def.Version = int32(pick(d.of(15), 1, 1, 1, 2, 2, 2, 3)) // there is no version 3
	}
	if def.OverlapPolicy == schedule.OverlapReplace && !p.executorCancels {
		def.OverlapPolicy = schedule.OverlapQueue
	}
	if share := d.of(7); share.perMille(250) || p.consumers > 0 && share.perMille(500) {
		def.OverlapKey = "shared"
	}
	if d.of(8).perMille(250) {
		def.CronExpr = fmt.Sprintf("*/%d * * * * *", pick(d.of(9), 2, 3, 5))
	} else {
		def.IntervalMS = uint32(1000 * d.of(10).within(1, 5))
	}
	if def.CatchupWindowMS = 3_600_000; d.of(16).perMille(500) {
		def.Retry = retryPolicy(d.of(17))
		def.CatchupWindowMS = pick(d.of(18), uint32(3_600_000), 3_600_000, 4000, 8000)
	}
	if d.of(11).perMille(300) {
		def.Input = json.RawMessage(fmt.Sprintf(`{"n":%d}`, d.of(12).below(3)))
	}
	return def
}

// retryPolicy draws when failed runs are tried again.
func retryPolicy(d dice) schedule.RetryPolicy {
	p := schedule.RetryPolicy{
		MaxAttempts: uint32(d.of(1).within(2, 4)), BackoffMS: pick(d.of(2), uint32(1000), 1500), FactorPercent: pick(d.of(3), uint32(100), 200, 300),
		On: pick(d.of(4), schedule.RetryOn("transient,timeout,lost,deadline"), "transient", "transient,logic,approval,internal", "timeout,lost"),
	}
	p.MaxBackoffMS = p.BackoffMS + pick(d.of(5), uint32(0), 1000, 3000)
	return p
}

// about is a definition in a few words.
func about(d *schedule.Definition) string {
	if d.ScheduleID == "" {
		return ""
	}
	return fmt.Sprintf("(%s%dms jitter %d, %s of %s, %s within %dms, v%d, retry %s)", d.CronExpr, d.IntervalMS, d.JitterMS, d.OverlapPolicy, d.OverlapKey,
		d.CatchupPolicy, d.CatchupWindowMS, d.Version, d.Retry.Text())
}
