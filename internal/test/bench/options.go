package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// workload is one command, with defaults of its own.
type workload struct {
	run     func(context.Context, options, *report.Writer) error
	n       string
	seconds int
	timeout time.Duration
}

var workloads = map[string]workload{
	"burst":      {run: burst, n: "1000,10000", timeout: 2 * time.Minute},
	"sustained":  {run: sustained, n: "2000", seconds: 20, timeout: 30 * time.Second},
	"idle":       {run: idle, n: "1000,1000000", seconds: 60},
	"register":   {run: register, n: "5000"},
	"neighbours": {run: neighbours, n: "10", seconds: 30, timeout: 30 * time.Second},
	"drain":      {run: drain, n: "100000", timeout: 5 * time.Minute},
	"jobs":       {run: jobs, n: "2000", seconds: 30, timeout: 30 * time.Second},
	"keys":       {run: keys, n: "10000", timeout: time.Minute},
	"fair":       {run: fair, n: "5", seconds: 30, timeout: 30 * time.Second},
	"redrive":    {run: redrive, n: "10000", timeout: 2 * time.Minute},
	"slots":      {run: slots, n: "40", seconds: 20, timeout: 30 * time.Second},
	"growth":     {run: growth, n: "1000,10000,100000,1000000", seconds: 1, timeout: time.Minute},
	"console":    {run: console, n: "50000"},
	"shards":     {run: shards, n: "10000", timeout: time.Minute},
}

// options of one workload's command.
type options struct {
	workload string
	ns       []int
	runs     int
	seconds  int
	systems  []string
	timeout  time.Duration
	before   time.Duration
	warm     int
	strict   bool
	profile  string
	out      string

	statements bool

	stall  time.Duration
	search bool
	factor float64
	most   int
	budget time.Duration

	peers string

	busy time.Duration

	backlog int
	hold    bool
	pace    time.Duration
	limit   int // of a limit that every job uses

	burst, ledger, expired int
	shapes                 []shape

	serverURL, redisURL string

	spec, overlap      string
	history            string // of the queue that is drained
	open, beside       int    // expensive calls that neighbours keeps open; in this run
	together           bool   // all roles in one process, on Postgres too
	workers, launchers int
	shards, owners     int
}

// site is Carillon as the options have it.
func (o options) site() site.Options {
	return site.Options{
		ServerURL: o.serverURL, RedisURL: o.redis(), Workers: o.workers, Launchers: o.launchers, Shards: o.shards,
		Spec: o.spec, Overlap: o.overlap, Owners: o.owners, Watch: o.statements, Together: o.together,
		History: o.history, Limit: o.limit, Fair: o.workload == "fair",
		Sink: slices.Contains([]string{"drain", "slots", "jobs", "keys", "fair", "redrive"}, o.workload),
	}
}

// redis is a Redis database that the run before had no part in; a server has 16
// unless it was told otherwise, and the first is somebody's.
func (o options) redis() string {
	u, err := url.Parse(o.redisURL)
	if o.redisURL == "" || err != nil {
		return o.redisURL
	}
	u.Path = fmt.Sprint("/", 1+numbered.Load()%15)
	return u.String()
}

