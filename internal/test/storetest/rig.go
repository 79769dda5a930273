package storetest

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon/carillon/internal/schedule"
)

// noon is the now at which every check begins.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

const (
	grace    = time.Minute
	lease    = 30 * time.Second
	retryFor = 10 * time.Minute
	lookout  = time.Minute // how far ahead Plan looks
)

// rig is one check's hold on a store: its own ids, its own shard to lead, and
// short words for what every check does.
type rig struct {
	testing.TB
	Store
	ctx  context.Context
	name string // prefix of every id, its own
	user string
	now  time.Time
	term schedule.Term

	keysOfRuns bool                             // strange keys are those of runs
	keys       map[string]schedule.BeginRequest // the runs' that there are

	terms   int // how many this rig has led
	written int // what it has had written by verdicts
}

var rigs atomic.Int64

func newRig(t testing.TB, s Store) *rig {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	n := rigs.Add(1)
	name := fmt.Sprintf("c%03d", n)
	return &rig{
		TB: t, Store: s, ctx: ctx, name: name, user: name + "-owner", now: noon,
		term: schedule.Term{Shard: int(n)},
	}
}

// id is a name of this rig's own.
func (r *rig) id(name string) string { return r.name + "." + name }

// at is an instant so long after the rig's now, or before it.
func (r *rig) at(d time.Duration) time.Time { return r.now.Add(d) }

// ok ends the check when err is not nil.
func (r *rig) ok(err error, doing string) {
	r.Helper()
	if err != nil {
		r.Fatalf("%s: %v", doing, err)
	}
}

// equal ends the check when got is not want. Times are compared as instants,
// nil and empty as the same.
func equal[T any](r *rig, what string, got, want T) {
	r.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		r.Fatalf("%s differ (- want, + got):\n%s", what, d)
	}
}

// hold ends the check when what it says is not so.
func (r *rig) hold(so bool, format string, args ...any) {
	r.Helper()
	if !so {
		r.Fatalf("not so: "+format, args...)
	}
}

// lead makes this rig the leader of its shard, in a new epoch.
func (r *rig) lead() {
	r.Helper()
	r.terms++
	r.term = r.takeover(fmt.Sprintf("leader-%s-%d", r.name, r.terms))
}

// takeover gives the shard to holder, who holds the lock.
func (r *rig) takeover(holder string) schedule.Term {
	r.Helper()
	term, ok, err := r.Takeover(r.ctx, schedule.TakeoverRequest{
		Shard: r.term.Shard, Holder: holder, TTL: 24 * time.Hour, LockHeld: true, Now: r.now,
	})
	r.ok(err, "take over")
	r.hold(ok, "whoever holds the lock takes over")
	return term
}

// stored is v as a store gives it back: times cut to the microsecond, in UTC.
func stored[T any](v T) T {
	p := reflect.New(reflect.TypeFor[T]())
	p.Elem().Set(reflect.ValueOf(v))
	cut(p.Elem())
	return p.Elem().Interface().(T)
}

func cut(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		if t := v.Interface().(time.Time); !t.IsZero() {
			v.Set(reflect.ValueOf(t.UTC().Truncate(time.Microsecond)))
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			cut(v.Field(i))
		}
	}
}

// everyTime calls visit with every time.Time in v, by name.
func everyTime(v reflect.Value, name string, visit func(name string, t time.Time)) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		visit(name, v.Interface().(time.Time))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			everyTime(v.Field(i), name+"."+v.Type().Field(i).Name, visit)
		}
	}
}
