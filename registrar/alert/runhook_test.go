package alert_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/registrar/alert"
	"github.com/carillon/carillon/registrar/notify"
)

// hookSite is a Watch over the memory store on a simulated clock, whose targets are receivers of
// outside.
type hookSite struct {
	*testing.T
	*outside
	store *memory.Store
	busy  int // calls at the same time now
	most  int // since the last look
	mu    sync.Mutex
}

func (s *hookSite) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.busy++
	s.most = max(s.most, s.busy)
	s.mu.Unlock()
	resp, err := s.outside.RoundTrip(req)
	s.mu.Lock()
	s.busy--
	s.mu.Unlock()
	return resp, err
}

// atOnce is how many calls were made at the same time since the last look.
func (s *hookSite) atOnce() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.most
	s.most = s.busy
	return most
}

// withHooks runs test with a file of targets.
func withHooks(t *testing.T, file string, test func(*hookSite)) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"targets.yaml": file, "secret": secret} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hooks, err := notify.ReadRunHooks(filepath.Join(folder, "targets.yaml"), safehttp.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := &hookSite{T: t, outside: newOutside(t), store: memory.New(memory.Options{})}
		w := alert.New(alert.Options{
			Expectations: s.store, Outbox: s.store, Routes: routesTo(t), RunHooks: func() *notify.RunHooks { return hooks }, Run: aRun,
			Client: &http.Client{Transport: s}, Now: s.store.Now, Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		})
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(ctx) }()
		defer func() { end(); <-done }()
		test(s)
	})
}

// aRun is a run of history; the one of the key that begins with a zero is not there any more.
func aRun(_ context.Context, key schedule.Key) (json.RawMessage, error) {
	if key[0] == 0 {
		return nil, schedule.ErrNotFound
	}
	return json.RawMessage(fmt.Sprintf(`{"idempotency_key": %q, "error_message": "a < b"}`, key)), nil
}

// ends writes the messages about ends of runs.
func (s *hookSite) ends(target string, keys ...schedule.Key) {
	s.Helper()
	var messages []schedule.AlertDelivery
	for _, key := range keys {
		messages = append(messages, schedule.AlertDelivery{
			DeliveryID: schedule.WebhookID(key), RunKey: key, UserID: "ada", Type: "run.succeeded", Target: schedule.WebhookTarget(target), TargetKind: "webhook", CreatedAt: s.store.Now(),
		})
	}
	if err := s.store.InsertDeliveries(s.Context(), messages); err != nil {
		s.Fatal(err)
	}
}

func (s *hookSite) message(key schedule.Key) schedule.AlertDelivery {
	s.Helper()
	found, err := s.store.WebhookMessages(s.Context(), []schedule.Key{key})
	if err != nil {
		s.Fatal(err)
	}
	return found[key]
}

const hookFile = `
targets:
  - {name: well, url: "https://well.example/hook", secret_file: secret}
  - {name: broken, url: "https://broken.example/hook", secret_file: secret}
  - {name: once, url: "https://refusing.example/hook", secret_file: secret, retries: 0}
  - {name: busy, url: "https://busy.example/hook", secret_file: secret, retries: 1}
  - {name: gone, url: "https://gone.example/hook", secret_file: secret}
  - {name: of-bob, url: "https://moved.example/hook", secret_file: secret, owners: [bob]}
  - {name: silent, url: "https://silent.example/hook", secret_file: secret}
`

