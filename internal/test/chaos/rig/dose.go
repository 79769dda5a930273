package main

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/test/chaos/record"
)

// The kinds of faults. Those that strike the leader end a term.
const (
	killLeader     = "kill"                  // SIGKILL at a random time
	killAtPoint    = "kill at a failpoint"   // SIGKILL at a named place of the leader's code
	stopLeader     = "stop"                  // SIGSTOP past the lease, then SIGCONT
	stopAtPoint    = "stop at a failpoint"   //
	termLeader     = "SIGTERM"               //
	killResigning  = "kill while resigning"  // SIGTERM, and SIGKILL when the row has expired
	rollAll        = "rolling restart"       // SIGTERM one worker after the other
	endSession     = "terminated session"    // of the leader's lock
	endSessions    = "terminated sessions"   // all of the database
	blackHole      = "black hole to store"   // of the leader, one way or both
	launcherHole   = "black hole to launch"  // between the leader and the launcher
	resetLinks     = "reset connections"     // all of the leader's
	slowStore      = "slow store"            // of the leader
	losePresence   = "lost presence"         // the sessions with presence locks end, their processes live
	killBackend    = "crash of a backend"    // SIGKILL of a session's server process: Postgres recovers
	stopLauncher   = "stopped launcher"      // SIGSTOP past its leases, then SIGCONT
	restartStore   = "restart of Postgres"   // as by a crash
	killLauncher   = "killed launcher"       //
	launcherPoint  = "launcher at failpoint" //
	killRegistrar  = "killed registrar"      //
	registrarPoint = "registrar at failpoint"
	killWorkers    = "all workers killed"
	killFetcher    = "killed pull worker"  // SIGKILL, then it starts again under its name
	stopFetcher    = "stopped pull worker" // SIGSTOP, some times past its heartbeat
	flushRedis     = "FLUSHALL"
	restartRedis   = "restart of Redis" // empty
)

// strikesLeader: these faults end the leader's term, or keep it from leading.
var strikesLeader = []string{killLeader, killAtPoint, stopLeader, stopAtPoint, termLeader, killResigning, endSession, blackHole}

// The failpoints by the process that has them.
var (
	leaderPoints = []string{
		failpoint.Committing, failpoint.Committed, failpoint.Planning, failpoint.Planned, failpoint.Judging, failpoint.Claimed,
		failpoint.Settled, failpoint.Swept, failpoint.HandingOver, failpoint.HandedOver, failpoint.Renewing, failpoint.Renewed,
	}
	launcherPoints = []string{
		failpoint.Committing, failpoint.Committed, failpoint.KeyRecorded, failpoint.Sending, failpoint.Sent, failpoint.OutcomeRecorded,
		failpoint.Reported,
	}
	registrarPoints = []string{failpoint.Committing, failpoint.Committed, failpoint.Upserted, failpoint.PausedOrResumed}
	takeoverPoints  = []string{failpoint.TakingOver, failpoint.TookOver}

	// Those of runs in dispatch queues.
	jobPoints      = []string{failpoint.Admitted, failpoint.Sending, failpoint.Sent, failpoint.Committing, failpoint.Committed, failpoint.Ended, failpoint.PutBack, failpoint.Reported}
	jobEntryPoints = []string{failpoint.Enqueued, failpoint.Committing, failpoint.Committed}
)

// share is a kind of fault and its weight in a dose.
type share struct {
	kind   string
	weight int
}

// dose is what one run does to the product.
type dose struct {
	name               string
	store, lock, queue string
	workers            int
	shards             int
	temper             string // of the executor
	ttl, grace         time.Duration
	faults             int     // unless asked for another number
	mix                []share // each at least once, if there are enough
	least, most        time.Duration
	probes             int           // schedules that always have a due slot
	runTimeout         time.Duration // run timeout, and how long a launch is tried
	idle               time.Duration // at most, between two changes that people make
	jobs               bool          // people also put runs into dispatch queues; three launchers
	pull               bool          // and workers fetch those of one queue
	busy               string        // the queue that every second call is about; "" with pull: the one that is pulled
	batch              bool          // all launchers but the first call the executor by gRPC, with RunBatch
	holds              bool          // one session keeps a transaction open all the time
}

