// Command bench measures Carillon, and other schedulers beside it, on the same
// work, in turn: docs/benchmarks.md.
//
//	bench herd -n 10000 -runs 3 -systems carillon,river-tuned
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

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

// workloads by their command.
var workloads = map[string]func(context.Context, options, *report.Writer) error{
	"herd": herd,
}

// options of one workload's command.
type options struct {
	workload string
	ns       []int
	runs     int
	systems  []string
	patience time.Duration
	before   time.Duration
	strict   bool
	profile  string
	out      string

	serverURL, redisURL string

	spec, overlap      string
	workers, launchers int
	shards, owners     int
}

// site is Carillon as the options have it.
func (o options) site() site.Options {
	return site.Options{
		ServerURL: o.serverURL, RedisURL: o.redisURL, Workers: o.workers, Launchers: o.launchers, Shards: o.shards,
		Spec: o.spec, Overlap: o.overlap, Owners: o.owners,
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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
	w := report.New(os.Stdout, kept, report.ThisMachine(version(), server))
	err = workloads[o.workload](ctx, o, w)
	return errors.Join(err, w.Table()) // what was measured before an error counts all the same
}

func parse(args []string) (options, error) {
	var o options
	names := make([]string, 0, len(workloads))
	for name := range workloads {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(args) == 0 || workloads[args[0]] == nil {
		return o, fmt.Errorf("which workload? bench %s [flags]", strings.Join(names, "|"))
	}
	o.workload = args[0]
	o.serverURL, o.redisURL = os.Getenv("DATABASE_URL"), os.Getenv("TEST_REDIS_URL")
	if o.serverURL == "" {
		o.serverURL = os.Getenv("TEST_DATABASE_URL")
	}
	var ns, chosen string
	var queue bool
	f := flag.NewFlagSet("bench "+o.workload, flag.ContinueOnError)
	f.StringVar(&ns, "n", "1000", "how many slots or schedules; several between commas")
	f.IntVar(&o.runs, "runs", 3, "how often; the systems take turns")
	f.StringVar(&chosen, "systems", "carillon", "which, between commas: "+strings.Join(systemNames(), ", "))
	f.DurationVar(&o.patience, "patience", 2*time.Minute, "how long after the last instant slots may still come")
	f.DurationVar(&o.before, "before", 10*time.Second, "between loading and the first instant: leaders are elected, slots are planned")
	f.BoolVar(&o.strict, "strict", false, "fail where a slot was lost, doubled, early or not settled")
	f.StringVar(&o.profile, "profile", "", "folder for CPU profiles of the processes that are measured")
	f.StringVar(&o.out, "out", "", "file that the JSON lines are appended to as well")
	f.StringVar(&o.spec, "spec", "cron", "Carillon's schedules: cron (daily at the instant) or once (once_at)")
	f.StringVar(&o.overlap, "overlap", "skip", "their overlap_policy")
	f.IntVar(&o.owners, "owners", 10, "how many users they belong to, in turn")
	f.IntVar(&o.workers, "workers", 1, "worker processes of Carillon")
	f.IntVar(&o.launchers, "launchers", 1, "launcher processes of Carillon")
	f.IntVar(&o.shards, "shards", 1, "SHARDS of Carillon")
	f.BoolVar(&queue, "queue", false, "LAUNCH_QUEUE=redis between them, at TEST_REDIS_URL")
	if err := f.Parse(args[1:]); err != nil {
		return o, err
	}
	if !queue {
		o.redisURL = ""
	}
	o.systems = strings.Split(chosen, ",")
	for text := range strings.SplitSeq(ns, ",") {
		n, err := strconv.Atoi(strings.ReplaceAll(text, "_", ""))
		if err != nil || n < 1 {
			return o, fmt.Errorf("-n: %q is no number of slots, e.g. 1000,10000", text)
		}
		o.ns = append(o.ns, n)
	}
	return o, o.check()
}

// check says what cannot be run.
func (o options) check() error {
	for _, name := range o.systems {
		if systems[name] == nil {
			return fmt.Errorf("-systems: %q is none of %s", name, strings.Join(systemNames(), ", "))
		}
		if o.serverURL == "" && name != "carillon-sqlite" && name != "robfig" {
			return fmt.Errorf("-systems: %s needs DATABASE_URL, a Postgres where databases may be made; see `make bench`", name)
		}
	}
	return nil
}
