package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// retried is a schedule without a rule, with three attempts a second apart.
func (s *guardSite) retried(id string) {
	s.Helper()
	s.do("PUT", "/v1/schedules/"+id, `{"workflow_id":"w","version":1,"user_id":"ada","retry":{"max_attempts":3,"backoff_ms":1000,"factor_percent":100}}`, nil)
}

// enters puts a run of a schedule into a queue.
func (s *guardSite) enters(queue, schedule, name string) (key string) {
	s.Helper()
	var answer struct {
		Run job `json:"run"`
	}
	s.do("POST", "/v1/queues/"+queue+"/runs", fmt.Sprintf(`{"schedule_id":%q,"input":{"name":%q}}`, schedule, name), &answer)
	return answer.Run.Key
}

// guardAttempts: "Retries create new Jobs", "retry_of reference".
func guardAttempts(s *guardSite) {
	s.queue("dec1", "")
	once := s.put("dec1", "bad once", `,"max_attempts":1`)
	first := s.becomes(once, "FAILED")
	var made struct {
		Run job `json:"run"`
	}
	s.do("POST", "/v1/runs/"+once+":retry", `{}`, &made)
	if made.Run.Key == once {
		s.Error("the retry is the same run")
	}
	s.has(s.becomes(made.Run.Key, "FAILED"), map[string]any{"retry_of": once, "attempt": 2, "queue_id": "dec1"})
	after := s.shown("/v1/runs/"+once, "run")
	s.has(after, map[string]any{"attempt": 1, "retry_of": "", "completed_at": first["completed_at"], "error_code": "broken"})
	good := s.put("dec1", "good", "")
	s.becomes(good, "SUCCESS")
	s.refuses("POST", "/v1/runs/"+good+":retry", `{}`)
}

// guardRetries: "max 3 attempts per original job", "Manual retry always allowed via POST /api/job-runs/{run_id}/retry".
func guardRetries(s *guardSite) {
	s.queue("dec7", "")
	s.do("POST", "/v1/queues/dec7:pause", `{}`, nil)
	s.has(s.shown("/v1/runs/"+s.put("dec7", "defaults", ""), "run"), map[string]any{"attempt": 1, "max_attempts": 3})
	s.do("POST", "/v1/queues/dec7:resume", `{}`, nil)
	s.retried("dec7")
	key := s.enters("dec7", "dec7", "bad thrice")
	chain := s.untilEnded("dec7", 3)
	if chain[0].Key != key || chain[0].Dead || chain[1].Dead || !chain[2].Dead {
		s.Errorf("the attempts are %+v", chain)
	}
	for n := 1; n < 3; n++ {
		gap := chain[n].FireAt.Sub(chain[n-1].CompletedAt)
		if chain[n].RetryOf != chain[n-1].Key || chain[n].Attempt != n+1 || gap < 800*time.Millisecond || gap > 1200*time.Millisecond {
			s.Errorf("attempt %d is %+v, %s after the one before", n+1, chain[n], gap)
		}
	}
	for n, path := range []string{"/api/job-runs/" + chain[2].Key + "/retry", "/v1/runs/" + chain[2].Key + ":retry"} {
		s.do("POST", path, fmt.Sprintf(`{"request_id":"by-hand-%d"}`, n), nil)
	}
	byHand := s.untilEnded("dec7", 5)[3:]
	for _, run := range byHand {
		if run.RetryOf != chain[2].Key || run.Attempt != 4 || run.MaxAttempts != 4 || !run.Dead {
			s.Errorf("a retry by hand is %+v", run)
		}
	}
	for _, most := range []int{0, 26} {
		s.refuses("POST", "/v1/queues/dec7/runs", fmt.Sprintf(`{"schedule_id":"dec7","max_attempts":%d}`, most))
	}
	if status, answer, _ := s.call("POST", "/api/job-runs/nobody/retry", `{}`); status != http.StatusNotFound {
		s.Errorf("a retry of no run: %d %s", status, answer)
	}
	if got := s.untilEnded("dec7", 5); len(got) != 5 {
		s.Errorf("a refused entry made a run: %+v", got)
	}
}

