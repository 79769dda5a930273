package launcher_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// reports is the configuration of an executor that reports.
var reports = launcher.Config{Feedback: true}

// answers makes an executor that always says the same.
func answers(o schedule.Outcome, err error) func(context.Context, launcher.Call) (schedule.Outcome, error) {
	return func(context.Context, launcher.Call) (schedule.Outcome, error) { return o, err }
}

func TestARepeatedKeyIsAnsweredFromTheRecord(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer schedule.Outcome
		err    error
		want   schedule.Outcome
	}{
		{
			name:   "accepted",
			answer: schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "r1", TraceID: "t1"},
			want:   schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "r1", TraceID: "t1"},
		},
		{
			name:   "done at once",
			answer: schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r1"},
			want:   schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r1"},
		},
		{
			name:   "failed at once, with the executor's own words",
			answer: schedule.Outcome{Status: schedule.StatusFailed, RunID: "r1", ErrorCode: "E42", ErrorMessage: "no disk"},
			want: schedule.Outcome{
				Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, RunID: "r1", ErrorCode: "E42", ErrorMessage: "no disk",
			},
		},
		{
			name: "refused",
			err:  &launcher.Refusal{Code: "http_403", Message: "no"},
			want: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, ErrorCode: "http_403", ErrorMessage: "no"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, reports, func(r *rig) {
				r.executor.run = answers(tc.answer, tc.err)
				req := r.request()
				first := r.must(req)
				time.Sleep(time.Hour)
				req.Attempt, req.Epoch = 1, 9 // another leader: a redelivery is the same request
				again := r.must(req)
				if diff := cmp.Diff(tc.want, first.Outcome); diff != "" {
					r.Errorf("the first answer (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(first.Outcome, again.Outcome); diff != "" {
					r.Errorf("the repeat is answered otherwise (-first +again):\n%s", diff)
				}
				r.wantCalls(1, 0)
			})
		})
	}
}

func TestAKeyOfAnotherRequestIsAConflict(t *testing.T) {
	for name, change := range map[string]func(*schedule.StartRequest){
		"another input":    func(q *schedule.StartRequest) { q.Input = json.RawMessage(`{"n":2}`) },
		"another version":  func(q *schedule.StartRequest) { q.Version = 2 },
		"another workflow": func(q *schedule.StartRequest) { q.WorkflowID = "w2" },
		"another owner":    func(q *schedule.StartRequest) { q.UserID = "u2" },
		"another slot":     func(q *schedule.StartRequest) { q.ScheduledFor = q.ScheduledFor.Add(time.Minute) },
		"another trigger":  func(q *schedule.StartRequest) { q.Trigger = schedule.TriggerManual },
		"another grant":    func(q *schedule.StartRequest) { q.ExecutionGrantID = "g" },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, reports, func(r *rig) {
				req := r.request()
				first := r.must(req)
				other := req
				change(&other)
				r.isOutcome(r.must(other), schedule.StatusFailed, schedule.ReasonKeyConflict)
				if again := r.must(req); again.Outcome != first.Outcome {
					r.Errorf("after the conflict the first request is answered %+v, want %+v", again.Outcome, first.Outcome)
				}
				r.wantCalls(1, 0)
			})
		})
	}
}

func TestInputThatSaysTheSameIsTheSameRequest(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		req := r.request()
		req.Input = json.RawMessage(`{"a": 1, "b": [2]}`)
		r.must(req)
		req.Input = json.RawMessage(`{"b":[2],"a":1}`)
		r.isOutcome(r.must(req), schedule.StatusEnqueued, schedule.ReasonNone)
		r.wantCalls(1, 0)
	})
}

func TestAHundredParallelStartsOfOneKeyHaveOneEffect(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(700 * time.Millisecond)
			return accept(ctx, call)
		}
		req := r.request()
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := make(map[string]int)
		for range 100 {
			wg.Go(func() {
				reply, err := r.start(req)
				mu.Lock()
				defer mu.Unlock()
				seen[fmt.Sprint(reply.Outcome, err)]++
			})
		}
		wg.Wait()
		if len(seen) != 1 {
			r.Errorf("the hundred were answered differently: %v", seen)
		}
		r.wantCalls(1, 0)
	})
}

