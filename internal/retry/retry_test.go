package retry_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/retry"
	"github.com/carillon/carillon/internal/schedule"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func failure(code schedule.ErrorCode) error {
	return &schedule.LaunchError{Code: code, Err: errors.New("it failed")}
}

func TestThePauseDoublesWithEachUnansweredAttempt(t *testing.T) {
	now := noon
	key, other := schedule.Key{1}, schedule.Key{2}
	cut := errors.New("connection reset")
	var u retry.Launches
	rests := func(key schedule.Key, cause error, want time.Duration, when string) {
		t.Helper()
		if s := u.Settlement(&schedule.StartRequest{Key: key}, cause, now); s.ClaimedUntil.Sub(now) != want || s.To != schedule.StatusLaunching || s.Key != key {
			t.Errorf("%s: it becomes %s and rests %s, want %s", when, s.To, s.ClaimedUntil.Sub(now), want)
		}
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		rests(key, cut, want*time.Second, "one send more")
	}
	rests(key, schedule.ErrBusy, time.Second, "another call of the key is open")
	rests(key, cut, 30*time.Second, "after one that was not tried")
	rests(key, schedule.ErrQueueAway, 4*time.Second, "the queue is away")
	rests(key, failure(schedule.CodeExecutorUnreachable), 5*time.Second, "the connection is refused")
	rests(key, failure(schedule.CodeLauncherUnreachable), 5*time.Second, "the launcher is away")
	rests(key, failure(schedule.CodeExecutorError), 30*time.Second, "the executor answers 500")
	rests(other, cut, time.Second, "another key")
	u.Answered(key)
	rests(key, cut, time.Second, "after an answer")
	rests(key, cut, 2*time.Second, "after an answer, and one send more")
	now = now.Add(11 * time.Minute)
	rests(key, cut, time.Second, "long after")
}

func TestRefusedKeysAreTriedAtMostTwoHundredTimesASecond(t *testing.T) {
	var u retry.Launches
	refused := failure(schedule.CodeExecutorUnreachable)
	for round := range 8 {
		for i := range 4000 {
			s := u.Settlement(&schedule.StartRequest{Key: schedule.ManualKey("s", fmt.Sprint(i))}, refused, noon)
			if pause := s.ClaimedUntil.Sub(noon); round == 7 && pause != 20*time.Second {
				t.Fatalf("one of 4000 rests %s, want 20 s", pause)
			}
		}
	}
}

