package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services"
)

var takeoverKills = flag.Int("takeover.kills", 3, "kills of TestKilledProcessDelaysNoSlotByItsLease")

// The promise for the slots around a kill. It holds for a distribution: a few kills on a
// busy machine prove nothing.
const (
	enoughKills = 50
	mostLate    = time.Second
)

// arrivals is an executor that notes when each slot reached it first.
type arrivals struct {
	mu    sync.Mutex
	first map[string]arrival // by key
}

type arrival struct{ slot, at time.Time }

func (a *arrivals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	text, err := io.ReadAll(r.Body)
	var body struct {
		Key          string    `json:"idempotency_key"`
		ScheduledFor time.Time `json:"scheduled_for"`
	}
	if err != nil || json.Unmarshal(text, &body) != nil {
		return // the caller died while it sent
	}
	a.mu.Lock()
	if _, known := a.first[body.Key]; !known {
		a.first[body.Key] = arrival{body.ScheduledFor, at}
	}
	a.mu.Unlock()
	time.Sleep(20 * time.Millisecond) // so that kills meet open calls
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"status": "SUCCESS"}`)
}

// worst returns the greatest lateness of slots from since until until, and how many
// there were.
func (a *arrivals) worst(since, until time.Time) (late time.Duration, slots int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.first {
		if !x.slot.Before(since) && x.slot.Before(until) {
			late = max(late, x.at.Sub(x.slot))
			slots++
		}
	}
	return late, slots
}

// TestKilledProcessDelaysNoSlotByItsLease kills the leading process of two with all
// roles, and measures from outside how late any slot is. A key's lease lasts three
// seconds: slots that are later than that waited for it.
func TestKilledProcessDelaysNoSlotByItsLease(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	const schedules = 40
	a := &arrivals{first: make(map[string]arrival)}
	executor := httptest.NewServer(a)
	t.Cleanup(executor.Close)
	env := append(settings(services.Postgres(t, nil), time.Minute), "TICK_MS=1000", "LOOKAHEAD_MS=30000", "LOG_LEVEL=info",
		"EXECUTOR=http", "EXECUTOR_URL="+executor.URL+"/run/{workflow_id}")
	s := &site{t: t, journal: newJournal()}
	for i := range 2 {
		s.processes = append(s.processes, newProcess(t, fmt.Sprintf("carillon %d", i+1), []string{"serve", "--migrate"}, env))
		s.processes[i].startReady()
	}
	s.api = newREST(t, s.processes...)
	deployOracle(s.api)
	for i := range schedules {
		s.journal.register(s.api, definition{
			ScheduleID: fmt.Sprint("every-second-", i), WorkflowID: "oracle", Version: 1, UserID: "u", CronExpr: "* * * * * *",
			OverlapPolicy: []string{"allow", "skip"}[i%2],
		})
	}
	var worst []time.Duration
	for n := range *takeoverKills {
		time.Sleep(3 * time.Second)
		victim := s.leader()
		if victim == nil {
			t.Fatal("no process leads")
		}
		since := time.Now().Truncate(time.Second).Add(time.Second)
		part := time.Second * time.Duration(n) / time.Duration(*takeoverKills) // each kill at another part of the second
		time.Sleep(time.Until(since.Add(part)))
		victim.kill()
		at := time.Now()
		time.Sleep(5 * time.Second)
		late, slots := a.worst(since, since.Add(5*time.Second))
		t.Logf("kill %d at +%s of its second: %d slots, the worst %s late", n, at.Sub(since), slots, late)
		if slots < 5*schedules/2 {
			t.Errorf("%d slots in five seconds", slots)
		}
		if late > 2500*time.Millisecond {
			t.Errorf("a slot was %s late: it waited for the lease of the process that was killed", late)
		}
		worst = append(worst, late)
		victim.startReady()
	}
	slices.Sort(worst)
	p99 := worst[len(worst)-1-len(worst)/100]
	t.Logf("worst lateness of any slot over %d kills: p50 %s, p99 %s", len(worst), worst[len(worst)/2], p99)
	if len(worst) >= enoughKills && p99 > mostLate {
		t.Errorf("after kills slots were %s late, want at most %s", p99, mostLate)
	}
}
