package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"time"
)

// The issuer and audience of valid tokens.
const (
	Issuer   = "https://id.example"
	Audience = "carillon"
)

// Pair is an issuer's key pair.
type Pair struct {
	KID, Alg string
	Sign     func(text []byte) []byte
	Public   any
}

// JWK is the public key in the format of a JWKS.
func (p *Pair) JWK() map[string]any {
	m := map[string]any{"kid": p.KID, "alg": p.Alg, "use": "sig"}
	switch k := p.Public.(type) {
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

// NewEd25519 makes a pair.
func NewEd25519(kid string) *Pair {
	public, private, _ := ed25519.GenerateKey(nil)
	return &Pair{kid, "EdDSA", func(text []byte) []byte { return ed25519.Sign(private, text) }, public}
}

// NewECDSA makes a pair.
func NewECDSA(kid string, curve elliptic.Curve) *Pair {
	private, _ := ecdsa.GenerateKey(curve, rand.Reader)
	return &Pair{kid, "ES256", func(text []byte) []byte {
		sum := sha256.Sum256(text)
		r, s, _ := ecdsa.Sign(rand.Reader, private, sum[:])
		size := (curve.Params().BitSize + 7) / 8
		return append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	}, &private.PublicKey}
}

// NewRSA makes a pair.
func NewRSA(kid string, bits int) *Pair {
	private, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return &Pair{kid, "RS256", func(text []byte) []byte {
		sum := sha256.Sum256(text)
		sig, _ := rsa.SignPKCS1v15(rand.Reader, private, crypto.SHA256, sum[:])
		return sig
	}, &private.PublicKey}
}

// NewHMAC makes a pair that signs with a secret.
func NewHMAC(kid string, secret []byte) *Pair {
	return &Pair{kid, "HS256", func(text []byte) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write(text)
		return mac.Sum(nil)
	}, secret}
}

// Header is the header of its tokens.
func (p *Pair) Header() map[string]any {
	return map[string]any{"alg": p.Alg, "typ": "JWT", "kid": p.KID}
}

// Claims are those of the user ada, valid for ten minutes from noon.
func Claims(noon time.Time) map[string]any {
	return map[string]any{
		"iss": Issuer, "aud": Audience, "sub": "ada", "roles": []string{"user"},
		"iat": noon.Unix(), "nbf": noon.Unix(), "exp": noon.Add(10 * time.Minute).Unix(),
	}
}

// With returns a copy with changed members; nil removes one.
func With(m map[string]any, members ...any) map[string]any {
	out := maps.Clone(m)
	for i := 0; i < len(members); i += 2 {
		name := members[i].(string)
		if out[name] = members[i+1]; members[i+1] == nil {
			delete(out, name)
		}
	}
	return out
}

// Text is v as JSON; a string is used unchanged.
func Text(v any) []byte {
	if raw, ok := v.(string); ok {
		return []byte(raw)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// Token signs header and claims, each a map or the raw text.
func (p *Pair) Token(header, body any) string {
	input := b64(Text(header)) + "." + b64(Text(body))
	return input + "." + b64(p.Sign([]byte(input)))
}

// KeySet is a JWKS of pairs.
func KeySet(pairs ...*Pair) map[string]any {
	var all []any
	for _, p := range pairs {
		all = append(all, p.JWK())
	}
	return map[string]any{"keys": all}
}
