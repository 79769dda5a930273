package alert_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/registrar/alert"
	"github.com/carillon/carillon/registrar/notify"
)

const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// signed is the signature of a message by the words of standardwebhooks.com.
func signed(id, at string, body []byte) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(fmt.Appendf(nil, "%s.%s.%s", id, at, body))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// receiver verifies messages as standardwebhooks.com specifies, and answers with the given
// statuses, then 204.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	statuses []int
	ids      []string
	bad      []string
	arrived  chan struct{}
}

func newReceiver(t *testing.T, statuses ...int) *receiver {
	r := &receiver{statuses: statuses, arrived: make(chan struct{}, 100)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	id, at := req.Header.Get("webhook-id"), req.Header.Get("webhook-timestamp")
	r.mu.Lock()
	defer r.mu.Unlock()
	if want := signed(id, at, body); err != nil || req.Header.Get("webhook-signature") != want {
		r.bad = append(r.bad, req.Header.Get("webhook-signature"))
	}
	r.ids = append(r.ids, id)
	status := http.StatusNoContent
	if len(r.statuses) > 0 {
		status, r.statuses = r.statuses[0], r.statuses[1:]
	}
	if status >= 300 && status < 400 {
		w.Header().Set("Location", r.URL+"/elsewhere")
	}
	w.WriteHeader(status)
	r.arrived <- struct{}{}
}

func start(t *testing.T, store *memory.Store, r *receiver) *alert.Desk {
	t.Helper()
	policy, err := safehttp.ParsePolicy("loopback")
	if err != nil {
		t.Fatal(err)
	}
	routes := routesTo(t, r.URL+"/hook?token=hidden")
	w := alert.New(alert.Options{
		Expectations: store, Outbox: store, Routes: routes, Client: policy.NewClient(safehttp.Options{}), Now: store.Now,
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	t.Cleanup(func() { end(); <-done })
	return alert.NewDesk(store, w)
}

// settled waits until the newest message is no longer as it was.
func settled(t *testing.T, desk *alert.Desk, done func(schedule.AlertDelivery) bool) schedule.AlertDelivery {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-ticker.C {
		found, err := desk.Deliveries(t.Context(), schedule.DeliveryFilter{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 && done(found[0]) {
			return found[0]
		}
	}
	t.Fatal("nothing became of the message")
	return schedule.AlertDelivery{}
}

func TestTheAnswerDecidesAboutAMessage(t *testing.T) {
	for _, c := range []struct {
		name    string
		answer  int
		state   schedule.DeliveryState
		problem string
	}{
		{name: "accepted", answer: 200, state: schedule.DeliveryDelivered},
		{name: "a server in trouble is tried again", answer: 503, state: schedule.DeliveryPending, problem: "answered 503"},
		{name: "a redirect is not followed", answer: 307, state: schedule.DeliveryPending, problem: "redirects are not followed"},
		{name: "a target that is gone is left alone", answer: 410, state: schedule.DeliveryDead, problem: "gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, c.answer)
			desk := start(t, memory.New(memory.Options{}), r)
			if _, err := desk.Test(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			d := settled(t, desk, func(d schedule.AlertDelivery) bool { return d.LastStatus != 0 })
			if d.State != c.state || int(d.LastStatus) != c.answer || !strings.Contains(d.LastError, c.problem) || strings.Contains(d.LastError+d.Host, "hidden") {
				t.Errorf("it is kept as %+v", d)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.bad) > 0 || len(r.ids) != 1 || r.ids[0] != d.DeliveryID {
				t.Errorf("arrived %v, with wrong signatures %v", r.ids, r.bad)
			}
		})
	}
}

func TestAMessageByHandOpensATargetThatWasGone(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, 410)
	desk := start(t, memory.New(memory.Options{}), r)
	if _, err := desk.Test(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	dead := settled(t, desk, func(d schedule.AlertDelivery) bool { return d.State == schedule.DeliveryDead })
	if !dead.Disabled {
		t.Errorf("the target is not disabled: %+v", dead)
	}
	if _, err := desk.Redeliver(t.Context(), dead.DeliveryID); err != nil {
		t.Fatal(err)
	}
	again := settled(t, desk, func(d schedule.AlertDelivery) bool { return d.State == schedule.DeliveryDelivered })
	if again.Disabled || again.DeliveryID != dead.DeliveryID {
		t.Errorf("sent again it is %+v", again)
	}
}

func TestTargetsAreRefusedWithoutTellingTheirSecrets(t *testing.T) {
	t.Parallel()
	policy, err := safehttp.ParsePolicy("")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, urls, secrets, want string }{
		{"no secret", "https://example.org/hidden", "", "ALERT_WEBHOOK_SECRET: is required"},
		{"a secret that is none", "https://example.org/hidden", "hidden", "number 1 is not whsec_"},
		{"a short secret", "https://example.org/hidden", "whsec_aGlkZGVu", "number 1 is not whsec_"},
		{"more secrets than URLs", "https://example.org/hidden", secret + "," + secret, "2 secrets for 1 URLs"},
		{"an address inside", "http://127.0.0.1/hidden", secret, "refused"},
		{"another scheme", "ftp://example.org/hidden", secret, "refused"},
		{"twice the same", "https://example.org/hidden,https://example.org/hidden", secret, "twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := notify.ParseTargets(c.urls, c.secrets, policy)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "aGlkZGVu") {
				t.Errorf("refused as %v, want %q in it and no secret", err, c.want)
			}
		})
	}
}
