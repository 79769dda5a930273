package signed_test

import (
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth/signed"
)

// forged are tokens that must all be refused, by what is wrong with them. Most
// are signed with the right key, so that nothing but the named fault is wrong.
func forged() (right []*pair, tokens map[string]string) {
	ed, ec, rs := newEd25519("ed"), newECDSA("ec", elliptic.P256()), newRSA("rs", 2048)
	other := newEd25519("ed") // another issuer's, with the same kid
	good := ed.token(ed.header(), claims())
	head, body, sig := cut(good)
	tokens = map[string]string{
		"nothing": "", "a word": "token", "two parts": head + "." + body, "four parts": good + ".x", "five parts, as a JWE": head + "." + body + "." + sig + ".a.b",
		"dots alone": "..", "a hundred thousand dots": strings.Repeat(".", 100_000), "dots behind it": good + strings.Repeat(".", 100_000),
		"an empty header": "." + body + "." + sig, "empty claims": head + ".." + sig, "an empty signature": head + "." + body + ".",
		"a truncated signature": good[:len(good)-8], "one bit of the signature": flip(good), "claims of another": head + "." + b64(text(with(claims(), "sub", "bob"))) + "." + sig,
		"header of another": b64(text(with(ed.header(), "alg", "ES256"))) + "." + body + "." + sig,
		"padding":           head + "=." + body + "." + sig, "the other alphabet": head + "." + body + "." + base64.StdEncoding.EncodeToString(append([]byte{0xfb, 0xff}, make([]byte, 62)...)),
		"trailing bits": good[:len(good)-1] + next(good[len(good)-1]), "a space before": " " + good, "a space behind": good + " ", "a line break": head + ".\n" + body + "." + sig, "NUL": good + "\x00",
		"over 8 KiB":                ed.token(ed.header(), with(claims(), "pad", strings.Repeat("x", 8<<10))),
		"nested deeper":             ed.token(ed.header(), with(claims(), "deep", json.RawMessage(strings.Repeat("[", 20)+strings.Repeat("]", 20)))),
		"claims that are no object": ed.token(ed.header(), `["ada"]`), "claims that are null": ed.token(ed.header(), `null`), "claims that are no JSON": ed.token(ed.header(), `{"sub":`), "two objects": ed.token(ed.header(), string(text(claims()))+"{}"),
		"claims that are not UTF-8": ed.token(ed.header(), "{\"sub\":\"\xff\"}"),
		"another issuer's key":      other.token(other.header(), claims()), "a key of another kind under its kid": ec.token(with(ec.header(), "kid", "rs"), claims()),
		"a rotated-out key": newEd25519("old").token(map[string]any{"alg": "EdDSA", "kid": "old"}, claims()),
		"a nested token":    ed.token(with(ed.header(), "cty", "JWT"), claims()),
	}
	// alg: what the header says about itself.
	for _, alg := range []any{"none", "None", "NONE", "nOnE", "", nil, 0, []string{"EdDSA"}, "HS256", "HS512", "PS256", "RS1", "ES384", "RS256", "eddsa", "EdDSA ", "Ed25519"} {
		tokens[fmt.Sprintf("alg %v", alg)] = ed.token(with(ed.header(), "alg", alg), claims())
	}
	tokens["alg none without a signature"] = b64(text(with(ed.header(), "alg", "none"))) + "." + body + "."
	der, _ := x509.MarshalPKIXPublicKey(rs.public)
	for name, secret := range map[string][]byte{
		"the public key in PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "the public key in DER": der, "nothing": nil, "the kid": []byte("rs"),
	} {
		tokens["HS256 with "+name] = newHMAC("rs", secret).token(map[string]any{"alg": "HS256", "kid": "rs"}, claims())
	}
	// kid: the way to the key.
	for _, kid := range []any{nil, "", "none", "ED", "ed ", "../../../../dev/null", "/dev/null", "'; DROP TABLE keys; --", "http://127.0.0.1/key", 7, []string{"ed"}, map[string]any{"ed": 1}, strings.Repeat("k", 129), "ed\x00"} {
		tokens[fmt.Sprintf("kid %.20q", fmt.Sprint(kid))] = ed.token(with(ed.header(), "kid", kid), claims())
	}
	for name, header := range map[string]map[string]any{
		"crit": with(ed.header(), "crit", []string{"exp"}), "an empty crit": with(ed.header(), "crit", []string{}), "crit null": with(ed.header(), "crit", json.RawMessage("null")),
		"b64 false": with(ed.header(), "crit", []string{"b64"}, "b64", false), "enc": with(ed.header(), "enc", "A256GCM"), "zip": with(ed.header(), "zip", "DEF"),
		"typ JWE": with(ed.header(), "typ", "JWE"), "typ of another use": with(ed.header(), "typ", "dpop+jwt"), "typ a number": with(ed.header(), "typ", 1),
	} {
		tokens[name] = ed.token(header, claims())
	}
	tokens["alg twice"] = ed.token(`{"alg":"none","alg":"EdDSA","kid":"ed"}`, claims())
	tokens["kid twice"] = ed.token(`{"alg":"EdDSA","kid":"other","kid":"ed"}`, claims())
	tokens["its own key in jwk"] = other.token(with(other.header(), "jwk", other.jwk()), claims())
	tokens["its own key behind jku"] = other.token(with(other.header(), "jku", "https://evil.example/keys"), claims())
	addClaims(ed, tokens)
	return []*pair{ed, ec, rs}, tokens
}