// guardStatuses: "Webhooks use identical schema to API responses".
func guardStatuses(s *guardSite) {
	s.queue("dec6", `,"webhook":"billing"`)
	cancelled := s.put("dec6", "cancelled", `,"delay_ms":3600000`)
	s.do("POST", "/v1/runs/"+cancelled+":cancel", `{}`, nil)
	for key, c := range map[string]struct{ status, message string }{
		s.put("dec6", "fine", ""):                     {"SUCCESS", "run.succeeded"},
		s.put("dec6", "bad one", `,"max_attempts":1`): {"FAILED", "run.failed"},
		cancelled: {"CANCELLED", "run.cancelled"},
	} {
		shown := s.becomes(key, c.status)
		var calls []hookCall
		eventually(s.T, startBound, "the message about "+key, func() error {
			if calls = about(s.hooks.got(), key); len(calls) == 0 {
				return fmt.Errorf("there is none")
			}
			return nil
		})
		told := calls[0].body.Data.Run
		delete(told, "webhook_state")
		delete(shown, "webhook_state")
		if d := cmp.Diff(shown, told); d != "" || calls[0].body.Type != c.message {
			s.Errorf("%s (- GET, + message %s):\n%s", c.status, calls[0].body.Type, d)
		}
		if listed := s.runs("/v1/runs", map[string][]string{"queue_id": {"dec6"}, "status": {c.status}}); len(listed) != 1 || listed[0].Key != key {
			s.Errorf("runs that are %s: %+v", c.status, listed)
		}
	}
	for _, old := range []string{"succeeded", "error", "dispatched"} {
		if answer := s.refuses("GET", "/v1/runs?status="+old, ""); !strings.Contains(answer, old) {
			s.Errorf("the deprecated status %s: %s", old, answer)
		}
	}
}

// guardRequests: what was asked for before is known; TestLongAKilledLocalExecutorFailsItsRunAndKeepsTheQueue has the restart.
func guardRequests(s *guardSite) {
	s.queue("dec8", "")
	key := s.put("dec8", "asked", `,"request_id":"asked"`)
	s.becomes(key, "SUCCESS")
	if again := s.put("dec8", "asked", `,"request_id":"asked"`); again != key {
		s.Errorf("the same request again has another run, %s", again)
	}
	s.refuses("POST", "/v1/queues/dec8/runs", `{"workflow_id":"w","version":1,"user_id":"ada","input":{"name":"else"},"request_id":"asked"}`)
}

// guardWebhook has the refusals; TestTheEndOfARunIsToldAtLeastOnce has the retries.
func guardWebhook(s *guardSite) {
	s.refuses("PUT", "/v1/queues/dec9", `{"user_id":"ada","webhook":"nobody"}`)
	s.queue("dec9", "")
	s.refuses("POST", "/v1/queues/dec9/runs", `{"workflow_id":"w","version":1,"user_id":"ada","webhook":"nobody"}`)
	key := s.put("dec9", "told", `,"webhook":"billing"`)
	s.becomes(key, "SUCCESS")
	eventually(s.T, startBound, "the message is delivered", func() error {
		if state := s.shown("/v1/runs/"+key, "run")["webhook_state"]; state != "delivered" {
			return fmt.Errorf("it is %v", state)
		}
		return nil
	})
	s.refuses("POST", "/v1/webhooks:redeliver", `{}`)
}

// guardSequence: "Cancelled jobs get status CANCELLED with reason predecessor failed", "Group status becomes PARTIAL".
func guardSequence(s *guardSite) {
	s.queue("dec12", "")
	member := func(name string) string {
		return fmt.Sprintf(`{"workflow_id":"w","version":1,"max_attempts":1,"input":{"name":%q}}`, name)
	}
	runs := `"queue_id":"dec12","user_id":"ada","mode":"sequential","sealed":true,"runs":[` + member("seq1") + "," + member("bad seq2") + "," + member("seq3") + "," + member("seq4") + "]"
	for _, policy := range []string{"skip", "retry"} {
		s.refuses("POST", "/v1/groups", `{"group_id":"refused","on_failure":"`+policy+`",`+runs+`}`)
	}
	if status, answer, _ := s.call("GET", "/v1/groups/refused", nil); status != http.StatusNotFound {
		s.Errorf("a refused group is there: %d %s", status, answer)
	}
	var made struct {
		Keys []string `json:"idempotency_keys"`
	}
	s.do("POST", "/v1/groups", `{"group_id":"dec12",`+runs+`}`, &made)
	for _, key := range made.Keys[2:] {
		s.has(s.becomes(key, "CANCELLED"), map[string]any{"reason": "predecessor_failed", "group_id": "dec12"})
	}
	want := jobGroup{GroupID: "dec12", State: "PARTIAL", Members: 4, Succeeded: 1, Failed: 1, Cancelled: 2}
	eventually(s.T, startBound, "the group is partial", func() error {
		if g := s.group("dec12"); g != want {
			return fmt.Errorf("it is %+v, want %+v", g, want)
		}
		return nil
	})
	if got := s.executor.got(); slices.Contains(got, "seq3") || slices.Contains(got, "seq4") {
		s.Errorf("the executor got %v", got)
	}
}

