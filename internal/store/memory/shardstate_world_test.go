package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
)

const (
	shardGrace  = time.Minute
	shardLease  = 10 * time.Second
	shardWindow = 10 * time.Second // how far ahead planned runs are loaded
	shardNames  = 5                // schedules of one world
)

// shardWorld is one shard's ledger in a store, with the leader's state in memory
// beside it. All that others write to the store reaches the state through the log
// of changes only.
type shardWorld struct {
	*rapid.T
	ctx   context.Context
	store *memory.Store
	term  schedule.Term
	state *ledger.ShardState
	now   time.Time

	log       []shardChange // what was committed
	read      int           // how much of it the state has read
	again     []shardChange // to be read once more
	seenUntil time.Time     // as the leaders row keeps it
	// seenAtPlan is seenUntil when a run was planned.
	seenAtPlan  map[schedule.Key]time.Time
	uncommitted map[schedule.Key]bool // seen by a pass that was not committed
	judged      map[schedule.Key]bool // seen by a claim of the store, or judged by a plan
	swept       []schedule.Key        // left open by the last sweep
	defects     map[schedule.Key]bool // runs on which the state was made to differ from the store
	made        int                   // for request ids
	passes      int

	claiming   *oracleVerdicts // set while the store claims
	reclaiming bool
	planning   bool
	loaded     time.Time // the end of the window
	between    func()    // runs once, between two readings of a pass
	readings   int       // in this pass
	foundGone  bool      // a look-up of this pass has found a run gone
	seen       *shardCoverage
}

// shardChange is a row of the log: it names a schedule or a run.
type shardChange struct {
	scheduleID string
	key        schedule.Key
}

// oracleVerdicts are what the store's claim did.
type oracleVerdicts struct {
	claims  []schedule.Key
	ends    map[schedule.Key]string
	waits   map[schedule.Key]time.Time
	cancels map[schedule.Key]schedule.Reason
	left    bool
}

func newShardWorld(t *rapid.T, seen *shardCoverage) *shardWorld {
	w := &shardWorld{T: t, ctx: context.Background(), now: time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC), seen: seen}
	w.seenAtPlan, w.uncommitted, w.judged = make(map[schedule.Key]time.Time), make(map[schedule.Key]bool), make(map[schedule.Key]bool)
	w.defects = make(map[schedule.Key]bool)
	w.store = memory.New(memory.Options{
		Clock: func() time.Time { return w.now },
		Watch: memory.Watch{Run: w.sawRun, Schedule: w.sawSchedule},
	})
	for i, scope := range []string{"graph:execute:*", "graph:execute:flow", "graph:execute:other"} {
		expires := time.Time{}
		if i == 1 {
			expires = w.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, time.Hour}).Draw(t, "grant expires"))
		}
		for _, owner := range []string{"ada", "bob", "eve"} {
			g := schedule.Grant{GrantID: fmt.Sprint("g", i), UserID: owner, BillingAccountID: owner, Scopes: []string{scope}, ExpiresAt: expires}
			w.must(w.store.CreateGrant(w.ctx, &g))
		}
	}
	w.takeOver()
	for i := range shardNames {
		w.edit(i)
	}
	return w
}

func (w *shardWorld) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// sawRun writes the log as the product does: every writer that moves a run names it. What a
// claim does to its own runs, the leader knows. What a plan inserts beyond the
// window is read when the window has moved.
func (w *shardWorld) sawRun(_ *schedule.Term, before, after *schedule.Run) {
	if after == nil {
		delete(w.judged, before.Key)
	}
	switch {
	case w.claiming != nil:
		w.claiming.saw(before, after)
	case w.reclaiming: // the leader knows
	case after == nil:
		w.log = append(w.log, shardChange{scheduleID: before.ScheduleID})
	case w.planning && before == nil:
		w.seenAtPlan[after.Key] = w.seenUntil
		if w.near(after) {
			w.log = append(w.log, shardChange{key: after.Key})
		}
	default:
		w.log = append(w.log, shardChange{key: after.Key})
	}
}