// addClaims adds what is signed well and says the wrong thing.
func addClaims(ed *pair, tokens map[string]string) {
	whole := string(text(claims()))
	say := func(name string, body any) { tokens[name] = ed.token(ed.header(), body) }
	for _, aud := range []any{nil, "", "other", "carillo", "carillon2", "Carillon", " carillon", []string{}, []string{"other"}, []string{"carillon2", "xcarillon"}, "launcher", 7, map[string]any{"carillon": 1}, []any{7}} {
		say(fmt.Sprintf("aud %v", aud), with(claims(), "aud", aud))
	}
	for _, iss := range []any{nil, "", "https://id.example/", "https://id.example.evil", "http://id.example", "https://ID.example", []string{issuer}, 7} {
		say(fmt.Sprintf("iss %v", iss), with(claims(), "iss", iss))
	}
	for _, sub := range []any{nil, "", " ", 7, []string{"ada"}, "a b", "ada\n", "ada\x00", "аdа", "ada@example.com", "a/b", strings.Repeat("a", 129), "{}", "ada\u202e"} {
		say(fmt.Sprintf("sub %.30q", fmt.Sprint(sub)), with(claims(), "sub", sub))
	}
	now := noon.Add(time.Minute)
	for name, exp := range map[string]any{
		"missing": nil, "just past the leeway": now.Add(-signed.Leeway).Unix(), "past": noon.Add(-time.Hour).Unix(), "zero": 0, "negative": -1, "text": fmt.Sprint(now.Add(time.Minute).Unix()), "a fraction": json.RawMessage("1772366460.5"),
		"an exponent": json.RawMessage("1.772367e9"), "1e309": json.RawMessage("1e309"), "milliseconds": now.Add(time.Minute).UnixMilli(), "past int64": json.RawMessage("99999999999999999999"), "true": true, "null": json.RawMessage("null"), "a list": []int64{now.Add(time.Minute).Unix()},
		"longer than a token may live": now.Add(2 * time.Hour).Unix(),
	} {
		say("exp "+name, with(claims(), "exp", exp))
	}
	say("longer than a token may live since iat", with(claims(), "iat", noon.Add(-30*time.Minute).Unix(), "exp", noon.Add(40*time.Minute).Unix()))
	for name, at := range map[string]any{"ahead": now.Add(signed.Leeway + time.Second).Unix(), "text": "0", "a fraction": 1.5, "negative": -5, "a list": []int{0}, "huge": json.RawMessage("1e400")} {
		say("nbf "+name, with(claims(), "nbf", at))
		say("iat "+name, with(claims(), "iat", at))
	}
	say("sub twice", strings.Replace(whole, `"sub":"ada"`, `"sub":"eve","sub":"ada"`, 1))
	say("exp twice", strings.Replace(whole, `"exp":`, `"exp":1,"exp":`, 1))
	say("roles twice", strings.Replace(whole, `"roles":["user"]`, `"roles":["operator"],"roles":["user"]`, 1))
	say("aud twice", strings.Replace(whole, `"aud":"carillon"`, `"aud":"other","aud":"carillon"`, 1))
}

func cut(token string) (head, body, sig string) {
	parts := strings.SplitN(token, ".", 3)
	return parts[0], parts[1], parts[2]
}

// flip changes the first byte of the signature.
func flip(token string) string {
	head, body, sig := cut(token)
	raw, _ := base64.RawURLEncoding.DecodeString(sig)
	raw[0] ^= 1
	return head + "." + body + "." + b64(raw)
}

// next is another last letter that says the same bytes, to readers that are
// not strict.
func next(last byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, last)+1])
}

func TestNoForgedTokenIsTaken(t *testing.T) {
	right, tokens := forged()
	v := open(t, config(writeJWKS(t, right...)))
	good := right[0].token(right[0].header(), claims())
	if _, err := v.Identify(t.Context(), good); err != nil {
		t.Fatal("the token that the others were made of is refused")
	}
	if len(tokens) < 120 {
		t.Errorf("only %d tokens", len(tokens))
	}
	for name, token := range tokens {
		id, err := v.Identify(t.Context(), token)
		if !errors.Is(err, signed.ErrInvalid) || err.Error() != signed.ErrInvalid.Error() {
			t.Errorf("%s: %+v, %v; want the one constant error", name, id, err)
		}
	}
}

func FuzzIdentify(f *testing.F) {
	_, tokens := forged()
	for _, token := range tokens {
		if len(token) < 2000 {
			f.Add(token)
		}
	}
	var v *signed.Verifier
	f.Fuzz(func(t *testing.T, token string) {
		if v == nil {
			v = open(t, config(writeJWKS(t, newEd25519("other"))))
		}
		if _, err := v.Identify(t.Context(), token); err == nil {
			t.Errorf("%q is taken", token)
		}
	})
}