// TestOnSigtermRunningJobsComplete: what runs completes, what waits starts after the restart, and
// neither has failed.
func TestOnSigtermRunningJobsComplete(t *testing.T) {
	onBothStores(t, func(s *jobSite) {
		goOn := s.executor.stop()
		defer goOn()
		running := s.enqueue("running", "")
		s.await("running")
		waiting := s.enqueue("waiting", "")
		ended := make(chan time.Duration, 1)
		go func() { ended <- s.process.terminate(drainBound) }()
		eventually(s.T, startBound, "it is about to stop", func() error {
			if s.process.ready() == nil {
				return fmt.Errorf("it is ready")
			}
			return nil
		})
		s.hasGot("while it stops", "running")
		goOn()
		t.Logf("it ended after %s", <-ended)
		s.hasGot("after its end", "running")
		s.process.startReady()
		s.await("running", "waiting")
		for _, key := range []string{running.Key, waiting.Key} {
			eventually(s.T, startBound, "the run succeeds", func() error {
				if r := s.run(key); r.Status != "SUCCESS" || r.Attempt != 1 {
					return fmt.Errorf("it is %+v", r)
				}
				return nil
			})
		}
		s.executor.mu.Lock()
		defer s.executor.mu.Unlock()
		for key, calls := range s.executor.keys {
			if calls != 1 {
				t.Errorf("%d calls of %s", calls, key)
			}
		}
	})
}

// TestLongAKilledLocalExecutorFailsItsRunAndKeepsTheQueue: "RUNNING jobs from previous session marked as
// FAILED (crash recovery)". All queues together have one run in flight.
func TestLongAKilledLocalExecutorFailsItsRunAndKeepsTheQueue(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute),
			"EXECUTOR=local", "ALLOW_LOCAL_EXECUTOR=true", "QUEUES_MAX_IN_FLIGHT=1"))
		p.startReady()
		s := &guardSite{jobSite: &jobSite{T: t, rest: newREST(t, p), process: p}, database: database}
		for name, command := range map[string]string{"hangs": "sleep 600", "fine": "true"} {
			s.do("PUT", "/v1/workflows/"+name+"/versions/1", fmt.Sprintf(`{"dag":{"workflow_id":%q,"version":1,"steps":[{"id":"work","shell":[%q]}]},"user_id":"ada"}`, name, command), nil)
			s.do("PUT", "/v1/schedules/"+name, fmt.Sprintf(`{"workflow_id":%q,"version":1,"user_id":"ada","retry":{"max_attempts":2,"backoff_ms":3600000}}`, name), nil)
		}
		s.queue("a", `,"max_in_flight":5`)
		s.queue("b", `,"max_in_flight":5`)
		running := s.enters("a", "hangs", "")
		s.becomes(running, "STARTED")
		waiting := []string{s.enters("b", "fine", ""), s.enters("a", "fine", ""), s.enters("b", "fine", "")}
		p.kill()
		p.startReady()
		lost := s.becomes(running, "FAILED")
		s.has(lost, map[string]any{"reason": "lost", "attempt": 1, "dead": false})
		retry := s.shown("/v1/runs/"+fmt.Sprint(lost["retried_by"]), "run")
		s.has(retry, map[string]any{"attempt": 2, "retry_of": running, "queue_id": "a", "queue_state": "delayed"})
		for n, key := range waiting {
			run := s.becomes(key, "SUCCESS")
			s.has(run, map[string]any{"attempt": 1})
			if fmt.Sprint(run["started_at"]) < fmt.Sprint(lost["completed_at"]) {
				t.Errorf("run %d started at %v, before the end of the first one at %v", n+2, run["started_at"], lost["completed_at"])
			}
		}
		first, second := s.shown("/v1/runs/"+waiting[0], "run"), s.shown("/v1/runs/"+waiting[2], "run")
		if fmt.Sprint(first["claimed_at"]) > fmt.Sprint(second["claimed_at"]) {
			t.Errorf("queue b admitted its second run at %v and its first at %v", second["claimed_at"], first["claimed_at"])
		}
	})
}
