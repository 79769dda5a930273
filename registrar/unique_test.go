package registrar_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// withUnique gives a job the unique key "k".
func withUnique(edits ...func(*schedule.Unique)) func(*registrar.QueuedInput) {
	return func(in *registrar.QueuedInput) {
		in.Unique = &schedule.Unique{Key: "k"}
		for _, edit := range edits {
			edit(in.Unique)
		}
	}
}

func replaces(u *schedule.Unique) { u.OnDuplicate = schedule.DuplicateReplace }
func refuses(u *schedule.Unique)  { u.OnDuplicate = schedule.DuplicateRefuse }
func untilAdmitted(u *schedule.Unique) {
	u.Scope = schedule.UniqueWaiting
}

// uniquely puts one job into the queue.
func (l *line) uniquely(edits ...func(*registrar.QueuedInput)) registrar.Enqueued {
	l.Helper()
	return l.enqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job(edits...)}})
}

func (l *line) is(what string, got registrar.Enqueued, marks schedule.Marks, keys ...schedule.Key) {
	l.Helper()
	if got.Marks != marks || !slices.Equal(got.Keys, keys) {
		l.Fatalf("%s: %q %v, not %q %v", what, got.Marks, got.Keys, marks, keys)
	}
}

func (l *line) admitAll() {
	l.Helper()
	q, err := l.GetQueue(l.Context(), "gpu")
	if err != nil {
		l.Fatal(err)
	}
	_, err = l.admits(l.Context(), schedule.AdmitRequest{QueueNo: q.No, Now: l.now, Free: 10, Lease: func(schedule.Key) time.Duration { return time.Minute }})
	if err != nil {
		l.Fatal(err)
	}
}

func TestADuplicateIsAnsweredWithTheRunThatHoldsTheKey(t *testing.T) {
	onQueues(t, func(l *line) {
		first := l.uniquely(withUnique()).Keys[0]
		l.is("a duplicate", l.uniquely(withUnique(), withPriority(9), withInput(`{"n":1}`)), "d", first)
		if run := l.run(first); run.Priority != 0 || run.Input != nil || run.Queue.Unique == nil || run.Queue.Unique.Key != "k" {
			t.Errorf("the run is %+v and holds %+v", run, run.Queue.Unique)
		}
		_, err := l.tryEnqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job(withUnique(refuses))}})
		if !errors.Is(err, schedule.ErrExists) || !strings.Contains(err.Error(), first.String()) || !strings.Contains(err.Error(), `"k"`) {
			t.Errorf("refuse is answered with %v", err)
		}
		l.is("replace", l.uniquely(withUnique(replaces), withPriority(9), withInput(`{"n":1}`)), "r", first)
		if run := l.run(first); run.Priority != 9 || string(run.Input) != `{"n":1}` || run.Queue.Unique.Replaced != 1 {
			t.Errorf("the replaced run is %+v, %+v", run, run.Queue.Unique)
		}
		l.admitAll()
		l.is("replace of an admitted run", l.uniquely(withUnique(replaces), withInput(`{"n":2}`)), "d", first)
		if run := l.run(first); string(run.Input) != `{"n":1}` {
			t.Errorf("the input of an admitted run is %s", run.Input)
		}
	})
}

func TestARepeatOfADuplicateHasTheSameAnswer(t *testing.T) {
	onQueues(t, func(l *line) {
		first := l.uniquely(withUnique(replaces)).Keys[0]
		again := registrar.EnqueueInput{RequestID: "r", Runs: []registrar.QueuedInput{job(withUnique(replaces), withInput(`{"n":1}`))}}
		l.is("a duplicate", l.enqueue(again), "r", first)
		l.uniquely(withUnique(replaces), withInput(`{"n":2}`))
		got := l.enqueue(again)
		l.is("its repeat", got, "r", first)
		if !got.Repeated || string(l.run(first).Input) != `{"n":2}` {
			t.Errorf("repeated %t, and the run has %s", got.Repeated, l.run(first).Input)
		}
		if _, err := l.CancelRun(l.Context(), registrar.CancelInput{Key: first}); err != nil {
			t.Fatal(err)
		}
		l.is("its repeat after the end", l.enqueue(again), "r", first)
		other := again
		other.Runs = []registrar.QueuedInput{job(withUnique())}
		if _, err := l.tryEnqueue(other); !errors.Is(err, schedule.ErrKeyConflict) {
			t.Errorf("another request under the id: %v", err)
		}
		if done := l.uniquely(withUnique()); done.Marks != "" || done.Keys[0] == first {
			t.Errorf("the key of a cancelled run is not free: %+v", done)
		}
	})
}

