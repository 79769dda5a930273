package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/work"
	"github.com/carillon/carillon/registrar"
)

// spent records the steps of the rig's calls, in order.
type spent struct {
	mu    sync.Mutex
	calls map[string]int
}

func (s *spent) count(o *registrar.Options) {
	s.calls = make(map[string]int)
	o.Worked = func(call string, steps int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls[call] += steps
	}
}

// take returns the steps since the last take.
func (s *spent) take() (sum int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.calls {
		sum += n
	}
	clear(s.calls)
	return sum
}

// everySecondFleet inserts n schedules that fire every second, starting in an hour.
func everySecondFleet(t *testing.T, r *rig, n int) {
	t.Helper()
	begin := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for at := 0; at < n; at += 1000 {
		var rows []string
		for i := at; i < min(n, at+1000); i++ {
			rows = append(rows, fmt.Sprintf(`{"schedule_id":"s%d","workflow_id":"w","version":1,"user_id":"u","cron_expr":"* * * * * *","start_at":%q,"jitter_ms":%d}`, i, begin, i%2*3600_000))
		}
		r.must("POST", "/v1/schedules:apply", fmt.Sprintf(`{"set":"set-%d","schedules":[%s]}`, at, strings.Join(rows, ",")))
	}
}

// dryRun is a set of n schedules that fire at other seconds than everySecondFleet.
func dryRun(n int) string {
	var rows []string
	for i := range n {
		rows = append(rows, fmt.Sprintf(`{"schedule_id":"s%d","workflow_id":"w","version":1,"user_id":"u","cron_expr":"*/2 * * * * *","jitter_ms":1000}`, i))
	}
	return fmt.Sprintf(`{"set":"set-0","dry_run":true,"schedules":[%s]}`, strings.Join(rows, ","))
}

// Each request is the most expensive valid one of its kind. Cost is counted in steps, which do not
// depend on the load of the machine.
func TestNoRequestDoesMoreWorkThanOneCallMay(t *testing.T) {
	t.Parallel()
	var s spent
	r := newRig(t, withSimulator, s.count)
	everySecondFleet(t, r, 1000)
	simulation := func(schedules int, queued, duration, more string) string {
		var rows []string
		for range schedules {
			rows = append(rows, fmt.Sprintf(`{"cron_expr":"* * * * * *","overlap_policy":"queue","overlap_key":"k","max_queued":%s,"run":{"duration_ms":%s}}`, queued, duration))
		}
		until := time.Date(2027, 3, 1, 0, 0, 10_000/schedules, 0, time.UTC).Format(time.RFC3339)
		return fmt.Sprintf(`{"from":"2027-03-01T00:00:00Z","until":%q,"sums_only":true,%s"schedules":[%s]}`, until, more, strings.Join(rows, ","))
	}
	const outage = `"executor_outages":[{"from":"2027-03-01T00:00:10Z","until":"2027-03-01T00:12:10Z"}],`
	backfill := fmt.Sprintf(`{"dry_run":true,"reprocess":"all","from":%q}`, time.Now().Add(-99_000*time.Second).UTC().Format(time.RFC3339))
	r.must("PUT", "/v1/schedules/past", `{"workflow_id":"w","version":1,"user_id":"u","cron_expr":"* * * * * *"}`)
	for _, c := range []struct {
		name, method, path, body string
		refused                  string // message of the 400
	}{
		{name: "a simulation in which a thousand runs wait", method: "POST", path: "/v1/schedules:simulate", body: simulation(1, "1000", "1100", "")},
		{
			name: "a simulation of more work than one call may do", method: "POST", path: "/v1/schedules:simulate", body: simulation(1, "1000", "1300", outage),
			refused: "simulate a shorter window, fewer schedules, or a lower max_queued",
		},
		{name: "a forecast of a week with all peaks", method: "GET", path: "/v1/forecast?peaks=50&until=" + time.Now().Add(167*time.Hour).UTC().Format(time.RFC3339)},
		{name: "a dry run that changes all schedules", method: "POST", path: "/v1/schedules:apply", body: dryRun(1000)},
		{name: "a preview of the largest page, with jitter", method: "POST", path: "/v1/schedules:preview", body: `{"cron_expr":"* * * * * *","jitter_ms":3600000,"page_size":10000}`},
		{name: "a preview of fires years apart", method: "POST", path: "/v1/schedules:preview", body: `{"cron_expr":"0 0 29 2 *","timezone":"America/New_York","page_size":10000}`},
		{name: "a dry run of the longest backfill", method: "POST", path: "/v1/schedules/past:backfill", body: backfill},
	} {
		code, text := r.rest(c.method, c.path, c.body)
		steps := s.take()
		t.Logf("%s: %d, %.1f million steps", c.name, code, float64(steps)/1e6)
		if steps == 0 || steps > work.PerCall+work.PerCall/100 {
			t.Errorf("%s: %d steps, want some, and at most %d", c.name, steps, work.PerCall)
		}
		switch {
		case c.refused == "" && code != http.StatusOK:
			t.Errorf("%s: %d %.300s", c.name, code, text)
		case c.refused != "" && (code != http.StatusBadRequest || !strings.Contains(text, c.refused) || !strings.Contains(text, "takes more work than one call may do")):
			t.Errorf("%s: %d %.300s, want 400 that says %q", c.name, code, text, c.refused)
		}
	}
}