// doses by name; dose.go's zero values are filled by chosen.
var doses = []dose{
	{name: "short", faults: 17, runTimeout: 50 * time.Second, mix: []share{
		{killLeader, 2},
		{killAtPoint, 4},
		{stopLeader, 1},
		{termLeader, 1},
		{killResigning, 1},
		{endSession, 1},
		{endSessions, 1},
		{blackHole, 1},
		{launcherHole, 1},
		{restartStore, 1},
		{killLauncher, 1},
		{launcherPoint, 1},
		{registrarPoint, 1},
	}, probes: 25},
	{name: "short-redis", lock: "redis", queue: "redis", faults: 9, runTimeout: 50 * time.Second, mix: []share{
		{killLeader, 2}, {killAtPoint, 2}, {flushRedis, 2}, {restartRedis, 1}, {killLauncher, 1}, {launcherPoint, 1},
	}, probes: 15},
	{name: "short-sqlite", store: "sqlite", lock: "solo", faults: 6, runTimeout: 50 * time.Second, mix: []share{{killLeader, 1}, {killAtPoint, 1}}, probes: 15},
	{name: "short-jobs", jobs: true, workers: 1, faults: 8, mix: []share{
		{killLeader, 1}, {killLauncher, 2}, {launcherPoint, 3}, {stopLauncher, 1}, {registrarPoint, 1},
	}, probes: 5, idle: 250 * time.Millisecond},
	{name: "kills", faults: 100, mix: []share{{killLeader, 1}, {killAtPoint, 1}}, probes: 60},
	{name: "pauses", faults: 25, mix: []share{{stopLeader, 3}, {stopAtPoint, 1}}, probes: 60},
	{name: "figures", ttl: 10 * time.Second, faults: 45, mix: []share{
		{killLeader, 12}, {termLeader, 10}, {restartStore, 6}, {stopLeader, 3}, {blackHole, 3},
	}, least: 6 * time.Second, most: 8 * time.Second, probes: 60},
	{name: "postgres", faults: 40, mix: []share{
		{restartStore, 2}, {endSession, 3}, {endSessions, 2}, {blackHole, 2}, {launcherHole, 2}, {resetLinks, 2}, {slowStore, 1},
	}, probes: 60},
	{name: "processes", faults: 40, mix: []share{
		{killLauncher, 3}, {launcherPoint, 5}, {stopLauncher, 1}, {killRegistrar, 1}, {registrarPoint, 2}, {rollAll, 2}, {killWorkers, 1}, {killAtPoint, 2}, {killResigning, 2},
	}, probes: 60},
	{name: "shards", shards: 4, faults: 60, mix: []share{
		{killLeader, 3}, {killAtPoint, 2}, {termLeader, 2}, {stopLeader, 2}, {killResigning, 1}, {endSession, 1}, {endSessions, 1}, {killWorkers, 1}, {rollAll, 1},
	}, probes: 60},
	{name: "redis", lock: "redis", faults: 100, mix: []share{
		{killLeader, 3}, {killAtPoint, 3}, {flushRedis, 1}, {restartRedis, 1}, {stopLeader, 1},
	}, probes: 60},
	{name: "queue", queue: "redis", faults: 60, mix: []share{
		{killLeader, 2}, {killAtPoint, 2}, {flushRedis, 2}, {restartRedis, 1}, {killLauncher, 2}, {launcherPoint, 3},
	}, probes: 60},
	{name: "presence", queue: "redis", faults: 60, mix: []share{
		{losePresence, 4}, {killBackend, 2}, {stopLauncher, 2}, {killLauncher, 3}, {launcherPoint, 3}, {killLeader, 1}, {restartStore, 1},
	}, probes: 60},
	{name: "sqlite", store: "sqlite", lock: "solo", faults: 100, mix: []share{{killLeader, 1}, {killAtPoint, 1}}, probes: 50},
	{name: "executor", faults: 12, runTimeout: 8 * time.Second, mix: []share{
		{record.ExecutorDown, 2}, {record.ExecutorBroken, 2}, {record.ExecutorHung, 2}, {killLeader, 1}, {killAtPoint, 1}, {killLauncher, 1},
	}, probes: 20},
	{name: "executor-sqlite", store: "sqlite", lock: "solo", faults: 12, runTimeout: 8 * time.Second, mix: []share{
		{record.ExecutorDown, 2}, {record.ExecutorBroken, 2}, {record.ExecutorHung, 2}, {killLeader, 1}, {killAtPoint, 1},
	}, probes: 15},
	{name: "outage", faults: 6, grace: 2 * time.Second, mix: []share{{killWorkers, 1}}, least: 6 * time.Second, most: 8 * time.Second, probes: 40},
	{name: "jobs", jobs: true, batch: true, workers: 1, faults: 100, mix: []share{
		{killLauncher, 5},
		{launcherPoint, 8},
		{stopLauncher, 2},
		{killRegistrar, 1},
		{registrarPoint, 4},
		{killLeader, 1},
		{restartStore, 1},
		{endSessions, 1},
		{killBackend, 1},
		{losePresence, 1},
	}, probes: 5, idle: 250 * time.Millisecond},
	{name: "jobs-open", jobs: true, batch: true, holds: true, workers: 1, faults: 60, mix: []share{ // none ends all sessions
		{killLauncher, 5},
		{launcherPoint, 8},
		{stopLauncher, 2},
		{killRegistrar, 1},
		{registrarPoint, 4},
		{killLeader, 1},
		{losePresence, 1},
	}, probes: 5, idle: 250 * time.Millisecond},
	{name: "jobs-pull", jobs: true, pull: true, workers: 1, faults: 60, mix: []share{
		{killFetcher, 6},
		{stopFetcher, 4},
		{killLauncher, 4},
		{launcherPoint, 5},
		{stopLauncher, 1},
		{killRegistrar, 1},
		{restartStore, 1},
		{endSessions, 1},
	}, probes: 5, idle: 250 * time.Millisecond},
	{name: "jobs-sqlite", jobs: true, pull: true, store: "sqlite", lock: "solo", faults: 50, mix: []share{{killLeader, 2}, {killAtPoint, 4}, {killFetcher, 1}}, probes: 5, idle: 250 * time.Millisecond},
	{name: "jobs-executor", jobs: true, workers: 1, faults: 12, runTimeout: 8 * time.Second, mix: []share{
		{record.ExecutorDown, 2}, {record.ExecutorBroken, 2}, {record.ExecutorHung, 2}, {killLauncher, 1}, {launcherPoint, 1},
	}, probes: 5, idle: 250 * time.Millisecond},

	// For bugs that were seeded: short, and each provokes some.
	{name: "mutant-calm", faults: 2, mix: []share{{killLeader, 1}}, least: 5 * time.Second, most: 6 * time.Second, probes: 8, runTimeout: 8 * time.Second, idle: 100 * time.Millisecond},
	{name: "mutant-kills", faults: 6, mix: []share{{killLeader, 1}}, probes: 16, runTimeout: 8 * time.Second, idle: 100 * time.Millisecond},
	{name: "mutant-stops", faults: 3, mix: []share{{stopLeader, 1}}, probes: 16, runTimeout: 8 * time.Second, idle: 100 * time.Millisecond},
	{name: "mutant-backlog", faults: 1, grace: 5 * time.Second, mix: []share{{killWorkers, 1}}, least: 5 * time.Second, most: 6 * time.Second, probes: 8, runTimeout: 8 * time.Second, idle: 100 * time.Millisecond},
	{name: "mutant-executor", faults: 2, mix: []share{{record.ExecutorDown, 1}}, probes: 8, runTimeout: 8 * time.Second, idle: 100 * time.Millisecond},
	{name: "mutant-jobs", jobs: true, pull: true, batch: true, workers: 1, faults: 3, mix: []share{{killLauncher, 1}, {launcherPoint, 1}}, probes: 4, runTimeout: 8 * time.Second, idle: 250 * time.Millisecond},
	{name: "mutant-jobs-ordered", jobs: true, busy: record.OrderedQueue, workers: 1, faults: 2, mix: []share{{killLauncher, 1}}, least: 8 * time.Second, most: 9 * time.Second, probes: 4, runTimeout: 25 * time.Second, idle: 250 * time.Millisecond},
	{name: "mutant-jobs-groups", jobs: true, busy: queueOfGroups, workers: 1, faults: 2, mix: []share{{killLauncher, 1}}, least: 8 * time.Second, most: 9 * time.Second, probes: 4, runTimeout: 8 * time.Second, idle: 250 * time.Millisecond},
	{name: "mutant-jobs-reserved", jobs: true, busy: "one", workers: 1, faults: 2, mix: []share{{killLauncher, 1}}, least: 8 * time.Second, most: 9 * time.Second, probes: 4, runTimeout: 25 * time.Second, idle: 250 * time.Millisecond},
	{name: "mutant-outage", faults: 2, grace: 2 * time.Second, mix: []share{{killWorkers, 1}}, probes: 8, runTimeout: 8 * time.Second, idle: 100 * time.Millisecond},
}

