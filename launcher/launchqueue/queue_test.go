package launchqueue_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/launcher/launchertest"
	"github.com/carillon/carillon/launcher/launchqueue"
	"github.com/carillon/carillon/launcher/presence"
	"github.com/carillon/carillon/registrar"
)

func rnd() string { return rand.Text() }

func TestConsumersShareTheWork(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.executor.Behave(launchertest.Behavior{Delay: 100 * time.Millisecond})
		first, second := r.consume(4), r.consume(4)
		launches := r.claim(60)
		r.publish(launches...)
		r.settled(launches, schedule.StatusSuccess)
		r.once(launches)
		r.empty()
		if first.launched() == 0 || second.launched() == 0 || first.launched()+second.launched() != 60 {
			r.Errorf("they launched %d and %d, want 60 together", first.launched(), second.launched())
		}
	})
}

func TestWhatADeadConsumerHadInHandIsTakenOver(t *testing.T) {
	onBoth(t, func(r *rig) {
		launches := r.claim(10)
		r.publish(launches...)
		// It takes half of them, and is never heard of again.
		if err := r.redis.XGroupCreateMkStream(r.Context(), "carillon:launches", "launchers", "0").Err(); err != nil {
			r.Fatal(err)
		}
		taken, err := r.redis.XReadGroup(r.Context(), &redis.XReadGroupArgs{
			Group: "launchers", Consumer: "dead", Streams: []string{"carillon:launches", ">"}, Count: 5,
		}).Result()
		if err != nil || len(taken[0].Messages) != 5 {
			r.Fatalf("took %v, %v", taken, err)
		}
		r.consume(100)
		r.settled(launches, schedule.StatusSuccess)
		r.once(launches)
		r.empty()
	})
}

func TestEntriesOfAProcessThatIsGoneAreTakenOverAtOnce(t *testing.T) {
	t.Parallel()
	url := migrated.Postgres(t)
	s, err := postgres.Open(t.Context(), url, postgres.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := newRig(t, s)
	no, err := s.Register(t.Context(), schedule.Instance{ID: "gone", Host: "host:1", StartedAt: s.Now()})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := presence.Sessions{URL: url, TakePresence: postgres.TakePresence, ServerGeneration: postgres.ServerGeneration}.Take(t.Context(), no)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ConfirmPresence(t.Context(), no, lock.Generation()); err != nil {
		t.Fatal(err)
	}
	launches := r.claim(10)
	r.publish(launches...)
	if err := r.redis.XGroupCreateMkStream(r.Context(), "carillon:launches", "launchers", "0").Err(); err != nil {
		t.Fatal(err)
	}
	taken, err := r.redis.XReadGroup(r.Context(), &redis.XReadGroupArgs{
		Group: "launchers", Consumer: "gone", Streams: []string{"carillon:launches", ">"}, Count: 10,
	}).Result()
	if err != nil || len(taken[0].Messages) != 10 {
		t.Fatalf("took %v, %v", taken, err)
	}
	// Refreshed each second, no entry is ever idle for three seconds: only the
	// presence lock shows that the process is gone.
	refresh := make(chan struct{})
	refreshed := make(chan struct{})
	go func() {
		defer close(refreshed)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-refresh:
				return
			case <-ticker.C:
				for _, m := range taken[0].Messages {
					r.redis.XClaimJustID(t.Context(), &redis.XClaimArgs{Stream: "carillon:launches", Group: "launchers", Consumer: "gone", Messages: []string{m.ID}})
				}
			}
		}
	}()
	lock.Close()
	r.consume(100)
	r.settled(launches, schedule.StatusSuccess)
	close(refresh)
	<-refreshed
	r.once(launches)
}

// hung is a launcher whose calls never end before it is told.
type hung struct {
	started chan schedule.Key
	ctx     context.Context
}

func (h hung) Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error) {
	h.started <- req.Key
	select {
	case <-ctx.Done():
	case <-h.ctx.Done():
	}
	return schedule.StartReply{}, errors.New("hung")
}

func (h hung) Cancel(context.Context, schedule.CancelRequest) (bool, error) { return false, nil }

func TestALiveConsumerKeepsWhatItHasInHand(t *testing.T) {
	t.Parallel()
	r := newRig(t, openSQLite(t))
	ctx, end := context.WithCancel(t.Context())
	defer end()
	slow := r.consumeWith(hung{make(chan schedule.Key, 10), ctx}, 10)
	launches := r.claim(1)
	r.publish(launches...)
	r.eventually("it is in hand", func() error { return r.inHand(1) })
	other := r.consume(10)
	watched := time.NewTimer(6 * time.Second)
	defer watched.Stop()
	<-watched.C // twice as long as what is left alone may lie
	if other.launched() > 0 {
		r.Error("an entry was taken over from a consumer that lives")
	}
	_ = slow.redis.Close() // it cannot say so any more
	r.settled(launches, schedule.StatusSuccess)
	r.once(launches)
}

