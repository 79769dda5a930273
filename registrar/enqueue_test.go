package registrar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/registrar"
)

// line is a registrar with the queue "gpu" of ada on a real store.
type line struct {
	*testing.T
	*registrar.Registrar
	now    time.Time
	limits registrar.LimitStore
	admits func(context.Context, schedule.AdmitRequest) (ledger.Dispatched, error)
	opts   registrar.Options
	woken  int // how often the outbox was
}

// bounded is a registrar with QUEUES_MAX_IN_FLIGHT.
func (l *line) bounded(most uint32) {
	l.opts.Config.QueuesMaxInFlight = most
	l.Registrar = registrar.New(l.opts)
}

// onQueues runs a test over each store.
func onQueues(t *testing.T, test func(*line)) {
	t.Helper()
	run := func(kind string, of func(*testing.T) registrar.Options) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := of(t)
			if o.Entries == nil {
				t.Skip("this store puts no runs into queues")
			}
			l := &line{T: t, now: noon, limits: o.Limits}
			l.admits = o.Entries.(interface {
				Admit(context.Context, schedule.AdmitRequest) (ledger.Dispatched, error)
			}).Admit
			o.Now, o.Logger, o.Config = func() time.Time { return l.now }, quiet, registrar.Config{OwnerMaxSchedules: 1}
			o.Webhook, o.WakeOutbox = webhookTarget, func() { l.woken++ }
			l.opts = o
			l.Registrar = registrar.New(o)
			if _, err := l.UpsertQueue(t.Context(), gpuQueue()); err != nil {
				t.Fatal(err)
			}
			test(l)
		})
	}
	for kind := range stores {
		run(kind, func(t *testing.T) registrar.Options {
			st := open(t, kind)
			queues, _ := st.(registrar.QueueStore)
			limits, _ := st.(registrar.LimitStore)
			groups, _ := st.(registrar.JobGroupStore)
			entries, _ := st.(registrar.EnqueueStore)
			copies, _ := st.(registrar.CopyStore)
			outbox, _ := st.(registrar.OutboxStore)
			reservations, _ := st.(registrar.ReservationStore)
			return registrar.Options{Schedules: st, Runs: st, Workflows: st, Shares: st, Grants: st, Queues: queues, Entries: entries, Copies: copies, Limits: limits, Groups: groups, Outbox: outbox, Reservations: reservations}
		})
	}
	run("memory", func(*testing.T) registrar.Options {
		m := memory.New(memory.Options{})
		entries, _ := any(m).(registrar.EnqueueStore)
		return registrar.Options{Schedules: m, Runs: m, Grants: m, Queues: m, Entries: entries, Copies: m, Limits: m, Groups: m, Outbox: m, Reservations: m}
	})
}

// job is a run of a bare workflow version.
func job(edits ...func(*registrar.QueuedInput)) registrar.QueuedInput {
	in := registrar.QueuedInput{WorkflowID: "resize", Version: 3}
	for _, edit := range edits {
		edit(&in)
	}
	return in
}

func withPriority(n int32) func(*registrar.QueuedInput) {
	return func(in *registrar.QueuedInput) { in.Priority = &n }
}

func withInput(text string) func(*registrar.QueuedInput) {
	return func(in *registrar.QueuedInput) { in.Input = json.RawMessage(text) }
}

func (l *line) enqueue(in registrar.EnqueueInput) registrar.Enqueued {
	l.Helper()
	done, err := l.tryEnqueue(in)
	if err != nil {
		l.Fatal(err)
	}
	return done
}

func (l *line) tryEnqueue(in registrar.EnqueueInput) (registrar.Enqueued, error) {
	if in.QueueID == "" {
		in.QueueID = "gpu"
	}
	return l.Enqueue(l.Context(), in)
}

func (l *line) one(edits ...func(*registrar.QueuedInput)) schedule.Key {
	l.Helper()
	return l.enqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job(edits...)}}).Keys[0]
}

