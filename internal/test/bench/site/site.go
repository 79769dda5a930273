package site

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"google.golang.org/grpc"

	"github.com/carillon/carillon/internal/test/bench/database"
	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/record"
)

// Options say which deployment it is. What they do not name is the product's
// default, or what the environment sets (MAX_LAUNCHES=… bench burst).
type Options struct {
	ServerURL string // of Postgres; "": SQLite, all roles in one process
	Workers   int    // 1
	Launchers int    // 1; without Queue, worker i calls launcher i modulo them
	Shards    int    // 1
	RedisURL  string // LAUNCH_QUEUE=redis through it; "": gRPC from worker to launcher
	Watch     bool   // statements are counted
	Spec      string // "cron": daily at the instant; "once": once_at
	Overlap   string // overlap_policy
	Owners    int    // the schedules belong to so many users, in turn
	Together  bool   // all roles in one process, on Postgres too
	History   string // of the queue of jobs: all or failed
	Sink      bool   // the executor is a process of its own, over gRPC
	Limit     int    // of a limit that every job uses: so many at once; 0: jobs use none
	Fair      bool   // the queue of jobs is fair
}

func (o Options) withDefaults() Options {
	for _, n := range []*int{&o.Workers, &o.Launchers, &o.Shards, &o.Owners} {
		*n = max(*n, 1)
	}
	if o.Spec == "" {
		o.Spec = "cron"
	}
	if o.History == "" {
		o.History = "all"
	}
	if o.Overlap == "" {
		o.Overlap = "skip"
	}
	return o
}

// Site is one deployment on a fresh database.
type Site struct {
	o         Options
	db        *database.Database // nil: SQLite
	folder    string
	registrar *proc.Child // until Registered
	workers   []*proc.Child
	launchers []*proc.Child // SQLite: the one process
	addr      string        // of the registrar's gRPC
	launch    []string      // of the launchers' gRPC
	rate      int           // schedules registered in a second
	metrics   []string      // host:port of the workers' metrics
	sink      *proc.Child   // the executor; nil: the launchers' own
	sinkAddr  string
	conn      *grpc.ClientConn // to the queue; nil: there is none
	places    map[uint64]int   // of jobs in their order of entry, by slot
	keys      []string         // of jobs, by place
}

