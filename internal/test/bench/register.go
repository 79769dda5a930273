package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// connections is how many clients register schedules one by one.
const connections = 32

// register has N schedules registered by ApplySchedules, in sets of at most
// 5,000, the same again without a change, and as many one by one.
func register(ctx context.Context, o options, w *report.Writer) error {
	return eachRun(o, "register", w, func(name string, n, run int) (line report.Line, err error) {
		s, err := start(ctx, o, name)
		if err != nil {
			return line, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		c, ok := s.(*site.Site)
		if !ok {
			return line, fmt.Errorf("register is for carillon and carillon-sqlite")
		}
		if err := s.Warm(ctx, o.warm); err != nil {
			return line, err
		}
		line = report.Line{Settings: given(), Figures: make(map[string]float64)}
		define := c.Daily()
		for _, part := range []struct {
			figure string
			do     func() error
		}{
			{"applied", func() error { return c.Register(ctx, "set-", n, define) }},
			{"applied_unchanged", func() error { return c.Register(ctx, "set-", n, define) }},
			{"upserted", func() error {
				took, err := c.Upsert(ctx, n, connections)
				if err == nil {
					line.Figures["upsert_p50_ms"], line.Figures["upsert_p99_ms"] = millis(took[len(took)/2]), millis(took[len(took)*99/100])
				}
				return err
			}},
		} {
			m := &meter{s: registering{c}, o: o, label: fmt.Sprintf("register-%s-%d-%d", part.figure, n, run)}
			if err := m.watch(ctx); err != nil {
				return line, err
			}
			began := time.Now()
			if err := part.do(); err != nil {
				return line, err
			}
			line.Figures[part.figure+"_a_second"] = float64(n) / time.Since(began).Seconds()
			if err := m.endWatch(ctx); err != nil {
				return line, err
			}
		}
		return line, nil
	})
}

// registering is a site whose registrar is watched too.
type registering struct{ *site.Site }

// Scheduler are all the processes of the site.
func (s registering) Scheduler() []*proc.Child {
	all := s.Site.Scheduler()
	if r := s.Registrar(); r != nil {
		all = append(all, r)
	}
	return all
}
