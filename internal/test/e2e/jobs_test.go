package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services"
)

// job is what REST says about a run of a queue.
type job struct {
	Key      string          `json:"idempotency_key"`
	Status   string          `json:"status"`
	QueueID  string          `json:"queue_id"`
	State    string          `json:"queue_state"`
	Position int             `json:"position"`
	Attempt  int             `json:"attempt"`
	Input    json.RawMessage `json:"input"`
	Trigger  string          `json:"trigger"`
}

// workbench is an executor that runs one job for as long as it is told to, and writes down which
// jobs it got. Those with a name that begins with "bad" fail.
type workbench struct {
	mu    sync.Mutex
	open  int // calls without an answer
	most  int // the most of them
	names []string
	keys  map[string]int // effects
	hold  chan struct{}  // not nil: calls wait until it is closed
	at    []time.Time
	takes func(call int) time.Duration // how long the n-th call takes; nil: nothing
}

func (b *workbench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Key   string `json:"idempotency_key"`
		Input struct {
			Name string `json:"name"`
		} `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	if b.keys[call.Key]++; b.keys[call.Key] == 1 {
		b.names = append(b.names, call.Input.Name)
	}
	b.at = append(b.at, time.Now())
	b.open++
	b.most = max(b.most, b.open)
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open--
	}()
	hold := b.hold
	var takes time.Duration
	if b.takes != nil {
		takes = b.takes(len(b.at))
	}
	b.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-r.Context().Done():
			return
		}
	}
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	if strings.HasPrefix(call.Input.Name, "bad") {
		_, _ = w.Write([]byte(`{"run_id": "r", "status": "FAILED", "error_code": "broken"}`))
		return
	}
	_, _ = w.Write([]byte(`{"run_id": "r", "status": "SUCCESS"}`))
}

// stop lets calls wait; the returned function lets them go on.
func (b *workbench) stop() (goOn func()) {
	hold := make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold = hold
	return sync.OnceFunc(func() {
		b.mu.Lock()
		b.hold = nil
		b.mu.Unlock()
		close(hold)
	})
}

func (b *workbench) got() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.names)
}

// jobSite is one process with all roles and a queue "q" of one slot.
type jobSite struct {
	*testing.T
	*rest
	process  *process
	executor *workbench
}

func newJobSite(t *testing.T, database string, env ...string) *jobSite {
	b := &workbench{keys: make(map[string]int)}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute),
		"WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/run/{workflow_id}", "EXECUTOR_TIMEOUT_MS=60000"))
	p.env = append(p.env, env...)
	p.startReady()
	s := &jobSite{T: t, rest: newREST(t, p), process: p, executor: b}
	s.do("PUT", "/v1/queues/q", `{"max_in_flight":1,"user_id":"ada"}`, nil)
	return s
}

func (s *jobSite) enqueue(name, more string) job {
	s.Helper()
	var answer struct {
		Run job `json:"run"`
	}
	s.do("POST", "/v1/queues/q/runs", fmt.Sprintf(`{"workflow_id":"w","version":1,"user_id":"ada","request_id":%q,"input":{"name":%q}%s}`, name, name, more), &answer)
	return answer.Run
}

func (s *jobSite) run(key string) job {
	s.Helper()
	var answer struct {
		Run job `json:"run"`
	}
	s.do("GET", "/v1/runs/"+key, nil, &answer)
	return answer.Run
}

func (s *jobSite) await(names ...string) {
	s.Helper()
	eventually(s.T, startBound, "the executor gets "+strings.Join(names, " "), func() error {
		if got := s.executor.got(); !slices.Equal(got, names) {
			return fmt.Errorf("it got %s", strings.Join(got, " "))
		}
		return nil
	})
}

func onBothStores(t *testing.T, test func(*jobSite)) {
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); test(newJobSite(t, "")) })
	t.Run("Postgres", func(t *testing.T) { t.Parallel(); test(newJobSite(t, services.Postgres(t, nil))) })
}

func TestJobsRunInTheOrderOfTheirQueue(t *testing.T) {
	onBothStores(t, func(s *jobSite) {
		goOn := s.executor.stop()
		defer goOn()
		s.enqueue("first", "")
		s.await("first")
		jobs := make(map[string]job)
		for _, j := range []struct{ name, more string }{
			{"a", ""},
			{"b", ""},
			{"high", `,"priority":5`},
			{"low", `,"priority":-5`},
			{"c", ""},
			{"high2", `,"priority":5`},
			{"second", `,"position":2`},
			{"next", `,"next":true`},
		} {
			jobs[j.name] = s.enqueue(j.name, j.more)
			if got := jobs[j.name]; got.Status != "ENQUEUED" || got.State != "waiting" || got.QueueID != "q" || got.Trigger != "job" {
				s.Errorf("%s entered as %+v", j.name, got)
			}
		}
		// next, a, second, b, c within priority 0
		for name, want := range map[string]int{"next": 1, "a": 2, "second": 3, "b": 4, "c": 5, "high": 1, "high2": 2, "low": 1} {
			if got := s.run(jobs[name].Key).Position; got != want {
				s.Errorf("%s is at position %d, want %d", name, got, want)
			}
		}
		goOn()
		s.await("first", "high", "high2", "next", "a", "second", "b", "c", "low")
	})
}

func TestAWaitingJobIsChangedAndADispatchedOneIsNot(t *testing.T) {
	onBothStores(t, func(s *jobSite) {
		goOn := s.executor.stop()
		defer goOn()
		first := s.enqueue("first", "")
		s.await("first")
		waits := s.enqueue("old", "")
		s.do("POST", "/v1/runs/"+waits.Key+":update", `{"input":{"name":"new"}}`, nil)
		status, answer, err := s.call("POST", "/v1/runs/"+first.Key+":update", `{"input":{"name":"never"}}`)
		if err != nil || status != http.StatusConflict || !strings.Contains(string(answer), "Cannot modify params") {
			s.Errorf("after dispatch: %d %s %v", status, answer, err)
		}
		goOn()
		s.await("first", "new")
	})
}

func TestARepeatedRequestIsAnsweredWithTheSameJob(t *testing.T) {
	onBothStores(t, func(s *jobSite) {
		job := s.enqueue("once", "")
		again := s.enqueue("once", "")
		s.await("once")
		eventually(s.T, startBound, "it has ended", func() error {
			if r := s.run(job.Key); r.Status != "SUCCESS" {
				return fmt.Errorf("it is %s", r.Status)
			}
			return nil
		})
		after := s.enqueue("once", "")
		if again.Key != job.Key || after.Key != job.Key {
			s.Errorf("keys %s, %s, %s", job.Key, again.Key, after.Key)
		}
		status, answer, err := s.call("POST", "/v1/queues/q/runs", `{"workflow_id":"w","version":1,"user_id":"ada","request_id":"once","input":{"name":"other"}}`)
		if err != nil || status != http.StatusUnprocessableEntity {
			s.Errorf("another body: %d %s %v", status, answer, err)
		}
		s.await("once")
	})
}

// TestLongAKilledProcessLosesAndDoublesNoJob kills the only process with a hundred jobs.
func TestLongAKilledProcessLosesAndDoublesNoJob(t *testing.T) {
	onBothStores(t, func(s *jobSite) {
		goOn := s.executor.stop()
		var want []string
		for i := range 100 {
			name := fmt.Sprintf("j%03d", i)
			want = append(want, name)
			s.enqueue(name, "")
		}
		s.await("j000")
		s.process.kill()
		goOn()
		s.process.startReady()
		s.await(want...)
		s.executor.mu.Lock()
		defer s.executor.mu.Unlock()
		for key, calls := range s.executor.keys {
			if calls > 2 {
				s.Errorf("%d calls of %s", calls, key)
			}
		}
	})
}

func TestAPausedQueueStartsNothingAndSurvivesARestart(t *testing.T) {
	onBothStores(t, func(s *jobSite) {
		goOn := s.executor.stop()
		var want []string
		for i := range 50 {
			name := fmt.Sprintf("j%02d", i)
			want = append(want, name)
			s.enqueue(name, "")
		}
		s.await("j00")
		s.do("POST", "/v1/queues/q:pause", `{"note":"repair"}`, nil)
		answered := time.Now()
		goOn()
		s.process.terminate(startBound)
		s.process.startReady()
		var q struct {
			Queue struct {
				Paused  bool `json:"paused"`
				Waiting int  `json:"waiting"`
			} `json:"queue"`
		}
		s.do("GET", "/v1/queues/q", nil, &q)
		if !q.Queue.Paused || q.Queue.Waiting != 49 {
			s.Errorf("after a restart the queue is %+v", q)
		}
		if got := s.executor.got(); len(got) != 1 {
			s.Errorf("after the pause: %v", got)
		}
		s.executor.mu.Lock()
		for _, at := range s.executor.at {
			if at.After(answered.Add(time.Second)) {
				s.Errorf("a call %s after the answer", at.Sub(answered))
			}
		}
		s.executor.mu.Unlock()
		s.do("POST", "/v1/queues/q:pause", fmt.Sprintf(`{"until":%q}`, time.Now().Add(3*time.Second).Format(time.RFC3339Nano)), nil)
		s.await(want...)
	})
}