func (l *line) run(key schedule.Key) *schedule.Run {
	l.Helper()
	run, err := l.GetRun(l.Context(), key)
	if err != nil {
		l.Fatal(err)
	}
	return run
}

// waiting is what waits in gpu: input, priority and position of each.
func (l *line) waiting() (out []string) {
	l.Helper()
	page, err := l.ListWaiting(l.Context(), registrar.WaitingInput{QueueID: "gpu", Limit: 100})
	if err != nil {
		l.Fatal(err)
	}
	for i, run := range page.Runs {
		out = append(out, fmt.Sprintf("%s p%d #%d", run.Input, run.Priority, page.Positions[i]))
	}
	return out
}

func (l *line) wantWaiting(what string, want ...string) {
	l.Helper()
	if got := l.waiting(); !slices.Equal(got, want) {
		l.Errorf("%s: %q\nwant: %q", what, got, want)
	}
}

func TestARunEntersAQueueAsAJobOfItsSchedule(t *testing.T) {
	onQueues(t, func(l *line) {
		key := l.one(withInput(`{"n":1}`), func(in *registrar.QueuedInput) { five := uint32(5); in.MaxAttempts = &five })
		run := l.run(key)
		if run.Trigger != schedule.TriggerJob || run.Status != schedule.StatusEnqueued || run.UserID != "ada" || run.WorkflowID != "resize" || run.Version != 3 ||
			run.Attempt != 1 || run.MaxAttempts != 5 || run.OverlapPolicy != schedule.OverlapAllow || string(run.Input) != `{"n":1}` {
			l.Errorf("entered as %+v", run)
		}
		if q := run.Queue; q.ID != "gpu" || q.State != schedule.QueueWaiting || !q.EnqueuedAt.Equal(noon) {
			l.Errorf("in its queue as %+v", q)
		}
		if n, err := l.Position(l.Context(), run); n != 1 || err != nil {
			l.Errorf("at position %d, %v", n, err)
		}
		if !slices.Equal(key[:6], []byte{0x01, 0x9c, 0xae, 0x6b, 0x66, 0x00}) { // 2026-03-02T12:00:00Z in Unix milliseconds
			l.Errorf("its key %s does not begin with its time", key)
		}
	})
}

func TestHowManyAttemptsAJobHas(t *testing.T) {
	onQueues(t, func(l *line) {
		if _, err := l.Upsert(l.Context(), registrar.UpsertInput{Definition: schedule.Definition{
			ScheduleID: "careful", UserID: "ada", WorkflowID: "resize", Version: 3, Retry: schedule.RetryPolicy{MaxAttempts: 2},
		}}); err != nil {
			l.Fatal(err)
		}
		own, careful := uint32(7), registrar.QueuedInput{ScheduleID: "careful"}
		for name, c := range map[string]struct {
			run  registrar.QueuedInput
			want int32
		}{
			"a bare workflow version has as many as the setting says": {job(), 3},
			"a schedule with a retry policy says it":                  {careful, 2},
			"the run itself says it":                                  {registrar.QueuedInput{ScheduleID: "careful", MaxAttempts: &own}, 7},
		} {
			key := l.enqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{c.run}}).Keys[0]
			if got := l.run(key).MaxAttempts; got != c.want {
				l.Errorf("%s: it has %d attempts, want %d", name, got, c.want)
			}
		}
	})
}

