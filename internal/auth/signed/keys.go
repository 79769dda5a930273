package signed

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/auth/reload"
)

// The bounds of fetching keys.
const (
	fetchTimeout = 5 * time.Second
	fetchEvery   = 5 * time.Minute // a withdrawn key is accepted at most this long
	// An unknown kid fetches the keys at once, so that a new key works immediately, but at most once in
	// this time: callers can invent kids.
	fetchUnknown = 30 * time.Second
	maxKeySet    = 1 << 20
	minRSABits   = 2048
	minHMACBytes = 32
)

// key verifies tokens.
type key struct {
	kid    string
	alg    string // empty: any algorithm of its kind
	public any    // []byte, *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// keys finds the key of a token.
type keys interface {
	named(ctx context.Context, kid string) (key, bool)
	// only returns the key if there is exactly one.
	only(ctx context.Context) (key, bool)
}

func openKeys(ctx context.Context, c *Config) (keys, error) {
	if c.KeysFile == "" {
		return fetchKeys(ctx, c), nil
	}
	file, err := reload.Open(c.Logger, c.Now, func() ([]key, error) { return readKeys(c.KeysFile, c.Algorithms) }, c.KeysFile)
	if err != nil {
		return nil, fmt.Errorf("AUTH_JWT_KEYS_FILE: %w", err)
	}
	return fileKeys{file}, nil
}

type fileKeys struct{ file *reload.File[[]key] }

func (f fileKeys) named(_ context.Context, kid string) (key, bool) {
	all := f.file.Get()
	i := slices.IndexFunc(all, func(k key) bool { return k.kid == kid })
	if i < 0 {
		return key{}, false
	}
	return all[i], true
}

func (f fileKeys) only(context.Context) (key, bool) {
	all := f.file.Get()
	if len(all) != 1 {
		return key{}, false
	}
	return all[0], true
}

// readKeys reads a JWKS or PEM file. An unusable key is an error, because the operator wrote the file.
func readKeys(path string, algorithms []string) ([]key, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeySet {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxKeySet)
	}
	parse := readJWKS
	if bytes.Contains(text, []byte("-----BEGIN ")) {
		parse = readPEM
	}
	all, err := parse(text, algorithms)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no key", path)
	}
	for i := range all {
		if slices.ContainsFunc(all[:i], func(o key) bool { return o.kid == all[i].kid }) {
			return nil, fmt.Errorf("%s: two keys have the kid %q; give each its own", path, all[i].kid)
		}
	}
	return all, nil
}

// readPEM reads public keys. A block may have a PEM header "kid: NAME"; without it, the key is for
// tokens without a kid.
func readPEM(text []byte, algorithms []string) ([]key, error) {
	var all []key
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all, nil
		}
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("holds a %s; only blocks of the type PUBLIC KEY are accepted", block.Type)
		}
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("public key %d: %w", len(all), err)
		}
		k := key{kid: block.Headers["kid"], public: public}
		if err := k.check(algorithms); err != nil {
			return nil, fmt.Errorf("public key %d: %w", len(all), err)
		}
		all = append(all, k)
	}
}

// check refuses keys that are too weak or fit none of the algorithms.
func (k *key) check(algorithms []string) error {
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < minRSABits {
			return fmt.Errorf("has %d bits, less than %d", bits, minRSABits)
		}
	case []byte:
		if len(public) < minHMACBytes {
			return fmt.Errorf("has %d bytes, less than %d", len(public), minHMACBytes)
		}
	}
	if !slices.ContainsFunc(algorithms, k.fits) {
		return fmt.Errorf("is a %T, which no allowed algorithm supports", k.public)
	}
	return nil
}

// fits reports whether the key may verify tokens of this algorithm.
func (k *key) fits(alg string) bool {
	if k.alg != "" && k.alg != alg && (k.alg != "Ed25519" || alg != edDSA) {
		return false
	}
	switch public := k.public.(type) {
	case ed25519.PublicKey:
		return alg == edDSA
	case *ecdsa.PublicKey:
		return alg == es256 && public.Curve == elliptic.P256()
	case *rsa.PublicKey:
		return alg == rs256
	case []byte:
		return alg == hs256
	}
	return false
}