func parse(args []string) (options, error) {
	names := make([]string, 0, len(workloads))
	for name := range workloads {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(args) == 0 || workloads[args[0]].run == nil {
		return options{}, fmt.Errorf("which workload? bench %s [flags], or: bench table [-columns NAME,…] FILE…, or: bench steps FILE…, or: bench merge [-out FILE] PROFILE…", strings.Join(names, "|"))
	}
	o := options{workload: args[0], serverURL: os.Getenv("DATABASE_URL")}
	if o.serverURL == "" {
		o.serverURL = os.Getenv("TEST_DATABASE_URL")
	}
	var ns, chosen, shapes string
	var queue bool
	f := flag.NewFlagSet("bench "+o.workload, flag.ContinueOnError)
	f.StringVar(&ns, "n", workloads[o.workload].n, "how many slots, schedules or jobs, or slots a second; several between commas")
	f.StringVar(&chosen, "systems", "carillon", "which, between commas: "+strings.Join(systemNames(), ", "))
	f.BoolVar(&queue, "queue", false, "LAUNCH_QUEUE=redis between Carillon's processes, at TEST_REDIS_URL")
	f.StringVar(&shapes, "shapes", "1/1/1,2/1/1,2/2/1,2/2/2,4/4/1,4/4/4,8/2/2,8/4/1,8/4/4", "shards: which deployments, as shards/workers/launchers")
	o.flags(f)
	if err := f.Parse(args[1:]); err != nil {
		return o, err
	}
	if queue {
		o.redisURL = os.Getenv("TEST_REDIS_URL")
	}
	o.systems = strings.Split(chosen, ",")
	for text := range strings.SplitSeq(ns, ",") {
		n, err := strconv.Atoi(strings.ReplaceAll(text, "_", ""))
		if err != nil || n < 1 {
			return o, fmt.Errorf("-n: %q is no number of slots, e.g. 1000,10000", text)
		}
		o.ns = append(o.ns, n)
	}
	var err error
	if o.shapes, err = parseShapes(shapes); err != nil {
		return o, err
	}
	return o, o.check(queue)
}

func (o *options) flags(f *flag.FlagSet) {
	d := workloads[o.workload]
	f.IntVar(&o.runs, "runs", 3, "how often; the systems take turns")
	f.DurationVar(&o.before, "before", 10*time.Second, "between loading and measuring: leaders are elected, slots are planned")
	f.IntVar(&o.warm, "warm", 1000, "slots that have run before: connections are open, statements prepared, statistics in place; a ledger is copied from them")
	f.DurationVar(&o.timeout, "timeout", d.timeout, "how long after the last instant slots may still come")
	f.BoolVar(&o.strict, "strict", false, "fail where a slot was lost, doubled, early or not settled")
	f.StringVar(&o.profile, "profile", "", "folder for CPU profiles of the processes that are measured")
	f.BoolVar(&o.statements, "statements", false, "print the most expensive statements of each run, by pg_stat_statements")
	f.StringVar(&o.out, "out", "", "file that the JSON lines are appended to as well")
	f.StringVar(&o.overlap, "overlap", "skip", "overlap_policy of Carillon's schedules")
	f.IntVar(&o.owners, "owners", 10, "how many users they belong to, in turn")
	f.IntVar(&o.workers, "workers", 1, "worker processes of Carillon")
	f.IntVar(&o.launchers, "launchers", 1, "launcher processes of Carillon")
	f.IntVar(&o.shards, "shards", 1, "SHARDS of Carillon")
	f.IntVar(&o.open, "open", 30, "neighbours: how many expensive calls one caller keeps open")
	f.StringVar(&o.spec, "spec", "cron", "what a burst's schedules are: cron (daily at the instant) or once (once_at)")
	f.IntVar(&o.seconds, "seconds", max(d.seconds, 1), "sustained, idle, neighbours, slots, jobs, fair: how long; growth: how many instants, a second apart")
	f.DurationVar(&o.stall, "stall", 0, "sustained: how long the table of open runs is locked in the middle of the stream; recovered_ms is how long after it the p99 of each second stays below 250 ms")
	f.BoolVar(&o.search, "search", false, "sustained: from -n search the highest rate that holds")
	f.Float64Var(&o.factor, "factor", 1.25, "sustained: how near the rate that held and the one that failed must be")
	f.IntVar(&o.most, "most", 1_000_000, "sustained: where the search ends")
	f.DurationVar(&o.budget, "budget", 15*time.Minute, "sustained: how long the search of one system may go on")
	f.StringVar(&o.peers, "peers", ".build/peers", "folder that peers of other languages are installed into")
	f.DurationVar(&o.busy, "busy", 5*time.Second, "slots: how long the executor takes for each job; less than EXECUTOR_TIMEOUT_MS")
	f.IntVar(&o.backlog, "backlog", 0, "jobs: how many others wait meanwhile, half of them in a paused queue and half behind a full limit")
	f.IntVar(&o.limit, "limit", 0, "drain: max_in_flight of a limit that every job uses, e.g. 5000; 0: jobs use none")
	f.BoolVar(&o.hold, "hold", false, "jobs: a transaction stays open on the database meanwhile")
	f.DurationVar(&o.pace, "pace", 10*time.Millisecond, "jobs: how far requests are apart; each has the jobs of that time")
	f.StringVar(&o.history, "history", "all", "drain, slots, jobs: what the queue keeps of Carillon's jobs: all, or failed, which counts successes by the minute")
	f.IntVar(&o.burst, "burst", 1000, "growth: slots that fall due at one instant")
	f.IntVar(&o.ledger, "ledger", 0, "growth, console: rows of history in the ledger, e.g. 10000000; console: 1000000 by default")
	f.IntVar(&o.expired, "expired", 0, "growth: how many of them are older than retention, which then deletes them")
}

// check says what cannot be run.
func (o options) check(queue bool) error {
	for _, name := range o.systems {
		if systems[name].start == nil {
			return fmt.Errorf("-systems: %q is none of %s", name, strings.Join(systemNames(), ", "))
		}
		if o.serverURL == "" && name != "carillon-sqlite" && name != "robfig" {
			return fmt.Errorf("-systems: %s needs DATABASE_URL, a Postgres where databases may be made; see `make bench`", name)
		}
	}
	onPostgres := len(o.systems) == 1 && o.systems[0] == "carillon"
	switch {
	case o.stall < 0 || o.stall > 0 && !onPostgres:
		return fmt.Errorf("-stall %s: not negative, and for -systems carillon only: it locks a table of Carillon on Postgres", o.stall)
	case o.factor <= 1:
		return fmt.Errorf("-factor: %g is not more than 1, and the search would never end", o.factor)
	case o.runs < 1 || o.seconds < 1 || o.warm < 1:
		return fmt.Errorf("-runs %d, -seconds %d, -warm %d: each is at least 1", o.runs, o.seconds, o.warm)
	case o.limit < 0 || o.limit > 0 && (o.workload != "drain" || slices.ContainsFunc(o.systems, func(name string) bool { return !strings.HasPrefix(name, "carillon") })):
		return fmt.Errorf("-limit %d: not negative, and for drain with -systems carillon and carillon-sqlite only: others have no limits", o.limit)
	case o.busy < time.Millisecond:
		return fmt.Errorf("-busy %s: at least 1ms", o.busy)
	case queue && o.redisURL == "":
		return fmt.Errorf("-queue needs TEST_REDIS_URL; see `make bench`")
	}
	return nil
}
