package e2e_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
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

// alertKey signs the messages of these tests.
const alertKey = "of-these-tests-32-bytes-of-a-key"

// notice is a message as a receiver reads it.
type notice struct {
	id   string // webhook-id
	Type string `json:"type"`
	Data struct {
		AlertID    string    `json:"alert_id"`
		ScheduleID string    `json:"schedule_id"`
		Kind       string    `json:"kind"`
		Cause      string    `json:"cause"`
		Resolution string    `json:"resolution"`
		Deadline   time.Time `json:"deadline"`
		OpenedAt   time.Time `json:"opened_at"`
	} `json:"data"`
}

// pager is who is told: it verifies what arrives, and may leave its caller
// without an answer.
type pager struct {
	*httptest.Server
	t     testing.TB
	mu    sync.Mutex
	got   []notice
	hangs bool
}

func newPager(t testing.TB) *pager {
	p := &pager{t: t}
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() { p.CloseClientConnections(); p.Close() })
	return p
}

// env is what registrars need to reach it.
func (p *pager) env() []string {
	return []string{
		"ALERT_WEBHOOK_URL=" + p.URL + "/hook", "ALERT_WEBHOOK_SECRET=whsec_" + base64.StdEncoding.EncodeToString([]byte(alertKey)),
		"ALLOW_EGRESS=loopback",
	}
}

func (p *pager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := readAll(r.Body)
	n := notice{id: r.Header.Get("webhook-id")}
	mac := hmac.New(sha256.New, []byte(alertKey))
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", n.id, r.Header.Get("webhook-timestamp"), body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want {
		p.t.Errorf("%s is signed %q, want %q", n.id, r.Header.Get("webhook-signature"), want)
	}
	if err := json.Unmarshal([]byte(body), &n); err != nil {
		p.t.Errorf("%s: %v in %s", n.id, err, body)
	}
	p.mu.Lock()
	p.got = append(p.got, n)
	hangs := p.hangs
	p.mu.Unlock()
	if hangs {
		<-r.Context().Done() // until the caller has gone
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (p *pager) hang(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs = on
}

// of are the messages of a type, as they came.
func (p *pager) of(kind string) []notice {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.got), func(n notice) bool { return n.Type != kind })
}

// about waits until each of these schedules has exactly one message of a type.
func (p *pager) about(kind string, schedules []string) map[string]notice {
	p.t.Helper()
	var found map[string]notice
	eventually(p.t, startBound+underWay, kind+" of each schedule", func() error {
		found = make(map[string]notice)
		for _, n := range p.of(kind) {
			found[n.Data.ScheduleID] = n
		}
		if len(found) < len(schedules) {
			return fmt.Errorf("of %d schedules %d have one", len(schedules), len(found))
		}
		return nil
	})
	return found
}

// onlyOnce wants every message to have come once, and one for each schedule.
func (p *pager) onlyOnce(kind string, schedules []string) {
	p.t.Helper()
	seen := make(map[string]int)
	for _, n := range p.of(kind) {
		seen[n.Data.ScheduleID]++
	}
	for _, id := range schedules {
		if seen[id] != 1 {
			p.t.Errorf("%s of %s came %d times, want once", kind, id, seen[id])
		}
	}
}

// promising registers schedules of every other second that promise to start
// within so long.
func promising(api *rest, n int, within time.Duration) (ids []string) {
	for i := range n {
		id := fmt.Sprintf("promising-%d", i)
		ids = append(ids, id)
		api.do(http.MethodPut, "/v1/schedules/"+id, fmt.Sprintf(`{"workflow_id": "oracle", "version": 1, "user_id": "ada", "interval_ms": 2000,
			"overlap_policy": "allow", "expect": {"start_within_ms": %d}}`, within.Milliseconds()), nil)
	}
	return ids
}

// judgedAndMet waits until every schedule has kept its promise, by what the
// registrars say themselves.
func judgedAndMet(api *rest, ids []string) {
	api.t.Helper()
	eventually(api.t, startBound, "every promise is kept", func() error {
		for _, id := range ids {
			var answer struct {
				Schedule struct {
					Expectations []struct {
						Status string     `json:"status"`
						MetAt  *time.Time `json:"met_at"`
					} `json:"expectations"`
				} `json:"schedule"`
			}
			api.do(http.MethodGet, "/v1/schedules/"+id, nil, &answer)
			if e := answer.Schedule.Expectations; len(e) != 1 || e[0].Status != "ok" || e[0].MetAt == nil {
				return fmt.Errorf("%s: %+v", id, e)
			}
		}
		return nil
	})
}

const (
	promise = 4 * time.Second
	// underWay is how long a judge waits for the answer of a call that began before
	// the deadline: so late it is told where the killed worker had claimed the slot.
	underWay = 30 * time.Second
)