func TestALaunchIsTriedOnceMoreShortlyBeforeItIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		failed int // before
		left   time.Duration
		want   time.Duration // until the next attempt
	}{
		{"there is time for the whole pause", 0, time.Minute, time.Second},
		{"the pause ends too late", 5, 20 * time.Second, 18 * time.Second},
		{"the last attempt has just failed", 5, 2 * time.Second, time.Second},
		{"less is left than the shortest pause", 5, 500 * time.Millisecond, 500 * time.Millisecond},
		{"the time is over, and somebody else holds the key", 5, -time.Second, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var u retry.Launches
			req := schedule.StartRequest{Key: schedule.Key{1}}
			for range tt.failed {
				u.Settlement(&req, failure(schedule.CodeExecutorError), noon)
			}
			req.SendUntil = noon.Add(tt.left)
			s := u.Settlement(&req, failure(schedule.CodeExecutorError), noon)
			if got := s.ClaimedUntil.Sub(noon); got != tt.want {
				t.Errorf("tried again after %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAnAttemptThatLeavesNothingToWaitForGivesUp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cause error
		want  bool
	}{
		{"the executor did not answer", failure(schedule.CodeExecutorTimeout), true},
		{"the connection was refused", failure(schedule.CodeExecutorUnreachable), true},
		{"the launch queue is away", schedule.ErrQueueAway, true},
		{"nothing may be sent any more", fmt.Errorf("%w: it ended at noon", schedule.ErrOverdue), true},
		{"somebody else has the key", schedule.ErrBusy, false},
		{"a check forbids it now", fmt.Errorf("%w: paused", schedule.ErrWithheld), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var u retry.Launches
			s := u.Settlement(&schedule.StartRequest{Key: schedule.Key{1}}, tt.cause, noon)
			if s.GivesUp != tt.want {
				t.Errorf("it gives up: %t", s.GivesUp)
			}
			u.Written(&s, noon)
			for _, woken := range u.Recovered(noon.Add(300 * time.Millisecond)) {
				if woken.GivesUp {
					t.Error("the success of another run gives up")
				}
			}
		})
	}
}

func TestOnlyAttemptsThatWereMadeAreRecorded(t *testing.T) {
	var u retry.Launches
	req := schedule.StartRequest{Key: schedule.Key{1}}
	called := noon.Add(-3 * time.Second)
	for _, tt := range []struct {
		name  string
		cause error
		want  *schedule.LaunchAttempt // without NextAt and message
		sent  int32
	}{
		{"a call that was sent", &schedule.LaunchError{
			Code: schedule.CodeExecutorTimeout, Reached: true, Deliveries: 2, At: called, Took: time.Second, Err: errors.New("x"),
		}, &schedule.LaunchAttempt{At: called, Took: time.Second, Result: schedule.LaunchUnknown, ErrorCode: "executor_timeout"}, 2},
		{"a refused connection", failure(schedule.CodeExecutorUnreachable), &schedule.LaunchAttempt{At: noon, Result: schedule.LaunchNotSent, ErrorCode: "executor_unreachable"}, 0},
		{"an error that says nothing", errors.New("x"), &schedule.LaunchAttempt{At: noon, Result: schedule.LaunchUnknown, ErrorCode: "outcome_unknown"}, 0},
		{"the launch queue is away", fmt.Errorf("x: %w", schedule.ErrQueueAway), &schedule.LaunchAttempt{At: noon, Result: schedule.LaunchNotSent, ErrorCode: "queue_unavailable"}, 0},
		{"another call is open", schedule.ErrBusy, nil, 0},
		{"a check forbids it", fmt.Errorf("%w: paused", schedule.ErrWithheld), nil, 0},
		{"its time is over", schedule.ErrOverdue, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := u.Settlement(&req, tt.cause, noon)
			if s.Deliveries != tt.sent {
				t.Errorf("%d deliveries, want %d", s.Deliveries, tt.sent)
			}
			if tt.want == nil {
				if s.Attempt != nil || s.ErrorCode != "" {
					t.Errorf("recorded %+v %q, want nothing", s.Attempt, s.ErrorCode)
				}
				return
			}
			want := *tt.want
			want.NextAt, want.ErrorMessage = s.ClaimedUntil, tt.cause.Error()
			if s.Attempt == nil || *s.Attempt != want || s.ErrorCode != want.ErrorCode {
				t.Errorf("recorded %+v %q, want %+v", s.Attempt, s.ErrorCode, want)
			}
		})
	}
}

func TestASuccessWakesWaitingKeys(t *testing.T) {
	var u retry.Launches
	fails := func(key byte, at time.Time) {
		s := u.Settlement(&schedule.StartRequest{Key: schedule.Key{key}}, failure(schedule.CodeExecutorError), at)
		u.Written(&s, at)
	}
	wakes := func(at time.Time, want int, why string) {
		t.Helper()
		woken := u.Recovered(at)
		if len(woken) != want {
			t.Errorf("%s: %d keys are woken, want %d", why, len(woken), want)
		}
		for _, s := range woken {
			if s.To != schedule.StatusLaunching || !s.ClaimedUntil.Equal(at) || s.Attempt != nil {
				t.Errorf("%s: %+v, want the next attempt now and no more", why, s)
			}
		}
	}
	wakes(noon, 0, "nothing has failed")
	for range 6 {
		fails(1, noon)
		fails(2, noon)
	}
	wakes(noon.Add(time.Second), 2, "the first success")
	wakes(noon.Add(2*time.Second), 0, "nothing has failed since")
	fails(1, noon.Add(3*time.Second))
	wakes(noon.Add(4*time.Second), 0, "one that fails while others succeed keeps its pause")
	fails(1, noon.Add(40*time.Second))
	wakes(noon.Add(41*time.Second), 1, "once per pause")
	u.Settlement(&schedule.StartRequest{Key: schedule.Key{4}}, failure(schedule.CodeExecutorError), noon.Add(41*time.Second))
	wakes(noon.Add(41500*time.Millisecond), 0, "a failure that is not written yet")
	fails(3, noon.Add(42*time.Second))
	u.Answered(schedule.Key{3})
	wakes(noon.Add(42500*time.Millisecond), 0, "an answered key waits for nothing")
}
