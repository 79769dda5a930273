package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/explain"
)

// world is the world of one seed. It lives in a synctest bubble.
type world struct {
	seed     uint64
	dice     dice
	profile  profile
	coverage *Coverage
	log      record
	began    time.Time

	ledger    *memory.Store
	watch     *ledgerWatch
	locks     *lockService
	presences presences
	executor  *executor
	clients   *caller // of the API
	registrar *registrar.Registrar
	limits    apiStore
	processes []atomic.Pointer[process]

	calm                          atomic.Bool  // faults have ended
	publishing                    atomic.Int32 // publishers that have not ended
	over                          chan struct{}
	storeDownUntil, lockDownUntil atomic.Int64
	hosts, running                sync.WaitGroup

	mu         sync.Mutex
	taken      map[time.Duration]dice   // instants at which a call continues, and which
	loads      map[time.Duration]uint64 // how many loads of a workflow began at an instant
	violations []string
	verdicts   map[explain.Verdict]int
}

// Result is the result of one world.
type Result struct {
	Seed                  uint64
	Violations            []string
	Hash                  uint64   // of everything that happened
	Trace                 []string // if requested
	Slots, Effects, Again int      // Again: calls of the executor beyond the first of a key
	Takeovers             int
	Explained             map[explain.Verdict]int // if requested
}

// Options are how a world is made.
type Options struct {
	Coverage *Coverage
	Trace    bool // keep a line for each call
	Explain  bool // hold the explanation of every instant to what happened
}

// Run makes the world of a seed and holds it to the promises. It must be
// called in a synctest bubble, where it takes no time.
func Run(seed uint64, o Options) Result {
	w := newWorld(seed, o)
	w.start()
	w.wait()
	w.check()
	if o.Explain {
		w.explained()
	}
	w.log.close()
	close(w.over)
	w.hosts.Wait()
	w.running.Wait()
	time.Sleep(time.Minute) // calls that a worker left open when it ended
	return w.result()
}

func newWorld(seed uint64, o Options) *world {
	if o.Coverage == nil {
		o.Coverage = new(Coverage)
	}
	d := dice(seed).of(0)
	w := &world{
		seed: seed, dice: d, profile: newProfile(d), coverage: o.Coverage, began: time.Now(), over: make(chan struct{}),
		taken:     make(map[time.Duration]dice),
		loads:     make(map[time.Duration]uint64),
		locks:     &lockService{holders: make(map[int]*lock), waiting: make(map[int][]*lock)},
		presences: presences{sessions: make(map[int32]*presenceSession), holders: make(map[schedule.Key]int32)},
		executor:  newExecutor(),
	}
	w.log.keep = o.Trace
	w.watch = newLedgerWatch(w)
	w.ledger = memory.New(memory.Options{Clock: time.Now, QueuedRetry: schedule.QueuedRetry(attemptsOfJobs, backoffOfJobs, maxBackoffOfJobs), Changes: w.profile.changes, Watch: memory.Watch{
		Run: w.watch.run, Schedule: w.watch.schedule, Event: w.watch.event, Grant: w.watch.grant, Queue: w.watch.queue, Limit: w.watch.limit, Group: w.watch.group, Reservation: w.watch.reservation, Takeover: w.watch.takeover, Guarded: w.watch.guarded, Result: w.watch.result,
		Published: w.watch.publishedNew, Entry: w.watch.entryWritten, Wake: w.watch.wakeWritten,
		Backfill: w.watch.backfill, Commit: w.watch.commit, Late: w.late,
	}})
	w.clients = &caller{world: w, name: "api", dice: d.of(forUsers), crashed: make(chan struct{})}
	w.clients.skew.Store(int64(d.of(forUsers+1).span(0, w.profile.maxSkew)))
	api := apiStore{Store: w.ledger, away: store{w.clients}}
	w.limits = api
	w.registrar = registrar.New(registrar.Options{
		Schedules: api, Runs: api, Backfills: api, Workflows: api, Shares: api, Grants: api, Queues: api, Entries: api, Limits: api, Groups: api, Reservations: api, Events: api, Now: w.clients.now, Logger: quiet,
		Webhook: func(string) ([]string, bool) { return nil, true },
		Config:  registrar.Config{CanCancel: w.profile.executorCancels, DefaultBackoffMS: backoffOfJobs, DefaultMaxBackoffMS: maxBackoffOfJobs},
	})
	if err := w.ledger.SetShards(context.Background(), w.profile.shards, w.began); err != nil {
		w.violation("set shards: %v", err)
	}
	w.processes = make([]atomic.Pointer[process], w.profile.workers)
	return w
}

