package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services"
)

// script is an executor that ends the runs of each schedule as told, one after the other, and
// answers a key that it knows as before.
type script struct {
	mu   sync.Mutex
	ends map[string][]string // by schedule: what is left of "SUCCESS", or of failure classes
	said map[string]string   // by key
	keys map[string][]string // by schedule, in the order in which they came
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body runBody
	if text, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(text, &body) != nil {
		return // the caller died while it sent
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said[body.Key] == "" {
		answer := `{"run_id": "extra", "status": "FAILED", "error_code": "no_more_runs"}`
		if left := s.ends[body.ScheduleID]; len(left) > 0 {
			answer = fmt.Sprintf(`{"run_id": %q, "status": "FAILED", "error_code": "planned", "failure_class": %q}`, body.Key[:12], left[0])
			if left[0] == "SUCCESS" {
				answer = fmt.Sprintf(`{"run_id": %q, "status": "SUCCESS"}`, body.Key[:12])
			}
			s.ends[body.ScheduleID] = left[1:]
		}
		s.said[body.Key] = answer
		s.keys[body.ScheduleID] = append(s.keys[body.ScheduleID], body.Key)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, s.said[body.Key])
}

// attempt is a run with what REST shows about its retries.
type attempt struct {
	run
	MaxAttempts  int    `json:"max_attempts"`
	RetryOf      string `json:"retry_of"`
	RetriedBy    string `json:"retried_by"`
	FailureClass string `json:"failure_class"`
	Snoozes      int    `json:"snoozes"`
	Dead         bool   `json:"dead"`
}

// chain reads the runs of a schedule in the order of their attempts.
func (r *rest) chain(scheduleID string) []attempt {
	r.t.Helper()
	var answer struct {
		Runs []attempt `json:"runs"`
	}
	r.do(http.MethodGet, "/v1/schedules/"+scheduleID+"/runs?page_size=200", nil, &answer)
	slices.SortFunc(answer.Runs, func(a, b attempt) int { return a.Attempt - b.Attempt })
	return answer.Runs
}

// untilEnded waits until a schedule has so many runs, all over.
func (r *rest) untilEnded(scheduleID string, runs int) []attempt {
	r.t.Helper()
	var chain []attempt
	eventually(r.t, startBound, fmt.Sprintf("%s has %d runs that are over", scheduleID, runs), func() error {
		chain = r.chain(scheduleID)
		for _, a := range chain {
			if a.CompletedAt.IsZero() {
				return fmt.Errorf("attempt %d is %s", a.Attempt, a.Status)
			}
		}
		if len(chain) < runs {
			return fmt.Errorf("it has %d", len(chain))
		}
		return nil
	})
	if len(chain) != runs {
		r.t.Errorf("%s has %d runs, want %d", scheduleID, len(chain), runs)
	}
	return chain
}

func (r *rest) dead(t *testing.T) (keys []string) {
	t.Helper()
	for _, one := range r.runs("/v1/runs", url.Values{"dead": {"true"}}) {
		keys = append(keys, one.Key)
	}
	return keys
}

// onEachDatabase runs a test with SQLite, for which database is empty, and with Postgres.
func onEachDatabase(t *testing.T, test func(t *testing.T, database string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, "")
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		test(t, services.Postgres(t, nil))
	})
}

// TestFailedRunsAreRetried is acceptance 5 without a queue.
func TestFailedRunsAreRetried(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	t.Parallel()
	onEachDatabase(t, retryRuns)
}

func retryRuns(t *testing.T, database string) {
	s := &script{said: make(map[string]string), keys: make(map[string][]string), ends: map[string][]string{
		"recovers": {"transient", "transient", "SUCCESS"},
		"dies":     {"transient", "transient", "transient", "transient", "transient", "transient", "SUCCESS"},
		"useless":  {"logic"},
	}}
	server := newServer(t, s.ServeHTTP)
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute), "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/{workflow_id}"))
	p.startReady()
	api := newREST(t, p)
	api.do("PUT", "/v1/workflows/w/versions/1", `{"dag": {"workflow_id": "w", "version": 1}}`, nil)
	for _, id := range []string{"recovers", "dies", "useless"} {
		api.do("PUT", "/v1/schedules/"+id, fmt.Sprintf(`{"workflow_id": "w", "version": 1, "user_id": "ada", "once_at": %q, "overlap_policy": "skip",
			"retry": {"max_attempts": 3, "backoff_ms": 1000, "factor_percent": 150}}`, time.Now().Add(2*time.Second).UTC().Format(time.RFC3339)), nil)
	}

	chain := api.untilEnded("recovers", 3)
	inChain(t, chain)
	if last := chain[2]; last.Status != "SUCCESS" || last.Dead || chain[0].Dead || chain[1].Dead {
		t.Errorf("it recovers, and its runs are %+v", chain)
	}
	var recovered struct {
		Failure json.RawMessage `json:"failure"`
	}
	if api.do("GET", "/v1/schedules/recovers", nil, &recovered); len(recovered.Failure) > 0 && string(recovered.Failure) != "null" {
		t.Errorf("it recovered, and is shown as failing: %s", recovered.Failure)
	}

	useless := api.untilEnded("useless", 1)[0]
	chain = api.untilEnded("dies", 3)
	inChain(t, chain)
	third := chain[2]
	if !third.Dead || third.MaxAttempts != 3 || third.FailureClass != "transient" || !useless.Dead || useless.FailureClass != "logic" {
		t.Errorf("both should be dead: %+v and %+v", third, useless)
	}
	if dead := api.dead(t); len(dead) != 2 || !slices.Contains(dead, third.Key) || !slices.Contains(dead, useless.Key) {
		t.Errorf("?dead=true lists %v, want %s and %s", dead, third.Key, useless.Key)
	}

	// A retry by hand makes one run, also if it is requested twice, and nothing after it.
	for range 2 {
		api.do("POST", "/v1/runs/"+third.Key+":retry", `{"request_id": "once"}`, nil)
	}
	chain = api.untilEnded("dies", 4)
	fourth := chain[3]
	if fourth.Attempt != 4 || fourth.MaxAttempts != 4 || fourth.RetryOf != third.Key || !fourth.Dead || chain[2].Dead {
		t.Errorf("the retry by hand is %+v, of %+v", fourth, chain[2])
	}

	// With renew it has three attempts again.
	api.do("POST", "/v1/runs/"+fourth.Key+":retry", `{"request_id": "anew", "renew": true}`, nil)
	chain = api.untilEnded("dies", 7)
	inChain(t, chain[4:])
	if seventh := chain[6]; seventh.Status != "SUCCESS" || seventh.MaxAttempts != 7 || chain[4].RetryOf != fourth.Key {
		t.Errorf("with a new budget its runs are %+v", chain[4:])
	}
	if dead := api.dead(t); !slices.Equal(dead, []string{useless.Key}) {
		t.Errorf("?dead=true lists %v, want %s", dead, useless.Key)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	for id, want := range map[string]int{"recovers": 3, "dies": 7, "useless": 1} {
		if got := s.keys[id]; len(got) != want || len(s.ends[id]) != 0 {
			t.Errorf("the executor was called for %d runs of %s, want %d", len(got), id, want)
		}
	}
}

