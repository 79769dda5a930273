package registrar_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/registrar"
)

func queueRegistrar() *registrar.Registrar {
	l := memory.New(memory.Options{})
	return registrar.New(registrar.Options{Schedules: l, Runs: l, Queues: l, Now: func() time.Time { return noon }, Logger: quiet})
}

func gpuQueue(edits ...func(*registrar.QueueInput)) registrar.QueueInput {
	in := registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "gpu", UserID: "ada"}, Actor: "op"}
	for _, edit := range edits {
		edit(&in)
	}
	return in
}

func queueKinds(t *testing.T, r *registrar.Registrar) (kinds []string) {
	t.Helper()
	events, err := r.ListQueueEvents(t.Context(), "gpu", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(events) {
		kinds = append(kinds, fmt.Sprintf("%s:%s:%d", e.Kind, e.Actor, e.Revision))
	}
	return kinds
}

func TestAQueueIsRegisteredOnceAndChangedByRevisions(t *testing.T) {
	r := queueRegistrar()
	upsert := func(in registrar.QueueInput) *schedule.Queue {
		t.Helper()
		q, err := r.UpsertQueue(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	q := upsert(gpuQueue())
	if q.Revision != 1 || q.MaxInFlight != 1 || q.MaxWaiting != 100_000 || q.Backpressure != schedule.BackpressureQueue || !q.CreatedAt.Equal(noon) {
		t.Errorf("registered as %+v", q)
	}
	if again := upsert(gpuQueue()); again.Revision != 1 {
		t.Errorf("the same again made revision %d", again.Revision)
	}
	if _, err := r.PauseQueue(t.Context(), registrar.PauseQueueInput{QueueID: "gpu", Note: "broken", Actor: "op"}); err != nil {
		t.Fatal(err)
	}
	none := uint32(0)
	q = upsert(gpuQueue(func(in *registrar.QueueInput) { in.MaxInFlight, in.MaxWaiting = 2, &none }))
	if q.Revision != 2 || q.MaxInFlight != 2 || q.MaxWaiting != 0 || q.Pause.Note != "broken" {
		t.Errorf("changed to %+v", q)
	}
	for _, do := range []func() (*schedule.Queue, error){
		func() (*schedule.Queue, error) { return r.ResumeQueue(t.Context(), "gpu", "", "op") },
		func() (*schedule.Queue, error) { return r.ResumeQueue(t.Context(), "gpu", "", "op") },
		func() (*schedule.Queue, error) { return r.CloseQueue(t.Context(), "gpu", "", "op") },
		func() (*schedule.Queue, error) { return r.CloseQueue(t.Context(), "gpu", "", "op") },
		func() (*schedule.Queue, error) { return r.OpenQueue(t.Context(), "gpu", "", "op") },
	} {
		if _, err := do(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"created:op:1", "paused:op:1", "changed:op:2", "resumed:op:2", "closed:op:2", "opened:op:2"}
	if got := queueKinds(t, r); !slices.Equal(got, want) {
		t.Errorf("log:  %q\nwant: %q", got, want)
	}
}

func TestAQueueOutOfBoundsIsRefusedWithTheFieldAndItsValue(t *testing.T) {
	for field, edit := range map[string]func(*registrar.QueueInput){
		"queue_id":              func(in *registrar.QueueInput) { in.QueueID = "a/b" },
		"user_id":               func(in *registrar.QueueInput) { in.UserID = "" },
		"max_in_flight":         func(in *registrar.QueueInput) { in.MaxInFlight = 10_001 },
		"run_timeout_ms":        func(in *registrar.QueueInput) { in.RunTimeoutMS = 999 },
		"max_waiting":           func(in *registrar.QueueInput) { n := uint32(100_000_001); in.MaxWaiting = &n },
		"backpressure":          func(in *registrar.QueueInput) { in.Backpressure = "some" },
		"labels":                func(in *registrar.QueueInput) { in.Labels = map[string]string{"a b": ""} },
		"rate.starts":           func(in *registrar.QueueInput) { in.Rate = schedule.RateDefinition{PerMS: 1000} },
		"rate.per_ms":           func(in *registrar.QueueInput) { in.Rate = schedule.RateDefinition{Starts: 1, PerMS: 86_400_001} },
		"rate.burst":            func(in *registrar.QueueInput) { in.Rate = schedule.RateDefinition{Starts: 2, PerMS: 1000, Burst: 3} },
		"limits[0]":             func(in *registrar.QueueInput) { in.Limits = []string{"none"} },
		"expect.wait_within_ms": func(in *registrar.QueueInput) { in.Expect.WaitWithinMS = 999 },
		"expect.dead_at_most":   func(in *registrar.QueueInput) { n := uint32(100_001); in.Expect.DeadAtMost = &n },
		"managed_by":            func(in *registrar.QueueInput) { in.ManagedBy = "a b" },
	} {
		t.Run(field, func(t *testing.T) {
			r := queueRegistrar()
			_, err := r.UpsertQueue(t.Context(), gpuQueue(edit))
			invalid, ok := errors.AsType[*schedule.InvalidError](err)
			if !ok || len(invalid.Violations) != 1 || !strings.HasPrefix(invalid.Violations[0].Field, field) {
				t.Errorf("got %v", err)
			}
			if found, err := r.ListQueues(t.Context(), schedule.QueueFilter{}); err != nil || len(found) != 0 {
				t.Errorf("written: %+v, %v", found, err)
			}
		})
	}
	past := registrar.PauseQueueInput{QueueID: "gpu", Until: noon}
	r := queueRegistrar()
	if _, err := r.UpsertQueue(t.Context(), gpuQueue()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.PauseQueue(t.Context(), past); err == nil || !strings.Contains(err.Error(), "until") {
		t.Errorf("a pause until now: %v", err)
	}
}

func TestAnOwnerSeesSharedQueuesAndChangesOnlyItsOwn(t *testing.T) {
	r := queueRegistrar()
	ada, bob := as(t, "ada", auth.User), as(t, "bob", auth.User)
	for id, shared := range map[string]bool{"private": false, "shared": true} {
		if _, err := r.UpsertQueue(ada, gpuQueue(func(in *registrar.QueueInput) { in.QueueID, in.UserID, in.Shared = id, "", shared })); err != nil {
			t.Fatal(err)
		}
	}
	found, err := r.ListQueues(bob, schedule.QueueFilter{})
	if err != nil || len(found) != 1 || found[0].QueueID != "shared" || found[0].UserID != "ada" {
		t.Errorf("bob sees %+v, %v", found, err)
	}
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"he reads the private one":            {second(r.GetQueue(bob, "private")), schedule.ErrNotFound},
		"he pauses the private one":           {second(r.PauseQueue(bob, registrar.PauseQueueInput{QueueID: "private"})), schedule.ErrNotFound},
		"he reads the log of the private one": {second(r.ListQueueEvents(bob, "private", 0, 0)), schedule.ErrNotFound},
		"he closes the shared one":            {second(r.CloseQueue(bob, "shared", "", "bob")), schedule.ErrForbidden},
		"he registers the name of hers":       {second(r.UpsertQueue(bob, gpuQueue(func(in *registrar.QueueInput) { in.QueueID, in.UserID = "private", "" }))), schedule.ErrExists},
		"he reads the shared one":             {second(r.GetQueue(bob, "shared")), nil},
		"she closes the shared one":           {second(r.CloseQueue(ada, "shared", "", "ada")), nil},
		"nobody has it":                       {second(r.GetQueue(ada, "none")), schedule.ErrNotFound},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: got %v, want %v", name, c.err, c.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }
