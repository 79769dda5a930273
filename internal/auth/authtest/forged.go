package authtest

import (
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/auth/signed"
)

// Forged are invalid tokens by their fault. Most are signed with the right key, so that the named fault
// is the only one.
func Forged(noon time.Time) (right []*Pair, tokens map[string]string) {
	ed, ec, rs := NewEd25519("ed"), NewECDSA("ec", elliptic.P256()), NewRSA("rs", 2048)
	other := NewEd25519("ed") // another issuer's, with the same kid
	good := ed.Token(ed.Header(), Claims(noon))
	head, body, sig := cut(good)
	tokens = map[string]string{
		"nothing": "", "a word": "token", "two parts": head + "." + body, "four parts": good + ".x", "five parts, as a JWE": head + "." + body + "." + sig + ".a.b",
		"dots alone": "..", "a hundred thousand dots": strings.Repeat(".", 100_000), "dots behind it": good + strings.Repeat(".", 100_000),
		"an empty header": "." + body + "." + sig, "empty claims": head + ".." + sig, "an empty signature": head + "." + body + ".",
		"a truncated signature": good[:len(good)-8], "one bit of the signature": flip(good), "claims of another": head + "." + b64(Text(With(Claims(noon), "sub", "bob"))) + "." + sig,
		"header of another": b64(Text(With(ed.Header(), "alg", "ES256"))) + "." + body + "." + sig,
		"padding":           head + "=." + body + "." + sig, "the other alphabet": head + "." + body + "." + base64.StdEncoding.EncodeToString(append([]byte{0xfb, 0xff}, make([]byte, 62)...)),
		"trailing bits": good[:len(good)-1] + next(good[len(good)-1]), "a space before": " " + good, "a space behind": good + " ", "a line break": head + ".\n" + body + "." + sig, "NUL": good + "\x00",
		"over 8 KiB":                ed.Token(ed.Header(), With(Claims(noon), "pad", strings.Repeat("x", 8<<10))),
		"nested deeper":             ed.Token(ed.Header(), With(Claims(noon), "deep", json.RawMessage(strings.Repeat("[", 20)+strings.Repeat("]", 20)))),
		"claims that are no object": ed.Token(ed.Header(), `["ada"]`), "claims that are null": ed.Token(ed.Header(), `null`), "claims that are no JSON": ed.Token(ed.Header(), `{"sub":`), "two objects": ed.Token(ed.Header(), string(Text(Claims(noon)))+"{}"),
		"claims that are not UTF-8": ed.Token(ed.Header(), "{\"sub\":\"\xff\"}"),
		"another issuer's key":      other.Token(other.Header(), Claims(noon)), "a key of another kind under its kid": ec.Token(With(ec.Header(), "kid", "rs"), Claims(noon)),
		"a rotated-out key": NewEd25519("old").Token(map[string]any{"alg": "EdDSA", "kid": "old"}, Claims(noon)),
		"a nested token":    ed.Token(With(ed.Header(), "cty", "JWT"), Claims(noon)),
	}
	// Faults of alg.
	for _, alg := range []any{"none", "None", "NONE", "nOnE", "", nil, 0, []string{"EdDSA"}, "HS256", "HS512", "PS256", "RS1", "ES384", "RS256", "eddsa", "EdDSA ", "Ed25519"} {
		tokens[fmt.Sprintf("alg %v", alg)] = ed.Token(With(ed.Header(), "alg", alg), Claims(noon))
	}
	tokens["alg none without a signature"] = b64(Text(With(ed.Header(), "alg", "none"))) + "." + body + "."
	der, _ := x509.MarshalPKIXPublicKey(rs.Public)
	for name, secret := range map[string][]byte{
		"the public key in PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "the public key in DER": der, "nothing": nil, "the kid": []byte("rs"),
	} {
		tokens["HS256 with "+name] = NewHMAC("rs", secret).Token(map[string]any{"alg": "HS256", "kid": "rs"}, Claims(noon))
	}
	// Faults of kid.
	for _, kid := range []any{nil, "", "none", "ED", "ed ", "../../../../dev/null", "/dev/null", "'; DROP TABLE keys; --", "http://127.0.0.1/key", 7, []string{"ed"}, map[string]any{"ed": 1}, strings.Repeat("k", 129), "ed\x00"} {
		tokens[fmt.Sprintf("kid %.20q", fmt.Sprint(kid))] = ed.Token(With(ed.Header(), "kid", kid), Claims(noon))
	}
	for name, header := range map[string]map[string]any{
		"crit": With(ed.Header(), "crit", []string{"exp"}), "an empty crit": With(ed.Header(), "crit", []string{}), "crit null": With(ed.Header(), "crit", json.RawMessage("null")),
		"b64 false": With(ed.Header(), "crit", []string{"b64"}, "b64", false), "enc": With(ed.Header(), "enc", "A256GCM"), "zip": With(ed.Header(), "zip", "DEF"),
		"typ JWE": With(ed.Header(), "typ", "JWE"), "typ of another use": With(ed.Header(), "typ", "dpop+jwt"), "typ a number": With(ed.Header(), "typ", 1),
	} {
		tokens[name] = ed.Token(header, Claims(noon))
	}
	tokens["alg twice"] = ed.Token(`{"alg":"none","alg":"EdDSA","kid":"ed"}`, Claims(noon))
	tokens["kid twice"] = ed.Token(`{"alg":"EdDSA","kid":"other","kid":"ed"}`, Claims(noon))
	tokens["its own key in jwk"] = other.Token(With(other.Header(), "jwk", other.JWK()), Claims(noon))
	tokens["its own key behind jku"] = other.Token(With(other.Header(), "jku", "https://evil.example/keys"), Claims(noon))
	addClaims(noon, ed, tokens)
	return []*Pair{ed, ec, rs}, tokens
}

