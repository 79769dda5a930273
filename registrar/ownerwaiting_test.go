package registrar_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// ownerBounds has the settings where a caller of role user may have two queues and three waiting runs.
func (l *line) ownerBounds() (user context.Context) {
	l.opts.Config.OwnerMaxQueues, l.opts.Config.OwnerMaxWaiting = 2, 3
	l.Registrar = registrar.New(l.opts)
	return auth.NewContext(l.Context(), auth.Identity{Subject: "ada", Owner: "ada", Roles: []auth.Role{auth.User}})
}

func TestACallerOfRoleUserHasSoManyQueuesAndAnOperatorAny(t *testing.T) {
	onQueues(t, func(l *line) {
		ada := l.ownerBounds() // who has the queue gpu
		create := func(ctx context.Context, id string) error {
			_, err := l.UpsertQueue(ctx, registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: id, UserID: "ada", MaxInFlight: 2}})
			return err
		}
		if err := create(ada, "second"); err != nil {
			l.Fatal(err)
		}
		err := create(ada, "third")
		if !errors.Is(err, schedule.ErrExhausted) || !strings.Contains(err.Error(), `owner "ada" would have 3 queues, more than 2; delete some, or ask the operator to raise OWNER_MAX_QUEUES`) {
			l.Fatalf("the third queue: %v", err)
		}
		if _, err := l.GetQueue(l.Context(), "third"); !errors.Is(err, schedule.ErrNotFound) {
			l.Errorf("it was written: %v", err)
		}
		if err := create(ada, "second"); err != nil {
			l.Errorf("the same again at the limit: %v", err)
		}
		if err := create(l.Context(), "third"); err != nil {
			l.Errorf("an operator: %v", err)
		}
	})
}

func TestACallerOfRoleUserHasSoManyWaitingRunsInAllQueues(t *testing.T) {
	onQueues(t, func(l *line) {
		ada := l.ownerBounds()
		if _, err := l.UpsertQueue(l.Context(), registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "shared", UserID: "ops", Shared: true}}); err != nil {
			l.Fatal(err)
		}
		enqueue := func(ctx context.Context, queueID, requestID string, runs int) error {
			in := registrar.EnqueueInput{QueueID: queueID, UserID: "ada", RequestID: requestID, Batch: true}
			for range runs {
				in.Runs = append(in.Runs, job())
			}
			_, err := l.Enqueue(ctx, in)
			return err
		}
		if err := errors.Join(enqueue(ada, "gpu", "first", 2), enqueue(ada, "shared", "", 1)); err != nil {
			l.Fatal(err)
		}
		err := enqueue(ada, "gpu", "", 1)
		later, ok := errors.AsType[*schedule.LaterError](err)
		if !ok || !errors.Is(err, schedule.ErrExhausted) || later.Wait <= 0 ||
			!strings.Contains(err.Error(), `owner "ada" has 3 runs that wait in queues, and 1 more would be over the limit of 3; try again in 1s, cancel some, or ask the operator to raise OWNER_MAX_WAITING`) {
			l.Fatalf("the fourth run: %v", err)
		}
		if err := enqueue(ada, "gpu", "first", 2); err != nil {
			l.Errorf("a repeat of what entered before: %v", err)
		}
		if err := enqueue(l.Context(), "gpu", "", 1); err != nil {
			l.Errorf("an operator for this owner: %v", err)
		}
		if cancelled, _ := l.cancelled(l.Context(), registrar.CancelRunsInput{Filter: schedule.RunFilter{QueueNo: l.queueNo()}, Waiting: true}); cancelled != 3 {
			l.Fatalf("%d were cancelled", cancelled)
		}
		began := time.Now()
		err = enqueue(ada, "gpu", "", 1)
		for errors.Is(err, schedule.ErrExhausted) && time.Since(began) < 10*time.Second { // the count rests for as long as twenty counts take
			err = enqueue(ada, "gpu", "", 1)
		}
		if err != nil {
			l.Errorf("once others were cancelled: %v", err)
		}
	})
}

func TestTheSettingsCompleteTheRetryPolicyOfAQueue(t *testing.T) {
	onQueues(t, func(l *line) {
		l.opts.Config.DefaultBackoffMS, l.opts.Config.DefaultMaxBackoffMS = 7_000, 20_000
		l.Registrar = registrar.New(l.opts)
		for name, c := range map[string]struct {
			asked, want schedule.RetryPolicy
		}{
			"nothing":  {},
			"attempts": {schedule.RetryPolicy{MaxAttempts: 5}, schedule.RetryPolicy{MaxAttempts: 5, BackoffMS: 7_000, FactorPercent: 200, MaxBackoffMS: 20_000, On: schedule.DefaultRetry.On}},
			"backoff":  {schedule.RetryPolicy{BackoffMS: 30_000}, schedule.RetryPolicy{MaxAttempts: 3, BackoffMS: 30_000, FactorPercent: 200, MaxBackoffMS: 30_000, On: schedule.DefaultRetry.On}},
		} {
			in := registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: name, UserID: "ada", Retry: c.asked}}
			if q, err := l.UpsertQueue(l.Context(), in); err != nil || q.Retry != c.want {
				l.Errorf("%s: %+v, %v", name, q, err)
			}
		}
	})
}
