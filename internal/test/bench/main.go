// Command bench measures Carillon and other schedulers with the same work:
// docs/benchmarks.md.
//
//	bench burst -n 10000 -runs 3 -systems carillon,river-tuned -out lines.jsonl
//	bench table -columns p50_ms,p99_ms lines.jsonl
//	bench steps steps.txt
//	bench merge -out default.pgo profiles/*.pprof
//
// DATABASE_URL (or TEST_DATABASE_URL) is a Postgres where it may make databases.
// The environment also sets the product's own settings, e.g. MAX_LAUNCHES.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/carillon/carillon/internal/test/bench/database"
	"github.com/carillon/carillon/internal/test/bench/peers"
	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// children is what this program is when the harness starts it again.
var children = map[string]func(context.Context) error{
	site.Kind:        site.Serve,
	site.KindSink:    site.ServeSink,
	peers.KindRiver:  peers.ServeRiver,
	peers.KindNull:   peers.ServeNull,
	peers.KindRobfig: peers.ServeRobfig,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	run := func(ctx context.Context) error { return harness(ctx, os.Args[1:]) }
	if kind := proc.Kind(); kind != "" {
		run = children[kind]
	}
	if err := run(ctx); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func harness(ctx context.Context, args []string) (err error) {
	if len(args) > 1 {
		switch args[0] {
		case "table", "steps":
			return tables(args[0], args[1:])
		case "merge":
			return merge(args[1:])
		}
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	var server map[string]string
	if o.serverURL != "" {
		if server, err = database.Server(ctx, o.serverURL); err != nil {
			return err
		}
	}
	if o.systems, err = o.present(ctx); err != nil {
		return err
	}
	kept := io.Discard
	if o.out != "" {
		file, err := os.OpenFile(o.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer file.Close()
		kept = file
	}
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return err
		}
	}
	machine := report.ThisMachine(version, server)
	machine.Versions["graphile-worker"] = peers.GraphileVersion
	w := report.New(os.Stdout, kept, machine)
	err = workloads[o.workload].run(ctx, o, w)
	return errors.Join(err, w.Table()) // what was measured before an error counts all the same
}

// version of the product, as the Makefile says it.
var version = "unknown"

// tables prints what files hold: `table` the lines that -out has kept, of any
// number of runs, and with -columns as Markdown; `steps` what `make bench
// WORKLOADS=steps` printed.
func tables(what string, args []string) error {
	f := flag.NewFlagSet("bench "+what, flag.ContinueOnError)
	columns := f.String("columns", "", "table: Markdown, with these figures, between commas")
	if err := f.Parse(args); err != nil {
		return err
	}
	w := report.New(os.Stdout, io.Discard, report.Machine{})
	for _, path := range f.Args() {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		if what == "steps" {
			err = report.Steps(file, os.Stdout)
		} else {
			err = w.Read(file)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if *columns != "" {
		return w.Markdown(strings.Split(*columns, ","))
	}
	return w.Table()
}

// merge combines the CPU profiles of -profile into the compiler's profile.
func merge(args []string) error {
	f := flag.NewFlagSet("bench merge", flag.ContinueOnError)
	out := f.String("out", "default.pgo", "where the merged profile goes")
	if err := f.Parse(args); err != nil {
		return err
	}
	merged, err := proc.Merge(f.Args())
	if err != nil {
		return err
	}
	file, err := os.Create(*out)
	if err != nil {
		return err
	}
	return errors.Join(merged.Write(file), file.Close())
}
