package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/tools/servers"
)

// callLog is an executor that honours keys. It knows which process calls, and notes
// each call of a key that arrives while another one of a living process is open.
type callLog struct {
	mu       sync.Mutex
	keys     map[string]*loggedKey
	calls    int
	diedAt   map[string]time.Time // by process: its last kill
	overlaps []string
}

type loggedKey struct {
	slot  loggedSlot
	first time.Time // its first call
	done  chan struct{}
	open  map[*openCall]bool
}

type loggedSlot struct {
	schedule string
	at       time.Time
}

type openCall struct {
	process string
	at      time.Time
	caller  context.Context // ends when the caller hangs up
}

// callLasts is shorter than what is left of the lease of an open call, two seconds
// at least: no key may be sent again while a call of it is open.
const callLasts = 800 * time.Millisecond

func (l *callLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	text, err := io.ReadAll(r.Body)
	var body runBody
	if err != nil || json.Unmarshal(text, &body) != nil {
		return // the caller died while it sent
	}
	c := &openCall{process: r.PathValue("process"), at: at, caller: r.Context()}
	k, first := l.begin(c, &body)
	if first {
		time.Sleep(callLasts) // its effect, whether the caller lives or not
		close(k.done)
	}
	<-k.done
	l.mu.Lock()
	delete(k.open, c)
	l.mu.Unlock()
	writeAnswer(w, http.StatusOK, map[string]string{"status": "SUCCESS"})
}

func (l *callLog) begin(c *openCall, body *runBody) (k *loggedKey, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	k = l.keys[body.Key]
	if first = k == nil; first {
		k = &loggedKey{
			slot: loggedSlot{body.ScheduleID, body.ScheduledFor.UTC()}, first: c.at, done: make(chan struct{}), open: make(map[*openCall]bool),
		}
		l.keys[body.Key] = k
	}
	for other := range k.open {
		if other.caller.Err() == nil && !other.at.Before(l.diedAt[other.process]) {
			l.overlaps = append(l.overlaps, fmt.Sprintf("%s of %s: sent by %s at %s, while the call of %s since %s is open",
				clock(k.slot.at), k.slot.schedule, c.process, clock(c.at), other.process, clock(other.at)))
		}
	}
	k.open[c] = true
	return k, first
}

// die kills a process. Its calls from before are open to nobody.
func (l *callLog) die(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.kill()
	l.diedAt[p.name] = time.Now()
}

// effects returns how many keys took effect for each slot.
func (l *callLog) effects() map[loggedSlot]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	effects := make(map[loggedSlot]int)
	for _, k := range l.keys {
		effects[k.slot]++
	}
	return effects
}

// lateAfter returns how long after the later of its instant and ready any slot was
// first sent, of those from since until until.
func (h *holders) lateAfter(ready, since, until time.Time) (worst time.Duration) {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	sent := make(map[loggedSlot]time.Time)
	for _, k := range h.log.keys {
		sent[k.slot] = k.first
	}
	for slot := range h.slots {
		if slot.at.Before(since) || !slot.at.Before(until) {
			continue
		}
		due, first := slot.at, sent[slot]
		if due.Before(ready) {
			due = ready
		}
		if first.IsZero() {
			first = time.Now() // at least
		}
		worst = max(worst, first.Sub(due))
	}
	return worst
}

// holders is a deployment whose processes hold keys, and what breaks it.
type holders struct {
	*site
	log      *callLog
	slots    map[loggedSlot]bool // that have to be sent
	database string
	postgres *servers.Server // of this test alone; nil: that of all tests
}

func newHolders(t *testing.T, processes int) *holders {
	return &holders{
		site: &site{t: t, journal: newJournal(), processes: make([]*process, processes)},
		log:  &callLog{keys: make(map[string]*loggedKey), diedAt: make(map[string]time.Time)}, slots: make(map[loggedSlot]bool),
	}
}

func (h *holders) onPostgres(t *testing.T) { h.database = services.Postgres(t, nil) }

func (h *holders) onSQLite(*testing.T) {}

func (h *holders) onOwnPostgres(t *testing.T) {
	services.Postgres(t, nil) // skips where tests have no server
	server, err := servers.Postgres(t.Context(), servers.Options{})
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	h.postgres, h.database = server, server.URL()
}

