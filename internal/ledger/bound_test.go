package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

const (
	boundWait  = 30 * time.Second
	boundRetry = 10 * time.Minute
	boundEpoch = 7
)

// boundRun is a run of this term that is past no bound.
func boundRun(status schedule.Status, edits ...func(*schedule.Run)) schedule.Run {
	r := schedule.Run{Key: schedule.Key{1}, Status: status, Epoch: boundEpoch, TimeoutAt: settleNow.Add(time.Microsecond)}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

func timedOut(r *schedule.Run) { r.TimeoutAt = settleNow }
func pastRetry(r *schedule.Run) {
	r.TimeoutAt = settleNow.Add(-boundRetry)
}
func earlierTerm(r *schedule.Run) { r.Epoch = boundEpoch - 1 }
func laterTerm(r *schedule.Run)   { r.Epoch = boundEpoch + 1 }
func claimedOn(r *schedule.Run)   { r.ClaimedUntil = settleNow.Add(time.Microsecond) }
func claimOver(r *schedule.Run)   { r.ClaimedUntil = settleNow }
func withoutTimeout(r *schedule.Run) {
	r.TimeoutAt = time.Time{}
}

func cancelOver(reason schedule.Reason) func(*schedule.Run) {
	return func(r *schedule.Run) { r.CancelRequestedAt, r.CancelReason = settleNow.Add(-boundWait), reason }
}

func cancelOpen(r *schedule.Run) {
	r.CancelRequestedAt, r.CancelReason = settleNow.Add(-boundWait+time.Microsecond), schedule.ReasonCancelled
}

func called(r *schedule.Run) { r.Deliveries = 2 }

// The leases of a key.
var (
	free     = schedule.KeyLease{}
	callOpen = schedule.KeyLease{Until: beginNow.Add(time.Microsecond)}
	callOver = schedule.KeyLease{Until: settleNow}
)

func TestWhichBoundARunIsPastAndWhatItMakesOfIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		run   schedule.Run
		lease schedule.KeyLease
		want  string // status and reason; "": it goes on
	}{
		{"before its timeout a run goes on", boundRun("STARTED"), free, ""},
		{"at its timeout a run has timed out", boundRun("STARTED", timedOut), free, "FAILED timeout"},
		{"an accepted run times out too", boundRun("ENQUEUED", timedOut), free, "FAILED timeout"},
		{"without a timeout a run goes on", boundRun("STARTED", withoutTimeout), free, ""},
		{"a planned run has no bound", boundRun("PLANNED", timedOut, cancelOver("cancelled")), free, ""},
		{"a run that has ended has no bound", boundRun("FAILED", timedOut, cancelOver("cancelled")), free, ""},

		{"a cancel that may still be confirmed goes on", boundRun("STARTED", cancelOpen), free, ""},
		{"a cancel that nobody confirmed ends the run", boundRun("STARTED", cancelOver("replaced")), free, "CANCELLED replaced"},
		{"a cancel without a reason is `cancelled`", boundRun("STARTED", cancelOver("")), free, "CANCELLED cancelled"},
		{"a cancel comes before a timeout", boundRun("STARTED", cancelOver("cancelled"), timedOut), free, "CANCELLED cancelled"},
		{"a cancel ends a launch", boundRun("LAUNCHING", cancelOver("cancelled")), free, "CANCELLED cancelled"},
		{"a cancel ends a launch with a call open", boundRun("LAUNCHING", cancelOver("cancelled"), called), callOpen, "CANCELLED cancelled"},

		{"before its bound a launch goes on", boundRun("LAUNCHING"), free, ""},
		{"a launch that was never sent is unavailable", boundRun("LAUNCHING", timedOut), free, "FAILED launch_unavailable"},
		{"a launch that was sent is lost", boundRun("LAUNCHING", timedOut, called), free, "FAILED lost"},
		{"a launch whose lease has ended is lost", boundRun("LAUNCHING", timedOut, called), callOver, "FAILED lost"},
		{"a launch with a call open goes on", boundRun("LAUNCHING", timedOut, called), callOpen, ""},
		{"a launch that was sent and is claimed for another call goes on", boundRun("LAUNCHING", timedOut, claimedOn, called), free, ""},
		{"at the end of that claim it is lost", boundRun("LAUNCHING", timedOut, claimOver, called), free, "FAILED lost"},
		{"a claim does not hold up what was never sent", boundRun("LAUNCHING", timedOut, claimedOn), free, "FAILED launch_unavailable"},
		{"a launch that an earlier leader sent is tried in this term first", boundRun("LAUNCHING", timedOut, earlierTerm, called), free, ""},
		{"a launch that an earlier leader never sent is unavailable", boundRun("LAUNCHING", timedOut, earlierTerm), free, "FAILED launch_unavailable"},
		{"the last bound ends a launch with a call open", boundRun("LAUNCHING", pastRetry, called), callOpen, "FAILED lost"},
		{"the last bound does not count for a run of an earlier term", boundRun("LAUNCHING", pastRetry, earlierTerm, called), free, ""},
		{"it does for a run of a later one", boundRun("LAUNCHING", pastRetry, laterTerm, called), callOpen, "FAILED lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := schedule.SweepRequest{Term: schedule.Term{Epoch: boundEpoch}, Now: beginNow, CancelWait: boundWait, RetryFor: boundRetry}
			got, past := ledger.SweepRun(&req, c.run, c.lease)
			text := ""
			if past {
				text = fmt.Sprintf("%s %s", got.Status, got.Reason)
			}
			if text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
			if past && (!got.CompletedAt.Equal(settleNow) || !got.UpdatedAt.Equal(settleNow) || !got.ClaimedUntil.IsZero()) {
				t.Errorf("it completed at %s, updated at %s, claimed until %s; want now, and no claim", got.CompletedAt, got.UpdatedAt, got.ClaimedUntil)
			}
			if diff := cmp.Diff(c.run, got); !past && diff != "" {
				t.Errorf("a run that goes on changes:\n%s", diff)
			}
		})
	}
}