// chosen is a dose by its name, complete.
func chosen(name string) (dose, bool) {
	at := slices.IndexFunc(doses, func(d dose) bool { return d.name == name })
	if at < 0 {
		return dose{}, false
	}
	d := doses[at]
	orElse := func(text *string, otherwise string) {
		if *text == "" {
			*text = otherwise
		}
	}
	orElse(&d.store, "postgres")
	orElse(&d.lock, "postgres")
	orElse(&d.queue, "none")
	orElse(&d.temper, "wild")
	if d.ttl == 0 {
		d.ttl = 2 * time.Second
	}
	if d.grace == 0 {
		d.grace = time.Minute
	}
	if d.least == 0 {
		d.least, d.most = 500*time.Millisecond, 2500*time.Millisecond
	}
	if d.runTimeout == 0 {
		d.runTimeout = time.Minute // a launch rests up to 30 s after many deliveries
	}
	if d.idle == 0 {
		d.idle = 650 * time.Millisecond
	}
	d.shards = max(d.shards, 1)
	switch {
	case d.store == "sqlite":
		d.workers = 1
	case d.workers == 0:
		d.workers = 3
	}
	return d, true
}

// step is one fault to come. All of it is drawn from the seed beforehand; only
// who leads then is not known.
type step struct {
	kind   string
	rest   time.Duration // between calm and the fault
	point  string
	nth    int           // how often the failpoint is passed first
	length time.Duration // of what has a length
	pick   int           // among several victims or ways
}

