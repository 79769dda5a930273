package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert/expect"
	"github.com/carillon/carillon/registrar/notify"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)

// messages are one alert from its first message to its last, one with everything
// in it that a receiver could take for markup, and a test.
func messages() map[string]notify.Message {
	opened := notify.Message{Type: expect.NoticeOpened, Timestamp: noon, Data: notify.MessageData{
		Text:        "Schedule nightly has not finished its run of 2026-03-08 11:00:00 UTC within 30 minutes (workflow_failed).",
		Environment: "prod", AlertID: "al-0123456789abcdef01234567", ScheduleID: "nightly", WorkflowID: "report", UserID: "ada",
		Labels: map[string]string{"team": "data", "mailto": "ada@example.org"}, Severity: notify.SeverityCritical,
		Kind: schedule.ExpectFinish, LimitMS: 1_800_000, Cause: "workflow_failed", Late: 1, FirstSlot: noon.Add(-time.Hour), LastSlot: noon.Add(-time.Hour),
		Deadline: noon.Add(-30 * time.Minute), OpenedAt: noon, OutputTail: "loading rows\nERROR: disk full\n",
		URL:    "https://carillon.example.org/ui/alerts/al-0123456789abcdef01234567",
		APIURL: "https://carillon.example.org/v1/alerts/al-0123456789abcdef01234567",
	}}
	reminder := opened
	reminder.Type, reminder.Data.Late, reminder.Data.OutputTail = expect.NoticeReminder, 3, ""
	recovered := opened
	recovered.Type, recovered.Data.OutputTail = expect.NoticeRecovered, ""
	recovered.Data.Text, recovered.Data.ClosedAt, recovered.Data.Resolution = "Schedule nightly recovered.", noon.Add(time.Hour), schedule.ResolutionRecovered
	hostile := opened
	hostile.Data.Environment = ""
	hostile.Data.UserID = "<!channel> @everyone [click](https://evil.example) \r\nBcc: eve@evil.example"
	hostile.Data.OutputTail = strings.Repeat("line that is cut off\n", 40) + strings.Repeat("long line é ", 60) + "\n```<!here>\x1b[31mred\x1b[0m\u202e & \"quotes\"\n.\n"
	return map[string]notify.Message{
		"opened": opened, "reminder": reminder, "recovered": recovered, "hostile": hostile,
		"test": {Type: expect.NoticeTest, Timestamp: noon, Data: notify.MessageData{Text: "This is a test of Carillon's alerts. Nothing is wrong.", Environment: "prod"}},
	}
}

// allMessages are those about one alert and those about a group.
func allMessages() map[string]notify.Message {
	all := messages()
	maps.Copy(all, outages())
	return all
}

// receiver records requests and answers as configured.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	answer string
	calls  []string
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{status: http.StatusOK}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, body, "", "  "); err != nil {
		pretty.Reset()
		pretty.Write(body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	said := fmt.Sprintf("%s %s\nContent-Type: %s\n", req.Method, req.URL, req.Header.Get("Content-Type"))
	if auth := req.Header.Get("Authorization"); auth != "" {
		said += "Authorization: " + auth + "\n"
	}
	r.calls = append(r.calls, said+"\n"+pretty.String()+"\n")
	w.WriteHeader(r.status)
	_, _ = io.WriteString(w, strings.ReplaceAll(r.answer, "{path}", req.URL.Path))
}

func (r *receiver) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.calls, "\n")
}

var loopback = func() safehttp.Policy {
	p, err := safehttp.ParsePolicy("loopback")
	if err != nil {
		panic(err)
	}
	return p
}()

// target writes a file with one target and reads it.
func target(t *testing.T, entry string) *notify.Target {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify.yaml")
	if err := os.WriteFile(path, []byte("targets:\n  - {name: it, "+entry+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	routes, err := notify.Read(path, nil, loopback)
	if err != nil {
		t.Fatal(err)
	}
	return routes.Target("it")
}

// secretFile is a reference to a file that holds a secret.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "{file: '" + path + "'}"
}

func send(t *testing.T, to *notify.Target, m notify.Message) notify.Result {
	t.Helper()
	payload, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	client := loopback.NewClient(safehttp.Options{})
	defer client.CloseIdleConnections()
	return to.Send(context.Background(), notify.Outgoing{ID: "msg_0123456789", Payload: string(payload), Now: noon, Client: client})
}

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s (-update writes it): %v\n got:\n%s\nwant:\n%s", path, err, got, want)
	}
}

func TestEachFormatIsAsItsReceiverDocumentsIt(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct{ name, entry string }{
		{"slack", "kind: slack, url: HOOK"},
		{"teams", "kind: teams, url: HOOK"},
		{"pagerduty", "kind: pagerduty, url: SERVER/enqueue, routing_key: KEY"},
		{"ntfy", "kind: ntfy, url: SERVER/our-alerts, token: KEY"},
	} {
		for name, m := range allMessages() {
			t.Run(kind.name+" "+name, func(t *testing.T) {
				t.Parallel()
				r := newReceiver(t)
				fill := strings.NewReplacer("HOOK", secretFile(t, r.URL+"/services/T0/B0"), "SERVER", r.URL, "KEY", secretFile(t, "R0UT1NGKEY"))
				to := target(t, fill.Replace(kind.entry))
				if got := send(t, to, m); got != (notify.Result{Status: 200}) {
					t.Errorf("sent with %+v", got)
				}
				golden(t, kind.name+"_"+name+".txt", r.said())
			})
		}
	}
}

func TestTheAnswerDecidesTheResult(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status int
		answer string
		want   notify.Result
	}{
		{name: "accepted for later", status: 202, want: notify.Result{Status: 202}},
		{name: "an unreadable document is final", status: 400, answer: "invalid_payload", want: notify.Result{Status: 400, Final: true, Problem: "the target answered 400: invalid_payload"}},
		{name: "a hook that is not there may be made", status: 404, answer: "no_service", want: notify.Result{Status: 404, Problem: "the target answered 404: no_service"}},
		{name: "an answer that repeats the address does not tell it", status: 500, answer: "Cannot POST {path}", want: notify.Result{Status: 500, Problem: "the target answered 500: Cannot POST …"}},
		{name: "a hook that is gone", status: 410, want: notify.Result{Status: 410, Gone: true, Final: true, Problem: "the target answered 410 (gone)"}},
		{name: "a redirect is not followed", status: 302, want: notify.Result{Status: 302, Problem: "the target answered 302, and redirects are not followed: set the final address"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			r.status, r.answer = tt.status, tt.answer
			if got := send(t, target(t, "kind: slack, url: "+secretFile(t, r.URL+"/services/T0/B0/XYZ")), messages()["opened"]); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestATargetWithinThePrivateNetworkIsRefusedAlsoAfterItsSecretChanged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "url")
	write := func(url string) {
		if err := os.WriteFile(path, []byte(url), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("http://127.0.0.1:1/hook")
	to := target(t, "kind: slack, url: {file: "+path+"}")
	write("http://169.254.169.254/latest/meta-data")
	if got := send(t, to, messages()["opened"]); !strings.Contains(got.Problem, "not allowed") || strings.Contains(got.Problem, "meta-data") {
		t.Errorf("%+v", got)
	}
}