// run starts the processes, lets schedules fire each second for a while, strikes in
// between, and returns when every run has ended.
func (h *holders) run(t *testing.T, strikes int, strike func(h *holders, n int)) {
	mux := http.NewServeMux()
	mux.Handle("POST /run/{process}/{workflow}", h.log)
	executor := httptest.NewServer(mux)
	t.Cleanup(executor.Close)
	for i := range h.processes {
		name := fmt.Sprintf("carillon-%d", i+1)
		env := append(settings(h.database, time.Minute), "EXECUTOR=http", "EXECUTOR_URL="+executor.URL+"/run/"+name+"/{workflow_id}")
		h.processes[i] = newProcess(t, name, []string{"serve", "--migrate"}, env)
		if h.postgres != nil {
			h.processes[i].expects = databaseUnavailable
		}
		h.processes[i].startReady()
	}
	h.api = newREST(t, h.processes...)
	deployOracle(h.api)
	start := time.Now().Truncate(time.Second).Add(3 * time.Second).UTC()
	end := start.Add(time.Duration(strikes) * strikeEvery)
	for i := range 10 {
		id := fmt.Sprint("every-second-", i)
		h.journal.register(h.api, definition{
			ScheduleID: id, WorkflowID: "oracle", Version: 1, UserID: "u", CronExpr: "* * * * * *", OverlapPolicy: "allow", StartAt: start, EndAt: end,
		})
		created := h.journal.schedules[id].createdAt // on a busy machine that is after start: what is before it is no slot
		for at := start; !at.After(end); at = at.Add(time.Second) {
			if at.After(created) {
				h.slots[loggedSlot{id, at}] = true
			}
		}
	}
	for n := range strikes {
		time.Sleep(time.Until(start.Add(time.Duration(n)*strikeEvery + strikeAt[n])))
		strike(h, n)
	}
	time.Sleep(time.Until(end))
	h.drain()
}

const databaseUnavailable = "database unavailable"

// strikeEvery is longer than a lease.
const strikeEvery = 4 * time.Second

// strikeAt are parts of a second in which schedules fire at its beginning: calls are
// open, or keys of the next second are recorded and not yet sent.
var strikeAt = []time.Duration{300 * time.Millisecond, 900 * time.Millisecond, 600 * time.Millisecond, 950 * time.Millisecond}

// onceInEffect checks that each slot took effect once and that the ledger says so.
func (h *holders) onceInEffect(t *testing.T) {
	slots, effects := h.slots, h.log.effects()
	for slot := range slots {
		if effects[slot] != 1 {
			t.Errorf("the slot %s of %s took effect %d times", clock(slot.at), slot.schedule, effects[slot])
		}
	}
	if len(effects) != len(slots) {
		t.Errorf("%d slots took effect, want %d", len(effects), len(slots))
	}
	rows := 0
	for id := range h.journal.schedules {
		for _, r := range h.api.runs("/v1/schedules/"+id+"/runs", url.Values{}) {
			if rows++; r.Status != "SUCCESS" {
				t.Errorf("the executor ran it, and the ledger says %s", describe(r))
			}
		}
	}
	if rows != len(slots) {
		t.Errorf("the ledger has %d runs, want %d", rows, len(slots))
	}
}

// total adds a metric up over all processes.
func (h *holders) total(name string) (sum int) {
	for _, p := range h.processes {
		n, _ := strconv.Atoi(metric(p, name))
		sum += n
	}
	return sum
}

const (
	takenByPresence = `carillon_keys_taken_over_total{proof="presence"}`
	takenByLease    = `carillon_keys_taken_over_total{proof="lease"}`
	presenceLost    = `carillon_presence_lost_total`
)

// TestLongAKeyHasOneHolder breaks deployments in each way in which a key changes its
// holder. In each every slot takes effect once, none is lost, and no key is sent
// while a call of it by a living process is open.
func TestLongAKeyHasOneHolder(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	for _, c := range []struct {
		name      string
		on        func(h *holders, t *testing.T)
		processes int
		strikes   int
		strike    func(h *holders, n int)
		check     func(t *testing.T, h *holders)
	}{
		{"a process stands still for longer than its lease", (*holders).onPostgres, 2, 3, standStill, leasesDecided},
		{"the session of a presence lock is ended while calls are open", (*holders).onPostgres, 2, 4, endPresence, registeredAgain},
		{"the only process is killed and started within the lease", (*holders).onPostgres, 1, 4, killAndStart, takenAtOnce},
		{"the only process on SQLite is killed and started within the lease", (*holders).onSQLite, 1, 4, killAndStart, takenAtOnce},
		{"Postgres crashes and starts within the lease", (*holders).onOwnPostgres, 2, 4, restartPostgres, nothingProven},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHolders(t, c.processes)
			c.on(h, t)
			h.run(t, c.strikes, c.strike)
			h.onceInEffect(t)
			t.Logf("%d slots, %d calls, %d overlaps; since its last start each process: %d keys by presence, %d by lease, %d locks lost",
				len(h.slots), h.log.calls, len(h.log.overlaps), h.total(takenByPresence), h.total(takenByLease), h.total(presenceLost))
			c.check(t, h)
		})
	}
}

