package signed_test

import (
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/authtest"
	"github.com/carillon/carillon/internal/auth/signed"
)

const (
	issuer   = authtest.Issuer
	audience = authtest.Audience
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type pair = authtest.Pair

var (
	newEd25519 = authtest.NewEd25519
	newECDSA   = authtest.NewECDSA
	newRSA     = authtest.NewRSA
	newHMAC    = authtest.NewHMAC
	with       = authtest.With
	text       = authtest.Text
	keySet     = authtest.KeySet
)

func claims() map[string]any { return authtest.Claims(noon) }

func writeJWKS(t *testing.T, pairs ...*pair) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, text(keySet(pairs...)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func writePEM(t *testing.T, headers map[string]string, public any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Headers: headers, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func config(path string, algorithms ...string) signed.Config {
	if len(algorithms) == 0 {
		algorithms = []string{"EdDSA", "ES256", "RS256"}
	}
	return signed.Config{
		KeysFile: path, Issuer: issuer, Audience: audience, Algorithms: algorithms,
		Now: func() time.Time { return noon.Add(time.Minute) }, Logger: slog.New(slog.DiscardHandler),
	}
}

func open(t *testing.T, c signed.Config) *signed.Verifier {
	t.Helper()
	v, err := signed.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAUsersTokenListsItsAccounts(t *testing.T) {
	ed := newEd25519("ed")
	nested := config(writeJWKS(t, ed))
	nested.AccountsClaim = "billing.accounts"
	for _, c := range []struct {
		name  string
		c     signed.Config
		claim string
		value any
		want  []string
	}{
		{"a list", config(writeJWKS(t, ed)), "billing_accounts", []string{"acme", "b"}, []string{"acme", "b"}},
		{"a text", config(writeJWKS(t, ed)), "billing_accounts", "acme b", []string{"acme", "b"}},
		{"a claim that the setting names", nested, "billing", map[string]any{"accounts": []string{"acme"}}, []string{"acme"}},
		{"what is no id is left out", config(writeJWKS(t, ed)), "billing_accounts", []any{"a b", 7, "", "*", "acme"}, []string{"acme"}},
		{"none", config(writeJWKS(t, ed)), "other", "acme", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := claims()
			all[c.claim] = c.value
			got, err := open(t, c.c).Identify(t.Context(), ed.Token(ed.Header(), all))
			if err != nil || !slices.Equal(got.Accounts, c.want) {
				t.Errorf("accounts are %q, %v; want %q", got.Accounts, err, c.want)
			}
		})
	}
}

func TestATokenOfTheIssuerIsTaken(t *testing.T) {
	ed, ec, rs := newEd25519("ed"), newECDSA("ec", elliptic.P256()), newRSA("rs", 2048)
	hs := newHMAC("hs", make([]byte, 32))
	all := open(t, config(writeJWKS(t, ed, ec, rs)))
	nested := config(writeJWKS(t, ed))
	nested.RolesClaim, nested.OwnerClaim = "realm.roles", "https://x/owner"
	for _, c := range []struct {
		name     string
		verifier *signed.Verifier
		token    string
		want     auth.Identity
	}{
		{"EdDSA", all, ed.Token(ed.Header(), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"ES256", all, ec.Token(ec.Header(), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"RS256", all, rs.Token(rs.Header(), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"HS256 alone", open(t, config(writeJWKS(t, hs), "HS256")), hs.Token(hs.Header(), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"an access token of RFC 9068", all, ed.Token(with(ed.Header(), "typ", "at+jwt"), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"our audience beside others", all, ed.Token(ed.Header(), with(claims(), "aud", []string{"other", audience})), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"roles as a list of words", all, ed.Token(ed.Header(), with(claims(), "roles", "viewer compiler", "sub", "svc:ci")), auth.Identity{Subject: "svc:ci"}},
		{"roles and owner under other names", open(t, nested), ed.Token(ed.Header(), with(claims(), "roles", nil, "realm", map[string]any{"roles": []string{"user"}}, "https://x/owner", "u-1", "sub", "auth0|1")), auth.Identity{Subject: "auth0|1", Owner: "u-1"}},
		{"no kid and one key", open(t, config(writePEM(t, nil, ed.Public))), ed.Token(with(ed.Header(), "kid", nil), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"a kid in the PEM", open(t, config(writePEM(t, map[string]string{"kid": "ed"}, ed.Public))), ed.Token(ed.Header(), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"without iat and nbf", all, ed.Token(ed.Header(), with(claims(), "iat", nil, "nbf", nil)), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"expired within the leeway", all, ed.Token(ed.Header(), with(claims(), "exp", noon.Add(31*time.Second).Unix())), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"jku, x5u and jwk are not looked at", all, ed.Token(with(ed.Header(), "jku", "http://127.0.0.1:1/", "x5u", "file:///etc/passwd", "jwk", newEd25519("ed").JWK()), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.verifier.Identify(t.Context(), c.token)
			if err != nil || got.Subject != c.want.Subject || got.Owner != c.want.Owner || got.Via != auth.ViaJWT {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestRolesOfOtherSystemsSayNothing(t *testing.T) {
	ed := newEd25519("ed")
	v := open(t, config(writeJWKS(t, ed)))
	for _, roles := range []any{nil, []any{}, "admin", []string{"root", "USER", "user "}, map[string]any{"user": true}, 7, []any{1, nil, []string{"operator"}}} {
		id, err := v.Identify(t.Context(), ed.Token(ed.Header(), with(claims(), "roles", roles)))
		if err != nil || len(id.Roles) != 0 || id.Owner != "" {
			t.Errorf("roles %v: %+v, %v", roles, id, err)
		}
	}
}

func TestKeysThatCannotBeTrustedStopTheStart(t *testing.T) {
	ed := newEd25519("ed")
	private := ed.JWK()
	private["d"] = base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	noIssuer, noAudience, both := config(writeJWKS(t, ed)), config(writeJWKS(t, ed)), config(writeJWKS(t, ed))
	noIssuer.Issuer, noAudience.Audience, both.JWKSURL = "", "", "https://id.example/keys"
	remote := config("")
	remote.JWKSURL = "http://id.example/keys"
	named := config("")
	named.JWKSURL = "https://ci:hunter2@id.example/keys"
	for name, c := range map[string]signed.Config{
		"a weak RSA key":        config(writePEM(t, nil, weakRSA().Public)),
		"a secret of 31 bytes":  config(writeJWKS(t, newHMAC("hs", make([]byte, 31))), "HS256"),
		"a secret among public": config(writeJWKS(t, ed, newHMAC("hs", make([]byte, 32)))),
		"HS256 with others":     config(writeJWKS(t, ed), "HS256", "EdDSA"),
		"another curve":         config(writeJWKS(t, newECDSA("ec", elliptic.P384()))),
		"a private key":         config(file(fmt.Sprintf(`{"keys":[%s]}`, text(private)))),
		"no key":                config(file(`{"keys":[]}`)),
		"no file":               config(filepath.Join(t.TempDir(), "none")),
		"no keys at all":        config(file("hello")),
		"a certificate":         config(file("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")),
		"two keys with one kid": config(writeJWKS(t, ed, newEd25519("ed"))),
		"an unknown algorithm":  config(writeJWKS(t, ed), "none"),
		"no algorithm":          {KeysFile: writeJWKS(t, ed), Issuer: issuer, Audience: audience},
		"no issuer":             noIssuer, "no audience": noAudience, "two sources": both, "keys over plain http": remote, "a password in the address": named,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := signed.New(t.Context(), c); err == nil {
				t.Error("it starts")
			} else if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("it shows the password: %v", err)
			}
		})
	}
}

// weakRSA is a key of 1024 bits, which the standard library no longer makes.
func weakRSA() *pair {
	n, _ := new(big.Int).SetString("1"+fmt.Sprintf("%0255d", 7), 16)
	return &pair{KID: "weak", Alg: "RS256", Public: &rsa.PublicKey{N: n, E: 65537}}
}