// WrongClaim is the claim that the answer to one of the Forged tokens may name, only for tokens signed
// by a trusted key; otherwise empty.
func WrongClaim(name string) string {
	claim, rest, _ := strings.Cut(name, " ")
	switch {
	case name == "longer than a token may live since iat":
		return "exp"
	case rest == "twice", strings.Contains(rest, `\x00`), !slices.Contains([]string{"aud", "iss", "sub", "exp", "nbf", "iat"}, claim):
		return ""
	}
	return claim
}

// addClaims adds tokens with a valid signature and an invalid claim.
func addClaims(noon time.Time, ed *Pair, tokens map[string]string) {
	whole := string(Text(Claims(noon)))
	say := func(name string, body any) { tokens[name] = ed.Token(ed.Header(), body) }
	for _, aud := range []any{nil, "", "other", "carillo", "carillon2", "Carillon", " carillon", []string{}, []string{"other"}, []string{"carillon2", "xcarillon"}, "launcher", 7, map[string]any{"carillon": 1}, []any{7}} {
		say(fmt.Sprintf("aud %v", aud), With(Claims(noon), "aud", aud))
	}
	for _, iss := range []any{nil, "", "https://id.example/", "https://id.example.evil", "http://id.example", "https://ID.example", []string{Issuer}, 7} {
		say(fmt.Sprintf("iss %v", iss), With(Claims(noon), "iss", iss))
	}
	for _, sub := range []any{nil, "", " ", 7, []string{"ada"}, " ada", "ada ", "ada\n", "ada\x00", "ada\u00a0", "ada\u200b", "a\u0301\u202e", strings.Repeat("a", 129), strings.Repeat("ä", 129), "*", "ada\u202e"} {
		say(fmt.Sprintf("sub %.30q", fmt.Sprint(sub)), With(Claims(noon), "sub", sub))
	}
	now := noon.Add(time.Minute)
	for name, exp := range map[string]any{
		"missing": nil, "just past the leeway": now.Add(-signed.Leeway).Unix(), "past": noon.Add(-time.Hour).Unix(), "zero": 0, "negative": -1, "text": fmt.Sprint(now.Add(time.Minute).Unix()), "a fraction": json.RawMessage("1772366460.5"),
		"an exponent": json.RawMessage("1.772367e9"), "1e309": json.RawMessage("1e309"), "milliseconds": now.Add(time.Minute).UnixMilli(), "past int64": json.RawMessage("99999999999999999999"), "true": true, "null": json.RawMessage("null"), "a list": []int64{now.Add(time.Minute).Unix()},
		"longer than a token may live": now.Add(2 * time.Hour).Unix(),
	} {
		say("exp "+name, With(Claims(noon), "exp", exp))
	}
	say("longer than a token may live since iat", With(Claims(noon), "iat", noon.Add(-30*time.Minute).Unix(), "exp", noon.Add(40*time.Minute).Unix()))
	for name, at := range map[string]any{"ahead": now.Add(signed.Leeway + time.Second).Unix(), "text": "0", "a fraction": 1.5, "negative": -5, "a list": []int{0}, "huge": json.RawMessage("1e400")} {
		say("nbf "+name, With(Claims(noon), "nbf", at))
		say("iat "+name, With(Claims(noon), "iat", at))
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
