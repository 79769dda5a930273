// Command bench measures Carillon, and other schedulers beside it, on the same
// work, in turn: docs/benchmarks.md.
//
//	bench herd -n 10000 -runs 3 -systems carillon,river-tuned -out lines.jsonl
//	bench table lines.jsonl
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
	"syscall"

	"github.com/carillon/carillon/internal/bench/database"
	"github.com/carillon/carillon/internal/bench/peers"
	"github.com/carillon/carillon/internal/bench/proc"
	"github.com/carillon/carillon/internal/bench/report"
	"github.com/carillon/carillon/internal/bench/site"
)

// children is what this program is when the harness starts it again.
var children = map[string]func(context.Context) error{
	site.Kind:        site.Serve,
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
	if len(args) > 1 && args[0] == "table" {
		return table(args[1:])
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
	w := report.New(os.Stdout, kept, report.ThisMachine(version, server))
	err = workloads[o.workload].run(ctx, o, w)
	return errors.Join(err, w.Table()) // what was measured before an error counts all the same
}

// version of the product, as the Makefile says it.
var version = "unknown"

// table prints the table of lines that -out has kept, of any number of runs.
func table(files []string) error {
	w := report.New(os.Stdout, io.Discard, report.Machine{})
	for _, path := range files {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		if err := errors.Join(w.Read(file), file.Close()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return w.Table()
}