func TestWaitingRunsAreInOrderOfPriorityAndPosition(t *testing.T) {
	onQueues(t, func(l *line) {
		for i, priority := range []int32{0, 5, 0} {
			l.one(withInput(fmt.Sprint(i)), withPriority(priority))
		}
		l.wantWaiting("three", "1 p5 #1", "0 p0 #1", "2 p0 #2")
		two := uint32(2)
		l.enqueue(registrar.EnqueueInput{Position: &two, Runs: []registrar.QueuedInput{job(withInput("3")), job(withInput("4"))}})
		l.wantWaiting("two more at position 2", "1 p5 #1", "0 p0 #1", "3 p0 #2", "4 p0 #3", "2 p0 #4")
		l.enqueue(registrar.EnqueueInput{Next: true, Runs: []registrar.QueuedInput{job(withInput("5"))}})
		l.wantWaiting("one more in front", "1 p5 #1", "5 p0 #1", "0 p0 #2", "3 p0 #3", "4 p0 #4", "2 p0 #5")
		hour := uint32(3_600_000)
		l.one(withInput("6"), withPriority(9), func(in *registrar.QueuedInput) { in.DelayMS = &hour })
		l.one(withInput("7"), func(in *registrar.QueuedInput) { in.RunAt = noon.Add(time.Minute) })
		l.one(withInput("8"), func(in *registrar.QueuedInput) { in.RunAt = noon.Add(-time.Minute) })
		l.wantWaiting("delayed ones come last, one of the past does not wait", "1 p5 #1", "5 p0 #1", "0 p0 #2", "3 p0 #3", "4 p0 #4", "2 p0 #5", "8 p0 #6", "7 p0 #0", "6 p9 #0")
		page, err := l.ListWaiting(l.Context(), registrar.WaitingInput{QueueID: "gpu", Offset: 2, Limit: 3})
		if err != nil || len(page.Runs) != 3 || string(page.Runs[0].Input) != "0" || !slices.Equal(page.Positions, []int{2, 3, 4}) || page.Next != 5 {
			l.Errorf("a page: %+v, %v", page, err)
		}
	})
}

func TestTheSameRequestGivesTheSameRuns(t *testing.T) {
	onQueues(t, func(l *line) {
		asked := func() registrar.EnqueueInput {
			return registrar.EnqueueInput{RequestID: "r", Batch: true, Runs: []registrar.QueuedInput{job(withInput("1")), job(withInput("2"))}}
		}
		first := l.enqueue(asked())
		if first.Repeated || len(first.Keys) != 2 {
			l.Fatalf("first: %+v", first)
		}
		l.now = l.now.Add(time.Minute)
		wantSame := func(what string) {
			l.Helper()
			if again := l.enqueue(asked()); !again.Repeated || !slices.Equal(again.Keys, first.Keys) {
				l.Errorf("%s: %+v, want %v", what, again, first.Keys)
			}
		}
		wantSame("again")
		other := asked()
		other.Runs[1].Input = json.RawMessage("3")
		if _, err := l.tryEnqueue(other); !errors.Is(err, schedule.ErrKeyConflict) {
			l.Errorf("another body: %v", err)
		}
		l.wantWaiting("the two", "1 p0 #1", "2 p0 #2")
		for _, key := range first.Keys {
			if _, err := l.CancelRun(l.Context(), registrar.CancelInput{Key: key, Actor: "op"}); err != nil {
				l.Fatal(err)
			}
		}
		wantSame("after their end")
		if _, err := l.CloseQueue(l.Context(), "gpu", "", "op"); err != nil {
			l.Fatal(err)
		}
		wantSame("in a closed queue")
		if err := l.Delete(l.Context(), l.run(first.Keys[0]).ScheduleID, "op"); err != nil {
			l.Fatal(err)
		}
		wantSame("after the deletion of its schedule")
		if _, err := l.tryEnqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job()}}); !errors.Is(err, schedule.ErrPrecondition) {
			l.Errorf("a new run in a closed queue: %v", err)
		}
	})
}