func TestWhatASweepNotesOfARun(t *testing.T) {
	req := schedule.SweepRequest{Term: schedule.Term{Epoch: boundEpoch}, Now: beginNow, CancelWait: boundWait, RetryFor: boundRetry}
	for _, c := range []struct {
		name  string
		run   schedule.Run
		lease schedule.KeyLease
		code  string
		calls int32
	}{
		{"a launch keeps the error of its last attempt", boundRun("LAUNCHING", timedOut, func(r *schedule.Run) { r.ErrorCode = "executor_unreachable" }), free, "executor_unreachable", 0},
		{"a launch without an error has launch_timeout", boundRun("LAUNCHING", timedOut), free, "launch_timeout", 0},
		{"a cancelled launch keeps the number of its calls", boundRun("LAUNCHING", cancelOver("cancelled"), called), free, "", 2},
		{"a run that was accepted too", boundRun("ENQUEUED", timedOut, func(r *schedule.Run) { r.Deliveries = 1 }), free, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, past := ledger.SweepRun(&req, c.run, c.lease)
			if !past || got.ErrorCode != c.code || got.Deliveries != c.calls {
				t.Errorf("ended: %t, code %q, %d calls; want code %q, %d calls", past, got.ErrorCode, got.Deliveries, c.code, c.calls)
			}
		})
	}
}