// New starts the processes; name is the database's.
func New(ctx context.Context, name string, o Options) (s *Site, err error) {
	s = &Site{o: o.withDefaults()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.folder, err = os.MkdirTemp("", "carillon-bench-"); err != nil {
		return s, err
	}
	if o.Sink {
		if s.sink, err = proc.Start(KindSink, KindSink, nil); err != nil {
			return s, err
		}
		if err := s.sink.Call("Part.Where", proc.None{}, &s.sinkAddr); err != nil {
			return s, err
		}
	}
	if o.ServerURL == "" {
		return s, s.startAll(ctx)
	}
	if s.db, err = database.Create(ctx, o.ServerURL, name); err != nil {
		return s, err
	}
	if o.Watch {
		if err := s.db.Watch(ctx); err != nil {
			return s, err
		}
	}
	if o.Together {
		return s, s.startAll(ctx)
	}
	return s, s.startApart()
}

// startAll starts everything in one process.
func (s *Site) startAll(context.Context) error {
	settings := map[string]string{"ROLES": "registrar,worker,launcher"}
	if s.db == nil {
		settings["DATABASE_URL"] = "" // SQLite, whatever the environment says
	}
	all, where, err := s.start("all", settings)
	if err != nil {
		return err
	}
	s.launchers, s.addr, s.metrics = []*proc.Child{all}, where.GRPC, []string{where.HTTP}
	return nil
}

// startApart is a process for each role, on Postgres.
func (s *Site) startApart() (err error) {
	var where Addresses
	if s.registrar, where, err = s.start("registrar", map[string]string{"ROLES": "registrar"}); err != nil {
		return err
	}
	s.addr = where.GRPC
	for i := range s.o.Launchers {
		launcher, where, err := s.start(fmt.Sprint("launcher-", i), map[string]string{"ROLES": "launcher"})
		if err != nil {
			return err
		}
		s.launchers, s.launch = append(s.launchers, launcher), append(s.launch, where.GRPC)
	}
	return s.StartWorkers(nil)
}

// StopWorkers ends the workers in order.
func (s *Site) StopWorkers() error {
	var errs []error
	for _, w := range s.workers {
		errs = append(errs, w.Stop())
	}
	s.workers, s.metrics = nil, nil
	return errors.Join(errs...)
}

// StartWorkers starts the workers, with additional settings.
func (s *Site) StartWorkers(more map[string]string) error {
	for i := range s.o.Workers {
		settings := map[string]string{"ROLES": "worker", "LAUNCHER_ADDR": s.launch[i%len(s.launch)]}
		maps.Copy(settings, more)
		worker, where, err := s.start(fmt.Sprint("worker-", i), settings)
		if err != nil {
			return err
		}
		s.workers, s.metrics = append(s.workers, worker), append(s.metrics, where.HTTP)
	}
	return nil
}

func (s *Site) start(name string, settings map[string]string) (*proc.Child, Addresses, error) {
	all := map[string]string{
		"HTTP_ADDR": "127.0.0.1:0", "GRPC_ADDR": "127.0.0.1:0", "DATA_DIR": s.folder, "REPORT_SECRET": "of-no-use-to-anybody",
		"EXECUTOR": "http", "EXECUTOR_URL": "http://127.0.0.1:9/never-called", // exchanged by Serve
		"SHARDS": fmt.Sprint(s.o.Shards), "OWNER_MAX_SCHEDULES": "0", "OWNER_WRITES_PER_S": "0", "OWNER_READS_PER_S": "0",
		"LOG_FORMAT": "text",
	}
	if os.Getenv("LOG_LEVEL") == "" {
		all["LOG_LEVEL"] = "warn"
	}
	if s.db != nil {
		all["DATABASE_URL"] = s.db.URL
	}
	if s.o.RedisURL != "" {
		all["LAUNCH_QUEUE"], all["REDIS_URL"] = "redis", s.o.RedisURL
	}
	if s.sink != nil {
		all["EXECUTOR"], all["EXECUTOR_URL"] = "grpc", s.sinkAddr
	}
	maps.Copy(all, settings)
	child, err := proc.Start(Kind, name, all)
	if err != nil {
		return nil, Addresses{}, err
	}
	var where Addresses
	if err := child.Call("Part.Where", proc.None{}, &where); err != nil {
		return nil, Addresses{}, errors.Join(err, child.Stop())
	}
	return child, where, nil
}

// executors are the processes that note calls.
func (s *Site) executors() []*proc.Child {
	if s.sink != nil {
		return []*proc.Child{s.sink}
	}
	return s.launchers
}

// Called says how often the executors were called so far.
func (s *Site) Called() (int, error) {
	total := 0
	for _, l := range s.executors() {
		var n int
		if err := l.Call("Part.Called", proc.None{}, &n); err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// Forget clears the executors' records.
func (s *Site) Forget() error {
	var errs []error
	for _, l := range s.executors() {
		errs = append(errs, l.Call("Part.Forget", proc.None{}, &proc.None{}))
	}
	return errors.Join(errs...)
}

// Calls is what the executors have seen.
func (s *Site) Calls() ([]record.Call, error) {
	var all []record.Call
	for _, l := range s.executors() {
		var packed []byte
		if err := l.Call("Part.Calls", proc.None{}, &packed); err != nil {
			return nil, err
		}
		calls, err := record.Decode(packed)
		if err != nil {
			return nil, err
		}
		all = append(all, calls...)
	}
	return all, nil
}

// Registrar is the process that registers; nil where it has ended, or is one
// with the others.
func (s *Site) Registrar() *proc.Child { return s.registrar }

// Workers are the processes that schedule.
func (s *Site) Workers() []*proc.Child { return s.workers }

// Scheduler are the processes that schedule, launch and execute.
func (s *Site) Scheduler() []*proc.Child {
	all := append(append([]*proc.Child{}, s.workers...), s.launchers...)
	if s.sink != nil {
		all = append(all, s.sink)
	}
	return all
}

// Database is the database; nil on SQLite.
func (s *Site) Database() *database.Database { return s.db }

// Close ends the processes and removes what they kept.
func (s *Site) Close() error {
	var errs []error
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	for _, child := range append(append(append([]*proc.Child{s.registrar}, s.workers...), s.launchers...), s.sink) {
		errs = append(errs, child.Stop())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.folder))...)
}
