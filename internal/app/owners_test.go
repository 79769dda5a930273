package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/carillon/carillon/internal/auth/authtest"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// ownerIDs are typical values of sub.
var ownerIDs = []string{"auth0|5f7c8ec7", "ada@example.com", "https://id.example/users/7", "team:ada", "Zoë Ångström 李", `a"b'<c>&d`}

func TestOwnerIDsOfIdentityProvidersWork(t *testing.T) {
	t.Parallel()
	pair := authtest.NewEd25519("ed")
	keys := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(keys, authtest.Text(authtest.KeySet(pair)), 0o600); err != nil {
		t.Fatal(err)
	}
	token := func(owner string) string {
		return pair.Token(pair.Header(), authtest.With(authtest.Claims(time.Now()), "sub", owner, "billing_accounts", []string{"acme"}))
	}
	for _, store := range databases {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, map[string]any{
				"auth_jwt_keys_file": keys, "auth_jwt_issuer": authtest.Issuer, "auth_jwt_audience": authtest.Audience, "database_url": store.url(t),
			})
			for i, owner := range ownerIDs {
				t.Run(owner, func(t *testing.T) { ownerWorks(t, g, owner, token(owner), i > 0) })
			}
			// The list of all shows each owner's schedule with its owner as it is.
			var all struct {
				Schedules []struct {
					UserID string `json:"user_id"`
				}
			}
			_, answer := g.send("viewer", http.MethodGet, "/v1/schedules", "")
			if err := json.Unmarshal([]byte(answer), &all); err != nil || len(all.Schedules) != len(ownerIDs) {
				t.Errorf("%d schedules, %v: %s", len(all.Schedules), err, answer)
			}
		})
	}
}

// ownerWorks makes the calls of an owner over both protocols and the console, and those of an operator
// who names the owner. taken: another owner has the short id.
func ownerWorks(t *testing.T, g *guarded, owner, token string, taken bool) {
	quoted, _ := json.Marshal(owner)
	must := func(as, method, path, body, says string) string {
		t.Helper()
		code, answer := g.send(as, method, path, body)
		if code != http.StatusOK || !strings.Contains(answer, says) {
			t.Fatalf("%s %s: %d %s, want 200 with %s", method, path, code, answer, says)
		}
		return answer
	}
	must(token, "PUT", "/v1/schedules/nightly", `{"workflow_id":"w","version":1,"cron_expr":"0 3 * * *"}`, "schedule_id")
	own := `"user_id":` + jsonOf(owner)
	var stored struct {
		Schedule struct {
			ID     string `json:"schedule_id"`
			UserID string `json:"user_id"`
		}
	}
	if err := json.Unmarshal([]byte(must(token, "GET", "/v1/schedules/nightly", "", own)), &stored); err != nil || stored.Schedule.UserID != owner {
		t.Errorf("the schedule belongs to %q, %v", stored.Schedule.UserID, err)
	}
	if (stored.Schedule.ID != "nightly") != taken {
		t.Errorf("stored as %s", stored.Schedule.ID)
	}
	must(token, "GET", "/v1/schedules/"+stored.Schedule.ID, "", own)
	must(token, "POST", "/v1/schedules/nightly:pause", "{}", own)
	must(token, "POST", "/v1/schedules/nightly:resume", "{}", own)
	must(token, "POST", "/v1/schedules/nightly:trigger", "{}", own)
	must(token, "GET", "/v1/runs?schedule_id=nightly", "", own)
	must(token, "GET", "/v1/schedules/nightly/events", "", `"actor":`+jsonOf(owner))
	must(token, "GET", "/v1/schedules/nightly:explain", "", "verdict")
	must("operator", "POST", "/v1/workflows/w:share", `{"user_id":`+string(quoted)+`}`, own)
	must(token, "POST", "/v1/grants", `{"grant_id":"g","billing_account_id":"acme","scopes":["graph:execute:w"]}`, own)
	must("viewer", "GET", "/v1/schedules?user_id="+url.QueryEscape(owner), "", own)
	must("viewer", "GET", "/v1/runs?user_id="+url.QueryEscape(owner), "", own)
	must("operator", "GET", "/v1/audit?subject="+url.QueryEscape(owner), "", own)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	got, err := carillonv1.NewScheduleServiceClient(g.conn).ListSchedules(ctx, &carillonv1.ListSchedulesRequest{UserId: owner})
	if err != nil || len(got.GetSchedules()) != 1 || got.GetSchedules()[0].GetUserId() != owner {
		t.Errorf("over gRPC: %v, %v", got, err)
	}
	if code, page := g.send(token, "GET", "/ui/schedules/"+stored.Schedule.ID, ""); code != http.StatusOK {
		t.Errorf("the console: %d %.300s", code, page)
	}
}