// TestLongAKilledWorkerIsToldByTheRegistrars kills the only worker for good, with
// two registrars running, and later a registrar in the middle of a message.
func TestLongAKilledWorkerIsToldByTheRegistrars(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	t.Parallel()
	o, p := newOracle(t, seed(t), true), newPager(t)
	env := slices.Concat(settings(services.Postgres(t, nil), time.Minute), o.env(), p.env())
	one := newProcess(t, "registrar 1", []string{"serve", "--migrate", "--roles", "registrar"}, env)
	two := newProcess(t, "registrar 2", []string{"serve", "--roles", "registrar"}, env)
	worker := newProcess(t, "worker", []string{"serve", "--roles", "worker,launcher"}, env)
	for _, each := range []*process{one, two, worker} {
		each.startReady()
	}
	api := newREST(t, one, two)
	deployOracle(api)
	ids := promising(api, 5, promise)
	judgedAndMet(api, ids)

	worker.kill()
	killed := time.Now()
	for id, n := range p.about("alert.opened", ids) {
		if n.Data.Kind != "start" || n.Data.Cause != "no_leader" && n.Data.Cause != "not_accepted" || n.Data.Deadline.Before(killed) {
			t.Errorf("%s: told %+v, killed at %s", id, n, clock(killed))
		}
		if late := n.Data.OpenedAt.Sub(n.Data.Deadline); late < 0 || late > startBound+underWay {
			t.Errorf("%s: told %s behind the deadline", id, late)
		}
	}
	worker.startReady()
	for id, n := range p.about("alert.recovered", ids) {
		if n.Data.Resolution != "recovered" {
			t.Errorf("%s: closed as %q", id, n.Data.Resolution)
		}
	}
	judgedAndMet(api, ids)
	p.onlyOnce("alert.opened", ids)
	p.onlyOnce("alert.recovered", ids)

	killedWhileSending(t, p, one, two)
	for _, said := range []*process{one, two} {
		if text := said.log.last(keptLines); strings.Contains(text, "/hook") || strings.Contains(text, alertKey) {
			t.Errorf("%s logged the URL or the key", said.name)
		}
	}
}

// killedWhileSending has one registrar send and be killed before its answer:
// the other sends the message again, under its id.
func killedWhileSending(t *testing.T, p *pager, one, two *process) {
	t.Helper()
	two.kill() // so that it is known who sends
	p.hang(true)
	newREST(t, one).do(http.MethodPost, "/v1/alerts:test", "{}", nil)
	eventually(t, startBound, "the message is on its way", func() error {
		if len(p.of("alert.test")) == 0 {
			return fmt.Errorf("nothing has come")
		}
		return nil
	})
	two.startReady()
	one.kill()
	p.hang(false)
	eventually(t, 2*time.Minute, "the other registrar sends it again", func() error { // once the lease of a minute is over
		if n := len(p.of("alert.test")); n < 2 {
			return fmt.Errorf("it came %d times", n)
		}
		return nil
	})
	sent := p.of("alert.test")
	if sent[0].id == "" || sent[0].id != sent[1].id {
		t.Errorf("it came as %s and as %s, want one id", sent[0].id, sent[1].id)
	}
	type delivery struct {
		ID       string `json:"delivery_id"`
		State    string `json:"state"`
		Attempts int    `json:"attempts"`
	}
	var newest delivery
	eventually(t, startBound, "its receipt is kept", func() error {
		var answer struct {
			Deliveries []delivery `json:"deliveries"`
		}
		newREST(t, two).do(http.MethodGet, "/v1/alert-deliveries?page_size=1", nil, &answer)
		if newest = answer.Deliveries[0]; newest.State != "DELIVERED" {
			return fmt.Errorf("it is %+v", newest)
		}
		return nil
	})
	if newest.ID != sent[0].id || newest.Attempts != 2 {
		t.Errorf("it is kept as %+v, sent as %s", newest, sent[0].id)
	}
}

// TestLongAKilledProcessOnSQLiteTellsWhatItMissed: where one process is all there
// is, its death is told when it is back, and each thing once.
func TestLongAKilledProcessOnSQLiteTellsWhatItMissed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	o, p := newOracle(t, seed(t), true), newPager(t)
	all := newProcess(t, "carillon", []string{"serve", "--migrate"}, slices.Concat(settings("", time.Second), o.env(), p.env()))
	all.startReady()
	api := newREST(t, all)
	deployOracle(api)
	ids := promising(api, 3, promise)
	judgedAndMet(api, ids)
	all.kill()
	killed := time.Now()
	time.Sleep(2 * promise) // how long it is down is what is tested
	if n := len(p.of("alert.opened")); n > 0 {
		t.Fatalf("%d alerts were told while all was well", n)
	}
	all.startReady()
	back := time.Now()
	for id, n := range p.about("alert.opened", ids) {
		// The slot may have been due just before it was back.
		if n.Data.Deadline.Before(killed) || n.Data.Deadline.After(back.Add(promise)) {
			t.Errorf("%s: told %+v, down from %s to %s", id, n, clock(killed), clock(back))
		}
	}
	p.about("alert.recovered", ids)
	judgedAndMet(api, ids)
	p.onlyOnce("alert.opened", ids)
	p.onlyOnce("alert.recovered", ids)
}
