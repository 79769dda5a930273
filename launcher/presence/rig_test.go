package presence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/presence"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// timeout bounds what has to happen on a busy machine.
const timeout = 30 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// store is either store.
type store interface {
	presence.Store
	launcher.Store
	GoneInstances(ctx context.Context, ids []string) (gone []string, err error)
	Now() time.Time
	Close() error
}

// rig is a database with processes that share it.
type rig struct {
	*testing.T
	store store
	lock  presence.Lock
	// end frees the presence lock of a number as an administrator does while the
	// process lives.
	end func(no int32)
	// away makes new locks impossible until back is called.
	away func() (back func())
	// holder reads which number holds a key; 0: none, or there is no such key.
	holder func(key schedule.Key) int32
	url    string // of Postgres
}

// onBothStores runs a test on each store.
func onBothStores(t *testing.T, test func(r *rig)) {
	t.Helper()
	t.Parallel()
	t.Run("Postgres", func(t *testing.T) { t.Parallel(); test(onPostgres(t)) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); test(onSQLite(t)) })
}

func onPostgres(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, url: migrated.Postgres(t)}
	s, err := postgres.Open(t.Context(), r.url, postgres.Options{Logger: quiet})
	r.ok(err)
	t.Cleanup(func() { _ = s.Close() })
	r.store, r.lock = s, presence.Sessions{URL: r.url, TakePresence: postgres.TakePresence, ServerGeneration: postgres.ServerGeneration}
	r.end = func(no int32) {
		r.exec(r.url, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1667330672 AND objid = $1
 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, no)
	}
	r.away = r.refuseConnections
	conn, err := pgx.Connect(t.Context(), r.url)
	r.ok(err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	r.holder = func(key schedule.Key) (no int32) {
		r.ok(conn.QueryRow(t.Context(), `SELECT coalesce(max(holder), 0) FROM execution_requests WHERE idempotency_key = $1`, key[:]).Scan(&no))
		return no
	}
	return r
}

func (r *rig) exec(url, statement string, args ...any) {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), url)
	r.ok(err)
	defer func() { _ = conn.Close(context.WithoutCancel(r.Context())) }()
	_, err = conn.Exec(r.Context(), statement, args...)
	r.ok(err)
}

// refuseConnections ends all sessions of the database and lets nobody in.
func (r *rig) refuseConnections() (back func()) {
	r.Helper()
	u, err := url.Parse(r.url)
	r.ok(err)
	name := u.Path[1:]
	u.Path = "/postgres"
	allow := func(may bool) {
		r.exec(u.String(), fmt.Sprintf(`ALTER DATABASE %s WITH ALLOW_CONNECTIONS %v`, pgx.Identifier{name}.Sanitize(), may))
	}
	allow(false)
	r.exec(u.String(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, name)
	back = sync.OnceFunc(func() { allow(true) })
	return back
}

func onSQLite(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t}
	file := migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db"))
	s, err := sqlite.Open(t.Context(), "sqlite:"+file, sqlite.Options{Logger: quiet, MaxConns: 2})
	r.ok(err)
	t.Cleanup(func() { _ = s.Close() })
	var missing atomic.Bool // the folder of the lock files
	path := func(no int32) string {
		if missing.Load() {
			return filepath.Join(file, "missing", filepath.Base(s.PresenceFile(no)))
		}
		return s.PresenceFile(no)
	}
	r.store, r.lock = s, presence.Files{Path: path, Generation: sqlite.Generation}
	r.end = func(no int32) { r.ok(errors.Join(os.Remove(path(no)), os.WriteFile(path(no), nil, 0o600))) }
	r.away = func() (back func()) {
		missing.Store(true)
		return func() { missing.Store(false) }
	}
	db, err := sql.Open("sqlite", file)
	r.ok(err)
	t.Cleanup(func() { _ = db.Close() })
	r.holder = func(key schedule.Key) (no int32) {
		r.ok(db.QueryRowContext(t.Context(), `SELECT coalesce(max(holder), 0) FROM execution_requests WHERE idempotency_key = ?`, key[:]).Scan(&no))
		return no
	}
	return r
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// eventually waits until check holds.
func (r *rig) eventually(what string, check func() bool) {
	r.Helper()
	for end := time.Now().Add(timeout); !check(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("not within %s: %s", timeout, what)
		}
	}
}

// process launches on the database of the rig.
type process struct {
	*rig
	presence *presence.Presence
	launcher *launcher.Launcher
	executor *executor
	stop     func() // gives the lock back
}

