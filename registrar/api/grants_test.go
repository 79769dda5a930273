package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

const newGrant = `"billing_account_id":"acme","scopes":["graph:execute:w"]`

func TestAGrantLivesOverREST(t *testing.T) {
	r := newRig(t)
	created := r.must("POST", "/v1/grants", `{"grant_id":"g1","user_id":"u",`+newGrant+`,"expires_at":"2090-01-01T00:00:00Z"}`)
	for name, want := range map[string]string{
		"grant_id": "g1", "user_id": "u", "billing_account_id": "acme", "scopes": `["graph:execute:w"]`, "state": "active",
		"expires_at": "2090-01-01T00:00:00Z", "revoked_at": "null",
	} {
		if got := member(t, created, "grant", name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if again := r.must("POST", "/v1/grants", `{"grant_id":"g1","user_id":"u",`+newGrant+`,"expires_at":"2090-01-01T00:00:00Z"}`); again != created {
		t.Errorf("the same again answers %s, before %s", again, created)
	}
	if got := r.must("GET", "/v1/grants/g1", ""); got != created {
		t.Errorf("get answers %s, create answered %s", got, created)
	}
	r.must("PUT", "/v1/schedules/s1", upsert("schedule_id", `"s1"`, "execution_grant_id", `"g1"`))
	revoked := r.must("POST", "/v1/grants/g1:revoke", `{"note":"she left"}`)
	if member(t, revoked, "grant", "state") != "revoked" || member(t, revoked, "grant", "revoke_note") != "she left" {
		t.Errorf("revoke answers %s", revoked)
	}
	if again := r.must("POST", "/v1/grants/g1:revoke", `{}`); again != revoked {
		t.Errorf("revoked again: %s, before %s", again, revoked)
	}
	if got := r.must("GET", "/v1/schedules/s1", ""); member(t, got, "schedule", "paused") != "false" {
		t.Errorf("the schedule did not live on: %s", got)
	}
}

func TestGrantsAreListedPageByPage(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		r.must("POST", "/v1/grants", fmt.Sprintf(`{"grant_id":"g%d","user_id":"u%d",%s}`, i, i%2, newGrant))
	}
	r.must("POST", "/v1/grants/g2:revoke", `{}`)
	seen, token := "", ""
	for range 5 {
		page := r.must("GET", "/v1/grants?user_id=u0&page_size=1&page_token="+token, "")
		seen += strings.Join(ids(page), "")
		if token = member(t, page, "next_page_token"); token == "" {
			break
		}
	}
	if seen != "g0g2g4" {
		t.Errorf("the pages show %s, want g0 g2 g4", seen)
	}
	if got := ids(r.must("GET", "/v1/grants?state=active&billing_account_id=acme", "")); fmt.Sprint(got) != "[g0 g1 g3 g4]" {
		t.Errorf("active are %v", got)
	}
	if code, text := r.rest("GET", "/v1/grants?page_token=c2E", ""); code != http.StatusBadRequest {
		t.Errorf("the token of another list: %d %s", code, text)
	}
}

// ids are the grant_ids in an answer, in their order.
func ids(text string) (all []string) {
	for _, part := range strings.Split(text, `"grant_id":"`)[1:] {
		id, _, _ := strings.Cut(part, `"`)
		all = append(all, id)
	}
	return all
}

func TestAGrantIsRefusedOverRESTAndGRPCAlike(t *testing.T) {
	r := newRig(t)
	r.must("POST", "/v1/grants", `{"grant_id":"g1","user_id":"u",`+newGrant+`}`)
	r.must("POST", "/v1/grants", `{"request_id":"r1","user_id":"u",`+newGrant+`}`)
	for _, tc := range []struct {
		name  string
		body  string
		code  codes.Code
		http  int
		field string
	}{
		{"without anything", `{}`, codes.InvalidArgument, 400, "billing_account_id"},
		{"without an owner", `{` + newGrant + `}`, codes.InvalidArgument, 400, "user_id"},
		{"a scope of another kind", `{"user_id":"u","billing_account_id":"acme","scopes":["graph:execute:w","x"]}`, codes.InvalidArgument, 400, "scopes[1]"},
		{"everything without consent", `{"user_id":"u","billing_account_id":"acme","scopes":["graph:execute:*"]}`, codes.InvalidArgument, 400, "scopes"},
		{"an end that has come", `{"user_id":"u",` + newGrant + `,"expires_at":"2000-01-01T00:00:00Z"}`, codes.InvalidArgument, 400, "expires_at"},
		{"an id that is taken by other terms", `{"grant_id":"g1","user_id":"u","billing_account_id":"other","scopes":["graph:execute:w"]}`, codes.AlreadyExists, 409, ""},
		{"a request_id that was used for other terms", `{"request_id":"r1","user_id":"u","billing_account_id":"other","scopes":["graph:execute:w"]}`, codes.AlreadyExists, 422, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, text := r.rest("POST", "/v1/grants", tc.body)
			if code != tc.http || tc.field != "" && readRefusal(t, text).violations()[0].Field != tc.field {
				t.Errorf("REST: %d %s, want %d and %s", code, text, tc.http, tc.field)
			}
			if _, st, _ := grpcCall(t, r.conn, "GrantService/CreateGrant", tc.body); st.Code() != tc.code {
				t.Errorf("gRPC: %v, want %s", st, tc.code)
			}
		})
	}
	for _, call := range []string{"GET /v1/grants/nowhere", "POST /v1/grants/nowhere:revoke"} {
		method, path, _ := strings.Cut(call, " ")
		if code, text := r.rest(method, path, "{}"); code != http.StatusNotFound {
			t.Errorf("%s: %d %s, want 404", call, code, text)
		}
	}
}

