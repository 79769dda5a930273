package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// site is one deployment with its executor, and the people who work with it.
type site struct {
	t         testing.TB
	random    *rand.Rand
	oracle    *oracle
	journal   *journal
	processes []*process
	api       *rest
	watched   *watch
	grace     time.Duration
}

// settings are what these tests turn down so that bounds are reached in
// seconds. A run timeout is runTimeout, as is the bound of launches.
func settings(database string, grace time.Duration) []string {
	env := []string{
		"TICK_MS=200", "LOOKAHEAD_MS=1500", "MAX_CATCHUP_PER_TICK=3", "EXECUTOR_TIMEOUT_MS=1500",
		"CLAIM_LEASE_MS=3000", "CANCEL_WAIT_MS=8000", "LEADER_TTL_MS=3000", "LOG_LEVEL=debug",
		"REPORT_SECRET=the-same-in-every-process",
		fmt.Sprintf("MISFIRE_GRACE_MS=%d", grace.Milliseconds()), fmt.Sprintf("LAUNCH_RETRY_FOR_MS=%d", runTimeout.Milliseconds()),
	}
	if database != "" {
		env = append(env, "DATABASE_URL="+database)
	}
	return env
}

// siteOptions say what a deployment looks like.
type siteOptions struct {
	database  string // "" is SQLite
	processes int
	grace     time.Duration
	tame      bool
}

// newSite prepares a deployment of equal processes, and starts the first.
func newSite(t testing.TB, o siteOptions) *site {
	t.Helper()
	chosen := seed(t)
	s := &site{
		t: t, random: rand.New(rand.NewPCG(chosen, 1)), oracle: newOracle(t, chosen, o.tame), journal: newJournal(), grace: o.grace,
	}
	env := append(settings(o.database, o.grace), s.oracle.env()...)
	for i := range o.processes {
		s.processes = append(s.processes, newProcess(t, fmt.Sprintf("carillon %d", i+1), []string{"serve", "--migrate"}, env))
	}
	if o.processes > 1 {
		balancer := newBalancer(t, addressesOf(s.processes))
		for _, p := range s.processes {
			p.env = append(p.env, "PUBLIC_URL="+balancer.URL)
		}
	}
	s.processes[0].startReady()
	s.api = newREST(t, s.processes...)
	s.watched = watchRuns(t, s.processes...)
	return s
}

func addressesOf(processes []*process) []string {
	var addresses []string
	for _, p := range processes {
		addresses = append(addresses, p.httpAddr)
	}
	return addresses
}

// registerAll registers what is named, in random order.
func (s *site) registerAll(definitions []definition) {
	s.t.Helper()
	deployOracle(s.api)
	for _, i := range s.random.Perm(len(definitions)) {
		s.journal.register(s.api, definitions[i])
	}
}

// stopAll ends every schedule, each in one of the ways there are.
func (s *site) stopAll() {
	s.t.Helper()
	s.journal.ended = time.Now()
	var ids []string
	for _, d := range workload(time.Now()) { // in a fixed order
		if s.journal.schedules[d.ScheduleID] != nil {
			ids = append(ids, d.ScheduleID)
		}
	}
	offset := s.random.IntN(3)
	for i, id := range ids {
		s.journal.stop(s.api, i+offset, id)
	}
}

// drain waits until no run is planned, waits or is in flight.
func (s *site) drain() {
	s.t.Helper()
	bound := 2*runTimeout + 15*time.Second
	eventually(s.t, bound, "no run is in flight", func() error {
		left := s.api.runs("/v1/runs", url.Values{"status": {"PLANNED", "LAUNCHING", "ENQUEUED", "STARTED"}})
		if len(left) == 0 {
			return nil
		}
		return fmt.Errorf("%d runs are left, such as %s", len(left), describe(left[0]))
	})
}

// audit reads the ledger and checks it against what the executor saw.
func (s *site) audit() *checker {
	s.t.Helper()
	s.watched.stop()
	c := &checker{
		t: s.t, journal: s.journal, oracle: s.oracle, grace: s.grace, watched: s.watched, steadiness: s.watched.steadiness,
		rows: make(map[string][]run), events: make(map[string][]event), ledger: make(map[string]run), ended: make(map[string]int),
	}
	for id := range s.journal.schedules {
		c.rows[id] = s.api.runs("/v1/schedules/"+id+"/runs", url.Values{})
		c.events[id] = s.api.events(id)
	}
	for _, p := range s.processes {
		c.logs = append(c.logs, p.log)
	}
	c.check()
	return c
}

