package signed

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

// jwk is a JSON Web Key (RFC 7517). Certificates (x5c) are ignored: the key set itself is trusted.
type jwk struct {
	Kty    string   `json:"kty"`
	Kid    string   `json:"kid"`
	Alg    string   `json:"alg"`
	Use    string   `json:"use"`
	KeyOps []string `json:"key_ops"`
	Crv    string   `json:"crv"`
	N      octets   `json:"n"`
	E      octets   `json:"e"`
	X      octets   `json:"x"`
	Y      octets   `json:"y"`
	K      octets   `json:"k"`
	D      octets   `json:"d"` // of a private key

	malformed error
}

// octets are base64url. Some issuers add padding.
type octets []byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *octets) UnmarshalText(text []byte) (err error) {
	*o, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(string(text), "="))
	return err
}

// parseJWKS reads a key set. The error of an invalid key is reported by usable, so that the others
// work.
func parseJWKS(text []byte) ([]jwk, error) {
	var set struct {
		Keys *[]json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("is neither a JWKS nor PEM: %w", err)
	}
	if set.Keys == nil {
		return nil, errors.New(`is no JWKS: it has no member "keys"`)
	}
	all := make([]jwk, len(*set.Keys))
	for i, text := range *set.Keys {
		all[i].malformed = json.Unmarshal(text, &all[i])
	}
	return all, nil
}

// readJWKS reads a file. Each of its keys must be usable.
func readJWKS(text []byte, algorithms []string) ([]key, error) {
	set, err := parseJWKS(text)
	if err != nil {
		return nil, err
	}
	var all []key
	for i, one := range set {
		if len(one.D) > 0 {
			return nil, fmt.Errorf("keys[%d] is a private key; only the issuer should have it", i)
		}
		k, err := one.usable(algorithms)
		if err != nil {
			return nil, fmt.Errorf("keys[%d]: %w", i, err)
		}
		all = append(all, k)
	}
	return all, nil
}

// usable returns the key if one of the algorithms can verify signatures with it.
func (j *jwk) usable(algorithms []string) (key, error) {
	if j.malformed != nil {
		return key{}, j.malformed
	}
	if j.Use != "" && j.Use != "sig" {
		return key{}, fmt.Errorf("is for use %q, not for signatures", j.Use)
	}
	if len(j.KeyOps) > 0 && !slices.Contains(j.KeyOps, "verify") {
		return key{}, fmt.Errorf("is for %s, not to verify signatures", strings.Join(j.KeyOps, ", "))
	}
	public, err := j.public()
	if err != nil {
		return key{}, err
	}
	k := key{kid: j.Kid, alg: j.Alg, public: public}
	return k, k.check(algorithms)
}

// public returns the public key, or the secret of kind oct.
func (j *jwk) public() (any, error) {
	switch {
	case j.Kty == "RSA":
		e := new(big.Int).SetBytes(j.E)
		if len(j.N) == 0 || !e.IsInt64() || e.Int64() < 3 || e.Int64() > math.MaxInt32 || e.Bit(0) == 0 {
			return nil, errors.New("is not an RSA key: n is missing, or e is not an odd number from 3 to 2^31-1")
		}
		return &rsa.PublicKey{N: new(big.Int).SetBytes(j.N), E: int(e.Int64())}, nil
	case j.Kty == "EC" && j.Crv == "P-256":
		if len(j.X) != 32 || len(j.Y) != 32 {
			return nil, errors.New("is not a P-256 key: x and y are not 32 bytes each")
		}
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, j.X, j.Y)) // 4: uncompressed
		if err != nil {
			return nil, fmt.Errorf("is not a P-256 key: %w", err)
		}
		return public, nil
	case j.Kty == "OKP" && j.Crv == "Ed25519":
		if len(j.X) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("is not an Ed25519 key: x has %d bytes, not %d", len(j.X), ed25519.PublicKeySize)
		}
		return ed25519.PublicKey(j.X), nil
	case j.Kty == "oct":
		return []byte(j.K), nil
	}
	return nil, fmt.Errorf("is of kind %q, curve %q; use RSA, EC on P-256, OKP with Ed25519, or oct", j.Kty, j.Crv)
}
