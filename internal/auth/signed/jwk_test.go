package signed_test

import (
	"crypto/elliptic"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/carillon/carillon/internal/auth/signed"
)

func TestKeysInAFileThatAreNoKeysStopTheStart(t *testing.T) {
	ed, ec, rs := newEd25519("k").JWK(), newECDSA("k", elliptic.P256()).JWK(), newRSA("k", 2048).JWK()
	for _, c := range []struct {
		name string
		set  any
		says string
	}{
		{name: "a point that is not on the curve", set: with(ec, "y", ec["x"]), says: "keys[0]: is not a P-256 key"},
		{name: "a coordinate without its leading zeros", set: with(ec, "x", "AQ"), says: "keys[0]: is not a P-256 key: x and y are not 32 bytes each"},
		{name: "a curve for agreements", set: with(ed, "crv", "X25519"), says: `keys[0]: is of kind "OKP", curve "X25519"`},
		{name: "an Ed25519 key that is too short", set: with(ed, "x", "AQAB"), says: "keys[0]: is not an Ed25519 key: x has 3 bytes, not 32"},
		{name: "an exponent of 1", set: with(rs, "e", "AQ"), says: "keys[0]: is not an RSA key"},
		{name: "an even exponent", set: with(rs, "e", "AQAA"), says: "keys[0]: is not an RSA key"},
		{name: "an exponent of 9 bytes", set: with(rs, "e", "AQAAAAAAAAAB"), says: "keys[0]: is not an RSA key"},
		{name: "no modulus", set: with(rs, "n", nil), says: "keys[0]: is not an RSA key"},
		{name: "a modulus that is no base64url", set: with(rs, "n", "+/+/"), says: "keys[0]: "},
		{name: "a key for signing alone", set: with(ed, "key_ops", []string{"sign"}), says: "keys[0]: is for sign, not to verify"},
		{name: "a kid that is no text", set: with(ed, "kid", 7), says: "keys[0]: "},
		{name: "no set", set: nil, says: `it has no member "keys"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys.json")
			body := map[string]any{"keys": []any{c.set}}
			if c.set == nil {
				body = map[string]any{"error": "no"}
			}
			if err := os.WriteFile(path, text(body), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := signed.New(t.Context(), config(path)); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v; want it to say %q", err, c.says)
			}
		})
	}
}

// Some issuers pad what RFC 7518 says is not padded.
func TestKeysWithPaddingAreTaken(t *testing.T) {
	ed := newEd25519("ed")
	path := filepath.Join(t.TempDir(), "keys.json")
	padded := with(ed.JWK(), "x", ed.JWK()["x"].(string)+"=")
	if err := os.WriteFile(path, text(map[string]any{"keys": []any{padded}}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, config(path)).Identify(t.Context(), ed.Token(ed.Header(), claims())); err != nil {
		t.Error(err)
	}
}

// An unknown kid fetches the keys again; what the issuer answers then is faulty.
func TestAFaultyAnswerLeavesTheLastKeysInForce(t *testing.T) {
	ed := newEd25519("ed")
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
	}{
		{name: "an error", answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }},
		{name: "no JSON", answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }},
		{name: "JSON without keys", answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"error":"later"}`)) }},
		{name: "more than a key set can have", answer: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[],"pad":"` + strings.Repeat("x", 1<<20) + `"}`))
		}},
		{name: "a connection that breaks", answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var fetches atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if fetches.Add(1) == 1 {
					_, _ = w.Write(text(map[string]any{"keys": []any{with(ed.JWK(), "kid", 7), ed.JWK()}})) // one of them malformed
					return
				}
				c.answer(w, r)
			}))
			defer server.Close()
			cfg := config("")
			cfg.JWKSURL, cfg.Client = server.URL, server.Client()
			v := open(t, cfg)
			if _, err := v.Identify(t.Context(), newEd25519("new").Token(newEd25519("new").Header(), claims())); err == nil {
				t.Error("an unknown key is taken")
			}
			if n := fetches.Load(); n < 2 {
				t.Fatalf("%d fetches, want the keys fetched again", n)
			}
			if _, err := v.Identify(t.Context(), ed.Token(ed.Header(), claims())); err != nil {
				t.Errorf("the key of the first answer is refused: %v", err)
			}
		})
	}
}
