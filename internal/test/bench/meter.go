package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/record"
	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// meter watches one piece of work.
type meter struct {
	s     system
	work  record.Work
	o     options
	label string

	queue       queuer // nil: the work begins by itself
	maxInFlight int    // of the queue
	released    time.Time
	disorder    int

	planned        int
	verdict        record.Verdict
	settled        int
	ends           map[string]int // how the slots stand, where not all are settled
	last           time.Time      // the stamp of the last outcome
	seen           time.Time      // when all outcomes were found in the ledger, which was looked at so often
	scheduler, sql proc.Usage
	others         float64              // CPU seconds that neither took, nor the harness
	stalled        time.Time            // when the stall of -stall was over
	recovered      time.Duration        // after it
	took           time.Duration        // from three seconds before the first instant to the end
	steps          map[string]site.Step // of Carillon's workers in that time
}

// run waits for the instants, then until every slot has ended, and looks what
// the executors saw.
func (m *meter) run(ctx context.Context) error {
	if err := sleepUntil(ctx, m.work.First.Add(-3*time.Second)); err != nil {
		return err
	}
	var err error
	if m.planned, err = m.s.Planned(ctx, m.work); err != nil {
		return err
	}
	began := time.Now()
	scheduler, sql, err := m.usage()
	if err != nil {
		return err
	}
	others, err := othersOf(scheduler, sql)
	if err != nil {
		return err
	}
	steps, err := stepsOf(ctx, m.s)
	if err != nil {
		return err
	}
	if err := m.watch(ctx); err != nil {
		return err
	}
	if err := m.release(ctx); err != nil {
		return err
	}
	if err := m.stall(ctx); err != nil {
		return err
	}
	if err := m.awaitAll(ctx); err != nil {
		return err
	}
	if err := m.endWatch(ctx); err != nil {
		return err
	}
	schedulerAfter, sqlAfter, err := m.usage()
	if err != nil {
		return err
	}
	othersAfter, err := othersOf(schedulerAfter, sqlAfter)
	if err != nil {
		return err
	}
	m.took, m.scheduler, m.sql, m.others = time.Since(began), schedulerAfter.Sub(scheduler), sqlAfter.Sub(sql), othersAfter-others
	if m.steps, err = stepsSince(ctx, m.s, steps); err != nil {
		return err
	}
	calls, err := m.s.Calls()
	if err != nil {
		return err
	}
	m.evaluate(calls)
	if m.settled < m.work.Slots() {
		m.ends, err = m.s.Ends(ctx, m.work)
	}
	return err
}

// evaluate compares the calls with the work. Jobs of a queue are due when it is resumed.
func (m *meter) evaluate(calls []record.Call) {
	if m.queue != nil {
		m.disorder = record.OutOfOrder(calls, m.queue.Place, m.maxInFlight)
		m.verdict = record.Evaluate(record.Since(calls, m.released), record.Work{N: m.work.N, Rounds: 1, First: m.released})
		return
	}
	m.verdict = record.Evaluate(calls, m.work)
	m.recovered = record.Recovered(calls, m.work, m.stalled, heldWellWith*time.Millisecond)
}

// release lets the jobs of a queue run.
func (m *meter) release(ctx context.Context) error {
	if m.queue == nil {
		return nil
	}
	m.released = time.Now()
	return m.queue.Resume(ctx)
}

// due is the instant that ends are measured from.
func (m *meter) due() time.Time {
	if m.queue != nil {
		return m.released
	}
	return m.work.Last()
}

// stall keeps every transaction from runs that are not over, for -stall, in the middle of
// the stream.
func (m *meter) stall(ctx context.Context) error {
	if m.o.stall == 0 {
		return nil
	}
	if err := sleepUntil(ctx, m.work.First.Add(m.work.Last().Sub(m.work.First)/2)); err != nil {
		return err
	}
	err := m.s.Database().Lock(ctx, "open_runs", m.o.stall)
	m.stalled = time.Now()
	return err
}

// skippedSlots names the slots that Carillon did not launch because the one
// before was still in flight (skippedEnd): nothing was lost, and all the same
// not every slot was called.
const (
	skippedSlots = "skipped"
	skippedEnd   = "SKIPPED(overlap)"
)