// inHand demands that consumers have n entries in hand.
func (r *rig) inHand(n int64) error {
	pending, err := r.redis.XPending(r.Context(), "carillon:launches", "launchers").Result()
	if err == nil && pending.Count != n {
		err = fmt.Errorf("%d in hand, want %d", pending.Count, n)
	}
	return err
}

func TestARedisThatForgetsEverythingLosesNoRun(t *testing.T) {
	onBoth(t, func(r *rig) {
		launches := r.claim(10)
		r.publish(launches[:5]...)
		r.flush()
		r.publish(launches[5:]...)
		r.consume(100)
		r.settled(launches[5:], schedule.StatusSuccess)
		r.flush() // with the group, under a consumer that waits
		lost := r.again(5)
		r.publish(lost...)
		r.settled(launches, schedule.StatusSuccess)
		r.once(launches)
		r.empty()
	})
}

func (r *rig) flush() {
	r.Helper()
	if err := r.redis.FlushDB(r.Context()).Err(); err != nil {
		r.Fatal(err)
	}
}

func TestARedeliveryIsHarmless(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.executor.Behave(launchertest.Behavior{Delay: 100 * time.Millisecond})
		launches := r.claim(10)
		r.publish(launches...)
		r.repeat()
		r.repeat()
		first, second := r.consume(100), r.consume(100)
		r.settled(launches, schedule.StatusSuccess)
		r.publish(launches...)
		r.empty()
		r.settled(launches, schedule.StatusSuccess)
		r.once(launches)
		if n := len(r.executor.Calls()); n != 10 {
			r.Errorf("the executor was called %d times, want 10", n)
		}
		if ended := first.ends[schedule.StatusSuccess] + second.ends[schedule.StatusSuccess]; ended != 10 {
			r.Errorf("%d runs were counted as ended, want 10", ended)
		}
	})
}

// repeat puts every entry in once more.
func (r *rig) repeat() {
	r.Helper()
	entries, err := r.redis.XRange(r.Context(), "carillon:launches", "-", "+").Result()
	if err != nil || len(entries) == 0 {
		r.Fatalf("%d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		if err := r.redis.XAdd(r.Context(), &redis.XAddArgs{Stream: "carillon:launches", Values: e.Values}).Err(); err != nil {
			r.Fatal(err)
		}
	}
}

func TestARunThatWaitsInTheQueueIsNotPutInTwice(t *testing.T) {
	onBoth(t, func(r *rig) {
		launches := r.claim(5)
		r.publish(launches...)
		r.publish(r.again(5)...) // nobody has taken them within the claim's lease
		if n, err := r.redis.XLen(r.Context(), "carillon:launches").Result(); err != nil || n != 5 {
			r.Errorf("%d entries, want 5 (%v)", n, err)
		}
		c := r.consume(100)
		r.settled(launches, schedule.StatusSuccess)
		r.empty()
		r.once(launches)
		c.stop()
		<-c.ended
		r.publish(launches...) // what was dealt with can be put in again
		if n, err := r.redis.XLen(r.Context(), "carillon:launches").Result(); err != nil || n != 5 {
			r.Errorf("%d entries, want 5 (%v)", n, err)
		}
	})
}

func TestACancelGoesThroughTheQueue(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.executor.Behave(launchertest.Behavior{AcceptOnly: true})
		r.consume(100)
		launches := r.claim(1)
		r.publish(launches...)
		r.settled(launches, schedule.StatusEnqueued)
		r.cancel(launches[0].Run.Key)
		r.settled(launches, schedule.StatusCancelled)
		r.empty()
		if n := len(r.executor.Cancels()); n != 1 {
			r.Errorf("the executor heard of %d cancels, want 1", n)
		}
	})
}

// cancel asks for the end of a run, and carries it as the leader does.
func (r *rig) cancel(key schedule.Key) {
	r.Helper()
	if _, err := r.registrar.CancelRun(r.Context(), registrar.CancelInput{Key: key}); err != nil {
		r.Fatal(err)
	}
	confirmed, err := r.publisher.Cancel(r.Context(), schedule.CancelRequest{
		Key: key, ScheduleID: "s", WorkflowID: "w", Reason: schedule.ReasonCancelled,
	})
	if confirmed || err != nil {
		r.Errorf("handing the cancel over answered %t, %v", confirmed, err)
	}
}

func TestACancelledRunThatWaitsInTheQueueIsNotSent(t *testing.T) {
	onBoth(t, func(r *rig) {
		launches := r.claim(1)
		r.publish(launches...)
		r.cancel(launches[0].Run.Key)
		r.consume(100)
		r.settled(launches, schedule.StatusCancelled)
		r.empty()
		if n := len(r.executor.Calls()); n != 0 {
			r.Errorf("the executor was called %d times", n)
		}
	})
}