// inChain checks that each run retries the one before, a second after it and then half
// as long again.
func inChain(t *testing.T, chain []attempt) {
	t.Helper()
	wait := time.Second
	for i := 1; i < len(chain); i++ {
		before, now := chain[i-1], chain[i]
		if now.RetryOf != before.Key || before.RetriedBy != now.Key || now.Attempt != before.Attempt+1 || now.Trigger != "retry" ||
			!now.RunAt.Equal(before.RunAt) || now.MaxAttempts != before.MaxAttempts {
			t.Errorf("%+v does not retry %+v", now, before)
		}
		if gap := now.FireAt.Sub(before.CompletedAt); gap < wait*8/10 || gap > wait*12/10 {
			t.Errorf("attempt %d is planned %s after the failure, want %s ± 20 %%", now.Attempt, gap, wait)
		}
		if early := now.FireAt.Sub(now.LaunchedAt); early > 0 {
			t.Errorf("attempt %d was launched %s early", now.Attempt, early)
		}
		wait = wait * 3 / 2
	}
}

func TestARetryPolicyOutOfBoundsIsRefusedWithFieldValueAndLimit(t *testing.T) {
	t.Parallel()
	_, api := newQuiet(t)
	for _, c := range []struct{ name, retry, field, value, limit string }{
		{"no attempts", `{"max_attempts": 0}`, "retry.max_attempts", "0", "1"},
		{"too many attempts", `{"max_attempts": 26}`, "retry.max_attempts", "26", "25"},
		{"a backoff below a second", `{"max_attempts": 2, "backoff_ms": 999}`, "retry.backoff_ms", "999", "1000"},
		{"a backoff above a day", `{"max_attempts": 2, "backoff_ms": 86400001}`, "retry.backoff_ms", "86400001", "86400000"},
		{"a longest backoff below the first", `{"max_attempts": 2, "backoff_ms": 5000, "max_backoff_ms": 4999}`, "retry.max_backoff_ms", "4999", "5000"},
		{"a longest backoff above a day", `{"max_attempts": 2, "max_backoff_ms": 86400001}`, "retry.max_backoff_ms", "86400001", "86400000"},
		{"waits that shrink", `{"max_attempts": 2, "factor_percent": 99}`, "retry.factor_percent", "99", "100"},
		{"waits that grow too fast", `{"max_attempts": 2, "factor_percent": 1001}`, "retry.factor_percent", "1001", "1000"},
		{"a class that there is not", `{"max_attempts": 2, "on": ["transient", "bad"]}`, "retry.on[1]", `"bad"`, "transient"},
		{"an unknown member", `{"max_attempts": 2, "tries": 3}`, "retry.tries", "not a field", ""},
	} {
		for path, body := range map[string]string{
			"/v1/schedules/s": `{"workflow_id": "w", "version": 1, "user_id": "ada", "cron_expr": "* * * * *", "retry": ` + c.retry + `}`,
			"/v1/queues/q":    `{"user_id": "ada", "retry": ` + c.retry + `}`,
		} {
			t.Run(c.name+" "+path, func(t *testing.T) {
				status, answer, err := api.call("PUT", path, body)
				if err != nil {
					t.Fatal(err)
				}
				says := refusals(t, answer)[c.field]
				if status != http.StatusBadRequest || !strings.Contains(says, c.value) || !strings.Contains(says, c.limit) {
					t.Errorf("it answers %d %s\nwant 400 with a violation of %s that says %s and %s", status, answer, c.field, c.value, c.limit)
				}
			})
		}
	}
	status, answer, err := api.call("POST", "/v1/runs/"+strings.Repeat("ab", 32)+":retry", `{"request_id": "/auto"}`)
	if err != nil || status != http.StatusBadRequest || !strings.Contains(refusals(t, answer)["request_id"], `"/auto"`) {
		t.Errorf("a request id with a slash: %d %s (%v)", status, answer, err)
	}
}