func (w *shardWorld) sawSchedule(term *schedule.Term, before, after *schedule.Schedule) {
	if term == nil || before == nil || before.Pause != after.Pause {
		w.log = append(w.log, shardChange{scheduleID: after.ScheduleID})
	}
}

func (o *oracleVerdicts) saw(before, after *schedule.Run) {
	switch {
	case after.Status.Terminal():
		o.ends[after.Key] = fmt.Sprintln(after.Status, after.Reason, after.ErrorCode, after.ErrorMessage)
	case before.CancelRequestedAt.IsZero() && !after.CancelRequestedAt.IsZero():
		o.cancels[after.Key] = after.CancelReason
	case before.WaitingSince.IsZero() && !after.WaitingSince.IsZero():
		o.waits[after.Key] = after.WaitingSince
	}
}

// open are the runs of the shard that a rebuild loads: those in flight, those that
// wait, and the planned ones in the window.
func (w *shardWorld) open(f schedule.RunFilter) (runs []schedule.Run) {
	f.Statuses = []schedule.Status{schedule.StatusPlanned, schedule.StatusLaunching, schedule.StatusEnqueued, schedule.StatusStarted}
	f.Limit, f.Now = 1_000_000, w.now
	all, err := w.store.ListRuns(w.ctx, f)
	w.must(err)
	for i := range all {
		if w.leads(&all[i]) && w.near(&all[i]) {
			runs = append(runs, all[i])
		}
	}
	return runs
}

// leads reports whether the run is open and of the shard.
func (w *shardWorld) leads(r *schedule.Run) bool {
	first, last := w.term.Buckets()
	bucket := schedule.Bucket(r.OverlapKey)
	return !r.Status.Terminal() && first <= bucket && bucket <= last
}

// near reports whether the window reaches the run, or it needs none.
func (w *shardWorld) near(r *schedule.Run) bool {
	end := w.now.Add(shardWindow)
	if w.loaded.After(end) {
		end = w.loaded // the clock was set back
	}
	return r.Status != schedule.StatusPlanned || !r.WaitingSince.IsZero() || !r.FireAt.After(end)
}

// Changes reads the log from where it was read last, in any order, some of it
// again.
func (w *shardWorld) Changes() (c ledger.Changes, err error) {
	names := append(slices.Clone(w.log[w.read:]), w.again...)
	for range rapid.IntRange(0, min(3, w.read)).Draw(w.T, "repeated changes") {
		names = append(names, w.log[rapid.IntRange(0, w.read-1).Draw(w.T, "repeated")])
	}
	w.read, w.again = len(w.log), nil
	names = rapid.Permutation(names).Draw(w.T, "order of changes")
	stopped := make(map[string]bool)
	for _, n := range names {
		if n.scheduleID != "" {
			c.Schedules = append(c.Schedules, w.scheduleNow(n.scheduleID))
			continue
		}
		r, err := w.store.GetRun(w.ctx, n.key)
		switch {
		case errors.Is(err, schedule.ErrNotFound) || err == nil && r.Status.Terminal():
			c.Ended = append(c.Ended, n.key)
		case err != nil:
			return c, err
		case w.leads(r):
			c.Runs = append(c.Runs, ledger.RunOf(r))
			stopped[r.ScheduleID] = true
		}
	}
	for id := range stopped {
		if s := w.scheduleNow(id); s.Deleted || s.Pause.Paused {
			c.Schedules = append(c.Schedules, s)
		}
	}
	if w.readings++; w.readings == 1 && w.between != nil {
		w.between()
	}
	return c, nil
}