// watch begins what -profile and -statements ask for.
func (m *meter) watch(ctx context.Context) error {
	if db := m.s.Database(); m.o.statements && db != nil {
		if err := db.Recount(ctx); err != nil {
			return err
		}
	}
	for _, c := range m.s.Scheduler() {
		if err := c.Profile(m.o.profile, m.label); err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) endWatch(ctx context.Context) error {
	for _, c := range m.s.Scheduler() {
		if err := c.EndProfile(); err != nil {
			return err
		}
	}
	if db := m.s.Database(); m.o.statements && db != nil {
		return db.Statements(ctx, os.Stderr, m.label)
	}
	return nil
}

// look is how often the harness asks whether all is done: of the executors'
// record first, which costs the database nothing; then of the ledger, which it
// lets rest for restFor times as long as it was busy with the answer.
const (
	look    = 20 * time.Millisecond
	restFor = 10
)

func (m *meter) awaitAll(ctx context.Context) error {
	end := m.work.Last().Add(m.o.timeout)
	pause := m.work.Last().Add(look)
	for {
		if err := sleepUntil(ctx, pause); err != nil {
			return err
		}
		pause = time.Now().Add(look)
		called, err := m.s.Called()
		if err != nil {
			return err
		}
		late := time.Now().After(end)
		if called < m.work.Slots() && !late {
			continue
		}
		asked := time.Now()
		if m.settled, m.last, err = m.s.Settled(ctx, m.work); err != nil {
			return err
		}
		m.seen = time.Now()
		if m.settled >= m.work.Slots() || late {
			return nil
		}
		pause = m.seen.Add(max(look, restFor*m.seen.Sub(asked)))
	}
}

// othersOf returns the CPU of other processes during a run. If it is not small, the run's
// figures mean little.
func othersOf(scheduler, sql proc.Usage) (float64, error) {
	busy, err := proc.Busy()
	if err != nil {
		return 0, err
	}
	self, err := proc.Self()
	return busy - self.CPU - scheduler.CPU - sql.CPU, err
}

// usage of the scheduler's processes, and of the database server.
func (m *meter) usage() (scheduler, sql proc.Usage, err error) {
	for _, c := range m.s.Scheduler() {
		u, err := c.Usage()
		if err != nil {
			return scheduler, sql, err
		}
		scheduler = scheduler.Add(u)
	}
	if db := m.s.Database(); db != nil {
		sql, err = db.Usage()
	}
	return scheduler, sql, err
}

// line is the run as it is reported.
func (m *meter) line() report.Line {
	v, skipped := m.verdict, m.ends[skippedEnd]
	l := report.Line{
		Figures: map[string]float64{
			"p50_ms": v.P50, "p99_ms": v.P99, "max_ms": v.Max,
			"rss_mb": float64(m.scheduler.RSS >> 20),
		},
		Bad: map[string]int{
			"lost": max(0, v.Lost-skipped), "doubled": v.Doubled, "early": v.Early, "strange": v.Strange,
			skippedSlots: skipped, "unsettled": max(0, m.work.Slots()-m.settled-skipped),
		},
		Settings: given(), Ledger: m.ends,
	}
	if m.settled > 0 && m.s.Database() != nil || !m.last.IsZero() {
		l.Figures["settled_seen_ms"] = millis(m.seen.Sub(m.due()))
	}
	if m.settled > 0 && !m.last.IsZero() { // graphile-worker keeps no stamp
		l.Figures["settled_ms"] = millis(m.last.Sub(m.due()))
	}
	if m.queue != nil {
		l.Bad["out of order"] = m.disorder
	}
	cpu, per := "cpu_s", 1.0
	if m.work.Rounds > 1 {
		cpu, per = "cpu_s_a_minute", float64(time.Minute)/float64(m.took)
	}
	l.Figures[cpu] = m.scheduler.CPU * per
	l.Figures["others_"+cpu] = m.others * per
	if m.s.Database() != nil {
		l.Figures["postgres_"+cpu] = m.sql.CPU * per
	}
	if !m.stalled.IsZero() {
		l.Figures["recovered_ms"] = millis(m.recovered)
	}
	if m.planned > 0 {
		l.Figures["planned_ahead"] = float64(m.planned)
	}
	maps.Copy(l.Settings, map[string]string{"spec": m.o.spec, "overlap": m.o.overlap, "owners": fmt.Sprint(m.o.owners)})
	for name, n := range map[string]int{"workers": m.o.workers, "launchers": m.o.launchers, "shards": m.o.shards} {
		if n > 1 {
			l.Settings[name] = fmt.Sprint(n)
		}
	}
	return l
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// stepsOf are the passes of Carillon's workers so far; nil for other systems.
func stepsOf(ctx context.Context, s system) (map[string]site.Step, error) {
	c, ok := s.(*site.Site)
	if !ok {
		return nil, nil
	}
	return c.Steps(ctx)
}

func stepsSince(ctx context.Context, s system, earlier map[string]site.Step) (map[string]site.Step, error) {
	later, err := stepsOf(ctx, s)
	for name, step := range later {
		later[name] = step.Sub(earlier[name])
	}
	return later, err
}

// addSteps puts the passes into the figures: their mean, and the bound that all
// but one in a hundred stayed below.
func addSteps(figures map[string]float64, steps map[string]site.Step) {
	for name, step := range steps {
		if step.Count > 0 {
			figures[name+"_ms"], figures[name+"_p99_within_ms"] = step.Mean(), step.AtMost(.99)
		}
	}
}

// sleepUntil waits for an instant, or for the end of the harness.
func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
