package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// executor honours keys: each key takes effect once and gets the same answer, for any
// number of calls. Everything else about it can fail.
type executor struct {
	incident atomic.Int64 // strike; 0 = none

	mu        sync.Mutex
	works     map[schedule.Key]*work
	order     []*work
	reached   map[schedule.Key]int       // calls whose request it got
	asked     map[schedule.Key]int       // times that a launcher asked by key in place of a call
	grants    map[schedule.Key]int       // calls that launchers were allowed
	firstSent map[schedule.Key]time.Time // as recorded when the first call came
	attempts  map[schedule.Key]*attempts
	declined  map[schedule.Key]int // calls for runs of queues that it did not take
}

func newExecutor() *executor {
	return &executor{
		works: make(map[schedule.Key]*work), reached: make(map[schedule.Key]int), asked: make(map[schedule.Key]int), grants: make(map[schedule.Key]int),
		firstSent: make(map[schedule.Key]time.Time), attempts: make(map[schedule.Key]*attempts),
		declined: make(map[schedule.Key]int),
	}
}

// work is the state of one key.
type work struct {
	call    launcher.Call
	calls   int
	refused bool
	began   time.Duration // in the world
	ends    time.Duration // when it ends, or has ended
	ended   bool
	cancel  bool // ended by a cancel
	unknown bool // a call of it had no answer
	dead    bool // its worker has died
	died    time.Duration
	outcome schedule.Outcome
	told    int // how often its end was answered or reported
}

// manner is the behavior of the executor for a key.
type manner struct {
	refuse   bool
	sync     bool // answers when it is done
	hang     bool // never answers
	silent   bool // never reports
	started  bool // reports STARTED first
	twice    bool // reports twice
	fails    bool // ends FAILED
	class    schedule.FailureClass
	snoozes  bool // ends with SNOOZE
	stopped  bool // ends FAILED, because the executor is shut down
	snooze   time.Duration
	duration time.Duration // of the run
	declines int           // calls for a run of a queue that it does not take
	away     time.Duration // how long it then wants no calls
}

func (w *world) manner(key schedule.Key) manner {
	d := w.dice.of(forExecutor).of(idOf(key))
	m := manner{
		duration: d.of(1).span(20*time.Millisecond, 2500*time.Millisecond), fails: d.of(2).perMille(200),
		class:   pick(d.of(9), "", "", "", schedule.ClassTransient, schedule.ClassLogic, schedule.ClassApproval, schedule.ClassInternal),
		started: d.of(3).perMille(400), twice: d.of(4).perMille(200),
	}
	if d.of(10).perMille(60) {
		m.declines, m.away = d.of(11).within(1, 3), d.of(12).span(300*time.Millisecond, 2*time.Second)
	}
	m.stopped = d.of(16).perMille(250)
	if w.watch.interrupted(key) > 0 { // shutdowns come in a row
		m.stopped, m.fails = d.of(16).perMille(700), m.fails || d.of(17).perMille(700)
	}
	if d.of(13).perMille(80) {
		m.snoozes, m.snooze = true, pick(d.of(14), 0, d.of(15).span(0, 4*time.Second).Truncate(time.Millisecond))
	}
	switch n := d.of(5).below(1000); {
	case n < 350:
		m.sync, m.duration = true, d.of(6).span(0, 400*time.Millisecond)
	case n < 400:
		m.refuse = true
	case n < 440:
		m.silent = true
	case n < 480:
		m.hang, m.silent = true, d.of(7).perMille(500)
	case n < 530:
		m.duration = d.of(8).span(3*time.Second, w.profile.runTimeout+time.Second)
	}
	return m
}

// executorClient is the connection of one process to the executor.
type executorClient struct{ *caller }

func (e executorClient) Run(ctx context.Context, call launcher.Call) (outcome schedule.Outcome, err error) {
	err = e.caller.call(ctx, siteRun, idOf(call.Key), nil, func() error {
		if !call.SendBy.IsZero() && time.Now().After(call.SendBy) {
			return launcher.ErrNotSent
		}
		if err := e.executor.unreachable(); err != nil {
			return err
		}
		outcome, err = e.receive(ctx, call)
		return err
	})
	if errors.Is(err, errFailed) && e.dice.of(forNetwork).of(idOf(call.Key)).perMille(500) {
		err = fmt.Errorf("%w: %w", launcher.ErrNotSent, err) // refused connection
	}
	return outcome, err
}