// InFlight looks runs up.
func (w *shardWorld) InFlight(keys []schedule.Key) (map[schedule.Key]bool, error) {
	in := make(map[schedule.Key]bool)
	for _, key := range keys {
		r, err := w.store.GetRun(w.ctx, key)
		if err != nil {
			return nil, err
		}
		in[key] = r.Status.InFlight()
		w.foundGone = w.foundGone || !in[key] && w.state.Knows(key)
	}
	return in, nil
}

func (w *shardWorld) scheduleNow(id string) ledger.ScheduleNow {
	s, err := w.store.GetSchedule(w.ctx, id)
	w.must(err)
	now := ledger.ScheduleNow{ScheduleID: id, Deleted: !s.Alive(), Pause: s.Pause}
	for _, r := range w.open(schedule.RunFilter{ScheduleID: id}) {
		if r.Status == schedule.StatusPlanned {
			now.Planned = append(now.Planned, ledger.RunOf(&r))
		}
	}
	return now
}

// Facts reads definitions and the grants that they name.
func (w *shardWorld) Facts(ids []schedule.RevisionID) (ledger.Facts, error) {
	f := ledger.Facts{Definitions: make(map[schedule.RevisionID]*schedule.Definition), Grants: make(map[schedule.GrantRef]*schedule.Grant)}
	for _, id := range ids {
		revisions, err := w.store.ListRevisions(w.ctx, id.ScheduleID, id.Revision+1, 1)
		w.must(err)
		if len(revisions) == 0 || revisions[0].Revision != id.Revision {
			continue
		}
		d := &revisions[0].Definition
		f.Definitions[id] = d
		if g, err := w.store.GetGrant(w.ctx, d.GrantRef()); err == nil {
			f.Grants[d.GrantRef()] = g
		}
	}
	return f, nil
}

// takeOver begins a new term.
func (w *shardWorld) takeOver() {
	if w.term.Epoch > 0 {
		w.must(w.store.Resign(w.ctx, w.term, schedule.Resignation{Now: w.now}))
	}
	term, ok, err := w.store.Takeover(w.ctx, schedule.TakeoverRequest{Holder: fmt.Sprint("worker", w.made), TTL: 1000 * time.Hour, Now: w.now})
	w.must(err)
	if !ok {
		w.Fatal("no takeover")
	}
	w.term = term
	w.state = w.rebuild()
	w.seen.takeovers++
}

// rebuild reads everything. The position in the log comes first, so some changes
// come again.
func (w *shardWorld) rebuild() *ledger.ShardState {
	w.read = max(0, len(w.log)-rapid.IntRange(0, 3).Draw(w.T, "changes after the position"))
	w.loaded = w.now.Add(shardWindow)
	open := w.openRuns(func(*schedule.Run) bool { return true })
	return ledger.Rebuild(w.term.Epoch, &open, w.loaded)
}

// openRuns are the open runs for which so holds, as a store loads them.
func (w *shardWorld) openRuns(so func(*schedule.Run) bool) ledger.Open {
	open := ledger.Open{SeenUntil: w.seenUntil}
	stopped := make(map[string]bool)
	for _, r := range w.open(schedule.RunFilter{}) {
		if !so(&r) {
			continue
		}
		open.Runs = append(open.Runs, ledger.RunOf(&r))
		if now := w.scheduleNow(r.ScheduleID); !stopped[r.ScheduleID] && (now.Deleted || now.Pause.Paused) {
			stopped[r.ScheduleID] = true
			open.Stopped = append(open.Stopped, now)
		}
	}
	return open
}

// moveWindow loads the planned runs that came into the window.
func (w *shardWorld) moveWindow() {
	until := w.now.Add(shardWindow)
	if !until.After(w.loaded) {
		return
	}
	from := w.loaded
	w.loaded = until
	open := w.openRuns(func(r *schedule.Run) bool {
		return r.Status == schedule.StatusPlanned && r.WaitingSince.IsZero() && r.FireAt.After(from)
	})
	w.state.Load(&open)
	w.state.LoadedUntil(until)
}
