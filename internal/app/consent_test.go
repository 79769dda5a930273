package app_test

import (
	"net/http"
	"strings"
	"testing"
)

// Consent is an owner's to give. An operator, who may change every schedule,
// must not make somebody pay for it by the way.
func TestAnOperatorGivesNoConsent(t *testing.T) {
	g := newGuarded(t, nil)
	const grant = `"grant":{"billing_account_id":"acme","scopes":["graph:execute:w"]}`
	const one = `{"schedule_id":"s","workflow_id":"w","version":1,"user_id":"ada",` + grant + `}`
	for _, c := range []struct{ name, method, path, body string }{
		{"by itself", "POST", "/v1/grants", `{"user_id":"ada","billing_account_id":"acme","scopes":["graph:execute:w"]}`},
		{"with a schedule", "PUT", "/v1/schedules/s", one},
		{"with a schedule of a set", "POST", "/v1/schedules:apply", `{"set":"x","schedules":[` + one + `]}`},
		{"with a trigger", "POST", "/v1/workflows/w:deploy", `{"user_id":"ada","version":1,"dag":{"workflow_id":"w","version":1,"triggers":[{"type":"schedule_based","cron_expr":"@daily",` + grant + `}]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if code, answer := g.send("operator", c.method, c.path, c.body); code != http.StatusForbidden {
				t.Errorf("an operator: %d %s", code, answer)
			}
			if code, answer := g.send("compiler", c.method, c.path, c.body); code != http.StatusOK {
				t.Errorf("a compiler: %d %s", code, answer)
			}
		})
	}
	if _, trail := g.send("operator", "GET", "/v1/audit?subject=subject-operator", ""); strings.Count(trail, `"PermissionDenied"`) != 4 {
		t.Errorf("the trail has not each of the four refusals: %s", trail)
	}
}