func TestABareWorkflowVersionGetsOneScheduleOutsideQuotasAndLists(t *testing.T) {
	onQueues(t, func(l *line) {
		version := func(n int32) func(*registrar.QueuedInput) {
			return func(in *registrar.QueuedInput) { in.Version = n }
		}
		ada := as(t, "ada", auth.User)
		var ids []string
		for _, c := range []struct {
			ctx     context.Context
			version int32
		}{{l.Context(), 3}, {ada, 3}, {l.Context(), 4}, {ada, 5}} {
			done, err := l.Enqueue(c.ctx, registrar.EnqueueInput{QueueID: "gpu", Runs: []registrar.QueuedInput{job(version(c.version))}})
			if err != nil {
				l.Fatal(err)
			}
			ids = append(ids, l.run(done.Keys[0]).ScheduleID)
		}
		if want := []string{"gpu:ada:resize:3", "gpu:ada:resize:3", "gpu:ada:resize:4", "gpu:ada:resize:5"}; !slices.Equal(ids, want) {
			l.Errorf("schedules %q, want %q", ids, want)
		}
		if found, err := l.List(l.Context(), schedule.ScheduleFilter{UserID: "ada", Limit: 10}); err != nil || len(found) != 0 {
			l.Errorf("listed by default: %d, %v", len(found), err)
		}
		found, err := l.List(l.Context(), schedule.ScheduleFilter{ManagedBy: "queue:gpu", Limit: 10})
		if err != nil || len(found) != 3 || found[0].Schedule.ScheduleID != "gpu:ada:resize:3" || !found[0].NextRunAt.IsZero() {
			l.Errorf("listed by their manager: %+v, %v", found, err)
		}
		own := registrar.UpsertInput{Definition: schedule.Definition{ScheduleID: "own", WorkflowID: "w", Version: 1, UserID: "ada"}}
		if _, err := l.Upsert(l.Context(), own); err != nil { // OWNER_MAX_SCHEDULES is 1
			l.Errorf("they count in the quota: %v", err)
		}
		own.Definition.ScheduleID, own.Definition.ManagedBy = "other", "queue:gpu"
		if _, err := l.Upsert(l.Context(), own); err == nil || !strings.Contains(err.Error(), "managed_by") {
			l.Errorf("a schedule that evades the quota: %v", err)
		}
	})
}

