package signed

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/MicahParks/jwkset"
	"golang.org/x/time/rate"

	"github.com/carillon/carillon/internal/auth/reload"
)

// The bounds of fetching keys.
const (
	fetchTimeout = 5 * time.Second
	fetchEvery   = 5 * time.Minute // a key that the issuer withdrew is good for no longer
	// An unknown kid fetches at once, so that a new key works at once, but no
	// more often than this: kids are the callers' to make up.
	fetchUnknown = 30 * time.Second
	maxKeySet    = 1 << 20
	minRSABits   = 2048
	minHMACBytes = 32
)

// key is one that a token may be checked with.
type key struct {
	kid    string
	alg    string // empty: what its kind allows
	public any    // []byte, *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// keys finds what a token names.
type keys interface {
	// named is the key of this kid.
	named(ctx context.Context, kid string) (key, bool)
	// only is the key, where there is just one.
	only(ctx context.Context) (key, bool)
}

func openKeys(ctx context.Context, c *Config) (keys, error) {
	if c.KeysFile == "" {
		return fetchKeys(ctx, c)
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

// fetchedKeys come from the issuer's JWKS address.
type fetchedKeys struct {
	storage    jwkset.Storage
	algorithms []string
}

func fetchKeys(ctx context.Context, c *Config) (keys, error) {
	issuer, err := jwkset.NewStorageFromHTTP(c.JWKSURL, jwkset.HTTPClientStorageOptions{
		Client: c.Client, Ctx: ctx, HTTPTimeout: fetchTimeout, RefreshInterval: fetchEvery,
		NoErrorReturnFirstHTTPReq: true, // an issuer that is down must not stop the start
		RefreshErrorHandler: func(ctx context.Context, err error) {
			c.Logger.ErrorContext(ctx, "keys of AUTH_JWKS_URL not fetched, the last ones stay in force", "url", c.JWKSURL, "err", err)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("AUTH_JWKS_URL: %w", err)
	}
	storage, err := jwkset.NewHTTPClient(jwkset.HTTPClientOptions{
		HTTPURLs:          map[string]jwkset.Storage{c.JWKSURL: issuer},
		RefreshUnknownKID: rate.NewLimiter(rate.Every(fetchUnknown), 1), RateLimitWaitMax: fetchTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("AUTH_JWKS_URL: %w", err)
	}
	return fetchedKeys{storage, c.Algorithms}, nil
}

func (f fetchedKeys) named(ctx context.Context, kid string) (key, bool) {
	jwk, err := f.storage.KeyRead(ctx, kid)
	if err != nil {
		return key{}, false
	}
	k, err := usable(&jwk, f.algorithms)
	return k, err == nil
}

func (f fetchedKeys) only(ctx context.Context) (key, bool) {
	all, err := f.storage.KeyReadAll(ctx)
	if err != nil {
		return key{}, false
	}
	var found []key
	for i := range all { // an issuer's set may hold keys for other uses beside it
		if k, err := usable(&all[i], f.algorithms); err == nil {
			found = append(found, k)
		}
	}
	if len(found) != 1 {
		return key{}, false
	}
	return found[0], true
}

// bounded never reads more of an answer than a key set can have.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxKeySet), resp.Body}
	return resp, nil
}

func noRedirect(*http.Request, []*http.Request) error {
	return errors.New("the address of keys redirects; give the one that it leads to")
}

// readKeys reads a JWKS or PEM file. What cannot be used stops the start: in a
// file of one's own it is a mistake.
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

func readJWKS(text []byte, algorithms []string) ([]key, error) {
	var set jwkset.JWKSMarshal
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("is neither a JWKS nor PEM: %w", err)
	}
	var all []key
	for i, one := range set.Keys {
		if one.D != "" {
			return nil, fmt.Errorf("keys[%d] is a private key; only the issuer should have it", i)
		}
		jwk, err := jwkset.NewJWKFromMarshal(one, jwkset.JWKMarshalOptions{Private: true}, jwkset.JWKValidateOptions{})
		if err != nil {
			return nil, fmt.Errorf("keys[%d]: %w", i, err)
		}
		k, err := usable(&jwk, algorithms)
		if err != nil {
			return nil, fmt.Errorf("keys[%d]: %w", i, err)
		}
		all = append(all, k)
	}
	return all, nil
}

// readPEM takes public keys. A block may name its kid in a header of its own
// ("kid: NAME"); without one it is for tokens that name none.
func readPEM(text []byte, algorithms []string) ([]key, error) {
	var all []key
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all, nil
		}
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("holds a %s; only blocks of the type PUBLIC KEY are taken", block.Type)
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

// usable is a JWK as a key of one of the algorithms.
func usable(jwk *jwkset.JWK, algorithms []string) (key, error) {
	m := jwk.Marshal()
	k := key{kid: m.KID, alg: m.ALG.String(), public: jwk.Key()}
	if private, ok := k.public.(interface{ Public() crypto.PublicKey }); ok {
		k.public = private.Public()
	}
	if m.USE != "" && m.USE != jwkset.UseSig {
		return k, fmt.Errorf("is for use %q, not for signatures", m.USE)
	}
	return k, k.check(algorithms)
}

// check refuses keys that are too weak, or that none of the algorithms takes.
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
		return fmt.Errorf("is a %T, which none of the allowed algorithms takes", k.public)
	}
	return nil
}

// fits reports whether a token of this algorithm may be checked with the key.
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
