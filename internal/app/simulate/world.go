package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
)

// world is the state of one running scenario.
type world struct {
	*Simulator
	registrar.Scenario
	ctx      context.Context      // of the simulation
	spend    func(steps int) bool // false: the budget is spent
	clock    atomic.Int64
	ledger   *memory.Store
	users    *registrar.Registrar
	launch   *launcher.Launcher
	runs     *executor
	pauses   []pause // still to start
	outages  []registrar.Span
	waited   map[schedule.Key]time.Time
	inserted int // rows in the ledger

	steps    *worker.Steps // nil: no worker is running
	config   worker.Config
	lastTick time.Time
	nextFire time.Time // of the next claim pass; zero: none
	ended    bool      // a run ended since the last step, which wakes the worker
	epochs   int
}

// pause is a user's pause of a schedule.
type pause struct {
	scheduleID string
	registrar.Span
}

func (s *Simulator) newWorld(ctx context.Context, scenario registrar.Scenario, spend func(steps int) bool) (*world, error) {
	w := &world{Simulator: s, Scenario: scenario, ctx: ctx, spend: spend, outages: slices.Clone(scenario.Outages), waited: make(map[schedule.Key]time.Time)}
	w.set(w.From)
	w.ledger = memory.New(memory.Options{Watch: memory.Watch{Run: w.watch}})
	w.runs = newExecutor(w)
	w.users = registrar.New(registrar.Options{
		Schedules: w.ledger, Runs: w.ledger, Workflows: w.ledger, Shares: w.ledger, Grants: w.ledger, Now: w.now, Logger: quiet,
		Config: registrar.Config{CanCancel: true},
	})
	w.launch = launcher.New(launcher.Options{
		Store: w.ledger, Workflows: workflow.None{}, Executor: w.runs, Now: w.now, Logger: quiet, Metrics: s.launcher,
		Spread: func(schedule.Key, time.Duration) time.Duration { return 0 }, Config: launcher.Config{Feedback: true},
	})
	for i := range w.Schedules {
		of := &w.Schedules[i]
		if err := w.addSchedule(&of.Schedule); err != nil {
			return nil, err
		}
		for _, span := range of.Pauses {
			w.pauses = append(w.pauses, pause{of.Schedule.ScheduleID, span})
		}
	}
	slices.SortStableFunc(w.pauses, func(a, b pause) int { return a.From.Compare(b.From) })
	if !w.down(w.From) {
		return w, w.start()
	}
	return w, nil
}

func (w *world) now() time.Time { return time.Unix(0, w.clock.Load()).UTC() }

func (w *world) set(now time.Time) { w.clock.Store(now.UnixNano()) }

// addSchedule stores a schedule with its cursor on the first slot of the window.
func (w *world) addSchedule(s *schedule.Schedule) error {
	tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
	if err != nil {
		return err
	}
	row := *s
	row.QueueID, row.Limits, row.Webhook = "", nil, "" // there are no queues
	row.NextRunAt, _ = tt.From(w.From)
	row.PlanAt = w.From
	return w.ledger.ChangeSchedules(w.ctx, schedule.ChangeRequest{ScheduleIDs: []string{row.ScheduleID}},
		func([]schedule.ChangeInput) ([]schedule.Change, error) {
			return []schedule.Change{{ScheduleID: row.ScheduleID, Row: &row, Created: true, NewRevision: true, Now: w.From}}, nil
		})
}

// watch is called for every write of a run.
func (w *world) watch(_ *schedule.Term, before, after *schedule.Run) {
	if after == nil {
		return
	}
	if before == nil {
		w.inserted++
		w.spend(rowSteps)
	}
	w.ended = w.ended || after.Status.Terminal()
	if !after.WaitingSince.IsZero() {
		w.waited[after.Key] = after.WaitingSince
	}
}

// down reports whether an outage is active.
func (w *world) down(at time.Time) bool {
	return len(w.outages) > 0 && !at.Before(w.outages[0].From)
}

