package schedule_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule"
)

func TestAnEmptyRetryPolicyIsNoneAndOthersTakeDefaults(t *testing.T) {
	if p := (schedule.RetryPolicy{}).Resolved(); p != (schedule.RetryPolicy{}) || p.Attempts() != 1 || p.Text() != "" {
		t.Errorf("the zero policy resolves to %+v", p)
	}
	p := schedule.RetryPolicy{MaxAttempts: 3, BackoffMS: 7_200_000}.Resolved()
	want := schedule.RetryPolicy{MaxAttempts: 3, BackoffMS: 7_200_000, FactorPercent: 200, MaxBackoffMS: 7_200_000, On: "transient,timeout,lost,deadline"}
	if p != want {
		t.Errorf("resolved to %+v, want %+v", p, want)
	}
	if back, err := schedule.ParseRetry(p.Text()); err != nil || back != p {
		t.Errorf("stored and read: %+v, %v", back, err)
	}
}

func TestARetryPolicyOutOfBoundsIsRefused(t *testing.T) {
	good := schedule.RetryPolicy{MaxAttempts: 3}.Resolved()
	for name, edit := range map[string]func(*schedule.RetryPolicy){
		"too many attempts":     func(p *schedule.RetryPolicy) { p.MaxAttempts = 26 },
		"a short backoff":       func(p *schedule.RetryPolicy) { p.BackoffMS = 999 },
		"a long backoff":        func(p *schedule.RetryPolicy) { p.MaxBackoffMS = 86_400_001 },
		"a falling factor":      func(p *schedule.RetryPolicy) { p.FactorPercent = 99 },
		"a steep factor":        func(p *schedule.RetryPolicy) { p.FactorPercent = 1001 },
		"a bound below backoff": func(p *schedule.RetryPolicy) { p.MaxBackoffMS = p.BackoffMS - 1 },
		"an unknown class":      func(p *schedule.RetryPolicy) { p.On = "transient,bad" },
	} {
		t.Run(name, func(t *testing.T) {
			p := good
			edit(&p)
			var c schedule.Collect
			if p.Check(&c); c.Err() == nil {
				t.Errorf("%+v is accepted", p)
			}
		})
	}
	var c schedule.Collect
	if good.Check(&c); c.Err() != nil {
		t.Error(c.Err())
	}
}

func TestTheWaitOfARetryGrowsAndStaysWithinTenPercent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := schedule.RetryPolicy{
			MaxAttempts:   25,
			BackoffMS:     rapid.Uint32Range(1000, 86_400_000).Draw(t, "backoff"),
			FactorPercent: rapid.Uint32Range(100, 1000).Draw(t, "factor"),
			On:            "transient",
		}
		p.MaxBackoffMS = rapid.Uint32Range(p.BackoffMS, 86_400_000).Draw(t, "most")
		n := rapid.IntRange(1, 25).Draw(t, "n")
		key := schedule.ManualKey("s", rapid.String().Draw(t, "key"))
		exact := float64(p.BackoffMS)
		for i := 1; i < n; i++ {
			exact = min(exact*float64(p.FactorPercent)/100, float64(p.MaxBackoffMS))
		}
		got := float64(p.Wait(n, key)) / float64(time.Millisecond)
		if got < 0.899*exact || got > 1.101*exact || float64(p.Wait(n, key))/float64(time.Millisecond) != got {
			t.Fatalf("retry %d waits %f ms, want %f ± 10 %%", n, got, exact)
		}
	})
}

func TestTheClassOfAFailureFollowsFromItsReasonUnlessReported(t *testing.T) {
	for _, c := range []struct {
		reason   schedule.Reason
		reported schedule.FailureClass
		want     schedule.FailureClass
	}{
		{schedule.ReasonWorkflowFailed, "", schedule.ClassTransient},
		{schedule.ReasonWorkflowFailed, schedule.ClassApproval, schedule.ClassApproval},
		{schedule.ReasonWorkflowFailed, "unheard-of", schedule.ClassTransient},
		{schedule.ReasonWorkflowFailed, schedule.ClassLost, schedule.ClassTransient}, // nobody may report it
		{schedule.ReasonLaunchUnavailable, "", schedule.ClassTransient},
		{schedule.ReasonLaunchRefused, "", schedule.ClassLogic},
		{schedule.ReasonWorkflowNotFound, "", schedule.ClassLogic},
		{schedule.ReasonKeyConflict, "", schedule.ClassLogic},
		{schedule.ReasonTimeout, "", schedule.ClassTimeout},
		{schedule.ReasonLost, "", schedule.ClassLost},
	} {
		if got := schedule.ClassOf(c.reason, c.reported); got != c.want {
			t.Errorf("%s, reported as %q: %s, want %s", c.reason, c.reported, got, c.want)
		}
	}
}

func TestAnAutomaticRetryIsKnownByItsKey(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	slot := schedule.Run{Key: schedule.SlotKey("s", at), ScheduleID: "s", RunAt: at, Trigger: schedule.TriggerSchedule, Attempt: 1}
	after := func(r schedule.Run, key schedule.Key) schedule.Run {
		r.RetryOf, r.Key, r.Attempt, r.Trigger = r.Key, key, r.Attempt+1, schedule.TriggerRetry
		return r
	}
	second := after(slot, schedule.AttemptKey(slot.Key))
	third := after(second, schedule.AttemptKey(second.Key))
	byHand := after(second, schedule.RetryKey(second.Key, "auto"))
	renewed := after(byHand, schedule.AttemptKey(byHand.Key))
	for name, c := range map[string]struct {
		run       schedule.Run
		automatic bool
	}{
		"a slot": {slot, false}, "its retry": {second, true}, "the next one": {third, true},
		"one by hand": {byHand, false}, "the retry of one by hand": {renewed, true},
	} {
		if c.run.IsAutomaticRetry() != c.automatic {
			t.Errorf("%s: automatic %t", name, c.run.IsAutomaticRetry())
		}
	}
}

// The key of an automatic retry is RetryKey(key, "/auto"). A request id with a slash could
// take it for a retry by hand.
func TestNoRequestIDHasTheKeyOfAnAutomaticRetry(t *testing.T) {
	key := schedule.ManualKey("s", "1")
	if got := schedule.AttemptKey(key); got != schedule.RetryKey(key, "/auto") {
		t.Errorf("the key of the retry is %s", got)
	}
	for _, id := range []string{"/auto", "a/b", "/", "auto/"} {
		if schedule.ValidID(id) {
			t.Errorf("%q is a valid id", id)
		}
	}
}