func TestTheQueueDefaultIsMadeAtItsFirstUse(t *testing.T) {
	onQueues(t, func(l *line) {
		if _, err := l.GetQueue(l.Context(), "default"); !errors.Is(err, schedule.ErrNotFound) {
			l.Fatalf("before: %v", err)
		}
		bob := as(t, "bob", auth.User)
		done, err := l.Enqueue(bob, registrar.EnqueueInput{QueueID: "default", Runs: []registrar.QueuedInput{job()}})
		if err != nil || l.run(done.Keys[0]).UserID != "bob" {
			l.Fatal(err)
		}
		q, err := l.GetQueue(bob, "default")
		if err != nil || q.UserID != "operator" || !q.Shared || q.MaxInFlight != 1 || q.Revision != 1 {
			l.Errorf("made as %+v, %v", q, err)
		}
		for name, err := range map[string]error{
			"an owner changes it":               second(l.UpsertQueue(bob, registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "default"}})),
			"an owner pauses it":                second(l.PauseQueue(bob, registrar.PauseQueueInput{QueueID: "default"})),
			"an owner deletes it":               second(l.DeleteQueue(bob, registrar.DeleteQueueInput{QueueID: "default", Force: true})),
			"an owner deletes it without force": second(l.DeleteQueue(bob, registrar.DeleteQueueInput{QueueID: "default"})),
		} {
			if !errors.Is(err, schedule.ErrForbidden) {
				l.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestAnEntryIsRefusedAndNothingIsWritten(t *testing.T) {
	onQueues(t, func(l *line) {
		bob := as(t, "bob", auth.User)
		zero, over := uint32(0), uint32(1_000_001)
		at := func(year int) func(*registrar.QueuedInput) {
			return func(in *registrar.QueuedInput) {
				in.RunAt = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)
			}
		}
		limited, none := uint32(2), uint32(0)
		for id, edit := range map[string]func(*registrar.QueueInput){
			"shared": func(in *registrar.QueueInput) { in.Shared = true },
			"small":  func(in *registrar.QueueInput) { in.MaxWaiting = &limited },
			"big":    func(in *registrar.QueueInput) { in.MaxWaiting = &none },
		} {
			if _, err := l.UpsertQueue(l.Context(), gpuQueue(edit, func(in *registrar.QueueInput) { in.QueueID = id })); err != nil {
				l.Fatal(err)
			}
		}
		many := make([]registrar.QueuedInput, 5001)
		for i := range many {
			many[i] = job()
		}
		good := registrar.EnqueueInput{QueueID: "gpu", Runs: []registrar.QueuedInput{job()}}
		in := func(edit func(*registrar.EnqueueInput)) registrar.EnqueueInput {
			asked := good
			edit(&asked)
			return asked
		}
		of := func(edits ...func(*registrar.QueuedInput)) registrar.EnqueueInput {
			return in(func(in *registrar.EnqueueInput) { in.Runs = []registrar.QueuedInput{job(edits...)} })
		}
		for _, c := range []struct {
			name string
			ctx  context.Context
			in   registrar.EnqueueInput
			want error  // a sentinel
			says string // in the message
		}{
			{"an unknown queue", l.Context(), in(func(in *registrar.EnqueueInput) { in.QueueID = "none" }), schedule.ErrNotFound, "none"},
			{"a private queue of another owner", bob, good, schedule.ErrNotFound, "gpu"},
			{"another owner's run", bob, in(func(in *registrar.EnqueueInput) { in.QueueID, in.UserID = "shared", "ada" }), nil, "user_id"},
			{"a run of somebody else in a private queue", l.Context(), in(func(in *registrar.EnqueueInput) { in.UserID = "bob" }), nil, "user_id"},
			{"a shared queue and no owner", l.Context(), in(func(in *registrar.EnqueueInput) { in.QueueID = "shared" }), nil, "user_id"},
			{"an unknown schedule", l.Context(), of(func(in *registrar.QueuedInput) { *in = registrar.QueuedInput{ScheduleID: "none"} }), schedule.ErrNotFound, "none"},
			{"neither schedule nor workflow", l.Context(), of(func(in *registrar.QueuedInput) { *in = registrar.QueuedInput{} }), nil, "schedule_id"},
			{"schedule and workflow", l.Context(), of(func(in *registrar.QueuedInput) { in.ScheduleID = "s" }), nil, "workflow_id"},
			{"a workflow without a version", l.Context(), of(func(in *registrar.QueuedInput) { in.Version = 0 }), nil, "version"},
			{"a grant that does not exist", l.Context(), of(func(in *registrar.QueuedInput) { in.ExecutionGrantID = "g" }), nil, "execution_grant_id"},
			{"priority 1001", l.Context(), of(withPriority(1001)), nil, "1001"},
			{"priority -1001", l.Context(), of(withPriority(-1001)), nil, "-1001"},
			{"position 0", l.Context(), in(func(in *registrar.EnqueueInput) { in.Position = &zero }), nil, "position"},
			{"a position out of reach", l.Context(), in(func(in *registrar.EnqueueInput) { in.Position = &over }), nil, "1000001"},
			{"position and next", l.Context(), in(func(in *registrar.EnqueueInput) { in.Position, in.Next = &limited, true }), nil, "next"},
			{"run_at in 1969", l.Context(), of(at(1970)), nil, "run_at"},
			{"run_at and delay_ms", l.Context(), of(at(2030), func(in *registrar.QueuedInput) { in.DelayMS = &limited }), nil, "delay_ms"},
			{"max_attempts 0", l.Context(), of(func(in *registrar.QueuedInput) { in.MaxAttempts = &zero }), nil, "max_attempts"},
			{"an input that is no JSON", l.Context(), of(withInput("{")), nil, "input"},
			{"an input over 64 KiB", l.Context(), of(withInput(`"` + strings.Repeat("x", 64<<10) + `"`)), nil, "65536"},
			{"an input 33 deep", l.Context(), of(withInput(strings.Repeat("[", 33) + strings.Repeat("]", 33))), nil, "32"},
			{"an input with a member twice", l.Context(), of(withInput(`{"a":1,"a":2}`)), nil, "input"},
			{"no runs", l.Context(), in(func(in *registrar.EnqueueInput) { in.Runs = nil }), nil, "runs"},
			{"5001 runs", l.Context(), in(func(in *registrar.EnqueueInput) { in.Runs = many }), nil, "5001"},
			{"a bad run among good ones", l.Context(), in(func(in *registrar.EnqueueInput) {
				in.Batch, in.Runs = true, []registrar.QueuedInput{job(), job(withPriority(2000)), job()}
			}), nil, "runs[1].priority"},
			{"an unknown schedule among good ones", l.Context(), in(func(in *registrar.EnqueueInput) {
				in.Batch, in.Runs = true, []registrar.QueuedInput{job(), {ScheduleID: "none"}}
			}), schedule.ErrNotFound, "runs[1]"},
			{"more than fit", l.Context(), in(func(in *registrar.EnqueueInput) {
				in.QueueID, in.Runs = "small", []registrar.QueuedInput{job(), job(), job()}
			}), schedule.ErrExhausted, "max_waiting is 2"},
		} {
			_, err := l.Enqueue(c.ctx, c.in)
			_, invalid := errors.AsType[*schedule.InvalidError](err)
			if err == nil || c.want == nil && !invalid || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				l.Errorf("%s: %v", c.name, err)
			}
		}
		for _, id := range []string{"gpu", "shared", "small", "big"} {
			page, err := l.ListWaiting(l.Context(), registrar.WaitingInput{QueueID: id, Limit: 10})
			if err != nil || len(page.Runs) != 0 {
				l.Errorf("written into %s: %+v, %v", id, page, err)
			}
		}
	})
}

func TestAFullQueueTakesRunsAgainOnceItHasRoom(t *testing.T) {
	onQueues(t, func(l *line) {
		two := uint32(2)
		if _, err := l.UpsertQueue(l.Context(), gpuQueue(func(in *registrar.QueueInput) { in.MaxWaiting = &two })); err != nil {
			l.Fatal(err)
		}
		l.one()
		l.one()
		_, err := l.tryEnqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job()}})
		later, ok := errors.AsType[*schedule.LaterError](err)
		if !ok || later.Wait < time.Second || !errors.Is(err, schedule.ErrExhausted) {
			l.Errorf("full: %v", err)
		}
	})
}

