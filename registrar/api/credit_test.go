package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/creditgate"
)

// before is an edit of a rig that puts a credit gate at url before it.
func before(t *testing.T, url string, open bool) func(*registrar.Options) {
	gate, err := creditgate.New(creditgate.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Close)
	return func(o *registrar.Options) { o.Credit, o.Config.CreditDownOpen = gate, open }
}

func TestWhoCannotPayIsAnswered402(t *testing.T) {
	var asked []string
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Account string `json:"billing_account_id"`
			Model   string `json:"model"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		asked = append(asked, q.Account+" "+q.Model)
		_, _ = fmt.Fprintf(w, `{"payable":%t,"free":%t,"message":"balance is 0"}`, q.Account == "rich", q.Model == "free")
	}))
	t.Cleanup(bank.Close)
	r := newRig(t, before(t, bank.URL, false))
	body := func(account, model string) string {
		return upsert("input", `{"model":"`+model+`"}`, "grant", strings.Replace(`{`+newGrant+`}`, "acme", account, 1))
	}
	code, text := r.rest("PUT", "/v1/schedules/s1", body("acme", "gpt"))
	answer := readRefusal(t, text)
	if code != http.StatusPaymentRequired || answer.Code != int(codes.FailedPrecondition) || answer.Details[0].Reason != "UNPAYABLE" ||
		!strings.Contains(answer.Message, "balance is 0") || !strings.Contains(answer.Message, "acme") {
		t.Errorf("REST: %d %s", code, text)
	}
	if _, st, _ := grpcCall(t, r.conn, "ScheduleService/UpsertSchedule", body("acme", "gpt")); st.Code() != codes.FailedPrecondition {
		t.Errorf("gRPC: %v", st)
	}
	if code, text := r.rest("GET", "/v1/schedules/s1", ""); code != http.StatusNotFound || len(ids(r.must("GET", "/v1/grants", ""))) != 0 {
		t.Errorf("something of it was stored: %d %s", code, text)
	}
	r.must("PUT", "/v1/schedules/s1", body("acme", "free"))
	r.must("POST", "/schedules/upsert", body("rich", "gpt"))
	r.must("PUT", "/v1/schedules/s1", upsert())
	if want := "[acme gpt acme gpt acme free rich gpt]"; fmt.Sprint(asked) != want {
		t.Errorf("the billing service was asked %v, want %s", asked, want)
	}
}

func TestAGateThatIsDownIsAnswered503OrLetThrough(t *testing.T) {
	bank := httptest.NewServer(http.NotFoundHandler())
	bank.Close()
	body := upsert("input", `{"model":"gpt"}`)
	closed := newRig(t, before(t, bank.URL, false))
	code, text := closed.rest("PUT", "/v1/schedules/s1", body)
	if code != http.StatusServiceUnavailable || !strings.Contains(text, "try again") || strings.Contains(text, bank.URL) {
		t.Errorf("closed: %d %s, want 503 without an address", code, text)
	}
	newRig(t, before(t, bank.URL, true)).must("PUT", "/v1/schedules/s1", body)
}
