package app_test

import (
	"net/http"
	"net/url"
	"testing"
)

func TestTheConsoleShowsLimitsAndChangesTheirNumbers(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		g.browse("operator", "/ui/limits", nil).holds(t, "no limit", "No limits")
		for path, body := range map[string]string{
			"/v1/limits/gpu":      `{"user_id":"ada","max_in_flight":3,"note":"one card"}`,
			"/v1/limits/customer": `{"user_id":"ada","shared":true,"keyed":true,"max_in_flight":2,"rate":{"starts":10,"per_ms":1000,"burst":2}}`,
		} {
			if code, text := g.send("operator", "PUT", path, body); code != http.StatusOK {
				t.Fatalf("PUT %s: %d %s", path, code, text)
			}
		}
		g.browse("operator", "/ui/limits", nil).holds(t, "the limits", `href="/ui/limits/gpu"`, "0 of 3", "one card", "for each key", "10 in 1s, 2 at once")
		g.browse("operator", "/ui/limits/gpu", nil).holds(t, "the limit", "Nothing uses it", "one card", `action="/ui/limits/gpu/change"`)
		if got := g.browse("viewer", "/ui/limits/gpu/change", url.Values{"max_in_flight": {"1"}}); got.code != http.StatusForbidden {
			t.Errorf("who may only look changes: %d", got.code)
		}
		g.browse("operator", "/ui/limits/gpu/change", url.Values{"max_in_flight": {"1"}, "starts": {"5"}, "per": {"1m"}, "note": {"half"}}).holds(t, "changed", "Changed gpu")
		g.browse("operator", "/ui/limits/gpu", nil).holds(t, "the changed limit", "0 of 1", "5 in 1m", "half")
		if got := g.browse("operator", "/ui/limits/gpu/change", url.Values{"max_in_flight": {"many"}}); got.code != http.StatusUnprocessableEntity {
			t.Errorf("a number that is none: %d", got.code)
		}
		if got := g.browse("operator", "/ui/limits/gpu/change", url.Values{"starts": {"5"}, "per": {"soon"}}); got.code != http.StatusUnprocessableEntity {
			t.Errorf("a time that is none: %d", got.code)
		}
		g.browse("operator", "/ui/limits/customer/key", url.Values{"key": {"a7"}, "max_in_flight": {"0"}, "note": {"unpaid"}, "until": {"24h"}}).holds(t, "a key", "Changed customer=a7")
		g.browse("operator", "/ui/limits/customer", nil).holds(t, "its keys", "a7", "unpaid", "shared with all owners")
		g.browse("operator", "/ui/limits/customer/key", url.Values{"key": {"a7"}}).holds(t, "a key without numbers", "Changed customer=a7")
		g.browse("operator", "/ui/limits/customer", nil).holds(t, "no keys", "All keys have the numbers of the limit")
		if code, text := g.send("operator", "PUT", "/v1/limits/account", `{"user_id":"ada","keyed":true,"ordered":true}`); code != http.StatusOK {
			t.Fatalf("an ordered limit: %d %s", code, text)
		}
		g.browse("operator", "/ui/limits/account/change", url.Values{"max_in_flight": {"1"}, "note": {"bookings"}}).holds(t, "a change of an ordered limit", "Changed account")
		g.browse("operator", "/ui/limits/account", nil).holds(t, "an ordered limit", "bookings", "the runs of a key go one after the other")
		g.browse("operator", "/ui/limits", nil).holds(t, "the ordered limit in the list", "for each key · ordered")
		if got := g.browse("operator", "/ui/limits/none", nil); got.code != http.StatusNotFound {
			t.Errorf("a limit that is not there: %d", got.code)
		}
	})
}
