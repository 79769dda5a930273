package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/test/bench/database"
	"github.com/carillon/carillon/internal/test/bench/peers"
	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/record"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// system is one scheduler on a fresh database, with nothing to do yet.
type system interface {
	LoadRate() int                                     // slots (of a burst) a second that Load takes at the least
	Tail() time.Duration                               // how long a stream must go on after it, for a fair measure of it
	Warm(ctx context.Context, n int) error             // n slots run and are forgotten
	Sleep(ctx context.Context, n int) error            // n slots that are not due for hours
	Load(ctx context.Context, work record.Work) error  // the scheduler knows the slots, durably where it keeps anything
	Planned(context.Context, record.Work) (int, error) // slots that are rows ahead of their instant
	Called() (int, error)
	Calls() ([]record.Call, error)
	Settled(context.Context, record.Work) (n int, last time.Time, err error)
	Ends(context.Context, record.Work) (map[string]int, error) // slots by how they stand
	Scheduler() []*proc.Child
	Database() *database.Database
	Close() error
}

// kind is a system that can be started.
type kind struct {
	install func(ctx context.Context, o options) error                        // before the first run; nil: there is nothing to install
	start   func(ctx context.Context, o options, name string) (system, error) // name is that of its database
	perSlot bool                                                              // a stream is a row for each slot beforehand, not one for each schedule
}

var systems = map[string]kind{
	"carillon": {start: func(ctx context.Context, o options, name string) (system, error) {
		return site.New(ctx, name, o.site())
	}},
	"carillon-sqlite":           {start: newOnSQLite},
	"river-tuned":               {start: river(peers.RiverTuned, false, false), perSlot: true},
	"river-default":             {start: river(peers.RiverDefault, false, false), perSlot: true},
	"river-tuned-grpc":          {start: river(peers.RiverTuned, false, true), perSlot: true},
	"river-tuned-periodic":      {start: river(peers.RiverTuned, true, false)},
	"river-tuned-periodic-grpc": {start: river(peers.RiverTuned, true, true)},
	"river-default-periodic":    {start: river(peers.RiverDefault, true, false)},
	"graphile-tuned":            {install: installGraphile, start: graphile(peers.GraphileTuned), perSlot: true},
	"graphile-default":          {install: installGraphile, start: graphile(peers.GraphileDefault), perSlot: true},
	"robfig":                    {start: func(context.Context, options, string) (system, error) { return peers.NewRobfig() }},
}

func newOnSQLite(ctx context.Context, o options, name string) (system, error) {
	s := o.site()
	s.ServerURL, s.RedisURL, s.Shards = "", "", 1
	return site.New(ctx, name, s)
}

func river(tuning func() peers.RiverOptions, periodic, withLauncher bool) func(context.Context, options, string) (system, error) {
	return func(ctx context.Context, o options, name string) (system, error) {
		r := tuning()
		r.Periodic, r.Watch = periodic, o.statements
		return peers.NewRiver(ctx, o.serverURL, name, r, withLauncher)
	}
}

func graphile(preset func() peers.GraphilePreset) func(context.Context, options, string) (system, error) {
	return func(ctx context.Context, o options, name string) (system, error) {
		return peers.NewGraphile(ctx, o.serverURL, name, o.graphileFolder(), preset(), o.statements)
	}
}

func installGraphile(ctx context.Context, o options) error {
	return peers.InstallGraphile(ctx, o.graphileFolder())
}

func (o options) graphileFolder() string { return filepath.Join(o.peers, "graphile-worker") }

// present are the systems that can run on this machine; of each other it is said
// why it is left out.
func (o options) present(ctx context.Context) (names []string, err error) {
	for _, name := range o.systems {
		if install := systems[name].install; install != nil {
			err := install(ctx, o)
			if errors.Is(err, peers.ErrAbsent) {
				fmt.Fprintf(os.Stderr, "bench: %s is left out: %v\n", name, err)
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("install %s: %w", name, err)
			}
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("-systems: none of %s can run here", strings.Join(o.systems, ", "))
	}
	return names, nil
}

// systemNames lists what -systems knows.
func systemNames() []string {
	var names []string
	for name := range systems {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// given are the settings of the product that the environment sets: a run that
// was measured with them says so.
func given() map[string]string {
	out := make(map[string]string)
	for _, s := range app.Settings() {
		if value, there := os.LookupEnv(s.Name); there && !s.Secret {
			out[s.Name] = value
		}
	}
	return out
}

// numbered counts the systems that were started: each has a database of its own.
var numbered atomic.Int64

// start starts a system by its name.
func start(ctx context.Context, o options, name string) (system, error) {
	return systems[name].start(ctx, o, o.databaseName())
}

// databaseName is unlike any other that may stand on the server.
func (o options) databaseName() string {
	return fmt.Sprintf("bench_%d_%s_%d", os.Getpid(), o.workload, numbered.Add(1))
}
