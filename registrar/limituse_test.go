package registrar_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/explain"
)

// putLimit stores a limit of ada.
func putLimit(t *testing.T, st registrar.LimitStore, id string, edits ...func(*schedule.Limit)) {
	t.Helper()
	l := schedule.Limit{LimitDefinition: schedule.LimitDefinition{LimitID: id, UserID: "ada", MaxInFlight: 1}, Revision: 1, CreatedAt: noon, UpdatedAt: noon}
	for _, edit := range edits {
		edit(&l)
	}
	_, err := st.ChangeLimit(t.Context(), id, func(schedule.LimitFacts) (schedule.LimitChange, error) { return schedule.LimitChange{After: &l}, nil })
	if err != nil {
		t.Fatal(err)
	}
}

// putLimits stores gpu, the keyed customer and disk of ada, and gpu2 and the shared net of eve.
func putLimits(t *testing.T, st registrar.LimitStore) {
	t.Helper()
	putLimit(t, st, "gpu")
	putLimit(t, st, "disk")
	putLimit(t, st, "customer", func(l *schedule.Limit) { l.Keyed = true })
	putLimit(t, st, "gpu2", func(l *schedule.Limit) { l.UserID = "eve" })
	putLimit(t, st, "net", func(l *schedule.Limit) { l.UserID, l.Shared = "eve", true })
}

func using(texts ...string) func(*registrar.QueuedInput) {
	return func(in *registrar.QueuedInput) { in.Limits = texts }
}

// admit admits runs of gpu.
func (l *line) admit(free int) {
	l.Helper()
	l.admitFrom("gpu", free)
}

func (l *line) admitFrom(queueID string, free int) {
	l.Helper()
	q, err := l.GetQueue(l.Context(), queueID)
	if err != nil {
		l.Fatal(err)
	}
	req := schedule.AdmitRequest{QueueNo: q.No, Now: l.now, Free: free, Lease: func(schedule.Key) time.Duration { return time.Minute }, RetryFor: time.Hour}
	if _, err := l.admits(l.Context(), req); err != nil {
		l.Fatal(err)
	}
}

func (l *line) explained(key schedule.Key) explain.RunAnswer {
	l.Helper()
	a, err := l.ExplainRun(l.Context(), key)
	if err != nil {
		l.Fatal(err)
	}
	return a
}

func TestARunUsesTheLimitsOfItsQueueAndItsOwn(t *testing.T) {
	onQueues(t, func(l *line) {
		putLimits(l.T, l.limits)
		if _, err := l.UpsertQueue(l.Context(), gpuQueue(func(in *registrar.QueueInput) { in.Limits = []string{"net"} })); err != nil {
			l.Fatal(err)
		}
		want := func(what string, key schedule.Key, limits schedule.Limits) {
			l.Helper()
			if got := l.run(key).Queue.Limits; got != limits {
				l.Errorf("%s: uses %q, want %q", what, got, limits)
			}
		}
		own := l.one(using("gpu", "customer=a7", "net"))
		want("its own and that of the queue", own, "customer=a7,gpu,net")
		plain := l.one()
		want("none of its own", plain, "net")
		update := func(key schedule.Key, limits []string) {
			l.Helper()
			if _, err := l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: key, Limits: limits}); err != nil {
				l.Fatal(err)
			}
		}
		update(plain, []string{"gpu"})
		want("after an update", plain, "gpu,net")
		update(own, []string{})
		want("after an update to none", own, "net")
		priority := int32(3)
		if _, err := l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: plain, Priority: &priority}); err != nil {
			l.Fatal(err)
		}
		want("after another update", plain, "gpu,net")
	})
}

