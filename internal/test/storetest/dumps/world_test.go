package dumps_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/storetest"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/alert"
	"github.com/carillon/carillon/registrar/notify"
	"github.com/carillon/carillon/worker"
)

// The virtual clock runs from begin to end, over three midnights. It stops ten
// seconds after a full hour, when runs are open in every state.
var (
	begin = time.Date(2026, 2, 27, 20, 30, 0, 0, time.UTC)
	end   = time.Date(2026, 3, 2, 12, 0, 10, 0, time.UTC)
)

var mute = slog.New(slog.DiscardHandler)

// world is the product on a virtual clock: registrar, worker, launcher and alerts
// over one store. All of it runs on one goroutine, so that the same store always
// gets the same calls.
type world struct {
	testing.TB
	storetest.Store
	ctx    context.Context
	clock  atomic.Int64 // nanoseconds since 1970; the launcher's batches read it, too
	users  *registrar.Registrar
	launch *launcher.Launcher
	alerts *alert.Watch
	runs   *executor

	steps    *worker.Steps // nil: no worker leads
	term     schedule.Term
	terms    []term
	events   []event // to come, in order
	order    int
	nextTick time.Time
	nextFire time.Time // zero: no slot wants a pass
}

// event is a function that is called at an instant.
type event struct {
	at    time.Time
	order int
	do    func()
}

// term is when a worker led, by the world's clock. Postgres records its own.
type term struct {
	epoch        int64
	began, ended time.Time
}

// fill makes the world in an empty store, and returns the terms of its leaders.
func fill(t testing.TB, store storetest.Store) []term {
	w := &world{TB: t, Store: store, ctx: t.Context()}
	w.set(begin)
	w.runs = newExecutor(w)
	w.users = registrar.New(registrar.Options{
		Schedules: store, Fleet: store, Runs: store, Logs: store, Outcomes: store, Backfills: store, Workflows: store,
		Shares: store, Grants: store, Terms: store, Sends: store, Now: w.now, Logger: mute,
		Config: registrar.Config{CanCancel: true, CancelWait: 30 * time.Second},
	})
	w.launch = launcher.New(launcher.Options{
		Store: store, Workflows: workflow.None{}, Executor: w.runs, Now: w.now, Logger: mute,
		Spread: func(schedule.Key, time.Duration) time.Duration { return 0 }, Config: launcher.Config{Feedback: true},
	})
	w.alerts = alert.New(alert.Options{
		Judge: store, Outbox: store, Routes: w.routes(), Client: http.DefaultClient, Now: w.now, Logger: mute,
		Registry: prometheus.NewRegistry(), PublicURL: "https://carillon.example.org",
	})
	_, err := w.RecordShards(w.ctx, 1)
	w.ok(err, "record the number of shards")
	w.script()
	w.lead()
	w.play()
	w.leaveOpen()
	w.ok(w.AppendAudit(w.ctx, refusals()), "append audit entries")
	return w.terms
}

func (w *world) now() time.Time { return time.Unix(0, w.clock.Load()).UTC() }

func (w *world) set(now time.Time) { w.clock.Store(now.UnixNano()) }

// ok ends the test when err is not nil.
func (w *world) ok(err error, doing string, about ...any) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %s %v: %v", w.now().Format(time.RFC3339), doing, about, err)
	}
}

// routes sends the alerts of the first owner to people, grouped, and all others to a
// webhook.
func (w *world) routes() func() *notify.Routes {
	folder := w.TempDir()
	path := filepath.Join(folder, "notify.yaml")
	w.ok(os.WriteFile(filepath.Join(folder, "webhook"), []byte("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"), 0o600), "write the webhook's secret")
	w.ok(os.WriteFile(path, []byte(`
targets:
  - {name: people, kind: email, smtp: "relay.example.org:25", tls: none, from: carillon@example.org, to: [ops@example.org]}
  - {name: machine, kind: webhook, url: "https://hooks.example.org/carillon", secret: {file: webhook}}
routes:
  - {match: {owner: acme}, to: [people]}
default: [machine]
group_wait: 1m
group_interval: 10m
`), 0o600), "write the notify file")
	routes, err := notify.Read(path, nil, safehttp.Policy{})
	w.ok(err, "read the notify file")
	return func() *notify.Routes { return routes }
}

