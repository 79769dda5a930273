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

// jobSchedules begin without a rule: runs of queues take their settings from them.
var jobSchedules = []string{"j0", "j1"}

// makeJobSchedules registers the schedules of jobs.
func (w *world) makeJobSchedules() {
	for n, id := range jobSchedules {
		d := w.dice.of(forQueues).of(uint64(n))
		def := schedule.Definition{
			ScheduleID: id, WorkflowID: "w", Version: int32(1 + n), UserID: "u0", RunTimeoutMS: uint32(w.profile.runTimeout.Milliseconds()),
			OverlapPolicy: schedule.OverlapAllow, MaxQueued: 100, CatchupWindowMS: 3_600_000,
		}
		if d.of(1).perMille(600) {
			def.Retry = retryPolicy(d.of(2))
		}
		w.ask(wish{verb: "upsert", id: def.ScheduleID, definition: def})
	}
}

// queueUsers create queues, put runs into them and change both at random moments.
func (w *world) queueUsers() {
	busy := w.dice.of(forQueues + 1)
	if w.profile.limited {
		w.setLimits(busy.of(1 << 20))
	}
	for n := range w.profile.queues {
		w.upsertQueue(n, busy.of(uint64(n)))
	}
	pace := pick(busy, 300*time.Millisecond, time.Second, 2*time.Second)
	for n := uint64(100); ; n++ {
		d := busy.of(n)
		time.Sleep(d.of(1).span(20*time.Millisecond, pace))
		if w.elapsed() > w.profile.faulty-time.Second {
			break
		}
		w.actOnQueue(d.of(2).below(w.profile.queues), d.of(3))
	}
	w.sealAll()
	for n := range w.profile.queues {
		if d := busy.of(uint64(n)).of(1); d.perMille(700) { // in the others, runs are left
			w.changeQueue(n, "resume", time.Time{})
		}
	}
}

func queueID(n int) string { return "q" + strconv.Itoa(n) }

// actOnQueue does one thing to one queue, or to a run in it.
func (w *world) actOnQueue(n int, d dice) {
	if g := d.of(9); w.profile.grouped && g.perMille(350) {
		switch x := g.of(1).below(100); {
		case x < 55:
			w.makeGroup(n, g.of(2))
		case x < 75:
			w.addToGroup(g.of(2))
		case x < 92:
			w.changeGroup(g.of(2), false)
		default:
			w.changeGroup(g.of(2), true)
		}
		return
	}
	if c := d.of(10); c.perMille(60) {
		if c.of(1).perMille(200) {
			w.pauseAndCancel(n)
		} else {
			w.cancelMany(n, c.of(2))
		}
		return
	}
	switch x := d.of(1).below(112); {
	case x >= 100 && !w.pulls(n):
		w.reserve(n, d.of(2))
	case x < 40:
		w.enqueue(n, 1, d.of(2))
	case x < 52:
		w.enqueue(n, d.of(3).within(2, 5), d.of(2))
	case x < 60:
		w.enqueueAgain(d.of(2))
	case x < 70:
		w.updateJob(n, d.of(2))
	case x < 78:
		if key, ok := w.watch.someJob(n, d.of(2), false); ok {
			w.cancelJob(key)
		}
	case x < 82:
		w.changeQueue(n, "pause", time.Time{})
	case x < 87:
		w.changeQueue(n, "pause", w.clients.now().Add(d.of(2).span(200*time.Millisecond, 3*time.Second)).UTC().Truncate(time.Microsecond))
	case x < 93:
		w.changeQueue(n, "resume", time.Time{})
	case x < 95:
		w.changeQueue(n, "close", time.Time{})
	case x < 98:
		w.changeQueue(n, "open", time.Time{})
	case x < 99 && w.profile.limited:
		w.setLimits(d.of(2))
	default:
		w.upsertQueue(n, d.of(2))
	}
}