// start starts a worker. It leads immediately and runs its first tick.
func (w *world) start() error {
	w.epochs++
	term, ok, err := w.ledger.Takeover(w.ctx, schedule.TakeoverRequest{
		Shards: 1, Holder: fmt.Sprint("worker-", w.epochs), TTL: time.Second, Now: w.now(), LockHeld: true, LockKind: "simulation",
	})
	if err != nil || !ok {
		return cmp.Or(err, fmt.Errorf("lead: %w", schedule.ErrFenced))
	}
	w.steps = worker.NewSteps(w.ctx, worker.Options{
		ID: term.Holder, Plans: counted{w.ledger, w}, Fires: counted{w.ledger, w}, Launcher: w.launch, Now: w.now, Logger: quiet, Metrics: w.worker, Config: w.Simulator.config,
	}, term)
	w.config = w.steps.Config()
	w.tick()
	return nil
}

func (w *world) tick() {
	w.steps.Tick()
	w.lastTick, w.nextFire = w.now(), w.now()
}

// nextTick is the first tick that may have work.
func (w *world) nextTick() time.Time {
	due := w.ledger.NextTick(w.config.Grace, w.config.RetryFor, w.config.CancelWait)
	if due.IsZero() {
		return due
	}
	ticks := max(1, (due.Sub(w.lastTick)+w.config.Tick-1)/w.config.Tick)
	return w.lastTick.Add(ticks * w.config.Tick)
}

// event is an action at an instant.
type event struct {
	at time.Time
	do func() error
}

// play runs the events in order until the end of the window.
func (w *world) play() error {
	for w.spend(eventSteps) {
		next := w.next()
		if next.do == nil || !next.at.Before(w.Until) {
			w.set(w.Until)
			return nil
		}
		if next.at.After(w.now()) {
			w.set(next.at)
		}
		if err := next.do(); err != nil {
			return err
		}
		if w.steps != nil && (w.steps.Woken() || w.ended) {
			w.nextFire = w.now()
		}
		w.ended = false
	}
	return nil
}

// next returns the next event. At the same instant the first offered event comes first.
func (w *world) next() (first event) {
	offer := func(at time.Time, do func() error) {
		if at.Before(w.now()) {
			at = w.now()
		}
		if first.do == nil || at.Before(first.at) {
			first = event{at, do}
		}
	}
	if len(w.pauses) > 0 {
		offer(w.pauses[0].From, w.pause)
	}
	if w.steps == nil && len(w.outages) > 0 {
		offer(w.outages[0].Until, w.recover)
	} else if len(w.outages) > 0 {
		offer(w.outages[0].From, w.die)
	}
	if w.steps != nil {
		if at := w.nextTick(); !at.IsZero() {
			offer(at, func() error { w.tick(); return nil })
		}
		if !w.nextFire.IsZero() {
			offer(w.nextFire, w.fire)
		}
		if at, ok := w.steps.Held(); ok {
			offer(at, func() error { w.steps.Call(); return nil })
		}
	}
	if at, ok := w.runs.nextEnd(); ok {
		offer(at, w.end)
	}
	return first
}

func (w *world) pause() error {
	p := w.pauses[0]
	w.pauses = w.pauses[1:]
	_, err := w.users.Pause(w.ctx, registrar.PauseInput{ScheduleID: p.scheduleID, Note: "simulated", Until: p.Until})
	w.wake()
	return err
}

// die kills the worker: runs that it holds are never sent to the executor.
func (w *world) die() error {
	w.steps, w.nextFire = nil, time.Time{}
	return nil
}

func (w *world) recover() error {
	w.outages = w.outages[1:]
	if w.down(w.now()) {
		return nil // the next outage begins at the end of this one
	}
	return w.start()
}

func (w *world) fire() (err error) {
	w.nextFire, err = w.steps.Fire()
	if next := w.ledger.NextPlanned(w.steps.LoadedUntil()); !next.IsZero() {
		if enters := next.Add(-worker.Window / 2); w.nextFire.IsZero() || enters.Before(w.nextFire) {
			w.nextFire = enters // the worker loads it then
		}
	}
	return err
}

// end reports the next run that ends.
func (w *world) end() error {
	e := w.runs.popEnd()
	err := w.users.ReportOutcome(w.ctx, schedule.ExecutorReport{Key: e.key, Status: e.status, ErrorCode: e.code})
	w.wake()
	return err
}

// wake starts a claim pass, as the ledger does after writes of others.
func (w *world) wake() {
	if w.steps != nil {
		w.nextFire = w.now()
	}
}
