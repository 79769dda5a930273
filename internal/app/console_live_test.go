package app_test

import (
	"net/http"
	"testing"
)

// openLive opens live updates as who and returns how they are answered.
func (g *guarded) openLive(who string) *http.Response {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, "http://"+g.HTTPAddr()+"/ui/live", nil)
	if err != nil {
		g.t.Fatal(err)
	}
	req.AddCookie(&http.Cookie{Name: "carillon_session", Value: g.shown(who)})
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestLiveUpdatesAreRefusedWithAStatus(t *testing.T) {
	onBothStores(t, func(t *testing.T, g *guarded) {
		for _, c := range []struct {
			name, who string
			want      int
		}{
			{"nobody", "", http.StatusUnauthorized},
			{"a token that is not known", "carillon_none", http.StatusUnauthorized},
			{"a role that may not watch", "launcher", http.StatusForbidden},
			{"a viewer", "viewer", http.StatusOK},
		} {
			if got := g.openLive(c.who); got.StatusCode != c.want {
				t.Errorf("%s: %d %s, want %d", c.name, got.StatusCode, got.Header.Get("Content-Type"), c.want)
			}
		}
	})
}

func TestOneCallerDoesNotTakeTheLiveUpdatesOfAll(t *testing.T) {
	g := newGuarded(t, nil)
	const most = 32
	var open []*http.Response
	for i := range most {
		resp := g.openLive("viewer")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("page %d: %d", i, resp.StatusCode)
		}
		open = append(open, resp)
	}
	if got := g.openLive("viewer"); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more of the same caller: %d", got.StatusCode)
	}
	if got := g.openLive("operator"); got.StatusCode != http.StatusOK {
		t.Errorf("another caller: %d", got.StatusCode)
	}
	for range 20 {
		if got := g.openLive("user"); got.StatusCode != http.StatusOK {
			t.Fatalf("an owner: %d", got.StatusCode)
		}
	}
	if got := g.openLive("user"); got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("more than an owner may watch: %d", got.StatusCode)
	}
	_ = open[0].Body.Close()
	eventually(t, "a page that was closed makes room", func() bool { return g.openLive("viewer").StatusCode == http.StatusOK })
}