func TestRunsOfABatchAreJudgedOneAfterTheOther(t *testing.T) {
	onQueues(t, func(l *line) {
		old := l.uniquely(withUnique(func(u *schedule.Unique) { u.Key = "old" })).Keys[0]
		batch := registrar.EnqueueInput{RequestID: "b", Batch: true, Runs: []registrar.QueuedInput{
			job(withUnique(replaces), withInput(`{"n":0}`)),
			job(withInput(`{"n":1}`)),
			job(withUnique(replaces), withInput(`{"n":2}`), withPriority(5)),
			job(withUnique(func(u *schedule.Unique) { u.Key = "old" })),
			job(withUnique(), withInput(`{"n":4}`)),
		}}
		got := l.enqueue(batch)
		if got.Marks != "..rdd" || got.Keys[2] != got.Keys[0] || got.Keys[3] != old || got.Keys[4] != got.Keys[0] || got.Keys[1] == got.Keys[0] {
			t.Fatalf("the batch is answered with %q %v", got.Marks, got.Keys)
		}
		if run := l.run(got.Keys[0]); string(run.Input) != `{"n":2}` || run.Priority != 5 {
			t.Errorf("the first run is %+v", run)
		}
		l.is("its repeat", l.enqueue(batch), "..rdd", got.Keys...)
		page, err := l.ListWaiting(l.Context(), registrar.WaitingInput{QueueID: "gpu", Limit: 10})
		if err != nil || len(page.Runs) != 3 || page.Runs[0].Key != got.Keys[0] {
			t.Errorf("%d runs wait: %v", len(page.Runs), err)
		}
		batch.RequestID, batch.Runs = "c", append(batch.Runs, job(withUnique(refuses)))
		if _, err := l.tryEnqueue(batch); !errors.Is(err, schedule.ErrExists) || !strings.Contains(err.Error(), "runs[5]") {
			t.Errorf("a batch with a refused run: %v", err)
		}
		if run := l.run(old); run.Queue.Unique.Replaced != 0 {
			t.Errorf("a refused batch has changed %+v", run.Queue.Unique)
		}
	})
}

func TestADebouncedRunStartsAfterAQuietTimeAndNotTooLate(t *testing.T) {
	onQueues(t, func(l *line) {
		debounced := withUnique(replaces, func(u *schedule.Unique) { u.Debounce = &schedule.Debounce{QuietMS: 2000, MaxMS: 5000} })
		first := l.uniquely(debounced).Keys[0]
		for i, wait := range []time.Duration{2 * time.Second, 3500 * time.Millisecond, 5 * time.Second, 5 * time.Second} {
			if run := l.run(first); !run.FireAt.Equal(noon.Add(wait)) || run.Queue.State != schedule.QueueDelayed || !run.RunAt.Equal(run.FireAt) {
				t.Fatalf("after %d replacements it is %s until %s", i, run.Queue.State, run.FireAt)
			}
			l.now = l.now.Add(1500 * time.Millisecond)
			l.is("an entry", l.uniquely(debounced), "r", first)
		}
		a, err := l.ExplainRun(l.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(a.Lines, "\n")
		for _, want := range []string{`holds the unique key "k" since`, "replaced 4 times"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in %s", want, text)
			}
		}
		if run := l.run(first); run.Queue.State != schedule.QueueWaiting || run.FireAt.After(l.now) {
			t.Errorf("past the longest wait it is %+v", run)
		}
	})
}

