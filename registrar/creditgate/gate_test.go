package creditgate_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/creditgate"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var question = registrar.CreditQuestion{BillingAccountID: "acme", UserID: "u", WorkflowID: "langgraph:poet", Model: "gpt"}

// gateOf is a gate before a billing service that answers so.
func gateOf(t *testing.T, answer http.HandlerFunc) *creditgate.Gate {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	g, err := creditgate.New(creditgate.Options{URL: server.URL + "/credit?site=eu", Token: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func TestTheQuestionIsWhatTheContractSays(t *testing.T) {
	g := gateOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var got map[string]string
		if err := json.Unmarshal(body, &got); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		want := map[string]string{"billing_account_id": "acme", "user_id": "u", "workflow_id": "langgraph:poet", "model": "gpt"}
		for name, value := range want {
			if got[name] != value || len(got) != len(want) {
				t.Errorf("the body is %s, want %v", body, want)
			}
		}
		if r.Method != http.MethodPost || r.URL.RequestURI() != "/credit?site=eu" ||
			r.Header.Get("Authorization") != "Bearer s3cret" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("asked with %s %s, %v", r.Method, r.URL.RequestURI(), r.Header)
		}
		_, _ = io.WriteString(w, `{"payable":true}`)
	})
	if a, err := g.Ask(t.Context(), question); err != nil || !a.Payable {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestAnswers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		status  int
		body    string
		payable bool
		message string
		down    string // part of the error; "" = it is an answer
	}{
		{name: "payable", status: 200, body: `{"payable":true,"free":false,"message":""}`, payable: true},
		{name: "not payable", status: 200, body: `{"payable":false,"message":"balance is 0"}`, message: "balance is 0"},
		{name: "free, whatever the balance", status: 200, body: `{"payable":false,"free":true}`, payable: true},
		{name: "free alone", status: 200, body: `{"free":true}`, payable: true},
		{name: "more than the contract knows", status: 200, body: `{"payable":true,"balance":{"eur":3}}`, payable: true},
		{name: "a message that would steer a terminal", status: 200, body: `{"payable":false,"message":"no\u001b[31m\nmoney"}`, message: "no [31m money"},
		{name: "a message that is a book", status: 200, body: `{"payable":false,"message":"` + strings.Repeat("x", 5000) + `"}`, message: strings.Repeat("x", 100)},
		{name: "neither payable nor free", status: 200, body: `{"message":"?"}`, down: "neither"},
		{name: "payable is null", status: 200, body: `{"payable":null}`, down: "neither"},
		{name: "payable is text", status: 200, body: `{"payable":"yes"}`, down: "contract"},
		{name: "no JSON", status: 200, body: `OK`, down: "contract"},
		{name: "nothing", status: 200, body: ``, down: "contract"},
		{name: "a list", status: 200, body: `[]`, down: "contract"},
		{name: "too much", status: 200, body: `{"payable":true,"x":"` + strings.Repeat("x", 70_000) + `"}`, down: "more than"},
		{name: "a failure", status: 500, body: `{"payable":true}`, down: "500"},
		{name: "a token that is not known", status: 401, body: `{"payable":true}`, down: "401"},
		{name: "no content", status: 204, down: "204"},
		{name: "elsewhere", status: 307, body: `{"payable":true}`, down: "307"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := gateOf(t, func(w http.ResponseWriter, _ *http.Request) {
				if tc.status == 307 {
					w.Header().Set("Location", "/elsewhere")
				}
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			a, err := g.Ask(t.Context(), question)
			if tc.down != "" {
				if err == nil || !strings.Contains(err.Error(), tc.down) {
					t.Errorf("got %+v, %v; want an error that says %q", a, err, tc.down)
				}
				return
			}
			if err != nil || a.Payable != tc.payable || !strings.HasPrefix(a.Message, tc.message) || len(a.Message) > 400 {
				t.Errorf("got %+v, %v; want payable %t and %q", a, err, tc.payable, tc.message)
			}
		})
	}
}

func TestAServiceThatHangsIsDownAfterTwoSeconds(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	g := gateOf(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	began := time.Now()
	_, err := g.Ask(t.Context(), question)
	if took := time.Since(began); err == nil || took > creditgate.Timeout+3*time.Second {
		t.Errorf("got %v after %s", err, took)
	}
}

func TestAServiceThatIsNotThereIsNamedToNobody(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	g, err := creditgate.New(creditgate.Options{URL: strings.Replace(server.URL, "http://", "http://user:pass@", 1) + "/secret-path"})
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	if _, err := g.Ask(t.Context(), question); err == nil || strings.Contains(err.Error(), "secret-path") || strings.Contains(err.Error(), "pass") {
		t.Errorf("got %v, want an error without the URL", err)
	}
}

func TestOnlyAWebAddressIsAGate(t *testing.T) {
	for _, bad := range []string{"", "billing", "ftp://billing", "http://", "://x"} {
		if _, err := creditgate.New(creditgate.Options{URL: bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestAQuestionOfAGrantIsAnsweredByMayGrantOnly(t *testing.T) {
	for _, tc := range []struct {
		name, answer string
		vouches      bool
		broken       bool
	}{
		{name: "yes", answer: `{"may_grant":true}`, vouches: true},
		{name: "no", answer: `{"may_grant":false,"payable":true,"message":"not a member"}`},
		{name: "a service that does not know the question", answer: `{"payable":true,"free":true}`},
		{name: "nothing of the contract", answer: `{"may_grant":"yes"}`, broken: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := gateOf(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if want := `{"billing_account_id":"acme","user_id":"u","workflow_id":"w","model":"","grant":true}`; err != nil || string(body) != want {
					t.Errorf("the body is %s, want %s (%v)", body, want, err)
				}
				_, _ = io.WriteString(w, tc.answer)
			})
			a, err := g.Ask(t.Context(), registrar.CreditQuestion{BillingAccountID: "acme", UserID: "u", WorkflowID: "w", Grant: true})
			if a.MayGrant != tc.vouches || (err != nil) != tc.broken {
				t.Errorf("got %+v, %v", a, err)
			}
		})
	}
}
