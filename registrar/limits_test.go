package registrar_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/registrar"
)

// limitRig is a registrar with limits on the store in memory.
type limitRig struct {
	*testing.T
	*registrar.Registrar
	store *memory.Store
	now   time.Time
}

func newLimitRig(t *testing.T) *limitRig {
	l := &limitRig{T: t, store: memory.New(memory.Options{}), now: noon}
	l.Registrar = registrar.New(registrar.Options{
		Schedules: l.store, Runs: l.store, Grants: l.store, Queues: l.store, Entries: l.store, Limits: l.store, Now: func() time.Time { return l.now }, Logger: quiet,
	})
	return l
}

func most(n uint32) *uint32 { return &n }

func gpuLimit(edits ...func(*registrar.LimitInput)) registrar.LimitInput {
	in := registrar.LimitInput{LimitDefinition: schedule.LimitDefinition{LimitID: "gpu", UserID: "ada", Note: "one card"}, MaxInFlight: most(2)}
	for _, edit := range edits {
		edit(&in)
	}
	return in
}

func byKey(in *registrar.LimitInput) { in.Keyed = true }

func (l *limitRig) upsert(in registrar.LimitInput) registrar.ChangedLimit {
	l.Helper()
	done, err := l.UpsertLimit(l.Context(), in)
	if err != nil {
		l.Fatal(err)
	}
	return done
}

// setKey gives key a7 of the limit gpu its own numbers.
func (l *limitRig) setKey(edits ...func(*registrar.LimitKeyInput)) (registrar.ChangedLimitKey, error) {
	in := registrar.LimitKeyInput{LimitID: "gpu", LimitKey: schedule.LimitKey{Key: "a7"}}
	for _, edit := range edits {
		edit(&in)
	}
	return l.SetLimitKey(l.Context(), in)
}

// flight puts a run with limits into a queue of an owner and admits it.
func (l *limitRig) flight(owner string, limits ...string) schedule.Key {
	l.Helper()
	queue := registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "q." + owner, UserID: owner, MaxInFlight: 100}}
	if _, err := l.UpsertQueue(l.Context(), queue); err != nil {
		l.Fatal(err)
	}
	run := job()
	run.Limits = limits
	done, err := l.Enqueue(l.Context(), registrar.EnqueueInput{QueueID: queue.QueueID, UserID: owner, Runs: []registrar.QueuedInput{run}})
	if err != nil {
		l.Fatal(err)
	}
	q, err := l.GetQueue(l.Context(), queue.QueueID)
	if err != nil {
		l.Fatal(err)
	}
	out, err := l.store.Admit(l.Context(), schedule.AdmitRequest{QueueNo: q.No, Now: l.now, Free: 10, Lease: func(schedule.Key) time.Duration { return time.Minute }, RetryFor: time.Hour})
	if err != nil || len(out.Dispatches) != 1 {
		l.Fatalf("admitted %+v, %v", out, err)
	}
	return done.Keys[0]
}