func TestTwoOwnersUseTheSameGrantID(t *testing.T) {
	r := newRig(t)
	for _, user := range []string{"u", "v"} {
		r.must("POST", "/v1/grants", `{"grant_id":"g","user_id":"`+user+`",`+newGrant+`}`)
	}
	for _, tc := range []struct{ rest, method, body string }{
		{"GET /v1/grants/g", "GrantService/GetGrant", `{"grant_id":"g"}`},
		{"POST /v1/grants/g:revoke", "GrantService/RevokeGrant", `{"grant_id":"g"}`},
	} {
		method, path, _ := strings.Cut(tc.rest, " ")
		code, text := r.rest(method, path, `{}`)
		if code != http.StatusBadRequest || readRefusal(t, text).violations()[0].Field != "user_id" {
			t.Errorf("%s without an owner: %d %s, want 400 on user_id", tc.rest, code, text)
		}
		if _, st, _ := grpcCall(t, r.conn, tc.method, tc.body); st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), "user_id") {
			t.Errorf("%s without an owner: %v, want INVALID_ARGUMENT on user_id", tc.method, st)
		}
	}
	r.must("POST", "/v1/grants/g:revoke", `{"user_id":"v"}`)
	for user, state := range map[string]string{"u": "active", "v": "revoked"} {
		got := r.must("GET", "/v1/grants/g?user_id="+user, "")
		if member(t, got, "grant", "user_id") != user || member(t, got, "grant", "state") != state {
			t.Errorf("the grant of %s is %s, want it %s", user, got, state)
		}
	}
	seen, token := "", ""
	for range 3 {
		page := r.must("GET", "/v1/grants?page_size=1&page_token="+token, "")
		seen += strings.Join(ids(page), "")
		if token = member(t, page, "next_page_token"); token == "" {
			break
		}
	}
	if seen != "gg" {
		t.Errorf("pages of one show %q, want both grants", seen)
	}
	r.must("PUT", "/v1/schedules/s1", upsert("schedule_id", `"s1"`, "execution_grant_id", `"g"`))
	code, text := r.rest("PUT", "/v1/schedules/s2", upsert("schedule_id", `"s2"`, "user_id", `"v"`, "execution_grant_id", `"g"`))
	if code != http.StatusBadRequest || !strings.Contains(text, "grant_revoked") {
		t.Errorf("a schedule of the owner whose grant was revoked: %d %s", code, text)
	}
}

func TestAScheduleBringsItsGrantAlong(t *testing.T) {
	r := newRig(t)
	body := upsert("grant", `{`+newGrant+`}`)
	r.must("PUT", "/v1/schedules/s1", body)
	id := member(t, r.must("GET", "/v1/schedules/s1", ""), "schedule", "execution_grant_id")
	if got := member(t, r.must("GET", "/v1/grants/"+id, ""), "grant", "billing_account_id"); got != "acme" {
		t.Errorf("the grant of the schedule has account %s", got)
	}
	r.must("POST", "/schedules/upsert", body)
	if n := len(ids(r.must("GET", "/v1/grants", ""))); n != 1 {
		t.Errorf("the same upsert again left %d grants", n)
	}
	code, text := r.rest("PUT", "/v1/schedules/s2", strings.Replace(upsert("schedule_id", `"s2"`, "cron_expr", `"x"`, "grant", `{`+newGrant+`}`), "acme", "other", 1))
	if code != http.StatusBadRequest || len(ids(r.must("GET", "/v1/grants", ""))) != 1 {
		t.Errorf("a schedule that is refused leaves its grant: %d %s", code, text)
	}
	dag := `{"dag":{"triggers":[{"type":"schedule_based","name":"t","cron_expr":"@daily","grant":{` + newGrant + `}},` +
		`{"type":"schedule_based","cron_expr":"@daily","grant":{"billing_account_id":"acme","scopes":["x"]}}]},"version":1,"user_id":"u"}`
	code, text = r.rest("POST", "/v1/workflows/w:deploy", dag)
	if code != http.StatusBadRequest || readRefusal(t, text).violations()[0].Field != "dag.triggers[1].grant.scopes[0]" {
		t.Errorf("a deployment with a wrong grant: %d %s", code, text)
	}
	r.must("POST", "/v1/workflows/w:deploy", strings.Replace(dag, `["x"]`, `["graph:execute:w"]`, 1))
	if n := len(ids(r.must("GET", "/v1/grants", ""))); n != 3 {
		t.Errorf("%d grants after a deployment of two schedules with theirs", n)
	}
}