func (w *world) upsertQueue(n int, d dice) {
	def := schedule.QueueDefinition{
		QueueID: queueID(n), UserID: "u0", MaxInFlight: uint32(d.of(1).within(1, 5)), Backpressure: pick(d.of(2), schedule.BackpressureQueue, schedule.BackpressureRun),
	}
	if d.of(3).perMille(200) {
		def.RunTimeoutMS = 3000
	}
	if d.of(7).perMille(200) {
		def.MaxRunMS = 4000
	}
	if d.of(8).perMille(200) {
		def.ExpiresMS = uint32(d.of(9).within(1000, 8000))
	}
	if d.of(5).perMille(300) {
		def.PromoteAfterMS = uint32(d.of(6).within(200, 3000))
	}
	def.Rate = w.rateOf(n)
	if w.pulls(n) {
		def.Delivery, def.HeartbeatMS = schedule.DeliveryPull, uint32(pullHeartbeat.Milliseconds())
	}
	if w.profile.limited && d.of(4).perMille(200) {
		def.Limits = []string{"gpu"}
	}
	if d.of(14).perMille(600) {
		def.Webhook = pick(d.of(15), "billing", "audit")
	}
	if d.of(16).perMille(300) {
		def.WebhookEvents = []schedule.WebhookEvent{"run.succeeded", "run.failed", "run.retrying"}
	}
	if w.profile.counting && d.of(19).perMille(700) {
		def.History = schedule.HistoryFailed
	}
	if d.of(17).perMille(350) {
		makeFair(&def, d.of(18))
	}
	if d.of(19).perMille(300) {
		def.Retry = retryPolicy(d.of(20))
	}
	err := w.insist(func(ctx context.Context) error {
		_, err := w.registrar.UpsertQueue(ctx, registrar.QueueInput{QueueDefinition: def})
		return err
	})
	w.log.say(w.elapsed(), "user: queue %s: max_in_flight %d, %s: %v", def.QueueID, def.MaxInFlight, def.Backpressure, err)
}

// changeQueue pauses, resumes, closes or opens a queue.
func (w *world) changeQueue(n int, verb string, until time.Time) {
	id := queueID(n)
	err := w.insist(func(ctx context.Context) (err error) {
		switch verb {
		case "pause":
			_, err = w.registrar.PauseQueue(ctx, registrar.PauseQueueInput{QueueID: id, Until: until})
		case "resume":
			_, err = w.registrar.ResumeQueue(ctx, id, "", "")
		case "close":
			_, err = w.registrar.CloseQueue(ctx, id, "", "")
		case "open":
			_, err = w.registrar.OpenQueue(ctx, id, "", "")
		}
		return err
	})
	if err == nil && verb == "pause" {
		w.watch.queuePauseAnswered(id, w.elapsed())
	}
	w.log.say(w.elapsed(), "user: %s %s until %s: %v", verb, id, w.at(until), err)
}

// enqueue puts runs into a queue, all of one priority if the request names a place.
func (w *world) enqueue(n, runs int, d dice) {
	e := &entry{EnqueueInput: registrar.EnqueueInput{QueueID: queueID(n), UserID: "u0", RequestID: fmt.Sprintf("e%x", uint64(d)), Batch: runs > 1}}
	e.placed, e.Waits = d.of(1).perMille(200), d.of(21).perMille(150)
	switch {
	case e.placed && d.of(2).perMille(400):
		e.Next = true
	case e.placed:
		place := uint32(d.of(3).within(1, 4))
		e.Position = &place
	}
	for i := range runs {
		e.add(w.profile.limited, d.of(100+uint64(i)))
	}
	if u := d.of(20); runs == 1 && !e.placed && u.perMille(600) {
		e.addUnique(u)
	}
	w.askToEnter(e)
}

