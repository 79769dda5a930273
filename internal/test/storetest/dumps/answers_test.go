package dumps_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/alert"
	"github.com/carillon/carillon/worker/leader"
)

// reader is every read method of a store except those of a worker's pass, which
// change together with the tables.
type reader interface {
	registrar.ScheduleStore
	registrar.FleetStore
	registrar.RunStore
	registrar.OutcomeStore
	registrar.LogStore
	registrar.BackfillStore
	registrar.GrantStore
	registrar.WorkflowStore
	registrar.ShareStore
	registrar.SendStore
	registrar.TermStore
	registrar.AuditStore
	alert.ExpectationStore
	alert.Ledger
	alert.Outbox
	leader.TermStore
	workflow.Versions
	Leaders(ctx context.Context, now time.Time) ([]schedule.Leadership, error)
	Shards(ctx context.Context) (int, error)
	Lag(ctx context.Context, now time.Time) (schedule.Lag, error)
}

// answers collects the answers of the readers of one store as text.
type answers struct {
	testing.TB
	reader
	ctx   context.Context
	users *registrar.Registrar
	out   strings.Builder
	names map[schedule.Key]string
	said  map[string]bool // the items of lists
	runs  []schedule.Run  // all of them, oldest slot first
	asIs  map[schedule.Key]string
	ids   []string // of schedules, tombstones included
}

// page is a limit above the number of rows of any list.
const page = 1000

// far is later than every slot.
var far = end.AddDate(1, 0, 0)

// read asks every reader, and last a launcher and a reporter, which may write.
func read(t testing.TB, store interface {
	reader
	launcher.Store
},
) string {
	t.Helper()
	a := newAnswers(t, store)
	a.sentAgain(store)
	a.reportedAgain()
	return a.out.String()
}

// newAnswers asks every reader.
func newAnswers(t testing.TB, store reader) *answers {
	t.Helper()
	a := &answers{TB: t, reader: store, ctx: t.Context(), names: make(map[schedule.Key]string), said: make(map[string]bool), asIs: make(map[schedule.Key]string)}
	a.users = registrar.New(registrar.Options{
		Schedules: store, Fleet: store, Runs: store, Logs: store, Outcomes: store, Backfills: store, Workflows: store,
		Shares: store, Grants: store, Terms: store, Sends: store, Now: func() time.Time { return end }, Logger: mute,
	})
	a.everyRun()
	a.listedRuns()
	a.watched()
	a.everySchedule()
	a.listedSchedules()
	a.slots()
	a.outcomes()
	a.backfills()
	a.alerts()
	a.rest()
	return a
}

// title begins a part of the answers.
func (a *answers) title(format string, args ...any) {
	fmt.Fprintf(&a.out, "\n== "+format+"\n", args...)
}

// say writes the answer of a reader: each item of a list on a line of its own. A
// long item that was written before is cut.
func (a *answers) say(what string, v any, err error) {
	a.Helper()
	if err != nil {
		fmt.Fprintf(&a.out, "%s: error: %v\n", what, err)
		return
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		fmt.Fprintf(&a.out, "%s: %s\n", what, a.text(v))
		return
	}
	fmt.Fprintf(&a.out, "%s: %d\n", what, list.Len())
	for i := range list.Len() {
		text := a.text(list.Index(i).Interface())
		if said := a.said[text]; said {
			text = text[:min(80, len(text))] + " (as above)"
		} else if len(text) > 200 {
			a.said[text] = true
		}
		fmt.Fprintf(&a.out, "  %s\n", text)
	}
}

// everyRun writes each run in full, with its attempts, first send and log.
func (a *answers) everyRun() {
	var err error
	a.runs, err = a.ListRuns(a.ctx, schedule.RunFilter{Now: far, Ascending: true, Limit: page, Statuses: schedule.Statuses})
	if err != nil {
		a.Fatal(err)
	}
	slices.SortStableFunc(a.runs, func(x, y schedule.Run) int { return strings.Compare(x.ScheduleID, y.ScheduleID) })
	for i := range a.runs {
		a.names[a.runs[i].Key] = nameOf(&a.runs[i])
	}
	a.title("runs, each with its attempts, its first send and its log")
	for i := range a.runs {
		key := a.runs[i].Key
		run, err := a.GetRun(a.ctx, key)
		if err != nil {
			a.Fatal(err)
		}
		a.asIs[key] = a.whole(run)
		fmt.Fprintf(&a.out, "%s\n", a.asIs[key])
		if attempts, err := a.LaunchAttempts(a.ctx, key); len(attempts) > 0 || err != nil {
			a.say("  attempts", attempts, err)
		}
		if run.Deliveries > 1 { // else nobody asks
			sent, err := a.FirstSent(a.ctx, key)
			a.say("  first sent", sent, err)
		}
		if log, err := a.ReadRunLog(a.ctx, schedule.RunLogQuery{Key: key, Limit: page}); len(log) > 0 || err != nil {
			a.say("  log", log, err)
		}
	}
	_, err = a.GetRun(a.ctx, schedule.ManualKey("nobody", "1"))
	a.say("a key that nobody has", "", err)
}

