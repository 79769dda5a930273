package app_test

import (
	"net/http"
	"testing"
)

// openLive opens live updates as who, until leave or the end of the test.
func (g *guarded) openLive(who string) (code int, leave func()) {
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
	leave = func() { _ = resp.Body.Close() }
	g.t.Cleanup(leave)
	return resp.StatusCode, leave
}

func TestLiveUpdatesAreRefusedWithAStatus(t *testing.T) {
	t.Parallel()
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
			if code, _ := g.openLive(c.who); code != c.want {
				t.Errorf("%s: %d, want %d", c.name, code, c.want)
			}
		}
	})
}

func TestOneCallerCannotUseUpTheLiveUpdates(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	const most = 32
	leave := func() {}
	for i := range most {
		var code int
		if code, leave = g.openLive("viewer"); code != http.StatusOK {
			t.Fatalf("page %d: %d", i, code)
		}
	}
	if code, _ := g.openLive("viewer"); code != http.StatusServiceUnavailable {
		t.Errorf("one more of the same caller: %d", code)
	}
	if code, _ := g.openLive("operator"); code != http.StatusOK {
		t.Errorf("another caller: %d", code)
	}
	for range 20 {
		if code, _ := g.openLive("user"); code != http.StatusOK {
			t.Fatalf("an owner: %d", code)
		}
	}
	if code, _ := g.openLive("user"); code != http.StatusTooManyRequests {
		t.Errorf("more than an owner may watch: %d", code)
	}
	leave()
	eventually(t, "a page that was closed makes room", func() bool {
		code, _ := g.openLive("viewer")
		return code == http.StatusOK
	})
}
