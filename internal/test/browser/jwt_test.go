package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// provider is an identity provider: it signs tokens (JWT) by a key of its own.
type provider struct {
	key    ed25519.PrivateKey
	public string // the file with the public key
}

const (
	issuer   = "https://id.example.org"
	audience = "carillon"
)

// trusting restarts the product so that it accepts tokens of a provider, and gives the
// product's own calls such a token.
func (v *visitor) trusting() *provider {
	v.t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	v.must(err)
	der, err := x509.MarshalPKIXPublicKey(public)
	v.must(err)
	p := &provider{key: key, public: filepath.Join(v.product.dir, "issuer.pem")}
	v.must(os.WriteFile(p.public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	v.product.end()
	v.product.token = p.token(v.t, map[string]any{"sub": "ci", "roles": []string{"operator", "compiler"}})
	v.product.args = append(v.product.args, "--auth-jwt-keys-file", p.public, "--auth-jwt-issuer", issuer, "--auth-jwt-audience", audience)
	v.must(v.product.run(v.tab, v.product.addr))
	return p
}

// token signs claims in addition to those of every token; RFC 7519 and 8037.
func (p *provider) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": issuer, "aud": audience, "iat": time.Now().Unix(), "exp": time.Now().Add(10 * time.Minute).Unix()}
	for name, value := range claims {
		all[name] = value
	}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	text := b64([]byte(`{"alg":"EdDSA","typ":"JWT"}`)) + "." + b64(body)
	return text + "." + b64(ed25519.Sign(p.key, []byte(text)))
}

// pastes puts a text into the sign-in form as a person would, and sends it.
func (v *visitor) pastes(text string) {
	v.t.Helper()
	v.do(chromedp.SetValue(chromedp.CSS("#token"), text))
	v.clicks(`button[type="submit"]`)
}

func TestAPersonSignsInWithASignedTokenOfAnIdentityProvider(t *testing.T) {
	v := visit(t)
	p := v.trusting()
	v.must(v.product.workflow(v.tab, "quick", "true"))
	v.must(v.product.schedule(v.tab, "nightly", "quick", map[string]any{"cron_expr": "0 3 * * *", "user_id": "ada"}))
	v.must(v.product.schedule(v.tab, "weekly", "quick", map[string]any{"cron_expr": "0 3 * * 1", "user_id": "bob"}))
	// Providers add claims of their own, such as groups.
	groups := strings.Split(strings.Repeat("cn=operators,ou=groups,dc=example,dc=org ", 40), " ")
	good := p.token(t, map[string]any{"sub": "olga@example.org", "roles": []string{"operator"}, "groups": groups})

	v.opens("/ui/schedules/nightly")
	for _, bad := range []struct{ why, token, says string }{
		{"it has expired", p.token(t, map[string]any{"sub": "olga", "roles": "operator", "exp": time.Now().Add(-time.Minute).Unix()}), `Token not accepted: claim "exp"`},
		{"it is for another service", p.token(t, map[string]any{"sub": "olga", "roles": "operator", "aud": "payroll"}), `Token not accepted: claim "aud"`},
		{"its signature is of another", good[:len(good)-8] + "AAAAAAAA", "Token not accepted: it is unknown, has expired, or is for another service."},
	} {
		v.pastes(bad.token)
		v.sees(fmt.Sprintf(`document.querySelector("[role=alert]")?.innerText.includes(%q)`, bad.says))
		if t.Failed() {
			t.Fatalf("where %s", bad.why)
		}
		v.do(chromedp.Navigate(v.product.url("/ui/schedules/nightly")))
	}
	v.pastes(p.token(t, map[string]any{"sub": "olga", "roles": "operator", "groups": append(groups, groups...)}))
	v.sees(`document.querySelector("[role=alert]")?.innerText.includes("too long for a browser's cookie")`)

	// Who it is, is known; that it may nothing is said, and the way back is there.
	v.pastes(p.token(t, map[string]any{"sub": "nobody@example.org"}))
	v.reads("GetSchedule is for the roles")
	v.clicks(".side-end form button")
	v.sees(`location.pathname === "/ui/signin" && document.readyState === "complete"`)
	v.opens("/ui/schedules/nightly")

	// As a terminal and an HTTP header show it: wrapped, and behind its scheme.
	v.pastes("Bearer " + good[:90] + "\n" + good[90:] + "\n")
	v.sees(`location.pathname === "/ui/schedules/nightly" && document.querySelector(".side-end form").innerText.includes("olga@example.org")`)
	v.sees(fmt.Sprintf(`!document.cookie.includes(%q) && document.querySelector("#live").textContent === "live"`, good[:40]))
	v.clicks("#b-pause")
	v.clicks(`#pause button[type="submit"]`)
	v.reads("Paused by olga@example.org")
	v.clicks(".side-end form button")
	v.sees(`location.pathname === "/ui/signin"`)

	// An owner sees what is its own.
	v.opens("/ui/schedules")
	v.pastes(p.token(t, map[string]any{"sub": "ada", "roles": []string{"user"}}))
	v.sees(`location.pathname === "/ui/schedules" && document.querySelector(".side-end form").innerText.includes("ada")`)
	if got := strings.Join(v.texts("#list a.title"), " "); got != "nightly" {
		t.Errorf("ada sees %q", got)
	}
	v.opens("/ui/schedules/weekly")
	v.reads("not found")
	if said := v.complaints("signin", "nightly", "weekly"); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

func TestAPageWhoseTokenExpiresAsksToSignInAgainAndGoesBack(t *testing.T) {
	v := visit(t)
	p := v.trusting()
	v.must(v.product.workflow(v.tab, "quick", "true"))
	v.must(v.product.schedule(v.tab, "nightly", "quick", map[string]any{"cron_expr": "0 3 * * *"}))
	v.opens("/ui/schedules/nightly")
	const leeway = 30 * time.Second // docs/security.md: so far may clocks differ
	v.pastes(p.token(t, map[string]any{"sub": "olga", "roles": "operator", "exp": time.Now().Add(6*time.Second - leeway).Unix()}))
	v.sees(`document.querySelector("#live")?.textContent === "live"`)
	v.sees(`location.pathname === "/ui/signin" && document.readyState === "complete"`) // by itself
	v.reads("expired")
	v.pastes(p.token(t, map[string]any{"sub": "olga", "roles": "operator"}))
	v.sees(`location.pathname === "/ui/schedules/nightly" && document.querySelector("#live").textContent === "live"`)
}
