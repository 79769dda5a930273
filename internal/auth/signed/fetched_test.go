package signed_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth/signed"
	"github.com/carillon/carillon/internal/test/services/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

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

// Issuers also publish keys of other kinds and for other uses.
func TestAKeySetWithKeysThatNobodyKnowsKeepsTheOthers(t *testing.T) {
	ed := newEd25519("ed")
	encrypting := newRSA("enc", 2048).JWK()
	encrypting["use"], encrypting["alg"] = "enc", "RSA-OAEP-256"
	for name, beside := range map[string]map[string]any{
		"another curve":        {"kty": "EC", "crv": "secp256k1", "kid": "k1", "alg": "ES256K", "use": "sig", "x": "AA", "y": "AA"},
		"another kind of key":  {"kty": "AKP", "kid": "pq", "alg": "ML-DSA-65", "pub": "AA"},
		"another algorithm":    with(newRSA("other", 2048).JWK(), "alg", "RS999"),
		"for encryption":       encrypting,
		"with operations":      with(newRSA("ops", 2048).JWK(), "use", nil, "key_ops", []string{"verify"}),
		"with its certificate": certified("x5c"),
		"without a kid":        with(newRSA("", 2048).JWK(), "kid", nil),
	} {
		t.Run(name, func(t *testing.T) {
			var answer atomic.Value
			answer.Store(map[string]any{"keys": []any{beside, ed.JWK()}})
			c, _ := issuerServer(t, &answer)
			if _, err := open(t, c).Identify(t.Context(), ed.Token(ed.Header(), claims())); err != nil {
				t.Errorf("the issuer's own key is refused: %v", err)
			}
		})
	}
}

// certified is a key with its certificate, as some issuers publish theirs.
func certified(kid string) map[string]any {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	p := &pair{KID: kid, Alg: "ES256", Public: &key.PublicKey}
	sum := sha256.Sum256(der)
	return with(p.JWK(), "x5c", []string{base64.StdEncoding.EncodeToString(der)}, "x5t#S256", base64.RawURLEncoding.EncodeToString(sum[:]))
}