func TestARepeatDuringAnOpenCallWaitsAndIsThenBusy(t *testing.T) {
	inBubble(t, launcher.Config{Feedback: true, CallTimeout: 30 * time.Second}, func(r *rig) {
		r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(20 * time.Second)
			return accept(ctx, call)
		}
		req := r.request()
		var wg sync.WaitGroup
		wg.Go(func() { r.must(req) })
		time.Sleep(time.Second)
		began := time.Now()
		if _, err := r.start(req); !errors.Is(err, launcher.ErrBusy) {
			r.Errorf("a repeat during an open call was answered %v, want ErrBusy", err)
		}
		if waited := time.Since(began); waited < time.Second || waited > 10*time.Second {
			r.Errorf("the repeat waited %s; it should wait a while for the answer", waited)
		}
		wg.Wait()
		r.isOutcome(r.must(req), schedule.StatusEnqueued, schedule.ReasonNone)
		r.wantCalls(1, 0)
	})
}

func TestTheExecutorIsNeverCalledBeforeFireAt(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		req := r.request()
		req.FireAt = r.store.Now().Add(2718 * time.Millisecond)
		reply := r.must(req)
		for _, call := range r.executor.runs() {
			if call.at.Before(req.FireAt) {
				r.Errorf("called %s before fire_at", req.FireAt.Sub(call.at))
			}
		}
		if late := reply.LaunchedAt.Sub(req.FireAt); late < 0 || late > 5*time.Millisecond {
			r.Errorf("launched %s after fire_at", late)
		}
	})
}

func TestAStartThatWaitsForFireAtEndsWithItsContext(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		req := r.request()
		req.FireAt = r.store.Now().Add(time.Hour)
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if _, err := r.launcher.Start(ctx, req); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("got %v, want the context's end", err)
		}
		r.wantCalls(0, 0)
	})
}

func TestAnExecutorWithoutFeedbackHasSucceededWhenItAccepts(t *testing.T) {
	inBubble(t, launcher.Config{Feedback: false}, func(r *rig) {
		r.isOutcome(r.must(r.request()), schedule.StatusSuccess, schedule.ReasonAccepted)
	})
}

func TestAWorkflowThatIsNotStoredFailsTheRunForGood(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.workflows.err = schedule.ErrNotFound
		req := r.request()
		r.isOutcome(r.must(req), schedule.StatusFailed, schedule.ReasonWorkflowNotFound)
		r.workflows.err = nil // stored too late
		r.isOutcome(r.must(req), schedule.StatusFailed, schedule.ReasonWorkflowNotFound)
		r.wantCalls(0, 0)
	})
}

func TestAWorkflowThatIsNoDAGFailsTheRunForGood(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.workflows.err = schedule.Invalid("dag", "w/1.json", "is no JSON", "")
		got := r.must(r.request())
		r.isOutcome(got, schedule.StatusFailed, schedule.ReasonLaunchRefused)
		if got.Outcome.ErrorCode != string(schedule.CodeWorkflowInvalid) || !strings.Contains(got.Outcome.ErrorMessage, "is no JSON") {
			r.Errorf("it says %q %q", got.Outcome.ErrorCode, got.Outcome.ErrorMessage)
		}
		r.wantCalls(0, 0)
	})
}

func TestAWorkflowStoreThatIsDownLeavesTheKeyOpen(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.workflows.err = errors.New("down")
		req := r.request()
		if _, err := r.start(req); err == nil {
			r.Error("a run was started without its DAG")
		}
		r.wantCalls(0, 0)
		r.workflows.err = nil
		r.isOutcome(r.must(req), schedule.StatusEnqueued, schedule.ReasonNone)
		r.wantCalls(1, 0)
	})
}

func TestAWorkflowStoreThatHangsIsGivenUpWithinTheLease(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.workflows.took = time.Hour
		began := time.Now()
		if _, err := r.start(r.request()); err == nil {
			r.Error("a run was started without its DAG")
		}
		if took := time.Since(began); took > 15*time.Second { // a call of 10 s and its margin
			r.Errorf("given up after %s; somebody else may have the key by then", took)
		}
	})
}

func TestReportsGoToThePublicURLWithTheRunsOwnToken(t *testing.T) {
	secret := []byte("a secret of 16 b")
	inBubble(t, launcher.Config{Feedback: true, PublicURL: "http://carillon.example/", ReportSecret: secret}, func(r *rig) {
		req := r.request()
		r.must(req)
		call := r.executor.runs()[0]
		if want := "http://carillon.example/v1/runs/" + req.Key.String() + ":report"; call.ReportURL != want {
			r.Errorf("report_url is %s, want %s", call.ReportURL, want)
		}
		if !schedule.CheckReportToken(secret, req.Key, call.ReportToken) {
			r.Errorf("the report token %q is not the run's", call.ReportToken)
		}
	})
}