// filters are the lists of runs that people ask for.
func (a *answers) filters() map[string]schedule.RunFilter {
	some := a.runs[len(a.runs)/2]
	keys, err := schedule.ParseKeyPrefix(some.Key.String()[:6])
	if err != nil {
		a.Fatal(err)
	}
	f := map[string]schedule.RunFilter{
		"all": {}, "all ahead, too": {Now: far}, "late": {DueBefore: end.Add(time.Second)}, "a range of keys": {Keys: keys},
		"of a time":                     {From: mar1(0, 0), To: mar1(12, 0)},
		"of a schedule in a time":       {ScheduleID: "sync", From: feb28(12, 0), To: mar1(12, 0)},
		"of an owner that failed":       {UserID: globex, Statuses: []schedule.Status{schedule.StatusFailed}},
		"of a workflow by hand":         {WorkflowID: "etl", Trigger: schedule.TriggerManual},
		"of a workflow":                 {WorkflowID: "backup"},
		"in flight":                     {Statuses: schedule.InFlight},
		"not over":                      {Statuses: []schedule.Status{schedule.StatusPlanned, schedule.StatusLaunching, schedule.StatusEnqueued, schedule.StatusStarted}},
		"skipped or cancelled":          {Statuses: []schedule.Status{schedule.StatusSkipped, schedule.StatusCancelled}},
		"with a run id":                 {RunID: "nightly-1"},
		"with a trace id":               {TraceID: schedule.SlotKey("jittered", mar1(0, 5)).TraceID()},
		"of an owner with a slash":      {UserID: teamB, From: mar2(0, 0)},
		"of a schedule and its reason":  {ScheduleID: "sync", Reason: schedule.ReasonOverlap},
		"of nobody":                     {UserID: "nobody"},
		"of a schedule that is deleted": {ScheduleID: "deleted"},
	}
	for _, s := range schedule.Statuses {
		f["status "+string(s)] = schedule.RunFilter{Statuses: []schedule.Status{s}, Now: far}
	}
	for _, r := range schedule.Reasons {
		f["reason "+string(r)] = schedule.RunFilter{Reason: r}
	}
	for _, trigger := range schedule.Triggers {
		f["trigger "+string(trigger)] = schedule.RunFilter{Trigger: trigger}
	}
	for _, id := range []string{"ingest", "mirror", "by-hand", "filled", "moved"} {
		f["schedule "+id] = schedule.RunFilter{ScheduleID: id, Now: far}
	}
	return f
}

func (a *answers) listedRuns() {
	a.title("lists of runs; each is the same page by page, and in the order of an export the other way round")
	filters := a.filters()
	for _, name := range sortedKeys(filters) {
		f := filters[name]
		f.Limit = page
		if f.Now.IsZero() {
			f.Now = end
		}
		runs, err := a.ListRuns(a.ctx, f)
		a.say(name, runs, err)
		a.samePaged(name, f, runs)
		f.Ascending = true
		up, err := a.ListRuns(a.ctx, f)
		slices.Reverse(up)
		if err != nil || !slices.Equal(keysOf(up), keysOf(runs)) {
			fmt.Fprintf(&a.out, "  ascending: %d, %v\n", len(up), err)
		}
		f.Ascending = false
	}
}

func (a *answers) samePaged(name string, f schedule.RunFilter, want []schedule.Run) {
	a.Helper()
	for _, f.Ascending = range []bool{false, true} {
		f.Limit, f.AfterRunAt, f.AfterKey = 7, time.Time{}, schedule.Key{}
		var got []schedule.Key
		for {
			some, err := a.ListRuns(a.ctx, f)
			if err != nil {
				a.Fatalf("%s: %v", name, err)
			}
			got = append(got, keysOf(some)...)
			if len(some) < f.Limit {
				break
			}
			last := some[len(some)-1]
			f.AfterRunAt, f.AfterKey = last.RunAt, last.Key
		}
		if f.Ascending {
			slices.Reverse(got)
		}
		if !slices.Equal(got, keysOf(want)) {
			a.Errorf("%s, ascending %v: %d runs page by page, %d at once, or in another order", name, f.Ascending, len(got), len(want))
		}
	}
}

// watched reads the feed of changes from several positions.
func (a *answers) watched() {
	a.title("changes that a watch sees")
	for _, since := range []time.Time{mar1(6, 0), mar2(11, 0), end.Add(-2 * time.Second)} {
		f := schedule.RunFilter{UpdatedAfter: since, Now: end, Limit: page}
		runs, err := a.ListRuns(a.ctx, f)
		a.say("since "+since.Format(time.RFC3339), runs, err)
		f.ScheduleID = "sync"
		runs, err = a.ListRuns(a.ctx, f)
		a.say("of a schedule since "+since.Format(time.RFC3339), runs, err)
	}
}

func keysOf(runs []schedule.Run) []schedule.Key {
	keys := make([]schedule.Key, len(runs))
	for i := range runs {
		keys[i] = runs[i].Key
	}
	return keys
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
