package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/test/chaos/check"
	"github.com/carillon/carillon/internal/test/chaos/record"
)

// Options are what one run is asked for.
type Options struct {
	Dose    string
	Seed    uint64
	Faults  int
	Folder  string
	Results string
	Binary  string // of the product; built when it is empty
	Overlay string // of the build
	Oracle  string // set by build
	Out     io.Writer
}

// errInterrupted is all that a run says which was told to end: what it left
// behind is half a run, and no fault of the product.
var errInterrupted = errors.New("interrupted")

// Run runs one dose and checks it, unless ctx ends before it has ended.
func Run(ctx context.Context, o Options) (*check.Report, error) {
	d, known := chosen(o.Dose)
	if !known {
		return nil, fmt.Errorf("the dose %q is not one of %s", o.Dose, names())
	}
	if o.Faults == 0 {
		o.Faults = d.faults
	}
	kept := o.Folder != ""
	if !kept {
		var err error
		if o.Folder, err = os.MkdirTemp("", "carillon-chaos-"); err != nil {
			return nil, err
		}
	}
	_, _ = fmt.Fprintf(o.Out, "dose %s, %d faults, on %s with lock %s and queue %s; seed %d repeats these faults; the evidence is in %s\n",
		d.name, o.Faults, d.store, d.lock, d.queue, o.Seed, o.Folder)
	err := build(ctx, o.Folder, &o)
	var report *check.Report
	if err == nil {
		report, err = runDose(ctx, d, o)
	}
	if report == nil && ctx.Err() != nil {
		err = errInterrupted
		if !kept {
			err = errors.Join(err, os.RemoveAll(o.Folder))
		}
		return nil, err
	}
	err = errors.Join(err, os.RemoveAll(filepath.Join(o.Folder, binaries)))
	if report != nil {
		report.Print(o.Out)
		err = errors.Join(err, keep(o, d, report, err))
	}
	if err == nil && len(report.Violations) == 0 && !kept {
		err = os.RemoveAll(o.Folder)
	}
	return report, err
}

// runDose lets the deployment live through the dose, and has the evidence
// checked, also when it could not be lived to its end.
func runDose(ctx context.Context, d dose, o Options) (*check.Report, error) {
	s := &site{dose: d, folder: o.Folder}
	settings, err := json.MarshalIndent(d.settings(o.Seed), "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(o.Folder, record.SettingsFile), settings, 0o644); err != nil {
		return nil, err
	}
	broken := func() error {
		defer s.end()
		if err := s.build(ctx, o); err != nil {
			return fmt.Errorf("start the deployment: %w", err)
		}
		err := s.live(ctx, o)
		return errors.Join(err, s.dump(ctx))
	}()
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	evidence, err := check.Load(o.Folder)
	if err != nil {
		return nil, errors.Join(broken, err)
	}
	return check.Run(evidence), broken
}

// live registers, breaks and heals, ends everything and waits until nothing is
// in flight.
func (s *site) live(ctx context.Context, o Options) error {
	journal, err := record.NewWriter(s.folder, record.JournalFile)
	if err != nil {
		return err
	}
	defer journal.Close()
	timeline, err := record.NewWriter(s.folder, record.FaultsFile)
	if err != nil {
		return err
	}
	defer timeline.Close()
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	var group errgroup.Group
	group.Go(func() error { return timeline.Write(watchClock(watching)) })
	group.Go(func() error { return s.watchView(watching) })

	open, err := s.hold(ctx)
	if err != nil {
		return err
	}
	p := &people{site: s, journal: journal, random: rand.New(rand.NewPCG(o.Seed, 0x9e09)), known: make(map[string]*known)}
	if err := p.begin(ctx); err != nil {
		return err
	}
	meddlers := []meddler{p.meddle}
	if s.dose.jobs {
		c, err := newClients(p, o.Seed)
		if err != nil {
			return err
		}
		defer c.journal.Close()
		if err := c.begin(ctx); err != nil {
			return err
		}
		h, err := newHolders(p, o.Seed)
		if err != nil {
			return err
		}
		defer h.journal.Close()
		meddlers = append(meddlers, c.work, h.work)
	}
	err = s.suffer(ctx, o, meddlers, timeline)
	err = errors.Join(err, timeline.Write(record.Fault{Kind: record.Stopped, Began: time.Now()}), p.stop(ctx), s.drain(ctx))
	sleep(ctx, afterDrain)
	unwatch()
	return errors.Join(err, group.Wait(), open.letGo(ctx))
}

func (p *people) begin(ctx context.Context) error {
	if err := p.deploy(ctx); err != nil {
		return err
	}
	for _, d := range workload(time.Now(), p.site.dose.probes, p.site.dose.runTimeout) {
		register := func() error { return p.upsert(ctx, d, false) }
		if d.ScheduleID == "" {
			register = func() error { return p.request(ctx, d, "registered-by-this") }
		}
		if err := register(); err != nil {
			return err
		}
	}
	_, err := p.site.flows(ctx, time.Now(), 0, p.site.allShards())
	return err
}

// meddler changes things until ctx ends; what it has begun it ends while working lasts.
type meddler func(ctx, working context.Context) error

// suffer strikes one fault after the other while people change things.
func (s *site) suffer(ctx context.Context, o Options, meddlers []meddler, timeline *record.Writer) error {
	meddling, enough := context.WithCancel(ctx)
	defer enough()
	var group errgroup.Group
	for _, meddle := range meddlers {
		group.Go(func() error { return meddle(meddling, ctx) })
	}
	steps := plan(s.dose, o.Seed, o.Faults)
	var problem error
	for i, st := range steps {
		sleep(ctx, st.rest)
		f, err := s.strike(ctx, st)
		if !f.Began.IsZero() {
			problem = errors.Join(problem, timeline.Write(f))
		}
		if problem = errors.Join(problem, err, ctx.Err()); problem != nil {
			break
		}
		if (i+1)%20 == 0 {
			_, _ = fmt.Fprintf(o.Out, "%s: %d of %d faults\n", time.Now().UTC().Format(time.TimeOnly), i+1, len(steps))
		}
	}
	sleep(ctx, lastRest)
	enough()
	return errors.Join(problem, group.Wait())
}

// lastRest is for what the last fault has left behind.
const lastRest = 3 * time.Second

// afterDrain is for the evaluation of failures, which runs every two seconds.
const afterDrain = 5 * time.Second

func (s *site) drain(ctx context.Context) error {
	bound := 3 * s.dose.runTimeout
	if s.dose.jobs { // runs wait behind each other
		bound = max(bound, 3*time.Minute)
	}
	return within(ctx, bound, "no run is in flight", func() error {
		n, err := s.inFlight(ctx)
		if err == nil && n > 0 {
			err = fmt.Errorf("%d runs have not ended", n)
		}
		return err
	})
}

// watchClock measures until ctx ends how far somebody set the wall clock
// against the monotonic one, and how long the machine kept us waiting.
func watchClock(ctx context.Context) record.Fault {
	began := time.Now()
	f := record.Fault{Kind: record.Clock, Began: began}
	var high, low time.Duration
	const every = 50 * time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for last := began; ; {
		select {
		case <-ctx.Done():
			f.Ended = time.Now()
			return f
		case <-ticker.C:
			now := time.Now()
			offset := now.Round(0).Sub(began.Round(0)) - now.Sub(began)
			high, low = max(high, offset), min(low, offset)
			f.Rose, f.Fell = max(f.Rose, offset-low), max(f.Fell, high-offset)
			f.Stall = max(f.Stall, now.Sub(last)-every)
			last = now
		}
	}
}
