package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"
)

// rest speaks the documented JSON with net/http, so that it sees what anybody
// else would see, not what the generated clients make of it.
type rest struct {
	t         testing.TB
	addresses []string // of servers of one deployment: any of them may be asked
	client    *http.Client
	token     string // of the caller; "": none

	mu      sync.Mutex
	current int
}

func newREST(t testing.TB, processes ...*process) *rest {
	t.Helper()
	r := &rest{t: t, addresses: addressesOf(processes), client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}}
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

// as is the same deployment for a caller with a token.
func (r *rest) as(token string) *rest {
	return &rest{t: r.t, addresses: r.addresses, client: r.client, token: token}
}

func (r *rest) base() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return "http://" + r.addresses[r.current]
}

// elsewhere is asked next.
func (r *rest) elsewhere() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = (r.current + 1) % len(r.addresses)
}

// call sends one request. The error is of the connection, never of the answer.
func (r *rest) call(method, path string, body any) (status int, answer []byte, err error) {
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = bytes.NewBufferString(b)
	default:
		text, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, r.base()+path, in)
	if err != nil {
		return 0, nil, err
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// do sends a request until it is answered with 200, as a careful client would:
// every write may be repeated. Any 4xx fails the test.
func (r *rest) do(method, path string, body, into any) {
	r.t.Helper()
	var answer []byte
	eventually(r.t, startBound, method+" "+path, func() error {
		status, text, err := r.call(method, path, body)
		switch {
		case err != nil:
			r.elsewhere()
			return err
		case status >= 400 && status < 500:
			r.t.Fatalf("%s %s answers %d: %s\nfor %v", method, path, status, text, body)
		case status != http.StatusOK:
			return fmt.Errorf("it answers %d: %s", status, text)
		}
		answer = text
		return nil
	})
	if into != nil {
		if err := json.Unmarshal(answer, into); err != nil {
			r.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
		}
	}
}

// run is a row of the ledger as REST shows it; null is the zero time.
type run struct {
	Key           string    `json:"idempotency_key"`
	ScheduleID    string    `json:"schedule_id"`
	Revision      int64     `json:"revision"`
	RunAt         time.Time `json:"run_at"`
	FireAt        time.Time `json:"fire_at"`
	Status        string    `json:"status"`
	Reason        string    `json:"reason"`
	Trigger       string    `json:"trigger"`
	OverlapPolicy string    `json:"overlap_policy"`
	Attempt       int       `json:"attempt"`
	Deliveries    int       `json:"deliveries"`
	RunID         string    `json:"run_id"`
	Epoch         int64     `json:"epoch"`
	WaitingSince  time.Time `json:"waiting_since"`
	CancelAsked   time.Time `json:"cancel_requested_at"`
	ClaimedAt     time.Time `json:"claimed_at"`
	LaunchedAt    time.Time `json:"launched_at"`
	StartedAt     time.Time `json:"started_at"`
	CompletedAt   time.Time `json:"completed_at"`
	ErrorCode     string    `json:"error_code"`
	UpdatedAt     time.Time `json:"updated_at"`
}

// event is an entry of a schedule's log as REST shows it.
type event struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Count  int       `json:"count"`
	Reason string    `json:"reason"`
	Note   string    `json:"note"`
}

// runs reads every page of a list of runs.
func (r *rest) runs(path string, query url.Values) []run {
	r.t.Helper()
	return pages(r, path, query, func(page json.RawMessage) (rows []run, next string, err error) {
		var answer struct {
			Runs []run  `json:"runs"`
			Next string `json:"next_page_token"`
		}
		err = json.Unmarshal(page, &answer)
		return answer.Runs, answer.Next, err
	})
}

// events reads the whole log of a schedule, newest first.
func (r *rest) events(scheduleID string) []event {
	r.t.Helper()
	return pages(r, "/v1/schedules/"+scheduleID+"/events", url.Values{}, func(page json.RawMessage) (rows []event, next string, err error) {
		var answer struct {
			Events []event `json:"events"`
			Next   string  `json:"next_page_token"`
		}
		err = json.Unmarshal(page, &answer)
		return answer.Events, answer.Next, err
	})
}

func pages[T any](r *rest, path string, query url.Values, read func(json.RawMessage) ([]T, string, error)) []T {
	r.t.Helper()
	var all []T
	query.Set("page_size", "200")
	query.Del("page_token")
	for {
		var page json.RawMessage
		r.do(http.MethodGet, path+"?"+query.Encode(), nil, &page)
		rows, next, err := read(page)
		if err != nil {
			r.t.Fatalf("GET %s: %v", path, err)
		}
		if all = append(all, rows...); next == "" {
			return all
		}
		query.Set("page_token", next)
	}
}