func TestAnAnswerAfterTheCancelWasAskedForIsReadAsOne(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.executor.WithoutCancel()
		r.executor.Behave(launchertest.Behavior{Delay: time.Second, Outcome: schedule.Outcome{Status: schedule.StatusFailed}})
		r.consume(100)
		launches := r.claim(1)
		r.publish(launches...)
		if err := r.executor.Await(r.Context(), func(e *launchertest.Executor) bool { return len(e.Calls()) == 1 }); err != nil {
			r.Fatal(err)
		}
		r.cancel(launches[0].Run.Key)
		r.settled(launches, schedule.StatusCancelled)
	})
}

func TestAnUnknownOutcomeIsSentAgainAfterItsBackoff(t *testing.T) {
	onBoth(t, func(r *rig) {
		launches := r.claim(1)
		key := launches[0].Run.Key
		r.executor.BehaveFor(key, launchertest.Behavior{DropReply: true})
		r.executor.WithoutGetByKey()
		r.consume(100)
		r.publish(launches...)
		r.eventually("it is known that nothing is known", func() error {
			run, err := r.store.GetRun(r.Context(), key)
			if err == nil && (run.Status != schedule.StatusLaunching || run.ErrorCode != "outcome_unknown" || !run.ClaimedUntil.Before(launches[0].Run.ClaimedUntil)) {
				err = fmt.Errorf("it is %s, error %q", run.Status, run.ErrorCode)
			}
			return err
		})
		r.empty()
		r.publish(r.again(1)...)
		r.settled(launches, schedule.StatusSuccess)
		r.once(launches)
	})
}

func TestWhatCannotBeReadIsDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t, openSQLite(t))
	for _, stream := range []string{"carillon:launches", "carillon:catchup", "carillon:cancels"} {
		for _, values := range [][]any{
			{"something", "else"},
			{"v", "2", "body", "of the future"},
			{"v", "1", "body", "\xff\xff\xff"},
			{"v", "1", "body", ""},
			{"v", "1"},
		} {
			if err := r.redis.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: values}).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	launches := r.claim(1)
	r.publish(launches...)
	r.consume(2)
	r.settled(launches, schedule.StatusSuccess)
	r.empty()
}

func TestAConsumerThatEndsFinishesWhatIsOpenAndLeaves(t *testing.T) {
	t.Parallel()
	r := newRig(t, openSQLite(t))
	r.executor.Behave(launchertest.Behavior{Delay: time.Second})
	c := r.consume(10)
	launches := r.claim(3)
	r.publish(launches...)
	if err := r.executor.Await(t.Context(), func(e *launchertest.Executor) bool { return len(e.Calls()) == 3 }); err != nil {
		t.Fatal(err)
	}
	c.stop()
	<-c.ended
	r.settled(launches, schedule.StatusSuccess)
	consumers, err := r.redis.XInfoConsumers(t.Context(), "carillon:launches", "launchers").Result()
	if err != nil || len(consumers) != 0 {
		t.Errorf("it is still in the group: %v, %v", consumers, err)
	}
}

func TestNothingIsSentBeforeFireAt(t *testing.T) {
	t.Parallel()
	r := newRig(t, openSQLite(t))
	r.consume(10)
	launches := r.claim(1)
	launches[0].Run.FireAt = r.store.Now().Add(400 * time.Millisecond)
	r.publish(launches...)
	r.settled(launches, schedule.StatusSuccess)
	run, err := r.store.GetRun(t.Context(), launches[0].Run.Key)
	if err != nil || run.LaunchedAt.Before(launches[0].Run.FireAt) {
		t.Errorf("launched at %s, fire_at is %s (%v)", run.LaunchedAt, launches[0].Run.FireAt, err)
	}
}

func TestARedisThatIsAwayIsAnErrorAndNotAWait(t *testing.T) {
	t.Parallel()
	away, err := launchqueue.Open("redis://127.0.0.1:1/0")
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	began := time.Now()
	publisher := launchqueue.NewPublisher(away, nil)
	publisher.StartAll(t.Context(), make([]schedule.StartRequest, 1), func(_ int, reply schedule.StartReply, err error) {
		if !errors.Is(err, schedule.ErrQueueAway) || reply.Queued {
			t.Errorf("a run was handed over to nobody: %+v, %v", reply, err)
		}
	})
	if _, err := publisher.Cancel(t.Context(), schedule.CancelRequest{}); err == nil {
		t.Error("a cancel was handed over to nobody")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("that took %s", took)
	}
	if _, err := launchqueue.Open("redis://:secret@%zz"); err == nil || len(err.Error()) > 100 {
		t.Errorf("an address that is none: %v", err)
	}
}
