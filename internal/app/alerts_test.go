package app_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Only the schedule's owner sees an alert. Its notifications are visible to operators and viewers only.
func TestOnlyTheOwnerSeesAnAlertAndAcknowledgingItIsAudited(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	t.Cleanup(receiver.Close)
	g := newGuarded(t, map[string]any{
		"alert_webhook_url": receiver.URL + "/hook?token=hidden", "allow_egress": "loopback",
		"alert_webhook_secret": "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))),
	})
	if code, answer := g.send("user", "PUT", "/v1/schedules/adas", `{"workflow_id":"w","version":1,"interval_ms":1000,"expect":{"finish_within_ms":1000}}`); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer) // the executor accepts it and reports nothing
	}
	var list struct {
		Alerts []struct {
			ID   string `json:"alert_id"`
			User string `json:"user_id"`
		} `json:"alerts"`
	}
	eventually(t, "an alert is open", func() bool {
		_, answer := g.send("user", "GET", "/v1/alerts?state=open", "")
		return json.Unmarshal([]byte(answer), &list) == nil && len(list.Alerts) == 1
	})
	id := list.Alerts[0].ID
	if list.Alerts[0].User != "ada" {
		t.Errorf("it is %s's", list.Alerts[0].User)
	}
	g.foreignAlert(id)
	delivery := g.deliveriesOf(id)
	if code, answer := g.send("user", "POST", "/v1/alerts/"+id+":acknowledge", `{"note":"on it"}`); code != http.StatusOK || !strings.Contains(answer, `"acked_by":"subject-user"`) {
		t.Errorf("its owner: %d %s", code, answer)
	}
	if _, answer := g.send("operator", "POST", "/v1/alerts/"+id+":acknowledge", `{"note":"me too"}`); !strings.Contains(answer, `"ack_note":"on it"`) {
		t.Errorf("the first who saw to it does not stay: %s", answer)
	}
	g.alertTrail(id, delivery)
}

// foreignAlert checks that an alert of another owner is not found.
func (g *guarded) foreignAlert(id string) {
	g.t.Helper()
	for _, c := range []struct{ name, method, path, body string }{
		{"read", "GET", "/v1/alerts/" + id, ""},
		{"acknowledged", "POST", "/v1/alerts/" + id + ":acknowledge", `{"note":"mine"}`},
	} {
		code, theirs := g.send("bob", c.method, c.path, c.body)
		_, nobodys := g.send("bob", c.method, strings.Replace(c.path, id, "none", 1), c.body)
		if code != http.StatusNotFound || strings.ReplaceAll(theirs, id, "none") != nobodys {
			g.t.Errorf("%s by another: %d %s, of nobody: %s", c.name, code, theirs, nobodys)
		}
	}
	for _, query := range []string{"", "?user_id=ada", "?schedule_id=adas", "?state=open"} {
		if code, answer := g.send("bob", "GET", "/v1/alerts"+query, ""); code != http.StatusOK || strings.Contains(answer, id) {
			g.t.Errorf("a list%s for another: %d %s", query, code, answer)
		}
		if code, answer := g.send("viewer", "GET", "/v1/alerts"+query, ""); code != http.StatusOK || !strings.Contains(answer, id) {
			g.t.Errorf("a list%s for a viewer: %d %s", query, code, answer)
		}
	}
	if code, answer := g.send("bob", "GET", "/v1/schedules/adas", ""); code != http.StatusNotFound {
		g.t.Errorf("what adas promises, for another: %d %s", code, answer)
	}
}

// deliveriesOf reads the failed notification of an alert and redelivers it.
func (g *guarded) deliveriesOf(id string) (deliveryID string) {
	g.t.Helper()
	var list struct {
		Deliveries []struct {
			ID       string `json:"delivery_id"`
			State    string `json:"state"`
			Problem  string `json:"last_error"`
			Disabled bool   `json:"disabled"`
		} `json:"deliveries"`
	}
	path := "/v1/alert-deliveries?state=DEAD&alert_id=" + id
	eventually(g.t, "the message is given up", func() bool {
		code, answer := g.send("viewer", "GET", path, "")
		if strings.Contains(answer, "hidden") {
			g.t.Errorf("the outbox tells the secret of a URL: %s", answer)
		}
		return code == http.StatusOK && json.Unmarshal([]byte(answer), &list) == nil && len(list.Deliveries) > 0
	})
	d := list.Deliveries[0]
	if d.Problem != "the target answered 410 (gone)" || !d.Disabled {
		g.t.Errorf("it is kept as %+v", d)
	}
	again := "/v1/alert-deliveries/" + d.ID + ":redeliver"
	for who, want := range map[string]int{"user": 403, "viewer": 403, "compiler": 403, "operator": 200} {
		if code, answer := g.send(who, "POST", again, "{}"); code != want {
			g.t.Errorf("%s sends it again: %d %s, want %d", who, code, answer, want)
		}
	}
	if code, answer := g.send("user", "GET", path, ""); code != http.StatusForbidden {
		g.t.Errorf("the outbox for an owner: %d %s", code, answer)
	}
	if code, answer := g.send("operator", "POST", "/v1/alert-deliveries/none:redeliver", "{}"); code != http.StatusNotFound {
		g.t.Errorf("one that there is not: %d %s", code, answer)
	}
	if code, answer := g.send("operator", "POST", "/v1/alerts:test", "{}"); code != http.StatusOK {
		g.t.Errorf("a test: %d %s", code, answer)
	}
	return d.ID
}

// alertTrail checks that the audit trail has each change above with its caller and target.
func (g *guarded) alertTrail(id, delivery string) {
	g.t.Helper()
	var trail struct {
		Entries []struct{ Subject, Method, Target, Code string }
	}
	_, answer := g.send("operator", "GET", "/v1/audit?page_size=200", "")
	if err := json.Unmarshal([]byte(answer), &trail); err != nil {
		g.t.Fatal(err)
	}
	lines := make(map[string]bool)
	for _, e := range trail.Entries {
		lines[strings.Join([]string{e.Subject, e.Method, e.Target, e.Code}, " ")] = true
	}
	for _, want := range []string{
		"subject-user AcknowledgeAlert " + id + " OK", "subject-bob AcknowledgeAlert " + id + " NotFound",
		"subject-operator RedeliverAlert " + delivery + " OK", "subject-viewer RedeliverAlert " + delivery + " PermissionDenied",
		"subject-operator RedeliverAlert none NotFound", "subject-operator TestAlerts  OK",
	} {
		if !lines[want] {
			g.t.Errorf("%q is not in the trail: %s", want, answer)
		}
	}
}