func TestAMessageAboutARunIsSentUntilItsRetriesAreUsedUp(t *testing.T) {
	withHooks(t, hookFile, func(s *hookSite) {
		keys := make(map[string]schedule.Key)
		for i, target := range []string{"well", "broken", "once", "busy", "gone", "of-bob", "none"} {
			keys[target] = schedule.Key{byte(i + 1)}
			s.ends(target, keys[target])
		}
		lost := schedule.Key{0, 1}
		s.ends("well", lost)
		time.Sleep(time.Hour)
		for target, want := range map[string]struct {
			attempts int
			state    schedule.DeliveryState
			host     string
			calls    int
			says     string
		}{
			"well":   {1, schedule.DeliveryDelivered, "well", 1, ""},
			"broken": {4, schedule.DeliveryDead, "broken", 4, "answered 500"},
			"once":   {1, schedule.DeliveryDead, "refusing", 1, "connection refused"},
			"busy":   {2, schedule.DeliveryDead, "busy", 2, "answered 429"},
			"gone":   {1, schedule.DeliveryDead, "gone", 1, "410"},
			"of-bob": {1, schedule.DeliveryDead, "moved", 0, `does not let the owner "ada" use the target "of-bob"`},
			"none":   {4, schedule.DeliveryDead, "none", 0, `has no target "none"`},
		} {
			m, calls := s.message(keys[target]), s.of(want.host)
			if int(m.Attempts) != want.attempts || m.State != want.state || len(calls) != want.calls || !strings.Contains(m.LastError, want.says) {
				s.Errorf("%s: %d attempts, %d calls, %s, %q, want %+v", target, m.Attempts, len(calls), m.State, m.LastError, want)
			}
		}
		checkSchedule(t, "broken", s.of("broken"), 0)
		if calls := s.of("busy"); calls[1].at.Sub(calls[0].at) < 30*time.Minute {
			s.Errorf("Retry-After is not waited for: %v", calls)
		}
		if m := s.message(lost); m.State != schedule.DeliveryDead || m.Attempts != 1 || !strings.Contains(m.LastError, "no longer in history") {
			s.Errorf("the message about a run that is not there is %+v", m)
		}
	})
}

func TestATargetThatIsGoneGetsOnlyWhatIsSentByHand(t *testing.T) {
	withHooks(t, hookFile, func(s *hookSite) {
		first, second, third := schedule.Key{1}, schedule.Key{2}, schedule.Key{3}
		s.ends("gone", first)
		time.Sleep(time.Minute)
		s.ends("gone", second)
		time.Sleep(time.Minute)
		if m := s.message(second); m.State != schedule.DeliveryDead || len(s.of("gone")) != 1 {
			s.Errorf("the target was called %d times, the message is %+v", len(s.of("gone")), m)
		}
		s.turnWell("gone")
		if n, err := s.store.RedeliverDead(s.Context(), schedule.DeadRedelivery{Limit: 1, Now: s.store.Now()}); n != 1 || err != nil {
			s.Fatal(n, err)
		}
		time.Sleep(time.Minute)
		s.ends("gone", third)
		time.Sleep(time.Minute)
		if calls := s.of("gone"); len(calls) != 3 || calls[1].id != schedule.WebhookID(first) || calls[2].id != schedule.WebhookID(third) {
			s.Errorf("the target gets the message that was sent by hand, and the next one: %v", calls)
		}
	})
}

func TestATargetThatFailsOftenGetsOneMessageAtATime(t *testing.T) {
	withHooks(t, hookFile, func(s *hookSite) {
		keys := make([]schedule.Key, 40)
		for i := range keys {
			keys[i] = schedule.Key{1, byte(i)}
		}
		s.ends("silent", keys...)
		time.Sleep(10 * time.Second)
		if n := s.atOnce(); n != 8 {
			s.Errorf("%d calls at the same time, want 8", n)
		}
		for len(s.of("silent")) < 28 { // 20 have failed, and those that were under way end
			time.Sleep(time.Second)
		}
		time.Sleep(20 * time.Second)
		s.atOnce()
		time.Sleep(10 * time.Minute)
		if n := s.atOnce(); n != 1 {
			s.Errorf("%d calls at the same time after 20 failures, want 1", n)
		}
		s.turnWell("silent")
		time.Sleep(time.Hour)
		for _, key := range keys {
			if m := s.message(key); m.State == schedule.DeliveryPending {
				s.Fatalf("%s is still pending", m.DeliveryID)
			}
		}
	})
}