// receive handles one request.
func (e executorClient) receive(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	w := e.world
	at, m := w.elapsed(), w.manner(call.Key)
	w.checkCall(at, e.name, call)
	if err := w.declines(&call, m); err != nil {
		return schedule.Outcome{}, err
	}
	w.reach(&call)
	if err := e.broken(ctx, call.Key); err != nil {
		return schedule.Outcome{}, err
	}
	wk, nth := w.executor.take(at, call, m)
	w.log.say(at, "executor gets %06x %s run_at +%s, call %d", idOf(call.Key)&0xffffff, call.ScheduleID, call.ScheduledFor.Sub(w.began), nth)
	switch {
	case m.refuse:
		return schedule.Outcome{}, &launcher.Refusal{Code: "sim_refused", Message: "not this one"}
	case nth == 1:
		w.running.Go(func() { w.work(wk, m) })
	}
	if m.hang {
		<-ctx.Done()
		w.executor.unanswered(wk)
		return schedule.Outcome{}, ctx.Err()
	}
	if m.sync {
		if err := w.sleepUntil(ctx, wk.began+m.duration); err != nil {
			w.executor.unanswered(wk)
			return schedule.Outcome{}, err
		}
	}
	return w.executor.answer(w.elapsed(), wk), nil
}

func (x *executor) unanswered(wk *work) {
	x.mu.Lock()
	defer x.mu.Unlock()
	wk.unknown = true
}

// sleepUntil waits for an instant of the world, or until ctx ends.
func (w *world) sleepUntil(ctx context.Context, at time.Duration) error {
	timer := time.NewTimer(at - w.elapsed())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// declines: the executor has not taken the run of a queue, says so, and wants no calls for a
// while.
func (w *world) declines(call *launcher.Call, m manner) error {
	x := w.executor
	if m.declines == 0 || x.incident.Load() != 0 || !w.watch.isJob(call.Key) {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.works[call.Key] != nil || x.declined[call.Key] >= m.declines {
		return nil
	}
	x.declined[call.Key]++
	w.coverage.situations[jobDeclined].Add(1)
	w.log.say(w.elapsed(), "executor declines %06x for %s", idOf(call.Key)&0xffffff, m.away)
	return &launcher.CallError{Code: schedule.CodeExecutorError, Err: errBusy, NotTaken: m.away}
}

var errBusy = errors.New("sim: the executor takes no runs now")

// take records the nth call of a key; only the first has an effect.
func (x *executor) take(at time.Duration, call launcher.Call, m manner) (wk *work, nth int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if wk = x.works[call.Key]; wk == nil {
		wk = &work{call: call, began: at, ends: at + m.duration, refused: m.refuse}
		wk.outcome = schedule.Outcome{Status: schedule.StatusSuccess, RunID: "run-" + call.Key.String()[:12]}
		if m.snoozes {
			wk.outcome.Status, wk.outcome.Reason, wk.outcome.SnoozeFor = schedule.StatusSkipped, schedule.ReasonSnoozed, m.snooze
		} else if m.fails {
			wk.outcome.Status, wk.outcome.ErrorCode, wk.outcome.FailureClass = schedule.StatusFailed, "sim_failed", m.class
			if m.stopped {
				wk.outcome.ErrorCode = "interrupted"
			}
		}
		x.works[call.Key] = wk
		x.order = append(x.order, wk)
	}
	wk.calls++
	return wk, wk.calls
}

// answer is the executor's answer for a key.
func (x *executor) answer(at time.Duration, wk *work) schedule.Outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case wk.cancel:
		return schedule.Outcome{Status: schedule.StatusFailed, RunID: wk.outcome.RunID, ErrorCode: "sim_cancelled"}
	case wk.ended || at >= wk.ends:
		o := wk.outcome
		o.ExitCode, o.Result = wk.returns()
		return o
	}
	return schedule.Outcome{Status: schedule.StatusEnqueued, RunID: wk.outcome.RunID}
}