func TestLimitsThatARunCannotUseAreRefused(t *testing.T) {
	onQueues(t, func(l *line) {
		putLimits(l.T, l.limits)
		three := gpuQueue(func(in *registrar.QueueInput) {
			in.QueueID, in.Limits = "three", []string{"gpu", "disk", "customer=b"}
		})
		if _, err := l.UpsertQueue(l.Context(), three); err != nil {
			l.Fatal(err)
		}
		key := l.one()
		for _, c := range []struct {
			name, queue string
			limits      []string
			field, says string
		}{
			{"an unknown limit", "gpu", []string{"gpu", "none"}, "limits[1]", "does not exist"},
			{"a limit of another owner", "gpu", []string{"gpu2"}, "limits[0]", "does not exist, or is another owner's"},
			{"no key of a keyed limit", "gpu", []string{"customer"}, "limits[0]", "customer=KEY"},
			{"a key of a limit without keys", "gpu", []string{"gpu=1"}, "limits[0]", "has a key"},
			{"two keys of one limit", "gpu", []string{"customer=a", "customer=b"}, "limits", "two keys of limit customer"},
			{"five limits", "gpu", []string{"a", "b", "c", "d", "e"}, "limits", "has 5 limits, not 0 to 4"},
			{"five with those of the queue", "three", []string{"net", "extra"}, "limits[1]", "does not exist"},
			{"another key than the queue's", "three", []string{"customer=a"}, "limits", "two keys"},
			{"a text that names none", "gpu", []string{"a b"}, "limits[0]", "is not the id of a limit"},
			{"an empty key", "gpu", []string{"customer="}, "limits[0]", "is not the id of a limit"},
		} {
			_, err := l.tryEnqueue(registrar.EnqueueInput{QueueID: c.queue, Runs: []registrar.QueuedInput{job(using(c.limits...))}})
			refusedFor(l.T, c.name, err, c.field, c.says)
			if c.queue == "gpu" {
				_, err = l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: key, Limits: c.limits})
				refusedFor(l.T, "update: "+c.name, err, c.field, c.says)
				_, err = l.UpsertQueue(l.Context(), gpuQueue(func(in *registrar.QueueInput) { in.Limits = c.limits }))
				refusedFor(l.T, "queue: "+c.name, err, c.field, c.says)
			}
		}
		_, err := l.tryEnqueue(registrar.EnqueueInput{Batch: true, Runs: []registrar.QueuedInput{job(), job(using("none"))}})
		refusedFor(l.T, "one of a batch", err, "runs[1].limits[0]", "does not exist")
		if n := len(l.waiting()); n != 1 || l.run(key).Queue.Limits != "" {
			l.Errorf("something was written: %d runs wait", n)
		}
	})
}

func refusedFor(t *testing.T, name string, err error, field, says string) {
	t.Helper()
	invalid, ok := errors.AsType[*schedule.InvalidError](err)
	if !ok || invalid.Violations[0].Field != field || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v; want %s to say %q", name, err, field, says)
	}
}

func TestARunThatWaitsForALimitIsExplained(t *testing.T) {
	onQueues(t, func(l *line) {
		putLimits(l.T, l.limits)
		if _, err := l.UpsertQueue(l.Context(), gpuQueue(func(in *registrar.QueueInput) { in.MaxInFlight = 100 })); err != nil {
			l.Fatal(err)
		}
		first, second := l.one(using("customer=a7")), l.one(using("customer=a7"))
		l.admit(2)
		a := l.explained(second)
		if want := "Limit customer=a7 is full: 1 of 1 runs are in flight: " + first.String(); !strings.Contains(strings.Join(a.Lines, "\n"), want) {
			l.Errorf("the explanation does not say %q:\n%s", want, strings.Join(a.Lines, "\n"))
		}
		b := a.BlockedBy[0]
		if b.What != ledger.BlockedByLimit || b.Limit.String() != "customer=a7" || b.Used != 1 || b.Max != 1 || !slices.Equal(b.UsedBy, []schedule.Key{first}) {
			l.Errorf("blocked by %+v", b)
		}
		if _, err := l.UpsertQueue(l.Context(), gpuQueue(func(in *registrar.QueueInput) {
			in.MaxInFlight, in.Rate = 100, schedule.RateDefinition{Starts: 1, PerMS: 60_000}
		})); err != nil {
			l.Fatal(err)
		}
		l.one()
		l.admit(1)
		last := l.one()
		a = l.explained(last)
		if want := "as many runs as its rate allows: the next one starts at 2026-03-02T12:01:00Z"; !strings.Contains(strings.Join(a.Lines, "\n"), want) {
			l.Errorf("the explanation does not say %q:\n%s", want, strings.Join(a.Lines, "\n"))
		}
	})
}