func TestAWaitingRunIsChangedUntilItsEnd(t *testing.T) {
	onQueues(t, func(l *line) {
		l.one(withInput("0"))
		key := l.one(withInput("1"))
		nine := int32(9)
		run, err := l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: key, Input: json.RawMessage("2"), Priority: &nine})
		if err != nil || run.Queue.ID != "gpu" {
			l.Fatalf("%+v, %v", run, err)
		}
		l.wantWaiting("input and priority", "2 p9 #1", "0 p0 #1")
		if _, err := l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: key, RunAt: noon.Add(time.Hour)}); err != nil {
			l.Fatal(err)
		}
		l.wantWaiting("a later start", "0 p0 #1", "2 p9 #0")
		if _, err := l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: key, RunAt: noon.Add(-time.Hour)}); err != nil {
			l.Fatal(err)
		}
		l.wantWaiting("a start in the past", "2 p9 #1", "0 p0 #1")
		if run := l.run(key); !run.FireAt.Equal(noon) || run.Queue.State != schedule.QueueWaiting {
			l.Errorf("starts at %s as %s", run.FireAt, run.Queue.State)
		}
		over := int32(1001)
		for name, err := range map[string]error{
			"nothing":               second(l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: key})),
			"a priority of 1001":    second(l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: key, Priority: &over})),
			"an input that is none": second(l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: key, Input: json.RawMessage("{")})),
		} {
			if _, invalid := errors.AsType[*schedule.InvalidError](err); !invalid {
				l.Errorf("%s: %v", name, err)
			}
		}
		if _, err := l.UpdateRun(as(t, "bob", auth.User), registrar.UpdateRunInput{Key: key, Priority: &nine}); !errors.Is(err, schedule.ErrNotFound) {
			l.Errorf("another owner: %v", err)
		}
		if _, err := l.CancelRun(l.Context(), registrar.CancelInput{Key: key, Actor: "op"}); err != nil {
			l.Fatal(err)
		}
		if run := l.run(key); run.Status != schedule.StatusCancelled || run.Queue.ID != "gpu" {
			l.Errorf("cancelled: %+v", run)
		}
		if _, err := l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: key, Priority: &nine}); !errors.Is(err, schedule.ErrPrecondition) {
			l.Errorf("after its end: %v", err)
		}
	})
}