// start starts a process that registers in s.
func (r *rig) start(name string, e *executor, s presence.Store) *process {
	r.Helper()
	p := &process{rig: r, executor: e}
	p.presence = presence.New(presence.Options{Store: s, Lock: r.lock, ID: name, Host: "host:1", Now: r.store.Now, Logger: quiet})
	p.launcher = launcher.New(launcher.Options{
		Store: r.store, Presence: p.presence, Workflows: noDAGs{}, Executor: e.of(name), Now: r.store.Now, Logger: quiet,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	runs.Go(func() { p.presence.Run(ctx, p.launcher.MoveKeys) })
	p.stop = sync.OnceFunc(func() { cancel(); runs.Wait() })
	r.Cleanup(p.stop)
	return p
}

// no waits until the process holds a lock with a number above.
func (p *process) no(above int32) (no int32) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), timeout)
	defer cancel()
	p.eventually(fmt.Sprintf("a number above %d", above), func() bool {
		var err error
		no, err = p.presence.Await(ctx)
		p.ok(err)
		return no > above
	})
	return no
}

// launch starts a run of a key, as often as a worker would, and sends the outcome.
func (p *process) launch(req schedule.StartRequest) <-chan schedule.StartReply {
	replies := make(chan schedule.StartReply, 1)
	go func() {
		defer close(replies)
		ctx, cancel := context.WithTimeout(p.Context(), timeout)
		defer cancel()
		for ctx.Err() == nil {
			if reply, err := p.launcher.Start(ctx, req); err == nil {
				replies <- reply
				return
			}
		}
	}()
	return replies
}

// succeeds waits for the outcome.
func (p *process) succeeds(replies <-chan schedule.StartReply) {
	p.Helper()
	if reply, found := <-replies; !found || reply.Outcome.Status != schedule.StatusSuccess {
		p.Errorf("the run ended %+v, want SUCCESS", reply.Outcome)
	}
}

// openCall starts two processes and waits until the first, under the number no, calls the
// executor for a key. The call stays open.
func (r *rig) openCall(e *executor, key schedule.StartRequest) (first, second *process, no int32, replies <-chan schedule.StartReply) {
	r.Helper()
	first, second = r.start("first", e, r.store), r.start("second", e, r.store)
	no = first.no(0)
	second.no(0)
	replies = first.launch(key)
	r.eventually("the call is open", func() bool { return len(e.callers(key.Key)) == 1 })
	return first, second, no, replies
}

// once fails unless the executor was called once for a key.
func (r *rig) once(e *executor, key schedule.StartRequest) {
	r.Helper()
	if got := e.callers(key.Key); len(got) != 1 {
		r.Errorf("the executor was called by %v, want one call", got)
	}
}

// manual is a run that is due at, of a schedule that exists nowhere.
func (r *rig) manual(name string, at time.Time) schedule.StartRequest {
	return schedule.StartRequest{
		Key: schedule.ManualKey(name, "1"), ScheduleID: name, WorkflowID: "w", UserID: "u",
		ScheduledFor: at, FireAt: at, Trigger: schedule.TriggerManual, Attempt: 1,
	}
}

type noDAGs struct{}

func (noDAGs) LoadDAG(context.Context, string, string, int32) ([]byte, error) { return nil, nil }

// executor notes which process called it for which key. A call lasts until open is
// closed.
type executor struct {
	open chan struct{}

	mu    sync.Mutex
	calls []call
}

type call struct {
	key     schedule.Key
	process string
}

func newExecutor() *executor { return &executor{open: make(chan struct{})} }

// of is the executor as one process reaches it.
func (e *executor) of(process string) launcher.Executor { return reached{e, process} }

// callers returns which processes called for a key, in order.
func (e *executor) callers(key schedule.Key) (processes []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		if c.key == key {
			processes = append(processes, c.process)
		}
	}
	return processes
}

type reached struct {
	*executor
	process string
}

func (r reached) Run(ctx context.Context, c launcher.Call) (schedule.Outcome, error) {
	r.mu.Lock()
	r.calls = append(r.calls, call{c.Key, r.process})
	r.mu.Unlock()
	select {
	case <-r.open:
		return schedule.Outcome{Status: schedule.StatusSuccess}, nil
	case <-ctx.Done():
		return schedule.Outcome{}, ctx.Err()
	}
}

func (reached) Cancel(context.Context, schedule.CancelRequest) error { return launcher.ErrUnsupported }

func (reached) GetByKey(context.Context, schedule.RunRef) (schedule.Outcome, error) {
	return schedule.Outcome{}, launcher.ErrUnsupported
}

// gate is a store that registers nobody while it is closed.
type gate struct {
	store
	mu     sync.Mutex
	opened chan struct{}
}

func (r *rig) gate() *gate {
	g := &gate{store: r.store, opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
}

func (g *gate) Register(ctx context.Context, i schedule.Instance) (no int32, err error) {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
		return g.store.Register(ctx, i)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