// plan draws the faults of a dose.
func plan(d dose, seed uint64, faults int) []step {
	random := rand.New(rand.NewPCG(seed, 0xc4a05))
	var kinds []string
	for _, s := range d.mix {
		kinds = append(kinds, slices.Repeat([]string{s.kind}, s.weight)...)
	}
	var steps []step
	for len(steps) < faults {
		random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		for _, kind := range kinds[:min(len(kinds), faults-len(steps))] {
			steps = append(steps, d.draw(random, kind, len(steps)))
		}
	}
	return steps
}

func (d dose) draw(random *rand.Rand, kind string, place int) step {
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(random.Int64N(int64(most-least)+1))
	}
	s := step{kind: kind, rest: between(d.least, d.most), nth: 1 + random.IntN(20), pick: random.IntN(1 << 20)}
	s.length = between(time.Second, 4*time.Second)
	switch kind {
	case stopLeader, stopAtPoint, blackHole:
		s.length = between(d.ttl*3/2, d.ttl*3)
		if d.ttl >= 5*time.Second {
			s.length = between(d.ttl+2*time.Second, d.ttl+4*time.Second)
		}
	case record.ExecutorDown, record.ExecutorBroken, record.ExecutorHung: // some outlast the time that launches have
		s.length = between(d.runTimeout/3, d.runTimeout*3/2)
	case stopLauncher, stopFetcher:
		s.length = between(2*time.Second, 6*time.Second) // leases and heartbeats last three
	case killWorkers:
		s.length = between(d.grace/20, d.grace/10)
		if d.grace < 10*time.Second {
			s.length = between(d.grace*2, d.grace*4)
		}
	}
	points := leaderPoints
	switch {
	case kind == launcherPoint && d.jobs:
		points = jobPoints
	case kind == launcherPoint:
		points = launcherPoints
	case kind == registrarPoint && d.jobs:
		points = jobEntryPoints
	case kind == registrarPoint:
		points = registrarPoints
	case kind == killAtPoint && d.jobs && d.store == "sqlite":
		points = slices.Concat(jobPoints, jobEntryPoints, []string{failpoint.Planned, failpoint.Claimed})
	case kind == killAtPoint:
		if d.store == "sqlite" { // one process has them all
			points = slices.Concat(leaderPoints, launcherPoints, registrarPoints)
		} else if place%5 == 4 {
			points = takeoverPoints
		}
	}
	s.point = points[random.IntN(len(points))]
	return s
}