// work is a run in progress: it ends, and is reported unless the answer had the end or
// the executor never reports.
func (w *world) work(wk *work, m manner) {
	d := w.dice.of(forExecutor + 1).of(idOf(wk.call.Key))
	began := w.executor.beganAt(wk)
	if m.started && !m.sync && !m.silent {
		time.Sleep(min(m.duration/2, d.of(1).span(0, 300*time.Millisecond)))
		w.report(wk, schedule.StatusStarted, 1)
	}
	time.Sleep(began + m.duration - w.elapsed())
	if cancelled := w.executor.end(wk, began); cancelled || m.sync || m.silent {
		return
	}
	time.Sleep(d.of(2).span(1, 5*time.Millisecond))
	status := wk.outcome.Status
	if m.snoozes {
		status = schedule.StatusSnooze
	}
	w.report(wk, status, 5)
	if m.twice {
		time.Sleep(d.of(3).span(0, 2*time.Second))
		w.report(wk, status, 1)
	}
}

func (x *executor) beganAt(wk *work) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return wk.began
}

// end ends a work that began at an instant; cancelled: nobody hears of its end.
func (x *executor) end(wk *work, began time.Duration) (cancelled bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if wk.dead || wk.began != began { // its worker has died
		return true
	}
	wk.ended = true
	return wk.cancel
}

// report reports to the registrar, repeatedly if necessary.
func (w *world) report(wk *work, status schedule.Status, tries int) {
	for n := range tries {
		err := w.clients.call(context.Background(), siteReport, idOf(wk.call.Key), nil, func() error {
			said := schedule.ExecutorReport{Key: wk.call.Key, Status: status, RunID: wk.outcome.RunID, ErrorCode: wk.outcome.ErrorCode}
			if status != schedule.StatusStarted {
				w.executor.mu.Lock()
				said.ExitCode, said.Result = wk.returns()
				w.executor.mu.Unlock()
			}
			if status == schedule.StatusFailed {
				said.FailureClass = wk.outcome.FailureClass
			}
			if status == schedule.StatusSnooze {
				said.SnoozeFor = wk.outcome.SnoozeFor
			}
			return w.registrar.ReportOutcome(context.Background(), said)
		})
		if err == nil || errors.Is(err, schedule.ErrPrecondition) || w.calm.Load() && n > 1 {
			return
		}
		time.Sleep(100 * time.Millisecond << n)
	}
}

// Cancel ends a run, if the executor can.
func (e executorClient) Cancel(ctx context.Context, ref schedule.CancelRequest) error {
	if !e.profile.executorCancels {
		return launcher.ErrUnsupported
	}
	return e.caller.call(ctx, siteExecutorCancel, idOf(ref.Key), nil, func() error {
		e.executor.mu.Lock()
		defer e.executor.mu.Unlock()
		wk := e.executor.works[ref.Key]
		if wk == nil {
			return schedule.ErrNotFound
		}
		if at := e.elapsed(); !wk.ended && at < wk.ends {
			wk.ended, wk.cancel, wk.ends = true, true, at
		}
		return nil
	})
}

// GetByKey returns the state of a key, if the executor can.
func (e executorClient) GetByKey(ctx context.Context, ref schedule.RunRef) (outcome schedule.Outcome, err error) {
	if !e.profile.executorAnswers {
		return outcome, launcher.ErrUnsupported
	}
	e.executor.mu.Lock()
	e.executor.asked[ref.Key]++
	e.executor.mu.Unlock()
	err = e.caller.call(ctx, siteAsk, idOf(ref.Key), nil, func() error {
		if err := cmp.Or(e.executor.unreachable(), e.broken(ctx, ref.Key)); err != nil {
			return err
		}
		e.executor.mu.Lock()
		wk := e.executor.works[ref.Key]
		e.executor.mu.Unlock()
		switch {
		case wk == nil:
			return schedule.ErrNotFound
		case wk.refused:
			outcome = schedule.Outcome{Status: schedule.StatusFailed, ErrorCode: "sim_refused"}
			return nil
		}
		outcome = e.executor.answer(e.elapsed(), wk)
		return nil
	})
	return outcome, err
}
