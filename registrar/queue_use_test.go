package registrar_test

import (
	"context"
	"errors"
	"testing"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// slotted is a schedule with runs that enter the queue gpu.
func slotted(id string, edits ...func(*schedule.Definition)) registrar.UpsertInput {
	d := schedule.Definition{ScheduleID: id, WorkflowID: "resize", Version: 3, UserID: "ada", CronExpr: "0 3 * * *", QueueID: "gpu"}
	for _, edit := range edits {
		edit(&d)
	}
	return registrar.UpsertInput{Definition: d}
}

func TestAScheduleNamesAQueueForItsOwner(t *testing.T) {
	onQueues(t, func(l *line) {
		l.opts.Config.OwnerMaxSchedules = 100
		l.Registrar = registrar.New(l.opts)
		l.must(l.UpsertQueue(l.Context(), gpuQueue(func(in *registrar.QueueInput) { in.QueueID, in.UserID = "bobs", "bob" })))
		l.must(l.UpsertQueue(l.Context(), gpuQueue(func(in *registrar.QueueInput) { in.QueueID, in.UserID, in.Shared = "shared", "bob", true })))
		for _, limit := range []schedule.LimitDefinition{
			{LimitID: "gpu", UserID: "ada", MaxInFlight: 1}, {LimitID: "customer", UserID: "ada", MaxInFlight: 1, Keyed: true}, {LimitID: "bobs", UserID: "bob", MaxInFlight: 1},
		} {
			if _, err := l.UpsertLimit(l.Context(), registrar.LimitInput{LimitDefinition: limit, MaxInFlight: &limit.MaxInFlight}); err != nil {
				l.Fatal(err)
			}
		}
		for name, c := range map[string]struct {
			edit        func(*schedule.Definition)
			field, says string // "": it is taken
		}{
			"its own queue":            {func(*schedule.Definition) {}, "", ""},
			"a shared queue":           {func(d *schedule.Definition) { d.QueueID = "shared" }, "", ""},
			"the default queue":        {func(d *schedule.Definition) { d.QueueID = "default" }, "", ""},
			"limits and a webhook":     {func(d *schedule.Definition) { d.Limits, d.Webhook = []string{"gpu", "customer=a7"}, "billing" }, "", ""},
			"another owner's queue":    {func(d *schedule.Definition) { d.QueueID = "bobs" }, "queue_id", "does not exist"},
			"an unknown queue":         {func(d *schedule.Definition) { d.QueueID = "none" }, "queue_id", "does not exist"},
			"no id":                    {func(d *schedule.Definition) { d.QueueID = "a/b" }, "queue_id", "is not a valid id"},
			"limits without a queue":   {func(d *schedule.Definition) { d.QueueID, d.Limits = "", []string{"gpu"} }, "limits", "without queue_id"},
			"a group":                  {func(d *schedule.Definition) { d.Group = "nightly" }, "", ""},
			"a group without a queue":  {func(d *schedule.Definition) { d.QueueID, d.Group = "", "nightly" }, "group", "without queue_id"},
			"a group that is no id":    {func(d *schedule.Definition) { d.Group = "a/b" }, "group", "is not a valid id"},
			"a foreign target outside": {func(d *schedule.Definition) { d.QueueID, d.Webhook = "", "of-bob" }, "webhook", "may not use"},
			"no target, no queue":      {func(d *schedule.Definition) { d.QueueID, d.Webhook = "", "none" }, "webhook", "is not a target"},
			"an unknown limit":         {func(d *schedule.Definition) { d.Limits = []string{"cpu"} }, "limits[0]", "does not exist"},
			"another owner's limit":    {func(d *schedule.Definition) { d.Limits = []string{"bobs"} }, "limits[0]", "does not exist"},
			"a keyed limit, no key":    {func(d *schedule.Definition) { d.Limits = []string{"customer"} }, "limits[0]", "has no key"},
			"two keys of one limit":    {func(d *schedule.Definition) { d.Limits = []string{"customer=a", "customer=b"} }, "limits", "two keys"},
			"another owner's target":   {func(d *schedule.Definition) { d.Webhook = "of-bob" }, "webhook", "may not use"},
			"a target that is unknown": {func(d *schedule.Definition) { d.Webhook = "none" }, "webhook", "is not a target"},
		} {
			result, err := l.Upsert(l.Context(), slotted("s", c.edit))
			switch {
			case c.field != "":
				refusedWebhook(l.T, name, err, c.field, c.says)
			case err != nil:
				l.Errorf("%s: %v", name, err)
			case result.Schedule.QueueID == "":
				l.Errorf("%s: it names no queue", name)
			}
		}
		if result, err := l.Upsert(l.Context(), slotted("outside", func(d *schedule.Definition) { d.QueueID, d.Webhook = "", "billing" })); err != nil || result.Schedule.Webhook != "billing" {
			l.Errorf("a schedule without a queue names a webhook: %+v, %v", result, err)
		}
		if _, err := l.Upsert(auth.NewContext(l.Context(), auth.Identity{Owner: "ada"}), slotted("own", func(d *schedule.Definition) { d.QueueID = "bobs" })); err == nil {
			l.Error("a user names another owner's queue")
		}
	})
}

func (l *line) must(q *schedule.Queue, err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func TestAQueueOfASchedulesRunsIsDeletedByForceOnly(t *testing.T) {
	onQueues(t, func(l *line) {
		if _, err := l.Upsert(l.Context(), slotted("nightly")); err != nil {
			l.Fatal(err)
		}
		named, err := l.SchedulesOfQueue(l.Context(), "gpu")
		if err != nil || len(named) != 1 || named[0] != "nightly" {
			l.Errorf("its schedules are %v, %v", named, err)
		}
		foreign := auth.NewContext(l.Context(), auth.Identity{Owner: "bob"})
		if named, err := l.SchedulesOfQueue(foreign, "gpu"); err != nil || len(named) != 0 {
			l.Errorf("bob sees %v, %v", named, err)
		}
		if _, err := l.DeleteQueue(l.Context(), registrar.DeleteQueueInput{QueueID: "gpu"}); !errors.Is(err, schedule.ErrPrecondition) {
			l.Errorf("deleted: %v", err)
		}
		if _, err := l.DeleteQueue(l.Context(), registrar.DeleteQueueInput{QueueID: "gpu", Force: true}); err != nil {
			l.Errorf("with force: %v", err)
		}
	})
}

func TestAPauseCountsWhatWaitsInQueuesAndEndsItIfAsked(t *testing.T) {
	onQueues(t, func(l *line) {
		if _, err := l.Upsert(l.Context(), slotted("nightly")); err != nil {
			l.Fatal(err)
		}
		in := registrar.EnqueueInput{UserID: "ada"}
		for range 3 {
			in.Runs = append(in.Runs, registrar.QueuedInput{ScheduleID: "nightly"})
		}
		keys := l.enqueue(in).Keys
		l.admit(1)
		kept, err := l.Pause(l.Context(), registrar.PauseInput{ScheduleID: "nightly"})
		if err != nil || kept.Queued != 2 || kept.Ended != 0 || !kept.Paused {
			l.Errorf("a pause counts %d and ends %d: %v", kept.Queued, kept.Ended, err)
		}
		ended, err := l.Pause(l.Context(), registrar.PauseInput{ScheduleID: "nightly", EndQueued: true, Note: "broken"})
		if err != nil || ended.Queued != 0 || ended.Ended != 2 {
			l.Errorf("it counts %d and ends %d: %v", ended.Queued, ended.Ended, err)
		}
		statuses := make(map[schedule.Status]int)
		for _, key := range keys {
			run, err := l.GetRun(context.Background(), key)
			if err != nil {
				l.Fatal(err)
			}
			statuses[run.Status]++
			if run.Status == schedule.StatusSkipped && (run.Reason != schedule.ReasonPaused || run.ErrorMessage != "broken") {
				l.Errorf("it ended %s: %s", run.Reason, run.ErrorMessage)
			}
		}
		if statuses[schedule.StatusSkipped] != 2 || statuses[schedule.StatusEnqueued] != 1 {
			l.Errorf("the runs are %v", statuses)
		}
	})
}

func TestAJobHasTheLimitsAndTheWebhookOfItsSchedule(t *testing.T) {
	onQueues(t, func(l *line) {
		one := uint32(1)
		for _, id := range []string{"gpu", "own"} {
			if _, err := l.UpsertLimit(l.Context(), registrar.LimitInput{LimitDefinition: schedule.LimitDefinition{LimitID: id, UserID: "ada"}, MaxInFlight: &one}); err != nil {
				l.Fatal(err)
			}
		}
		if _, err := l.Upsert(l.Context(), slotted("nightly", func(d *schedule.Definition) { d.Limits, d.Webhook = []string{"gpu"}, "billing" })); err != nil {
			l.Fatal(err)
		}
		keys := l.enqueue(registrar.EnqueueInput{UserID: "ada", Runs: []registrar.QueuedInput{{ScheduleID: "nightly"}, {ScheduleID: "nightly", Limits: []string{"own"}}}}).Keys
		for i, want := range []schedule.Limits{"gpu", "gpu,own"} {
			run, err := l.GetRun(l.Context(), keys[i])
			if err != nil || run.Queue.Limits != want || run.Webhook != "billing" {
				l.Errorf("job %d uses %q and tells %q, %v; want %q and billing", i, run.Queue.Limits, run.Webhook, err, want)
			}
		}
		changed, err := l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: keys[1], Limits: []string{}})
		if err != nil || changed.Queue.Limits != "gpu" {
			l.Errorf("without limits of its own it uses %q, %v", changed.Queue.Limits, err)
		}
	})
}