// start sets everything going.
func (w *world) start() {
	for version := range int32(2) {
		dag := json.RawMessage(`{"steps":[]}`)
		hash, _ := schedule.CanonicalHash(dag)
		err := w.ledger.PutWorkflow(context.Background(), &schedule.WorkflowVersion{WorkflowID: "w", Version: version + 1, DAG: dag, Hash: hash})
		if err != nil {
			w.violation("put workflow: %v", err)
		}
	}
	for n := range w.processes {
		w.hosts.Go(func() {
			time.Sleep(w.dice.of(forProcess+3).of(uint64(n)).span(time.Microsecond, time.Second))
			w.host(n)
		})
	}
	w.running.Go(w.users)
	w.publishing.Store(int32(w.profile.publishers))
	for n := range w.profile.publishers {
		w.running.Go(func() { w.publisher(n) })
	}
	if w.profile.pulled {
		w.pullWorkers()
	}
	if w.profile.incidents {
		w.running.Go(w.incidents)
	}
	if w.profile.backfills {
		w.running.Go(w.backfillers)
	}
	time.Sleep(1200 * time.Millisecond) // the process to strike is running
	w.running.Go(w.adversary)
}

// wait lets things go wrong for a while, then waits until all that fell due
// has ended, or its time is over.
func (w *world) wait() {
	time.Sleep(w.profile.faulty - w.elapsed())
	w.calm.Store(true)
	w.log.say(w.elapsed(), "all faults end")
	for w.elapsed() < w.profile.faulty+w.profile.calmAfter() {
		time.Sleep(500 * time.Millisecond)
		synctest.Wait() // what others did at this very instant is done, and may be read
		w.wakesInTime()
		if w.settled() {
			return
		}
	}
	w.stuck()
}

// late counts changes that readers must not miss.
func (w *world) late(open time.Duration) {
	w.coverage.situations[changeLate].Add(1)
	if open > time.Second {
		w.coverage.situations[changeLateBy1s].Add(1)
	}
}

// elapsed is the instant of the world: since its beginning.
func (w *world) elapsed() time.Duration { return time.Since(w.began) }

// violation notes a broken promise.
func (w *world) violation(format string, args ...any) {
	at := w.elapsed()
	w.log.say(at, "VIOLATION: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf("+%.6fs: ", at.Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) result() Result {
	r := Result{
		Seed: w.seed, Violations: w.violations, Hash: uint64(w.log.hash), Trace: w.log.lines,
		Slots: w.watch.slots, Effects: len(w.executor.order), Takeovers: w.watch.takeovers, Explained: w.verdicts,
	}
	for _, wk := range w.executor.order {
		r.Again += wk.calls - 1
	}
	return r
}

// apiStore is the ledger as the registrar reaches it.
type apiStore struct {
	*memory.Store
	away store
}

func (a apiStore) ChangeSchedules(ctx context.Context, req schedule.ChangeRequest, decide func([]schedule.ChangeInput) ([]schedule.Change, error)) error {
	return a.away.ChangeSchedules(ctx, req, decide)
}

func (a apiStore) ChangeRun(ctx context.Context, key, existing schedule.Key, decide func(schedule.RunInput) (schedule.RunChange, error)) (schedule.Run, bool, error) {
	return a.away.ChangeRun(ctx, key, existing, decide)
}

func (a apiStore) ChangeBackfill(ctx context.Context, ref schedule.BackfillRef, decide func(schedule.BackfillInput) (schedule.BackfillChange, error)) (*schedule.Backfill, error) {
	return a.away.ChangeBackfill(ctx, ref, decide)
}

func (a apiStore) Publish(ctx context.Context, p *topic.Publication) ([]topic.Published, error) {
	return a.away.Publish(ctx, p)
}

func (a apiStore) GetRun(ctx context.Context, key schedule.Key) (*schedule.Run, error) {
	return a.away.GetRun(ctx, key)
}