func TestWhenASweepLooksAgainAtARunThatItHasNotEnded(t *testing.T) {
	for _, c := range []struct {
		name string
		run  schedule.Run
		want time.Duration // after now; -1: never
	}{
		{"at its timeout", boundRun("STARTED"), time.Microsecond},
		{"never without a timeout", boundRun("STARTED", withoutTimeout), -1},
		{"when a cancel must be confirmed", boundRun("STARTED", func(r *schedule.Run) {
			r.CancelRequestedAt, r.TimeoutAt = settleNow, settleNow.Add(time.Hour)
		}), boundWait},
		{"at a timeout before that", boundRun("STARTED", func(r *schedule.Run) { r.CancelRequestedAt = settleNow }), time.Microsecond},
		{"a second after a launch bound that has passed", boundRun("LAUNCHING", timedOut), time.Second},
		{"at the last bound if that is sooner", boundRun("LAUNCHING", func(r *schedule.Run) {
			r.TimeoutAt = settleNow.Add(-boundRetry + time.Millisecond)
		}), time.Millisecond},
		{"a second after a cancel bound that has passed", boundRun("LAUNCHING", cancelOver("cancelled"), func(r *schedule.Run) {
			r.TimeoutAt = settleNow.Add(time.Hour)
		}), time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := schedule.SweepRequest{Term: schedule.Term{Epoch: boundEpoch}, Now: beginNow, CancelWait: boundWait, RetryFor: boundRetry}
			want := settleNow.Add(c.want)
			if c.want < 0 {
				want = time.Time{}
			}
			if got := ledger.NextDue(&req, &c.run); !got.Equal(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// K7: nothing is sent after the launch time, so the attempt that fails then is the last.
func TestAFailedAttemptAfterTheLaunchTimeEndsTheRun(t *testing.T) {
	tried := schedule.Settlement{
		To: "LAUNCHING", ClaimedUntil: settleThen, ErrorCode: "executor_timeout", ErrorMessage: "no answer",
		Attempt: &schedule.LaunchAttempt{}, GivesUp: true,
	}
	reached := tried
	reached.Deliveries = 3
	overdue := schedule.Settlement{To: "LAUNCHING", ClaimedUntil: settleThen, GivesUp: true}
	woken := schedule.Settlement{To: "LAUNCHING", ClaimedUntil: settleThen}
	earlier := func(r *schedule.Run) { r.ErrorCode, r.FailedAttempts = "executor_error", 4 }
	for _, c := range []struct {
		name   string
		run    schedule.Run
		lease  schedule.KeyLease
		settle schedule.Settlement
		want   string // status, reason, code and failed attempts
	}{
		{"before the end of its launch time it is tried again", boundRun("LAUNCHING", called), free, tried, "LAUNCHING  executor_timeout 1"},
		{"without a launch time it is tried again", boundRun("LAUNCHING", withoutTimeout, called), free, tried, "LAUNCHING  executor_timeout 1"},
		{"a run that was never sent is unavailable", boundRun("LAUNCHING", timedOut), free, tried, "FAILED launch_unavailable executor_timeout 1"},
		{"a run that was sent is lost", boundRun("LAUNCHING", timedOut, called), free, tried, "FAILED lost executor_timeout 1"},
		{"a run whose last attempt may have arrived is lost", boundRun("LAUNCHING", timedOut), free, reached, "FAILED lost executor_timeout 1"},
		{"the lease of an earlier call is over", boundRun("LAUNCHING", timedOut, called), callOver, tried, "FAILED lost executor_timeout 1"},
		{"a run of an earlier term was tried in this one just now", boundRun("LAUNCHING", timedOut, earlierTerm, called), free, tried, "FAILED lost executor_timeout 1"},
		{"nothing was sent because it is too late: the error of the last attempt stays", boundRun("LAUNCHING", timedOut, called, earlier), free, overdue, "FAILED lost executor_error 4"},
		{"somebody holds the key and may get an answer", boundRun("LAUNCHING", timedOut, called), callOpen, tried, "LAUNCHING  executor_timeout 1"},
		{"a key that was busy or withheld says nothing about the run", boundRun("LAUNCHING", timedOut, called, earlier), free, woken, "LAUNCHING  executor_error 4"},
		{"a run that was accepted meanwhile does not change", boundRun("ENQUEUED", timedOut, called), free, tried, "ENQUEUED   0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, moved := ledger.Settle(c.run, c.lease, &c.settle, beginNow)
			if text := fmt.Sprintf("%s %s %s %d", got.Status, got.Reason, got.ErrorCode, got.FailedAttempts); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
			if want := c.run.Status == schedule.StatusLaunching; moved != want {
				t.Errorf("moved: %t", moved)
			}
			switch {
			case got.Status.Terminal() && (!got.CompletedAt.Equal(settleNow) || !got.UpdatedAt.Equal(settleNow) || !got.ClaimedUntil.IsZero()):
				t.Errorf("it completed at %s, updated at %s, claimed until %s; want now, and no claim", got.CompletedAt, got.UpdatedAt, got.ClaimedUntil)
			case got.Status == schedule.StatusLaunching && (!got.CompletedAt.IsZero() || !got.ClaimedUntil.Equal(settleThen)):
				t.Errorf("it completed at %s, claimed until %s; want it to be sent again", got.CompletedAt, got.ClaimedUntil)
			}
		})
	}
}
