package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/api"
)

// counted counts the looks at open runs, and the most runs of one.
type counted struct {
	*registrar.Registrar
	looks, most atomic.Int64
}

func (c *counted) OpenAmong(ctx context.Context, keys []schedule.Key) ([]bool, error) {
	c.looks.Add(1)
	for n := int64(len(keys)); ; {
		before := c.most.Load()
		if before >= n || c.most.CompareAndSwap(before, n) {
			return c.Registrar.OpenAmong(ctx, keys)
		}
	}
}

// newWaiting is a rig with bounds of the calls that wait.
func newWaiting(t *testing.T, ends, grants int) (*rig, *counted) {
	r := newRig(t)
	c := &counted{Registrar: registrar.New(registrar.Options{
		Schedules: r.store, Runs: r.store, Workflows: r.store, Shares: r.store, Grants: r.store, Queues: r.store, Entries: r.store, Limits: r.store, Groups: r.store, Reservations: r.store,
	})}
	r.conn, r.base, r.gateway = serve(t, api.Services{Writer: c, Reader: c, Workflows: c, Grants: c, Runs: c, Queues: c, Limits: c, Groups: c, EndWaits: ends, GrantWaits: grants})
	r.must("PUT", "/v1/queues/gpu", `{"user_id":"ada"}`)
	return r, c
}

const waitingJob = `{"workflow_id":"w","version":1,"wait_ms":%d}`

func TestCallersThatWaitForEndsShareTheirLooks(t *testing.T) {
	t.Parallel()
	const callers = 40
	r, c := newWaiting(t, callers, 1)
	var calls sync.WaitGroup
	for range callers {
		calls.Go(func() {
			if text := r.must("POST", "/v1/queues/gpu/runs", fmt.Sprintf(waitingJob, 2000)); member(t, text, "run", "queue_state") != "waiting" {
				t.Errorf("after the wait: %s", text)
			}
		})
	}
	calls.Wait()
	// Alone, each looks at least a dozen times in two seconds.
	if looks := c.looks.Load(); looks > 12*callers/3 || c.most.Load() < callers/2 {
		t.Errorf("%d looks, the largest at %d runs", looks, c.most.Load())
	}
}

func TestAWaitForAnEndIsOverWithTheRun(t *testing.T) {
	t.Parallel()
	r, c := newWaiting(t, 1, 1)
	var answer string
	var call sync.WaitGroup
	call.Go(func() { answer = r.must("POST", "/v1/queues/gpu/runs", fmt.Sprintf(waitingJob, 60_000)) })
	comes(t, "the caller waits", func() bool { return c.looks.Load() > 0 })
	runs, err := r.store.ListWaiting(t.Context(), schedule.WaitingFilter{QueueNo: 1, Limit: 1})
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs wait: %v", len(runs), err)
	}
	r.must("POST", "/v1/runs/"+runs[0].Key.String()+":cancel", "{}")
	call.Wait()
	if member(t, answer, "run", "status") != "CANCELLED" {
		t.Errorf("the answer is %s", answer)
	}
}

func TestAWaitForAnEndFollowsTheRetries(t *testing.T) {
	t.Parallel()
	r, c := newWaiting(t, 1, 1)
	r.must("PUT", "/v1/queues/gpu", `{"user_id":"ada","retry":{"max_attempts":2,"backoff_ms":3600000,"max_backoff_ms":3600000}}`)
	var answer string
	var call sync.WaitGroup
	call.Go(func() { answer = r.must("POST", "/v1/queues/gpu/runs", fmt.Sprintf(waitingJob, 60_000)) })
	comes(t, "the caller waits", func() bool { return c.looks.Load() > 0 })
	now := time.Now()
	out, err := r.store.Admit(t.Context(), schedule.AdmitRequest{QueueNo: 1, Now: now, Free: 10, Lease: func(schedule.Key) time.Duration { return time.Minute }, RetryFor: time.Hour})
	if err != nil || len(out.Dispatches) != 1 {
		t.Fatalf("%d runs admitted: %v", len(out.Dispatches), err)
	}
	first := out.Dispatches[0].Run.Key
	failed := schedule.FinishRequest{Key: first, Outcome: schedule.Outcome{Status: schedule.StatusFailed, ErrorCode: "broken"}, RunTimeout: time.Minute}
	if _, err := r.store.Finish(t.Context(), []schedule.FinishRequest{failed}, now); err != nil {
		t.Fatal(err)
	}
	runs, err := r.store.ListWaiting(t.Context(), schedule.WaitingFilter{QueueNo: 1, Limit: 2})
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs wait, want the retry: %v", len(runs), err)
	}
	looks := c.looks.Load()
	comes(t, "the caller waits for the retry", func() bool { return c.looks.Load() > looks })
	r.must("POST", "/v1/runs/"+runs[0].Key.String()+":cancel", "{}")
	call.Wait()
	if member(t, answer, "run", "status") != "CANCELLED" || member(t, answer, "run", "attempt") != "2" || member(t, answer, "run", "retry_of") != first.String() {
		t.Errorf("the answer is %s", answer)
	}
	r.must("POST", "/v1/queues/gpu:pause", "{}")
	again := fmt.Sprintf(`{"workflow_id":"w","version":1,"request_id":"short","wait_ms":%d}`, 30)
	if text := r.must("POST", "/v1/queues/gpu/runs", again); member(t, text, "run", "queue_state") != "waiting" || member(t, text, "run", "attempt") != "1" {
		t.Errorf("after a wait that was too short: %s", text)
	}
}

// TestAFullServerRefusesToWait, before anything is written, until a caller goes away.
func TestAFullServerRefusesToWait(t *testing.T) {
	t.Parallel()
	r, _ := newWaiting(t, 1, 1)
	r.must("POST", "/v1/queues/gpu:reserve", `{"hold_ms":60000}`)
	for _, tc := range []struct{ name, path, body, again, counts string }{
		{"runs", "/v1/queues/gpu/runs", fmt.Sprintf(waitingJob, 60_000), fmt.Sprintf(waitingJob, 10), "waiting"},
		{"reservations", "/v1/queues/gpu:reserve", `{"hold_ms":60000,"wait_ms":60000}`, `{"hold_ms":60000,"wait_ms":10}`, "reserving"},
	} {
		ctx, leave := context.WithCancel(t.Context())
		var first sync.WaitGroup
		first.Go(func() {
			req, err := http.NewRequestWithContext(ctx, "POST", r.base+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_ = resp.Body.Close()
				t.Errorf("%s: the first call was answered with %d", tc.name, resp.StatusCode)
			}
		})
		waits := func() string { return member(t, r.must("GET", "/v1/queues/gpu", ""), "queue", tc.counts) }
		comes(t, tc.name+": the first caller waits", func() bool { return waits() == "1" })
		code, text, header := r.restAnswer("POST", tc.path, tc.again)
		if code != http.StatusTooManyRequests || header.Get("Retry-After") != "1" || !strings.Contains(text, "wait_ms: 1 calls wait at this server") {
			t.Errorf("%s: %d, Retry-After %q: %s", tc.name, code, header.Get("Retry-After"), text)
		}
		if n := waits(); n != "1" {
			t.Errorf("%s: %s wait after the refusal", tc.name, n)
		}
		leave()
		first.Wait()
		comes(t, tc.name+": its place is free", func() bool {
			code, _ := r.rest("POST", tc.path, tc.again)
			return code == http.StatusOK
		})
	}
}

// comes waits until something is so, ten seconds at most.
func comes(t *testing.T, what string, is func() bool) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for over := time.Now().Add(10 * time.Second); !is(); <-look.C {
		if time.Now().After(over) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
