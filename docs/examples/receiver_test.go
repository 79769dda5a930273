package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/registrar/alert"
	"github.com/carillon/carillon/registrar/notify"
)

// The key of these tests, and how ALERT_WEBHOOK_SECRET has it.
const key = "0123456789abcdef0123456789abcdef"

var whsec = "whsec_" + base64.StdEncoding.EncodeToString([]byte(key))

// startReceiver builds the example and runs it, and returns its URL and what it
// says line by line.
func startReceiver(t *testing.T) (string, <-chan string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "receiver")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./receiver").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), binary, "127.0.0.1:0")
	cmd.Env = []string{"ALERT_WEBHOOK_SECRET=" + whsec}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, read := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(said); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	_, url, found := strings.Cut(next(t, lines), "waits for webhooks on ")
	if !found {
		t.Fatal("it does not say where it waits")
	}
	return url, lines
}

func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line := <-lines:
		return line
	case <-time.After(30 * time.Second):
		t.Fatal("the receiver says nothing more")
		return ""
	}
}

// TestTheReceiverTakesWhatARegistrarSends runs the example with the real sender and a
// store.
func TestTheReceiverTakesWhatARegistrarSends(t *testing.T) {
	url, lines := startReceiver(t)
	policy, err := safehttp.ParsePolicy("loopback")
	if err != nil {
		t.Fatal(err)
	}
	old := "whsec_" + base64.StdEncoding.EncodeToString([]byte("the secret of last year, or longer"))
	targets, err := notify.ParseTargets(url, old+" "+whsec, policy) // while one secret follows another
	if err != nil {
		t.Fatal(err)
	}
	routes, err := notify.Read("", targets, policy)
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{})
	client := policy.NewClient(safehttp.Options{})
	w := alert.New(alert.Options{
		Expectations: store, Outbox: store, Routes: func() *notify.Routes { return routes }, Client: client, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	t.Cleanup(func() { end(); <-done; client.CloseIdleConnections() })
	if _, err := alert.NewDesk(store, w).Test(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if line := next(t, lines); !strings.Contains(line, "alert.test") || !strings.Contains(line, "This is a test of Carillon's alerts") {
		t.Errorf("it said %q", line)
	}
	const ended = `{"type": "run.failed", "data": {"run": {"idempotency_key": "5f0c", "status": "FAILED", "schedule_id": "print", "error_message": "no paper"}}}`
	postBody(t, url, "run_5f0c", ended, time.Now(), func(*http.Request) {})
	if line := next(t, lines); !strings.Contains(line, "run.failed 5f0c of schedule print is FAILED no paper") {
		t.Errorf("it said %q about a run", line)
	}
	const over = `{"type": "group.ended", "data": {"group": {"group_id": "night-1", "state": "PARTIAL"}}}`
	postBody(t, url, "group_1", over, time.Now(), func(*http.Request) {})
	if line := next(t, lines); !strings.Contains(line, "group.ended night-1 is PARTIAL") {
		t.Errorf("it said %q about a group", line)
	}
}

// post sends a message that is signed as the words of standardwebhooks.com have
// it, with what edit makes of it.
func post(t *testing.T, url string, at time.Time, edit func(*http.Request)) (int, string) {
	t.Helper()
	return postBody(t, url, "msg_1", `{"type": "alert.opened", "data": {"text": "Schedule s is late.", "alert_id": "al-1"}}`, at, edit)
}

func postBody(t *testing.T, url, id, body string, at time.Time, edit func(*http.Request)) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	unix := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, unix, body)
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", unix)
	req.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	edit(req)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestTheReceiverRefusesWhatIsForgedOldOrTooMuch(t *testing.T) {
	url, lines := startReceiver(t)
	now := time.Now()
	asIs := func(*http.Request) {}
	body := func(text string) func(*http.Request) {
		return func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
		}
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, tt := range []struct {
		name string
		at   time.Time
		edit func(*http.Request)
		code int
		says string
	}{
		{name: "a good message", at: now, edit: asIs, code: 204},
		{name: "the same again is a receipt, and told once", at: now, edit: asIs, code: 204},
		{name: "another body under the signature", at: now, edit: body(`{"type": "alert.recovered"}`), code: 401, says: "no webhook-signature is ours"},
		{name: "another id", at: now, edit: header("webhook-id", "msg_2"), code: 401, says: "no webhook-signature is ours"},
		{name: "a time other than the signed one", at: now, edit: header("webhook-timestamp", strconv.FormatInt(now.Unix()+1, 10)), code: 401, says: "no webhook-signature is ours"},
		{name: "no signature", at: now, edit: header("webhook-signature", ""), code: 401, says: "no webhook-signature is ours"},
		{name: "a signature of a version that we do not know", at: now, edit: func(r *http.Request) {
			r.Header.Set("webhook-signature", strings.Replace(r.Header.Get("webhook-signature"), "v1,", "v2,", 1))
		}, code: 401, says: "no webhook-signature is ours"},
		{name: "one of two signatures is ours", at: now, edit: func(r *http.Request) {
			r.Header.Set("webhook-signature", "v1,AAAA "+r.Header.Get("webhook-signature"))
		}, code: 204},
		{name: "a message of four minutes ago", at: now.Add(-4 * time.Minute), edit: asIs, code: 204},
		{name: "a message of six minutes ago, caught and sent again", at: now.Add(-6 * time.Minute), edit: asIs, code: 401, says: "more than 5m0s"},
		{name: "a message of the time to come", at: now.Add(6 * time.Minute), edit: asIs, code: 401, says: "more than 5m0s"},
		{name: "no time", at: now, edit: header("webhook-timestamp", "today"), code: 401, says: "is missing"},
		{name: "too much", at: now, edit: body(string(bytes.Repeat([]byte("x"), 64<<10+1))), code: 400, says: "too much"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if code, text := post(t, url, tt.at, tt.edit); code != tt.code || !strings.Contains(text, tt.says) {
				t.Errorf("answered %d %q, want %d with %q", code, text, tt.code, tt.says)
			}
		})
	}
	told := 0
	for line := ""; !strings.Contains(line, "refused: webhook-id or webhook-timestamp is missing"); { // the last that it says
		if line = next(t, lines); strings.Contains(line, "alert.opened al-1 Schedule s is late.") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the message was told %d times, want once", told)
	}
}
