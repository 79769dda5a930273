package signed_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/carillon/carillon/internal/auth/signed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuerServer is an issuer's address of keys.
func issuerServer(t *testing.T, answer *atomic.Value) (c signed.Config, fetches *atomic.Int64) {
	t.Helper()
	fetches = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		_, _ = w.Write(text(answer.Load()))
	}))
	t.Cleanup(server.Close)
	c = config("")
	c.JWKSURL, c.Client = server.URL, server.Client()
	return c, fetches
}

func TestAKeyThatIsNewAtTheIssuerWorksAtOnceAndUnknownOnesFetchSeldom(t *testing.T) {
	first, second := newEd25519("first"), newEd25519("second")
	var answer atomic.Value
	answer.Store(keySet(first))
	c, fetches := issuerServer(t, &answer)
	v := open(t, c)
	takes := func(p *pair) bool {
		_, err := v.Identify(t.Context(), p.Token(p.Header(), claims()))
		return err == nil
	}
	if !takes(first) {
		t.Fatal("the issuer's key is refused")
	}
	answer.Store(keySet(second))
	if !takes(second) {
		t.Error("the issuer's new key is refused")
	}
	if takes(first) {
		t.Error("a key that the issuer has withdrawn is taken after the fetch")
	}
	before, began := fetches.Load(), time.Now()
	for i := range 50 {
		if unknown := newEd25519(fmt.Sprint("k", i)); takes(unknown) {
			t.Error("an unknown key is taken")
		}
	}
	if n := fetches.Load() - before; n > 1 || time.Since(began) > 4*time.Second {
		t.Errorf("50 made-up kids fetched %d times in %s", n, time.Since(began))
	}
}

func TestAnIssuerThatIsAwayOrAnswersNonsenseLetsNobodyIn(t *testing.T) {
	ed := newEd25519("ed")
	weak := weakRSA().JWK()
	encrypting := ed.JWK()
	encrypting["use"] = "enc"
	for name, body := range map[string]any{
		"no JSON": "<html>", "no keys": map[string]any{"keys": []any{}}, "a weak key": map[string]any{"keys": []any{weak}},
		"a key for encryption": map[string]any{"keys": []any{encrypting}}, "a secret": keySet(newHMAC("ed", make([]byte, 32))),
	} {
		t.Run(name, func(t *testing.T) {
			var answer atomic.Value
			if answer.Store(body); name == "no JSON" {
				answer.Store("<html>")
			}
			c, _ := issuerServer(t, &answer)
			v := open(t, c) // it starts all the same: the issuer may be there later
			for _, header := range []map[string]any{ed.Header(), with(ed.Header(), "kid", nil)} {
				if _, err := v.Identify(t.Context(), ed.Token(header, claims())); err == nil {
					t.Error("a token is taken")
				}
			}
		})
	}
}