func TestAQueueWithRunsIsDeletedByForceOnly(t *testing.T) {
	onQueues(t, func(l *line) {
		first, second := l.one(), l.one(func(in *registrar.QueuedInput) { in.RunAt = noon.Add(time.Hour) })
		_, err := l.DeleteQueue(l.Context(), registrar.DeleteQueueInput{QueueID: "gpu", Actor: "op"})
		if !errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), "2 runs wait") {
			l.Fatalf("without force: %v", err)
		}
		done, err := l.DeleteQueue(l.Context(), registrar.DeleteQueueInput{QueueID: "gpu", Force: true, Note: "wrong", Actor: "op"})
		if err != nil || done != (registrar.DeletedQueue{Cancelled: 2}) {
			l.Fatalf("by force: %+v, %v", done, err)
		}
		for _, key := range []schedule.Key{first, second} {
			if run := l.run(key); run.Status != schedule.StatusCancelled {
				l.Errorf("a run is %s", run.Status)
			}
		}
		if _, err := l.GetQueue(l.Context(), "gpu"); !errors.Is(err, schedule.ErrNotFound) {
			l.Errorf("it lives: %v", err)
		}
		if _, err := l.tryEnqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job()}}); !errors.Is(err, schedule.ErrNotFound) {
			l.Errorf("it takes runs: %v", err)
		}
		if q, err := l.UpsertQueue(l.Context(), gpuQueue()); err != nil || q.Revision < 2 {
			l.Errorf("registered again: %+v, %v", q, err)
		}
		l.wantWaiting("a new queue of its name is empty")
	})
}

// failingEntries fails to put runs into queues while it is told to.
type failingEntries struct {
	registrar.EnqueueStore
	err error
}

func (f *failingEntries) Enqueue(ctx context.Context, req schedule.EnqueueRequest, decide func(schedule.EnqueueFacts) (schedule.Enqueue, error)) error {
	if f.err != nil {
		return f.err
	}
	return f.EnqueueStore.Enqueue(ctx, req, decide)
}

// A client takes "not found" as final, and would ask under a new request_id.
func TestARepeatAfterTheDeletionOfItsScheduleIsNotRefusedWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	m := memory.New(memory.Options{})
	entries := &failingEntries{EnqueueStore: m}
	l := &line{T: t, now: noon}
	l.Registrar = registrar.New(registrar.Options{
		Schedules: m, Runs: m, Grants: m, Queues: m, Entries: entries, Copies: m, Limits: m, Now: func() time.Time { return l.now }, Logger: quiet,
	})
	if _, err := l.UpsertQueue(t.Context(), gpuQueue()); err != nil {
		t.Fatal(err)
	}
	rule := registrar.UpsertInput{Definition: schedule.Definition{ScheduleID: "resize", WorkflowID: "w", Version: 1, UserID: "ada", CronExpr: "0 0 1 1 *"}}
	if _, err := l.Upsert(t.Context(), rule); err != nil {
		t.Fatal(err)
	}
	in := registrar.EnqueueInput{QueueID: "gpu", RequestID: "once", Runs: []registrar.QueuedInput{{ScheduleID: "resize"}}}
	first, err := l.Enqueue(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Delete(t.Context(), "resize", "op"); err != nil {
		t.Fatal(err)
	}
	entries.err = errors.New("the database is away")
	if _, err := l.Enqueue(t.Context(), in); !errors.Is(err, entries.err) {
		t.Errorf("while the store is away the answer is %v", err)
	}
	entries.err = nil
	again, err := l.Enqueue(t.Context(), in)
	if err != nil || !again.Repeated || !slices.Equal(again.Keys, first.Keys) {
		t.Errorf("the repeat is answered with %+v, %v", again, err)
	}
}