func (e *entry) add(limited bool, d dice) {
	in := registrar.QueuedInput{ScheduleID: pick(d.of(1), jobSchedules...)}
	priority, delay := int32(d.of(2).below(3)-1), time.Duration(0)
	if e.placed {
		priority = 0
	}
	if in.Priority = &priority; d.of(3).perMille(300) {
		in.Input = json.RawMessage(fmt.Sprintf(`{"n":%d}`, d.of(4).below(3)))
	}
	if !e.placed && d.of(5).perMille(250) {
		ms := uint32(d.of(6).within(1, 3000))
		in.DelayMS, delay = &ms, time.Duration(ms)*time.Millisecond
	}
	if d.of(7).perMille(150) {
		attempts := uint32(d.of(8).within(1, 2)) // no more than the schedules with a policy
		in.MaxAttempts = &attempts
	}
	if d.of(20).perMille(150) {
		ms := uint32(d.of(21).within(1000, 8000))
		in.ExpiresMS = &ms
	}
	if limited {
		in.Limits = pick(d.of(9), limitsOfRuns...)
	}
	if d.of(19).perMille(150) {
		in.Webhook = "own"
	}
	in.FairKey = pick(d.of(20), fairKeys...)
	e.Runs, e.delays = append(e.Runs, in), append(e.delays, delay)
}

// askToEnter makes the request of an entry. A repeat of one that was answered before has the same keys.
func (w *world) askToEnter(e *entry) {
	w.watch.enter(e)
	var out registrar.Enqueued
	err := w.insist(func(ctx context.Context) (err error) {
		out, err = w.registrar.Enqueue(ctx, e.EnqueueInput)
		return err
	})
	w.log.say(w.elapsed(), "user: %d runs into %s (%s): repeated %t, %v", len(e.Runs), e.QueueID, e.RequestID, out.Repeated, err)
	w.watch.entered(e, &out, err)
}

// enqueueAgain repeats an earlier request, or uses its id for another one.
func (w *world) enqueueAgain(d dice) {
	e := w.watch.someEntry(d.of(1))
	if e == nil {
		return
	}
	if d.of(2).perMille(800) {
		w.askToEnter(e)
		return
	}
	other := e.EnqueueInput
	other.Runs = append(slices.Clone(other.Runs), other.Runs[0])
	err := w.insist(func(ctx context.Context) error {
		_, err := w.registrar.Enqueue(ctx, other)
		if errors.Is(err, schedule.ErrKeyConflict) {
			err = fmt.Errorf("%w: %w", schedule.ErrExists, err)
		}
		return err
	})
	w.watch.refusedEntry(e, err)
}

// updateJob changes a run that waits.
func (w *world) updateJob(n int, d dice) {
	key, ok := w.watch.someJob(n, d.of(1), true)
	if !ok {
		return
	}
	in := registrar.UpdateRunInput{Key: key}
	kinds := 3
	if w.profile.limited {
		kinds = 4
	}
	switch d.of(2).below(kinds) {
	case 3:
		in.Limits = append([]string{}, pick(d.of(3), limitsOfRuns...)...)
	case 0:
		in.Input = json.RawMessage(fmt.Sprintf(`{"u":%d}`, d.of(3).below(1000)))
	case 1:
		priority := int32(d.of(3).below(3) - 1)
		in.Priority = &priority
	case 2:
		in.RunAt = w.clients.now().Add(d.of(3).span(-time.Second, 2*time.Second)).UTC().Truncate(time.Millisecond)
	}
	w.watch.updating(&in)
	err := w.insist(func(ctx context.Context) error {
		_, err := w.registrar.UpdateRun(ctx, in)
		return err
	})
	w.watch.updated(&in, err)
	w.log.say(w.elapsed(), "user: update %06x: %v", idOf(key)&0xffffff, err)
}

// cancelJob asks for the end of a run of a queue; of a failed one, for that of its retry.
func (w *world) cancelJob(key schedule.Key) {
	w.watch.cancellingJob(key)
	err := w.insist(func(ctx context.Context) error {
		_, err := w.registrar.CancelRun(ctx, registrar.CancelInput{Key: key})
		return err
	})
	w.log.say(w.elapsed(), "user: cancel job %06x: %v", idOf(key)&0xffffff, err)
	w.watch.cancelled(key, err)
}
