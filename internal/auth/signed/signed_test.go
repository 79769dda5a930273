package signed_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/signed"
)

const (
	issuer   = "https://id.example"
	audience = "carillon"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// pair is an issuer's key, and how it signs.
type pair struct {
	kid, alg string
	sign     func(text []byte) []byte
	public   any
}

func (p *pair) jwk() map[string]any {
	m := map[string]any{"kid": p.kid, "alg": p.alg, "use": "sig"}
	switch k := p.public.(type) {
	case ed25519.PublicKey:
		m["kty"], m["crv"], m["x"] = "OKP", "Ed25519", b64(k)
	case *ecdsa.PublicKey:
		point, _ := k.Bytes()
		half := (len(point) - 1) / 2
		m["kty"], m["crv"], m["x"], m["y"] = "EC", k.Curve.Params().Name, b64(point[1:1+half]), b64(point[1+half:])
	case *rsa.PublicKey:
		m["kty"], m["n"], m["e"] = "RSA", b64(k.N.Bytes()), b64(big.NewInt(int64(k.E)).Bytes())
	case []byte:
		m["kty"], m["k"] = "oct", b64(k)
	}
	return m
}

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func newEd25519(kid string) *pair {
	public, private, _ := ed25519.GenerateKey(nil)
	return &pair{kid, "EdDSA", func(text []byte) []byte { return ed25519.Sign(private, text) }, public}
}

func newECDSA(kid string, curve elliptic.Curve) *pair {
	private, _ := ecdsa.GenerateKey(curve, rand.Reader)
	return &pair{kid, "ES256", func(text []byte) []byte {
		sum := sha256.Sum256(text)
		r, s, _ := ecdsa.Sign(rand.Reader, private, sum[:])
		size := (curve.Params().BitSize + 7) / 8
		return append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	}, &private.PublicKey}
}

func newRSA(kid string, bits int) *pair {
	private, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return &pair{kid, "RS256", func(text []byte) []byte {
		sum := sha256.Sum256(text)
		sig, _ := rsa.SignPKCS1v15(rand.Reader, private, crypto.SHA256, sum[:])
		return sig
	}, &private.PublicKey}
}

func newHMAC(kid string, secret []byte) *pair {
	return &pair{kid, "HS256", func(text []byte) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write(text)
		return mac.Sum(nil)
	}, secret}
}

func (p *pair) header() map[string]any {
	return map[string]any{"alg": p.alg, "typ": "JWT", "kid": p.kid}
}

func claims() map[string]any {
	return map[string]any{
		"iss": issuer, "aud": audience, "sub": "ada", "roles": []string{"user"},
		"iat": noon.Unix(), "nbf": noon.Unix(), "exp": noon.Add(10 * time.Minute).Unix(),
	}
}

// with is a copy in which the members are changed; nil takes one away.
func with(m map[string]any, members ...any) map[string]any {
	out := maps.Clone(m)
	for i := 0; i < len(members); i += 2 {
		name := members[i].(string)
		if out[name] = members[i+1]; members[i+1] == nil {
			delete(out, name)
		}
	}
	return out
}

func text(v any) []byte {
	if raw, ok := v.(string); ok {
		return []byte(raw)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// token signs header and claims, each a map or text as it is to stand.
func (p *pair) token(header, body any) string {
	input := b64(text(header)) + "." + b64(text(body))
	return input + "." + b64(p.sign([]byte(input)))
}

func writeJWKS(t *testing.T, pairs ...*pair) string {
	t.Helper()
	var set struct {
		Keys []map[string]any `json:"keys"`
	}
	for _, p := range pairs {
		set.Keys = append(set.Keys, p.jwk())
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, text(set), 0o600); err != nil {
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
		{"EdDSA", all, ed.token(ed.header(), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"ES256", all, ec.token(ec.header(), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"RS256", all, rs.token(rs.header(), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"HS256 alone", open(t, config(writeJWKS(t, hs), "HS256")), hs.token(hs.header(), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"an access token of RFC 9068", all, ed.token(with(ed.header(), "typ", "at+jwt"), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"our audience beside others", all, ed.token(ed.header(), with(claims(), "aud", []string{"other", audience})), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"roles as a list of words", all, ed.token(ed.header(), with(claims(), "roles", "viewer compiler", "sub", "svc:ci")), auth.Identity{Subject: "svc:ci"}},
		{"roles and owner under other names", open(t, nested), ed.token(ed.header(), with(claims(), "roles", nil, "realm", map[string]any{"roles": []string{"user"}}, "https://x/owner", "u-1", "sub", "auth0|1")), auth.Identity{Subject: "auth0|1", Owner: "u-1"}},
		{"no kid and one key", open(t, config(writePEM(t, nil, ed.public))), ed.token(with(ed.header(), "kid", nil), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"a kid in the PEM", open(t, config(writePEM(t, map[string]string{"kid": "ed"}, ed.public))), ed.token(ed.header(), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"without iat and nbf", all, ed.token(ed.header(), with(claims(), "iat", nil, "nbf", nil)), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"expired within the leeway", all, ed.token(ed.header(), with(claims(), "exp", noon.Add(31*time.Second).Unix())), auth.Identity{Subject: "ada", Owner: "ada"}},
		{"jku, x5u and jwk are not looked at", all, ed.token(with(ed.header(), "jku", "http://127.0.0.1:1/", "x5u", "file:///etc/passwd", "jwk", newEd25519("ed").jwk()), claims()), auth.Identity{Subject: "ada", Owner: "ada"}},
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
		id, err := v.Identify(t.Context(), ed.token(ed.header(), with(claims(), "roles", roles)))
		if err != nil || len(id.Roles) != 0 || id.Owner != "" {
			t.Errorf("roles %v: %+v, %v", roles, id, err)
		}
	}
}

func TestKeysThatCannotBeTrustedStopTheStart(t *testing.T) {
	ed := newEd25519("ed")
	private := ed.jwk()
	private["d"] = b64(make([]byte, 32))
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
	for name, c := range map[string]signed.Config{
		"a weak RSA key":            config(writePEM(t, nil, weakRSA().public)),
		"a secret of 31 bytes":      config(writeJWKS(t, newHMAC("hs", make([]byte, 31))), "HS256"),
		"a secret among public":     config(writeJWKS(t, ed, newHMAC("hs", make([]byte, 32)))),
		"HS256 beside others":       config(writeJWKS(t, ed), "HS256", "EdDSA"),
		"another curve":             config(writeJWKS(t, newECDSA("ec", elliptic.P384()))),
		"a private key":             config(file(fmt.Sprintf(`{"keys":[%s]}`, text(private)))),
		"no key":                    config(file(`{"keys":[]}`)),
		"no file":                   config(filepath.Join(t.TempDir(), "none")),
		"no keys at all":            config(file("hello")),
		"a certificate":             config(file("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")),
		"two keys with one kid":     config(writeJWKS(t, ed, newEd25519("ed"))),
		"an algorithm nobody knows": config(writeJWKS(t, ed), "none"),
		"no algorithm":              {KeysFile: writeJWKS(t, ed), Issuer: issuer, Audience: audience},
		"no issuer":                 noIssuer, "no audience": noAudience, "two sources": both, "keys over plain http": remote,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := signed.New(t.Context(), c); err == nil {
				t.Error("it starts")
			}
		})
	}
}

// weakRSA is a key of 1024 bits, which the standard library no longer makes.
func weakRSA() *pair {
	n, _ := new(big.Int).SetString("1"+fmt.Sprintf("%0255d", 7), 16)
	return &pair{"weak", "RS256", nil, &rsa.PublicKey{N: n, E: 65537}}
}
