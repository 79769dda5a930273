package launchertest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/launchertest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func callOf(n int64) launcher.Call {
	return launcher.Call{StartRequest: schedule.StartRequest{Key: schedule.SlotKey("s", time.Unix(n, 0))}}
}

func TestBehaviors(t *testing.T) {
	refusal := &launcher.Refusal{Code: "no"}
	broken := errors.New("broken")
	tests := []struct {
		name        string
		behavior    launchertest.Behavior
		wantStatus  schedule.Status
		wantErr     error
		wantEffects int
	}{
		{name: "by default it runs and ends well", wantStatus: schedule.StatusSuccess, wantEffects: 1},
		{name: "not sent", behavior: launchertest.Behavior{NotSent: true}, wantErr: launcher.ErrNotSent},
		{name: "refused", behavior: launchertest.Behavior{Refuse: refusal}, wantErr: refusal},
		{name: "hanging", behavior: launchertest.Behavior{Hang: true}, wantErr: context.DeadlineExceeded},
		{name: "slower than its caller waits", behavior: launchertest.Behavior{Delay: time.Hour}, wantErr: context.DeadlineExceeded},
		{name: "slow", behavior: launchertest.Behavior{Delay: time.Second}, wantStatus: schedule.StatusSuccess, wantEffects: 1},
		{name: "broken before it took effect", behavior: launchertest.Behavior{Fail: broken}, wantErr: broken},
		{name: "run, and the reply lost", behavior: launchertest.Behavior{DropReply: true}, wantErr: launchertest.ErrReplyLost, wantEffects: 1},
		{name: "accepted only", behavior: launchertest.Behavior{AcceptOnly: true}, wantStatus: schedule.StatusEnqueued, wantEffects: 1},
		{name: "ended badly", behavior: launchertest.Behavior{Outcome: schedule.Outcome{Status: schedule.StatusFailed}}, wantStatus: schedule.StatusFailed, wantEffects: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := launchertest.New()
				e.BehaveFor(callOf(1).Key, tt.behavior)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				o, err := e.Run(ctx, callOf(1))
				if o.Status != tt.wantStatus || !errors.Is(err, tt.wantErr) {
					t.Errorf("Run() = %+v, %v, want %s, %v", o, err, tt.wantStatus, tt.wantErr)
				}
				if got := e.Effects.Of(callOf(1).Key); got != tt.wantEffects {
					t.Errorf("effects: %d, want %d", got, tt.wantEffects)
				}
				// Sent again it goes well, and has had one effect in all.
				if _, err := e.Run(t.Context(), callOf(1)); err != nil {
					t.Errorf("Run again: %v", err)
				}
				if got := e.Effects.Of(callOf(1).Key); got != 1 {
					t.Errorf("effects after a repeat: %d, want 1", got)
				}
			})
		})
	}
}

func TestKeysAreKeptUnderConcurrency(t *testing.T) {
	e := launchertest.New()
	e.Behave(launchertest.Behavior{DropReply: true})
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() { _, _ = e.Run(context.Background(), callOf(int64(i%20))) })
	}
	if err := e.Await(t.Context(), func(e *launchertest.Executor) bool { return len(e.Calls()) == 200 }); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if len(e.Effects.Counts()) != 20 || len(e.Effects.Doubled()) != 0 || len(e.Effects.Order()) != 20 || e.Deliveries(callOf(3).Key) != 10 {
		t.Errorf("%d keys, doubled %v", len(e.Effects.Counts()), e.Effects.Doubled())
	}
	e.Forget()
	_, _ = e.Run(t.Context(), callOf(3))
	if got := e.Effects.Doubled(); len(got) != 1 || got[0] != callOf(3).Key {
		t.Errorf("a forgetful executor: doubled %v, want the one key", got)
	}
}

func TestCancelAndGetByKey(t *testing.T) {
	e := launchertest.New()
	key := callOf(1).Key
	if err := e.Cancel(t.Context(), schedule.CancelRequest{Key: key}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("Cancel of an unknown key: %v", err)
	}
	if _, err := e.GetByKey(t.Context(), schedule.RunRef{Key: key}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("GetByKey of an unknown key: %v", err)
	}
	e.Behave(launchertest.Behavior{AcceptOnly: true})
	_, _ = e.Run(t.Context(), callOf(1))
	_, _ = e.Run(t.Context(), callOf(2))
	if err := e.Cancel(t.Context(), schedule.CancelRequest{Key: key}); err != nil {
		t.Errorf("Cancel: %v", err)
	}
	if o, err := e.GetByKey(t.Context(), schedule.RunRef{Key: key}); err != nil || o.Status != schedule.StatusFailed || o.ErrorCode != "cancelled" {
		t.Errorf("GetByKey after Cancel = %+v, %v", o, err)
	}
	e.End(callOf(2).Key, schedule.Outcome{Status: schedule.StatusSuccess})
	if o, err := e.Run(t.Context(), callOf(2)); err != nil || o.Status != schedule.StatusSuccess {
		t.Errorf("Run after End = %+v, %v", o, err)
	}
	e.WithoutCancel()
	e.WithoutGetByKey()
	_, err := e.GetByKey(t.Context(), schedule.RunRef{Key: key})
	for _, err := range []error{err, e.Cancel(t.Context(), schedule.CancelRequest{Key: key})} {
		if !errors.Is(err, launcher.ErrUnsupported) {
			t.Errorf("error: %v, want ErrUnsupported", err)
		}
	}
	if got := len(e.Cancels()); got != 3 {
		t.Errorf("%d cancels recorded, want 3", got)
	}
}

func TestNullCounts(t *testing.T) {
	var n launchertest.Null
	for range 3 {
		if o, err := n.Run(t.Context(), callOf(1)); err != nil || o.Status != schedule.StatusSuccess {
			t.Errorf("Run() = %+v, %v", o, err)
		}
	}
	if n.Calls() != 3 {
		t.Errorf("%d calls, want 3", n.Calls())
	}
}