func (h *holders) noOverlap(t *testing.T) {
	t.Helper()
	for _, o := range h.log.overlaps {
		t.Error(o)
	}
}

// standStill stops the leader for longer than a lease and a term.
func standStill(h *holders, _ int) {
	p := h.leader()
	if p == nil {
		p = h.processes[0]
	}
	p.expects = databaseUnavailable // its check of the database ran out while it was stopped
	signal := func(s syscall.Signal) {
		if err := p.cmd.Process.Signal(s); err != nil {
			h.t.Errorf("%s: %v", p.name, err)
		}
	}
	signal(syscall.SIGSTOP)
	time.Sleep(3500 * time.Millisecond)
	signal(syscall.SIGCONT)
}

func leasesDecided(t *testing.T, h *holders) {
	h.noOverlap(t)
	if n := h.total(takenByPresence); n > 0 {
		t.Errorf("%d keys of a process that was stopped were taken over as if it were gone", n)
	}
}

// endPresence ends the sessions of all presence locks, as an administrator does.
func endPresence(h *holders, n int) {
	before := h.total(presenceLost)
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	conn, err := pgx.Connect(ctx, h.database)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var ended int
	if err := conn.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = 'carillon-presence'`).Scan(&ended); err != nil || ended != len(h.processes) {
		h.t.Fatalf("strike %d: ended %d sessions, %v", n, ended, err)
	}
	eventually(h.t, startBound, "each process notices", func() error {
		if lost := h.total(presenceLost) - before; lost != len(h.processes) {
			return fmt.Errorf("%d locks lost", lost)
		}
		return nil
	})
}

// registeredAgain: another process may take a key in the moment between the end of
// the session and the new registration; then two calls of it are open.
func registeredAgain(t *testing.T, h *holders) {
	if taken := h.total(takenByPresence); len(h.log.overlaps) > taken {
		t.Errorf("%d keys were sent while calls of them were open, and %d were taken over", len(h.log.overlaps), taken)
		h.noOverlap(t)
	}
}

// killAndStart also measures how late slots are once the process is ready again.
func killAndStart(h *holders, n int) {
	p, since := h.processes[0], time.Now()
	h.log.die(p)
	p.startReady()
	ready := time.Now()
	time.Sleep(time.Until(since.Add(strikeEvery - time.Second)))
	late := h.lateAfter(ready, since.Add(-time.Second), ready.Add(time.Second))
	h.t.Logf("kill %d: ready after %s; the worst slot was sent %s after it was due and the process ready", n, ready.Sub(since), late)
	if late > 2*time.Second {
		h.t.Errorf("kill %d: a slot was sent %s after it was due and the process ready: it waited for the lease of the process that was killed", n, late)
	}
}

func takenAtOnce(t *testing.T, h *holders) {
	h.noOverlap(t)
	if h.total(takenByPresence) == 0 {
		t.Error("no key of the process that was killed last was taken over by its free lock")
	}
}

// restartPostgres also kills the leader in between, every other time: its lock is
// free after the restart, as those of living processes are.
func restartPostgres(h *holders, n int) {
	victim := h.leader()
	h.postgres.Crash()
	if n%2 == 1 && victim != nil {
		h.log.die(victim)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	if err := h.postgres.Restart(ctx); err != nil {
		h.t.Fatalf("restart Postgres: %v", err)
	}
	if n%2 == 1 && victim != nil {
		victim.startReady()
	}
}

func nothingProven(t *testing.T, h *holders) {
	h.noOverlap(t)
	if taken, lost := h.total(takenByPresence), h.total(presenceLost); taken > 0 || lost == 0 {
		t.Errorf("%d keys were taken over because a lock was free after a restart of Postgres; %d locks were lost", taken, lost)
	}
}