func TestADuplicateTakesNoPlaceInAFullQueue(t *testing.T) {
	onQueues(t, func(l *line) {
		q := gpuQueue()
		q.MaxWaiting = new(uint32)
		*q.MaxWaiting = 1
		if _, err := l.UpsertQueue(l.Context(), q); err != nil {
			t.Fatal(err)
		}
		first := l.uniquely(withUnique()).Keys[0]
		l.is("a duplicate in a full queue", l.uniquely(withUnique()), "d", first)
		if _, err := l.tryEnqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job()}}); err == nil || !strings.Contains(err.Error(), "is full") {
			t.Errorf("another run in a full queue: %v", err)
		}
		if _, err := l.CloseQueue(l.Context(), "gpu", "", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := l.tryEnqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job(withUnique())}}); !errors.Is(err, schedule.ErrPrecondition) {
			t.Errorf("a duplicate in a closed queue: %v", err)
		}
	})
}

func TestARunOfAnotherWorkflowDoesNotReplace(t *testing.T) {
	onQueues(t, func(l *line) {
		first := l.uniquely(withUnique(replaces)).Keys[0]
		other := registrar.QueuedInput{WorkflowID: "resize", Version: 4, Unique: &schedule.Unique{Key: "k", OnDuplicate: schedule.DuplicateReplace}}
		_, err := l.tryEnqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{other}})
		if !errors.Is(err, schedule.ErrExists) || !strings.Contains(err.Error(), "cancel that run") {
			t.Errorf("another version replaces: %v", err)
		}
		other.Unique = &schedule.Unique{Key: "k"}
		l.is("return", l.enqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{other}}), "d", first)
	})
}

func TestOwnersOfASharedQueueHaveTheirOwnKeys(t *testing.T) {
	onQueues(t, func(l *line) {
		q := gpuQueue()
		q.Shared = true
		if _, err := l.UpsertQueue(l.Context(), q); err != nil {
			t.Fatal(err)
		}
		enter := func(user string) registrar.Enqueued {
			return l.enqueue(registrar.EnqueueInput{UserID: user, Runs: []registrar.QueuedInput{job(withUnique(refuses))}})
		}
		ada, bob := enter("ada"), enter("bob")
		if ada.Marks != "" || bob.Marks != "" || ada.Keys[0] == bob.Keys[0] {
			t.Errorf("two owners: %+v and %+v", ada, bob)
		}
	})
}

// Uniqueness is checked for clients, and at entry only.
func TestARetryByHandAsksForNoKey(t *testing.T) {
	onQueues(t, func(l *line) {
		first := l.uniquely(withUnique()).Keys[0]
		if _, err := l.CancelRun(l.Context(), registrar.CancelInput{Key: first}); err != nil {
			t.Fatal(err)
		}
		second := l.uniquely(withUnique()).Keys[0]
		again, err := l.RetryRun(l.Context(), registrar.RetryInput{Key: first, RequestID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		if run := l.run(again.Key); run.Queue.Unique != nil || run.Status.Terminal() {
			t.Errorf("the retry is %+v", run)
		}
		l.is("a duplicate", l.uniquely(withUnique()), "d", second)
	})
}

func TestTheScopeWaitingEndsWithTheAdmission(t *testing.T) {
	onQueues(t, func(l *line) {
		first := l.uniquely(withUnique(untilAdmitted)).Keys[0]
		l.is("a duplicate", l.uniquely(withUnique(untilAdmitted)), "d", first)
		l.admitAll()
		second := l.uniquely(withUnique(untilAdmitted))
		if second.Marks != "" || second.Keys[0] == first {
			t.Errorf("after the admission: %+v", second)
		}
	})
}

func TestAGroupRefusesUniqueKeys(t *testing.T) {
	onQueues(t, func(l *line) {
		_, err := l.CreateGroup(auth.NewContext(l.Context(), auth.Identity{}), registrar.GroupInput{GroupID: "g", QueueID: "gpu", Runs: []registrar.QueuedInput{job(), job(withUnique())}})
		_, invalid := errors.AsType[*schedule.InvalidError](err)
		if !invalid || !strings.Contains(err.Error(), "runs[1].unique") {
			t.Errorf("a group with a unique key: %v", err)
		}
	})
}