// refused fails unless the error is of a kind and says some words.
func (l *limitRig) refused(what string, err, kind error, words ...string) {
	l.Helper()
	if !errors.Is(err, kind) {
		l.Errorf("%s: %v", what, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			l.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

func TestALimitIsRegisteredOnceAndChangedByRevisions(t *testing.T) {
	l := newLimitRig(t)
	first := l.upsert(gpuLimit()).Limit
	if first.Revision != 1 || first.MaxInFlight != 2 || first.Note != "one card" || !first.CreatedAt.Equal(noon) || !first.UpdatedAt.Equal(noon) {
		t.Errorf("registered as %+v", first)
	}
	l.now = noon.Add(time.Hour)
	if again := l.upsert(gpuLimit()).Limit; *again != *first {
		t.Errorf("the same again made %+v of %+v", again, first)
	}
	rate := func(in *registrar.LimitInput) {
		in.MaxInFlight, in.Rate = nil, schedule.RateDefinition{Starts: 10, PerMS: 1000}
	}
	changed := l.upsert(gpuLimit(rate)).Limit
	if changed.Revision != 2 || changed.MaxInFlight != 0 || changed.Rate.Burst != 1 || !changed.CreatedAt.Equal(noon) || !changed.UpdatedAt.Equal(l.now) {
		t.Errorf("changed to %+v", changed)
	}
	rate1 := func(in *registrar.LimitInput) { rate(in); in.Rate.Burst = 1 }
	if again := l.upsert(gpuLimit(rate1)).Limit; again.Revision != 2 {
		t.Errorf("the default said aloud made revision %d", again.Revision)
	}
}

func TestALimitIsMadeOrderedWhileEachKeyHasOneUseAtMost(t *testing.T) {
	l := newLimitRig(t)
	inOrder := func(in *registrar.LimitInput) { in.Keyed, in.Ordered, in.MaxInFlight = true, true, nil }
	l.upsert(gpuLimit(byKey))
	l.flight("ada", "gpu=a7")
	l.flight("ada", "gpu=b8")
	made := l.upsert(gpuLimit(inOrder))
	if made.Limit.MaxInFlight != 1 || !made.Limit.Ordered || made.Warning != "" {
		t.Errorf("made %+v, warning %q", made.Limit, made.Warning)
	}
	if said := l.upsert(gpuLimit(inOrder, func(in *registrar.LimitInput) { in.MaxInFlight = most(1) })); said.Limit.Revision != made.Limit.Revision {
		t.Errorf("the default said aloud made revision %d", said.Limit.Revision)
	}
	_, err := l.setKey(func(in *registrar.LimitKeyInput) { in.MaxInFlight = most(2) })
	refusedFor(t, "two of a key", err, "max_in_flight", "ordered")
	for _, n := range []uint32{0, 1} {
		if _, err := l.setKey(func(in *registrar.LimitKeyInput) { in.MaxInFlight = most(n) }); err != nil {
			t.Errorf("%d of a key: %v", n, err)
		}
	}
	if off := l.upsert(gpuLimit(byKey)).Limit; off.Ordered || off.MaxInFlight != 2 {
		t.Errorf("ordered no more: %+v", off)
	}
	if _, err := l.setKey(func(in *registrar.LimitKeyInput) { in.MaxInFlight, in.Until = most(3), l.now.Add(time.Hour) }); err != nil {
		t.Fatal(err)
	}
	_, err = l.UpsertLimit(t.Context(), gpuLimit(inOrder))
	l.refused("with a key over 1", err, schedule.ErrPrecondition, "max_in_flight over 1", "set-key gpu KEY")
	l.now = l.now.Add(time.Hour)
	l.flight("ada", "gpu=b8")
	_, err = l.UpsertLimit(t.Context(), gpuLimit(inOrder))
	l.refused("with a key in use twice", err, schedule.ErrPrecondition, "in use by 2 runs", "at most 1")
}

func TestALimitOutOfBoundsIsRefusedWithTheFieldAndItsValue(t *testing.T) {
	rate := func(starts, perMS, burst uint32) func(*registrar.LimitInput) {
		return func(in *registrar.LimitInput) {
			in.Rate = schedule.RateDefinition{Starts: starts, PerMS: perMS, Burst: burst}
		}
	}
	for name, tt := range map[string]struct {
		field string
		edit  func(*registrar.LimitInput)
	}{
		"an id with a slash":              {"limit_id", func(in *registrar.LimitInput) { in.LimitID = "a/b" }},
		"an id with a control character":  {"limit_id", func(in *registrar.LimitInput) { in.LimitID = "a\x07b" }},
		"an id of 129 characters":         {"limit_id", func(in *registrar.LimitInput) { in.LimitID = strings.Repeat("x", 129) }},
		"no owner":                        {"user_id", func(in *registrar.LimitInput) { in.UserID = "" }},
		"max_in_flight 0":                 {"max_in_flight", func(in *registrar.LimitInput) { in.MaxInFlight = most(0) }},
		"max_in_flight 10001":             {"max_in_flight", func(in *registrar.LimitInput) { in.MaxInFlight = most(10_001) }},
		"no numbers":                      {"max_in_flight", func(in *registrar.LimitInput) { in.MaxInFlight = nil }},
		"a rate of 0 starts":              {"rate.starts", rate(0, 1000, 0)},
		"a rate in no time":               {"rate.per_ms", rate(1, 0, 1)},
		"a rate over a day":               {"rate.per_ms", rate(1, 86_400_001, 1)},
		"a burst over the starts":         {"rate.burst", rate(2, 1000, 3)},
		"a note over 1024 bytes":          {"note", func(in *registrar.LimitInput) { in.Note = strings.Repeat("x", 1025) }},
		"ordered without keys":            {"ordered", func(in *registrar.LimitInput) { in.Ordered, in.MaxInFlight = true, most(1) }},
		"ordered with max 2":              {"max_in_flight", func(in *registrar.LimitInput) { in.Keyed, in.Ordered = true, true }},
		"a note with NUL":                 {"note", func(in *registrar.LimitInput) { in.Note = "a\x00b" }},
		"a rate of too many starts a day": {"rate.starts", rate(1_000_001, 1000, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimitRig(t)
			_, err := l.UpsertLimit(t.Context(), gpuLimit(tt.edit))
			invalid, ok := errors.AsType[*schedule.InvalidError](err)
			if !ok || len(invalid.Violations) != 1 || invalid.Violations[0].Field != tt.field {
				t.Errorf("got %v", err)
			}
			if found, err := l.ListLimits(t.Context(), schedule.LimitFilter{}); err != nil || len(found) != 0 {
				t.Errorf("written: %+v, %v", found, err)
			}
		})
	}
}

func TestAnOwnerSeesSharedLimitsAndChangesOnlyItsOwn(t *testing.T) {
	l := newLimitRig(t)
	ada, bob := as(t, "ada", auth.User), as(t, "bob", auth.User)
	for id, shared := range map[string]bool{"private": false, "shared": true} {
		if _, err := l.UpsertLimit(ada, gpuLimit(func(in *registrar.LimitInput) { in.LimitID, in.UserID, in.Shared, in.Keyed = id, "", shared, true })); err != nil {
			t.Fatal(err)
		}
	}
	found, err := l.ListLimits(bob, schedule.LimitFilter{})
	if err != nil || len(found) != 1 || found[0].LimitID != "shared" || found[0].UserID != "ada" {
		t.Errorf("bob sees %+v, %v", found, err)
	}
	if found, err := l.ListLimits(bob, schedule.LimitFilter{UserID: "ada"}); err != nil || len(found) != 0 {
		t.Errorf("bob sees %+v of ada, %v", found, err)
	}
	if d, err := l.GetLimit(bob, "shared", "", 10); err != nil || d.LimitID != "shared" {
		t.Errorf("bob gets %+v, %v", d, err)
	}
	_, err = l.GetLimit(bob, "private", "", 10)
	l.refused("a private limit", err, schedule.ErrNotFound, "private")
	_, err = l.GetLimit(bob, "none", "", 10)
	l.refused("no limit", err, schedule.ErrNotFound, "none")
	for id, kind := range map[string]error{"private": schedule.ErrNotFound, "shared": schedule.ErrForbidden, "none": schedule.ErrNotFound} {
		l.refused("delete "+id, l.DeleteLimit(bob, id), kind, id)
		_, err = l.SetLimitKey(bob, registrar.LimitKeyInput{LimitID: id, LimitKey: schedule.LimitKey{Key: "a7", MaxInFlight: most(0)}})
		l.refused("set a key of "+id, err, kind, id)
		if id != "none" {
			_, err = l.UpsertLimit(bob, gpuLimit(func(in *registrar.LimitInput) { in.LimitID, in.UserID = id, "" }))
			l.refused("take "+id, err, schedule.ErrExists, "another owner")
		}
	}
	_, err = l.UpsertLimit(bob, gpuLimit())
	if invalid, ok := errors.AsType[*schedule.InvalidError](err); !ok || invalid.Violations[0].Field != "user_id" {
		t.Errorf("a limit for ada: %v", err)
	}
	if err := l.DeleteLimit(t.Context(), "private"); err != nil {
		t.Errorf("an operator deletes it: %v", err)
	}
}

func TestALimitWithUsersStaysKeyedOrNot(t *testing.T) {
	l := newLimitRig(t)
	l.upsert(gpuLimit(byKey))
	upsert := func() error {
		_, err := l.UpsertLimit(t.Context(), gpuLimit())
		return err
	}
	if _, err := l.setKey(func(in *registrar.LimitKeyInput) { in.MaxInFlight, in.Until = most(1), noon.Add(time.Hour) }); err != nil {
		t.Fatal(err)
	}
	l.refused("with numbers of a key", upsert(), schedule.ErrPrecondition, "own numbers", "set-key gpu")
	l.now = noon.Add(time.Hour)
	queue := registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "mail", UserID: "ada", Limits: []string{"gpu=a7"}}}
	if _, err := l.UpsertQueue(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	l.refused("named by a queue", upsert(), schedule.ErrPrecondition, "mail")
	queue.Limits = nil
	if _, err := l.UpsertQueue(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	key := l.flight("ada", "gpu=a7")
	l.refused("with a run", upsert(), schedule.ErrPrecondition, "1 run")
	l.end(key)
	if err := upsert(); err != nil {
		t.Errorf("with no user: %v", err)
	}
}

// end ends a run that is in flight.
func (l *limitRig) end(key schedule.Key) {
	l.Helper()
	if _, _, err := l.Report(l.Context(), registrar.ReportInput{Key: key, Status: schedule.StatusSuccess}); err != nil {
		l.Fatal(err)
	}
}

func TestALimitBelowItsUseIsAllowedWithAWarning(t *testing.T) {
	l := newLimitRig(t)
	l.upsert(gpuLimit(byKey))
	l.flight("ada", "gpu=a7")
	l.flight("ada", "gpu=a7")
	l.flight("ada", "gpu=b8")
	if done := l.upsert(gpuLimit(byKey)); done.Warning != "" || done.Limit.Used != 3 {
		t.Errorf("the same again: %+v", done)
	}
	one := func(in *registrar.LimitInput) { byKey(in); in.MaxInFlight = most(1) }
	done := l.upsert(gpuLimit(one))
	for _, want := range []string{"2 runs", "gpu=a7", "allows 1 now", "goes on", "fewer than 1"} {
		if !strings.Contains(done.Warning, want) {
			t.Errorf("%q does not say %q", done.Warning, want)
		}
	}
	key, err := l.setKey(func(in *registrar.LimitKeyInput) { in.MaxInFlight = most(2) })
	if err != nil || key.Warning != "" || key.Used != 2 {
		t.Errorf("with enough of its own: %+v, %v", key, err)
	}
	if done := l.upsert(gpuLimit(one)); done.Warning != "" {
		t.Errorf("with enough of its own the limit says %q", done.Warning)
	}
	key, err = l.setKey(func(in *registrar.LimitKeyInput) { in.MaxInFlight = most(0) })
	if err != nil || !strings.HasSuffix(key.Warning, "allows 0 now: what is in flight goes on, and no other run of it starts") {
		t.Errorf("stopped: %+v, %v", key, err)
	}
}

func TestALimitInUseIsNotDeleted(t *testing.T) {
	l := newLimitRig(t)
	shared := gpuLimit(func(in *registrar.LimitInput) { in.Shared, in.MaxInFlight = true, most(100) })
	l.upsert(shared)
	own, foreign := l.flight("ada", "gpu"), l.flight("eve", "gpu")
	ada := as(t, "ada", auth.User)
	err := l.DeleteLimit(ada, "gpu")
	l.refused("with runs", err, schedule.ErrPrecondition, "2 runs", own.String(), "others")
	if strings.Contains(fmt.Sprint(err), foreign.String()) {
		t.Errorf("a run of another owner is named: %v", err)
	}
	d, err := l.GetLimit(ada, "gpu", "", 10)
	if err != nil || d.Used != 2 || len(d.Users) != 1 || d.Users[0].Run.Key != own || len(d.Counts) != 1 || d.Counts[0].Used != 2 {
		t.Errorf("its users are %+v, %v", d, err)
	}
	for range 6 {
		l.flight("ada", "gpu")
	}
	l.refused("with eight runs", l.DeleteLimit(t.Context(), "gpu"), schedule.ErrPrecondition, "8 runs", "and others")
	d, err = l.GetLimit(t.Context(), "gpu", "", 10)
	if err != nil || len(d.Users) != 8 {
		t.Fatalf("its users are %+v, %v", d.Users, err)
	}
	for _, u := range d.Users {
		l.end(u.Run.Key)
	}
	for _, owner := range []string{"ada", "eve"} {
		queue := registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "mail." + owner, UserID: owner, Limits: []string{"gpu"}}}
		if _, err := l.UpsertQueue(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
	}
	l.refused("named by queues", l.DeleteLimit(ada, "gpu"), schedule.ErrPrecondition, "mail.ada", "1 more")
	l.refused("named by queues", l.DeleteLimit(t.Context(), "gpu"), schedule.ErrPrecondition, "mail.ada", "mail.eve")
	for _, id := range []string{"mail.ada", "mail.eve"} {
		if _, err := l.DeleteQueue(t.Context(), registrar.DeleteQueueInput{QueueID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.DeleteLimit(ada, "gpu"); err != nil {
		t.Errorf("in no use: %v", err)
	}
	_, err = l.GetLimit(ada, "gpu", "", 10)
	l.refused("deleted", err, schedule.ErrNotFound)
}

func TestALimitThatAScheduleNamesIsNotDeletedAndStaysKeyedOrNot(t *testing.T) {
	l := newLimitRig(t)
	for _, id := range []string{"gpu", "gpu.2"} {
		l.upsert(gpuLimit(func(in *registrar.LimitInput) { in.LimitID, in.Shared = id, true }))
	}
	name := func(owner string, limits ...string) {
		queue := registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "q." + owner, UserID: owner}}
		if _, err := l.UpsertQueue(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Upsert(t.Context(), hourly(func(in *registrar.UpsertInput) {
			d := &in.Definition
			d.ScheduleID, d.UserID, d.QueueID, d.Limits = "nightly."+owner, owner, queue.QueueID, limits
		})); err != nil {
			t.Fatal(err)
		}
	}
	ada := as(t, "ada", auth.User)
	name("ada", "gpu")
	name("eve", "gpu.2", "gpu")
	l.refused("deleted by its owner", l.DeleteLimit(ada, "gpu"), schedule.ErrPrecondition, "nightly.ada", "1 more", "register them without it first")
	l.refused("deleted by the operator", l.DeleteLimit(t.Context(), "gpu"), schedule.ErrPrecondition, "nightly.ada", "nightly.eve")
	name("ada")
	l.refused("named by another owner", l.DeleteLimit(ada, "gpu"), schedule.ErrPrecondition, "1 schedule of other owners names it")
	_, err := l.UpsertLimit(t.Context(), gpuLimit(byKey, func(in *registrar.LimitInput) { in.Shared = true }))
	l.refused("made keyed", err, schedule.ErrPrecondition, "nightly.eve")
	name("eve", "gpu.2")
	if err := l.DeleteLimit(ada, "gpu"); err != nil {
		t.Errorf("named by none, though its id is part of the other's: %v", err)
	}
}

func TestChangesOfLimitsAreAudited(t *testing.T) {
	l := newLimitRig(t)
	for i, do := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := l.UpsertLimit(ctx, gpuLimit(byKey)); return err },
		func(ctx context.Context) error { _, err := l.UpsertLimit(ctx, gpuLimit(byKey)); return err },
		func(ctx context.Context) error {
			_, err := l.SetLimitKey(ctx, registrar.LimitKeyInput{LimitID: "gpu", LimitKey: schedule.LimitKey{Key: "a7", MaxInFlight: most(0)}})
			return err
		},
		func(ctx context.Context) error { return l.DeleteLimit(ctx, "gpu") },
	} {
		ctx, call := auth.WithCall(t.Context(), "/carillon.v1.LimitService/X")
		call.Audited = true
		if err := do(ctx); err != nil || !call.Recorded {
			t.Errorf("call %d: recorded %t, %v", i, call.Recorded, err)
		}
	}
	entries, err := l.store.ListAudit(t.Context(), schedule.AuditFilter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s %s %d-%d", e.Target, e.UserID, e.RevisionBefore, e.RevisionAfter))
	}
	want := "gpu ada 1-1; gpu=a7 ada 1-1; gpu ada 0-1"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("trail: %s\nwant:  %s", text, want)
	}
}