func TestARunThatWaitsForARetryOfAnOrderedLimitIsExplainedByIt(t *testing.T) {
	onQueues(t, func(l *line) {
		putLimits(l.T, l.limits)
		if _, err := l.UpsertLimit(l.Context(), registrar.LimitInput{LimitDefinition: schedule.LimitDefinition{LimitID: "account", UserID: "ada", Keyed: true, Ordered: true}}); err != nil {
			l.Fatal(err)
		}
		first, second := l.one(using("account=1", "gpu")), l.one(using("account=1"))
		l.admit(2)
		finish := l.opts.Entries.(interface {
			Finish(context.Context, []schedule.FinishRequest, time.Time) ([]schedule.Finished, error)
		}).Finish
		if _, err := finish(l.Context(), []schedule.FinishRequest{{Key: first, Outcome: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed}}}, l.now); err != nil {
			l.Fatal(err)
		}
		retry := schedule.AttemptKey(first)
		says := func(key schedule.Key, want string) explain.RunAnswer {
			l.Helper()
			a := l.explained(key)
			if text := strings.Join(a.Lines, "\n"); !strings.Contains(text, want) {
				l.Errorf("the explanation does not say %q:\n%s", want, text)
			}
			return a
		}
		a := says(second, fmt.Sprintf("Limit account=1 is ordered: run %s failed, and its retry %s keeps the key until it is over; it starts at ", first, retry))
		if b := a.BlockedBy[0]; b.What != ledger.BlockedByLimit || b.Used != 1 || b.Max != 1 || !slices.Equal(b.UsedBy, []schedule.Key{retry}) {
			l.Errorf("blocked by %+v", b)
		}
		says(retry, "It keeps account=1 since the attempt before it: no other run of the key starts until it is over")
		d, err := l.GetLimit(l.Context(), "account", "", 10)
		if err != nil || d.Used != 1 || len(d.Users) != 1 || !d.Users[0].Kept || d.Users[0].Run.Key != retry {
			l.Errorf("the limit is used by %+v, %v", d, err)
		}
		for _, limits := range [][]string{{}, {"gpu"}, {"account=2", "gpu"}} {
			_, err = l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: retry, Limits: limits})
			if !errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), "account=1") {
				l.Errorf("its limits changed to %v: %v", limits, err)
			}
		}
		priority := int32(3)
		if _, err := l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: retry, Limits: []string{"gpu", "account=1"}, Priority: &priority}); err != nil {
			l.Errorf("the same limits: %v", err)
		}
		if err := l.DeleteLimit(l.Context(), "account"); !errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), retry.String()) {
			l.Errorf("the limit is deleted: %v", err)
		}
	})
}

// A caller learns who uses a shared limit as far as it may read these runs.
func TestAnExplanationOfALimitNamesOnlyRunsOfTheCaller(t *testing.T) {
	onQueues(t, func(l *line) {
		putLimits(l.T, l.limits)
		shared := gpuQueue(func(in *registrar.QueueInput) { in.QueueID, in.Shared, in.MaxInFlight = "shared", true, 100 })
		if _, err := l.UpsertQueue(l.Context(), shared); err != nil {
			l.Fatal(err)
		}
		enter := func(ctx context.Context) schedule.Key {
			done, err := l.Enqueue(ctx, registrar.EnqueueInput{QueueID: "shared", UserID: auth.FromContext(ctx).Owner, Runs: []registrar.QueuedInput{job(using("net"))}})
			if err != nil {
				l.Fatal(err)
			}
			return done.Keys[0]
		}
		bob, eve := as(l.T, "bob", auth.User), as(l.T, "eve", auth.User)
		foreign := enter(eve)
		l.admitFrom("shared", 5)
		own := enter(bob)
		a, err := l.ExplainRun(bob, own)
		if err != nil {
			l.Fatal(err)
		}
		text := strings.Join(a.Lines, "\n")
		if !strings.Contains(text, "Limit net is full: 1 of 1 runs are in flight") || strings.Contains(text, foreign.String()) {
			l.Errorf("got:\n%s", text)
		}
	})
}

func TestOneBoundOverAllQueues(t *testing.T) {
	onQueues(t, func(l *line) {
		l.bounded(2)
		for _, id := range []string{"gpu", "mail"} {
			if _, err := l.UpsertQueue(l.Context(), gpuQueue(func(in *registrar.QueueInput) { in.QueueID, in.MaxInFlight = id, 100 })); err != nil {
				l.Fatal(err)
			}
		}
		putLimits(l.T, l.limits)
		var keys []schedule.Key
		for _, in := range []registrar.EnqueueInput{
			{QueueID: "gpu", Runs: []registrar.QueuedInput{job(using("gpu", "disk", "net", "customer=a")), job()}},
			{QueueID: "mail", Runs: []registrar.QueuedInput{job()}},
		} {
			keys = append(keys, l.enqueue(in).Keys...)
		}
		if got := l.run(keys[0]).Queue.Limits; got != "all-queues,customer=a,disk,gpu,net" {
			l.Errorf("the first run uses %q", got)
		}
		l.admit(5)
		l.admitFrom("mail", 5)
		if got := l.run(keys[2]); got.Queue.State != schedule.QueueWaiting {
			l.Errorf("the third run is %s", got.Queue.State)
		}
		l.bounded(3)
		l.enqueue(registrar.EnqueueInput{QueueID: "mail", Runs: []registrar.QueuedInput{job()}})
		l.admitFrom("mail", 5)
		if got := l.run(keys[2]); got.Queue.State != schedule.QueueDispatching {
			l.Errorf("with a higher bound the third run is %s", got.Queue.State)
		}
	})
}