// leader is the process that says it leads, or nil.
func (s *site) leader() *process {
	for _, p := range s.processes {
		if metric(p, `carillon_leader{shard="0"}`) == "1" {
			return p
		}
	}
	return nil
}

// metric returns a sample by its name with labels, as text; "": there is none.
func metric(p *process, name string) string {
	client := http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get("http://" + p.httpAddr + "/metrics")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text := readAll(resp.Body)
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// watch asks again and again how runs stand, as a UI would, and remembers what
// it was told.
type watch struct {
	t       testing.TB
	api     *rest
	stopped chan struct{}
	done    sync.WaitGroup

	mu         sync.Mutex
	seen       map[string]run
	wrongs     []string
	steadiness steadiness
}

// steadiness is how far the wall clock was set against the monotonic one, by
// somebody, or because the machine was suspended. A store on another machine
// tells its time now and then; in between only the monotonic clock counts.
type steadiness struct {
	began      time.Time
	high, low  time.Duration
	rose, fell time.Duration // the most that it went ahead, and back
}

func (s *steadiness) look(now time.Time) {
	if s.began.IsZero() {
		s.began = now
	}
	offset := now.Round(0).Sub(s.began.Round(0)) - now.Sub(s.began)
	s.high, s.low = max(s.high, offset), min(s.low, offset)
	s.rose, s.fell = max(s.rose, offset-s.low), max(s.fell, s.high-offset)
}

const watchEvery = 400 * time.Millisecond

func watchRuns(t testing.TB, processes ...*process) *watch {
	w := &watch{t: t, api: newREST(t, processes...), stopped: make(chan struct{}), seen: make(map[string]run)}
	w.done.Go(func() {
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		for {
			select {
			case <-w.stopped:
				return
			case now := <-ticker.C:
				w.steadiness.look(now)
				w.look()
			}
		}
	})
	t.Cleanup(w.stop)
	return w
}

func (w *watch) stop() {
	w.mu.Lock()
	select {
	case <-w.stopped:
	default:
		close(w.stopped)
	}
	w.mu.Unlock()
	w.done.Wait()
}

// look reads the newest runs. A server that is down is asked next time.
func (w *watch) look() {
	query := url.Values{"from": {time.Now().Add(-2 * runTimeout).UTC().Format(time.RFC3339)}}
	for token := "first"; token != ""; {
		query.Set("page_size", "200")
		status, answer, err := w.api.call(http.MethodGet, "/v1/runs?"+query.Encode(), nil)
		if err != nil {
			w.api.elsewhere()
			return
		}
		if status != http.StatusOK {
			return
		}
		var page struct {
			Runs []run  `json:"runs"`
			Next string `json:"next_page_token"`
		}
		if err := unmarshal(answer, &page); err != nil {
			w.wrong("GET /v1/runs: %v", err)
			return
		}
		for _, r := range page.Runs {
			w.saw(r)
		}
		token = page.Next
		query.Set("page_token", token)
	}
}

func (w *watch) saw(r run) {
	w.mu.Lock()
	before, known := w.seen[r.Key]
	w.seen[r.Key] = r
	w.mu.Unlock()
	if known && !mayFollow(before, r) {
		w.wrong("a run went back: it was %s and is %s", describe(before), describe(r))
	}
}

func (w *watch) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrongs = append(w.wrongs, fmt.Sprintf(format, args...))
}

var rank = map[string]int{"PLANNED": 0, "LAUNCHING": 1, "ENQUEUED": 2, "STARTED": 3, "SUCCESS": 4, "FAILED": 4, "SKIPPED": 4, "CANCELLED": 4}

// mayFollow holds the order of statuses: only forward, and an end is final. A call counts
// as a delivery when it is recorded, and no longer if it was not made.
func mayFollow(before, after run) bool {
	if rank[before.Status] == 4 {
		return before.Status == after.Status && before.Reason == after.Reason && before.CompletedAt.Equal(after.CompletedAt)
	}
	notMade := before.Status == "LAUNCHING" && after.Status == "LAUNCHING" && after.Deliveries == before.Deliveries-1
	return rank[after.Status] >= rank[before.Status] && after.Epoch >= before.Epoch && (after.Deliveries >= before.Deliveries || notMade)
}
