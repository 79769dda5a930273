package storetest

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/schedule"
)

// RunColumn is a column of a run in a store's table of columns.
type RunColumn struct {
	Name        string // "" in Open or Ended: the table does not have it
	Open, Ended string // its name in each table
	Read        bool   // each reader of runs reads it
}

// CheckColumns compares a store's table of columns with its schema. Each table has one row,
// of the same run, as Fill has made it. count runs a query that returns a number.
func CheckColumns(t *testing.T, columns []RunColumn, inSchema func(table string) []string, count func(query string) (int, error)) {
	t.Helper()
	var open, ended []string
	for _, c := range columns {
		open, ended = append(open, c.Open), append(ended, c.Ended)
	}
	for table, known := range map[string][]string{"open_runs": open, "ended_runs": ended} {
		known = slices.DeleteFunc(known, func(name string) bool { return name == "" })
		slices.Sort(known)
		if d := cmp.Diff(inSchema(table), known); d != "" {
			t.Errorf("%s and the table of columns differ (- schema, + columns):\n%s", table, d)
		}
	}
	view := inSchema("schedule_runs")
	for _, c := range columns {
		shown := c.Name
		if other := inView[c.Name]; other != "" {
			shown = other
		}
		if !c.Read || slices.Contains(notInView, c.Name) {
			continue
		}
		if !slices.Contains(view, shown) {
			t.Errorf("the view does not show %s", c.Name)
			continue
		}
		for table, name := range map[string]string{"open_runs": c.Open, "ended_runs": c.Ended} {
			if name == "" {
				continue
			}
			n, err := count(`SELECT count(*) FROM schedule_runs v JOIN ` + table + ` r ON r.idempotency_key = v.idempotency_key
WHERE (v.completed_at IS NULL) = ('` + table + `' = 'open_runs') AND v.` + shown + ` = r.` + name)
			if err != nil || n != 1 {
				t.Errorf("the view does not show %s of %s: %v", name, table, err)
			}
		}
	}
}

// inView are columns that the view shows under another name.
var inView = map[string]string{"policy": "overlap_policy", "send_after": "claimed_until"}

// notInView are columns for which the view has words, those of the order of a queue, the target of
// messages, what a run keeps, and whether history keeps it.
var notInView = []string{"status", "trigger", "policy", "queue_no", "queue_state", "effective_priority", "position_key", "fair_key", "fair_order", "webhook", "group_no", "kept_limits", "keep_history", "admitted_as"}

// Fill gives each exported field of a row of a run a value of its own, for tests that no
// column is left out or mistaken for another one. The run is of revision 1 of schedule s.
func Fill(t testing.TB, row any) {
	t.Helper()
	n := int64(0)
	fill(t, reflect.ValueOf(row).Elem(), &n)
}

func fill(t testing.TB, v reflect.Value, n *int64) {
	t.Helper()
	*n++
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC).Add(time.Duration(*n) * time.Second)
	switch to := v.Addr().Interface().(type) {
	case *time.Time:
		*to = at
	case *schedule.Key:
		*to = schedule.SlotKey("s", at)
	case *schedule.Run:
		fillFields(t, v, n)
		to.ScheduleID, to.Revision = "s", 1
		to.Status, to.Trigger, to.OverlapPolicy, to.Exclusive = schedule.StatusStarted, schedule.TriggerManual, schedule.OverlapQueue, true
		to.Queue.AdmittedAs = schedule.AdmittedAged
		to.Queue.State, to.Queue.ID, to.Queue.GroupID, to.Queue.Unique = schedule.QueueRunning, "", "", nil // the registrar names the queue and the group, and reads the key
	case *string:
		*to = strings.Repeat("x", int(*n))
	default:
		fillKind(t, v, n)
	}
}

func fillKind(t testing.TB, v reflect.Value, n *int64) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", int(*n)))
	case reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint32:
		v.SetUint(uint64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.SetBytes([]byte(`{"n":1}`))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Struct:
		fillFields(t, v, n)
	default:
		t.Fatalf("no value for a field of type %s", v.Type())
	}
}

func fillFields(t testing.TB, v reflect.Value, n *int64) {
	t.Helper()
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			fill(t, v.Field(i), n)
		}
	}
}