// jsonOf is a string in the JSON of REST.
func jsonOf(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	return strings.TrimSpace(b.String())
}

func TestTheAnswerNamesTheInvalidClaimAndTheLogItsValue(t *testing.T) {
	t.Parallel()
	pair, other := authtest.NewEd25519("ed"), authtest.NewEd25519("gone")
	keys := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(keys, authtest.Text(authtest.KeySet(pair)), 0o600); err != nil {
		t.Fatal(err)
	}
	claims := authtest.Claims(time.Now())
	for _, tc := range []struct {
		name, token   string
		answer        string // in addition to the constant text; empty: nothing
		logged, value string
	}{
		{"an owner with a hidden character", pair.Token(pair.Header(), authtest.With(claims, "sub", "ada\u200b")), `claim "sub" of the token is not 1 to 256 printable`, "sub", `"ada\u200b"`},
		{"an owner that is too long", pair.Token(pair.Header(), authtest.With(claims, "sub", strings.Repeat("x", 129))), `claim "sub" of the token is not an owner id`, "sub", "xxx"},
		{"no owner", pair.Token(pair.Header(), authtest.With(claims, "sub", nil)), `claim "sub" of the token is missing`, "sub", ""},
		{"another audience", pair.Token(pair.Header(), authtest.With(claims, "aud", "other")), `claim "aud" of the token does not name this service`, "aud", "other"},
		{"a token that has expired", pair.Token(pair.Header(), authtest.With(claims, "iat", 1, "nbf", 1, "exp", 1000)), `claim "exp" of the token has passed`, "exp", "1000"},
		{"an untrusted key", other.Token(other.Header(), claims), "", "no trusted key has its kid \"gone\"", ""},
		{"no token at all", "abc", "", "not a signed JWT", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGuarded(t, map[string]any{
				"auth_jwt_keys_file": keys, "auth_jwt_issuer": authtest.Issuer, "auth_jwt_audience": authtest.Audience, "log_level": "info",
			})
			code, answer := g.send(tc.token, "GET", "/v1/schedules", "")
			var said struct{ Message string }
			_ = json.Unmarshal([]byte(answer), &said)
			if code != http.StatusUnauthorized || (tc.answer == "") != (strings.TrimSpace(answer) == refused) || !strings.Contains(said.Message, tc.answer) {
				t.Errorf("%d %s, want 401 with %s", code, answer, tc.answer)
			}
			eventually(t, "the log says why", func() bool { return strings.Contains(g.logged(), "caller not identified") })
			for _, line := range logLines(t, g.logged()) {
				if line["msg"] != "caller not identified" {
					continue
				}
				if text := fmt.Sprint(line); line["level"] != "WARN" || !strings.Contains(text, tc.logged) || !strings.Contains(text, tc.value) {
					t.Errorf("logged %v, want WARN with %s and %s", line, tc.logged, tc.value)
				}
			}
			if strings.Contains(g.logged(), tc.token) {
				t.Error("the log has the token")
			}
		})
	}
}
