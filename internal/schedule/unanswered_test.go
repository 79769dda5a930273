package schedule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func TestAKeyRestsTwiceAsLongWithEachSendThatStaysWithoutAnAnswer(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	key, other := schedule.Key{1}, schedule.Key{2}
	cut := errors.New("connection reset")
	var u schedule.Unanswered
	rests := func(key schedule.Key, cause error, want time.Duration, when string) {
		t.Helper()
		if s := u.Settlement(key, cause, now); s.ClaimedUntil.Sub(now) != want || s.To != schedule.StatusLaunching || s.Key != key {
			t.Errorf("%s: it becomes %s and rests %s, want %s", when, s.To, s.ClaimedUntil.Sub(now), want)
		}
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		rests(key, cut, want*time.Second, "one send more")
	}
	rests(key, schedule.ErrBusy, time.Second, "another call of the key is open")
	rests(key, cut, 30*time.Second, "after one that was not tried")
	rests(key, schedule.ErrQueueAway, 4*time.Second, "the queue is away")
	rests(other, cut, time.Second, "another key")
	u.Answered(key)
	rests(key, cut, time.Second, "after an answer")
	rests(key, cut, 2*time.Second, "after an answer, and one send more")
	now = now.Add(11 * time.Minute)
	rests(key, cut, time.Second, "long after")
}