// at plans do for an instant. Of two at one instant the first planned comes first.
func (w *world) at(at time.Time, do func()) {
	w.order++
	w.events = append(w.events, event{at, w.order, do})
	slices.SortStableFunc(w.events, func(a, b event) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order)) })
}

// play runs all events until the end. At one instant the script and reports come
// first, then the tick, the claim, and the calls of the executor.
func (w *world) play() {
	for {
		var next event
		offer := func(at time.Time, do func()) {
			if at.Before(w.now()) {
				at = w.now()
			}
			if next.do == nil || at.Before(next.at) {
				next = event{at: at, do: do}
			}
		}
		if len(w.events) > 0 {
			offer(w.events[0].at, func() {
				do := w.events[0].do
				w.events = w.events[1:]
				do()
				if w.steps != nil { // whatever was written wakes a worker
					w.nextFire = w.now()
				}
			})
		}
		if w.steps != nil {
			offer(w.nextTick, w.tick)
			if !w.nextFire.IsZero() {
				offer(w.nextFire, w.fire)
			}
			if at, ok := w.steps.Held(); ok {
				offer(at, w.steps.Call)
			}
		}
		if next.do == nil || next.at.After(end) {
			w.set(end)
			return
		}
		w.set(next.at)
		next.do()
		if w.steps != nil && w.steps.Woken() {
			w.nextFire = w.now()
		}
	}
}

// lead begins a term.
func (w *world) lead() {
	host := fmt.Sprintf("host-%d:%d", len(w.terms)+1, 100+len(w.terms))
	t, ok, err := w.Takeover(w.ctx, schedule.TakeoverRequest{
		Shards: 1, Holder: fmt.Sprintf("worker-%d", len(w.terms)+1), Host: host, TTL: 24 * time.Hour, LockHeld: true, LockKind: "postgres", Now: w.now(),
	})
	w.ok(err, "take over")
	if !ok {
		w.Fatal("nobody takes over")
	}
	w.term = t
	w.terms = append(w.terms, term{epoch: t.Epoch, began: w.now()})
	w.steps = worker.NewSteps(w.ctx, worker.Options{
		ID: t.Holder, Host: host, Plans: w.Store, Fires: w.Store, Backfills: w.Store, Launcher: timeless{w.launch}, Now: w.now, Logger: mute,
		Config: worker.Config{Lookahead: 40 * time.Minute},
	}, t)
	w.ok(w.Heartbeat(w.ctx, schedule.WorkerSeen{WorkerID: t.Holder, Host: host, StartedAt: w.now(), SeenAt: w.now()}), "heartbeat")
	w.ok(w.NoteProcess(w.ctx, schedule.ProcessSeen{ProcessID: t.Holder, Host: host, Version: "v1", Roles: "registrar,worker,launcher", StartedAt: w.now(), SeenAt: w.now()}), "note a process")
	w.tick()
}

// die stops the worker at once: it makes none of the calls that it holds.
func (w *world) die() {
	w.steps, w.nextFire = nil, time.Time{}
	w.terms[len(w.terms)-1].ended = w.now()
}

// resign ends the term by hand.
func (w *world) resign() {
	w.ok(w.Resign(w.ctx, w.term, schedule.Resignation{Now: w.now(), End: schedule.TermEnd{Reason: schedule.EndResigned, Detail: "asked by ops"}}), "resign")
	w.die()
}

// tick does what a worker and a registrar do each second. To be fast it is every
// half hour until the last minutes; the script adds ticks where a test needs them.
func (w *world) tick() {
	w.steps.Tick()
	w.feed()
	w.ok(w.alerts.Judge(w.ctx), "evaluate expectations")
	w.ok(w.alerts.Group(w.ctx), "group alerts")
	every := 30 * time.Minute
	if w.now().After(end.Add(-10 * time.Minute)) {
		every = time.Minute
	}
	w.nextTick, w.nextFire = w.now().Add(every).Truncate(every), w.now()
}

func (w *world) feed() {
	feeder := plan.Feeder(w.now(), plan.FeedConfig{Ahead: time.Second, Portion: 1000, Pending: 1000})
	_, err := w.FeedBackfills(w.ctx, schedule.FeedRequest{Term: w.term, Now: w.now(), Ahead: 250 * time.Millisecond, Limit: 50}, feeder)
	w.ok(err, "feed backfills")
}

func (w *world) fire() {
	next, err := w.steps.Fire()
	w.ok(err, "fire")
	w.nextFire = next
}
