package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/carillon/carillon/internal/bench/proc"
	"github.com/carillon/carillon/internal/bench/record"
	"github.com/carillon/carillon/internal/bench/report"
)

// herd has N slots fall due at one instant, for each system in turn.
func herd(ctx context.Context, o options, w *report.Writer) error {
	for _, n := range o.ns {
		for run := range o.runs {
			for _, name := range o.systems {
				line, err := once(ctx, o, name, run+1, record.Work{N: n, Rounds: 1})
				if err != nil {
					return fmt.Errorf("herd of %d, %s: %w", n, name, err)
				}
				line.Workload = "herd"
				if err := w.Add(line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// once starts a system, gives it the work and judges it.
func once(ctx context.Context, o options, name string, run int, work record.Work) (line report.Line, err error) {
	s, err := systems[name](ctx, o, databaseName(name, run))
	if err != nil {
		return line, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	slots := work.N
	if name != "carillon" && name != "carillon-sqlite" && name != "robfig" {
		slots = work.Slots() // each is a row of its own
	}
	work.First = time.Now().Add(o.before + time.Duration(slots)*time.Second/time.Duration(s.LoadRate())).Truncate(time.Second).Add(time.Second)
	began := time.Now()
	if err := s.Load(ctx, work); err != nil {
		return line, err
	}
	m := &meter{s: s, work: work, o: o, label: fmt.Sprintf("%s-%d-%d", name, work.N, run)}
	if left := time.Until(work.First); left < o.before/2 {
		return line, fmt.Errorf("loading took %s and left %s before the first instant: too little for a fair start", time.Since(began), left)
	}
	loaded := time.Since(began)
	if err := m.run(ctx); err != nil {
		return line, err
	}
	line = m.line()
	line.System, line.N, line.Run = name, work.N, run
	line.Figures["load_s"] = loaded.Seconds()
	if o.strict && line.Wrong() {
		return line, fmt.Errorf("not all %d slots were called once, in time, and settled: %v", work.Slots(), line.Bad)
	}
	return line, nil
}

// meter watches one piece of work.
type meter struct {
	s     system
	work  record.Work
	o     options
	label string

	planned        int
	verdict        record.Verdict
	settled        int
	last           time.Time // the stamp of the last outcome
	seen           time.Time // when all outcomes were found in the ledger, which was looked at so often
	scheduler, sql proc.Usage
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
	scheduler, sql, err := m.usage()
	if err != nil {
		return err
	}
	if err := m.profile((*proc.Child).Profile); err != nil {
		return err
	}
	if err := m.awaitAll(ctx); err != nil {
		return err
	}
	if err := m.profile(func(c *proc.Child, _, _ string) error { return c.EndProfile() }); err != nil {
		return err
	}
	schedulerAfter, sqlAfter, err := m.usage()
	if err != nil {
		return err
	}
	m.scheduler, m.sql = schedulerAfter.Sub(scheduler), sqlAfter.Sub(sql)
	calls, err := m.s.Calls()
	if err != nil {
		return err
	}
	m.verdict = record.Judge(calls, m.work)
	return nil
}

func (m *meter) profile(do func(c *proc.Child, folder, label string) error) error {
	if m.o.profile == "" {
		return nil
	}
	for _, c := range m.s.Scheduler() {
		if err := do(c, m.o.profile, m.label); err != nil {
			return err
		}
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
	end := m.work.Last().Add(m.o.patience)
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
	v := m.verdict
	l := report.Line{
		Figures: map[string]float64{
			"p50_ms": v.P50, "p99_ms": v.P99, "max_ms": v.Max,
			"cpu_s": m.scheduler.CPU, "rss_mb": float64(m.scheduler.RSS >> 20),
		},
		Bad: map[string]int{
			"lost": v.Lost, "doubled": v.Doubled, "early": v.Early, "strange": v.Strange, "unsettled": max(0, m.work.Slots()-m.settled),
		},
		Settings: given(),
	}
	if !m.last.IsZero() && m.settled > 0 {
		l.Figures["settled_ms"] = millis(m.last.Sub(m.work.Last()))
		l.Figures["settled_seen_ms"] = millis(m.seen.Sub(m.work.Last()))
	}
	if m.s.Database() != nil {
		l.Figures["postgres_cpu_s"] = m.sql.CPU
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

// version of the product, as the Makefile says it.
func version() string { return os.Getenv("VERSION") }
