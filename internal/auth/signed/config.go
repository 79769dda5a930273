// Package signed identifies callers by signed tokens (JWT): one issuer, one audience, a list of
// algorithms, keys from a JWKS URL or a file. A token cannot choose how it is verified: its alg must
// be allowed, its kid must name a loaded key, and URLs or keys in it are ignored.
package signed

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The bounds of a token.
const (
	Leeway   = 30 * time.Second // between the issuer's clock and ours
	maxToken = 8 << 10          // bytes, checked before parsing
	maxKID   = 128
	maxDepth = 8
)

// The supported algorithms. HS256 cannot be combined with others: its key can also sign tokens.
const (
	edDSA = "EdDSA"
	es256 = "ES256"
	rs256 = "RS256"
	hs256 = "HS256"
)

// Config describes the issuer.
type Config struct {
	JWKSURL       string // exactly one of JWKSURL and KeysFile
	KeysFile      string // a JWKS, or public keys in PEM
	Issuer        string
	Audience      string
	Algorithms    []string
	RolesClaim    string        // default roles
	OwnerClaim    string        // default sub
	AccountsClaim string        // default billing_accounts
	MaxLifetime   time.Duration // default an hour

	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default slog.Default
	Client *http.Client     // for JWKSURL; default with a timeout and without redirects
}

// ErrInvalid refuses a token without a reason, so that an attacker learns nothing. If a trusted key
// has signed the token, the error also wraps an *auth.ClaimError with the invalid claim.
var ErrInvalid = errors.New("the token is not valid")

// Validate returns all errors joined.
func (c *Config) Validate() error {
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if (c.JWKSURL == "") == (c.KeysFile == "") {
		problem("AUTH_JWKS_URL: set it or AUTH_JWT_KEYS_FILE, not both")
	}
	if c.Issuer == "" {
		problem("AUTH_JWT_ISSUER: is required: without it tokens of every issuer with the same keys are accepted")
	}
	if c.Audience == "" {
		problem("AUTH_JWT_AUDIENCE: is required: without it tokens for other services are accepted")
	}
	if len(c.Algorithms) == 0 {
		problem("AUTH_JWT_ALGORITHMS: is empty; name some of %s, %s, %s", edDSA, es256, rs256)
	}
	for _, alg := range c.Algorithms {
		if !slices.Contains([]string{edDSA, es256, rs256, hs256}, alg) {
			problem("AUTH_JWT_ALGORITHMS: %q is not one of %s, %s, %s, %s", alg, edDSA, es256, rs256, hs256)
		}
	}
	if slices.Contains(c.Algorithms, hs256) && len(c.Algorithms) > 1 {
		problem("AUTH_JWT_ALGORITHMS: %s cannot be combined with others", hs256)
	}
	if c.JWKSURL != "" {
		problems = append(problems, checkURL(c.JWKSURL))
		if slices.Contains(c.Algorithms, hs256) {
			problem("AUTH_JWKS_URL: keys of %s are secrets; keep them in AUTH_JWT_KEYS_FILE", hs256)
		}
	}
	return errors.Join(problems...)
}

// checkURL requires https, so that keys cannot be replaced on the network.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return errors.New("AUTH_JWKS_URL: is not a URL")
	}
	if u.User != nil {
		return errors.New("AUTH_JWKS_URL: contains a user or password, which logs would show; keys are public, or in AUTH_JWT_KEYS_FILE")
	}
	loopback := slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, strings.ToLower(u.Hostname()))
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback) {
		return fmt.Errorf("AUTH_JWKS_URL: %s://%s is not https; plain http is for loopback only", u.Scheme, u.Host)
	}
	return nil
}

// defaults sets unset fields.
func (c *Config) defaults() {
	if c.RolesClaim == "" {
		c.RolesClaim = "roles"
	}
	if c.OwnerClaim == "" {
		c.OwnerClaim = "sub"
	}
	if c.AccountsClaim == "" {
		c.AccountsClaim = "billing_accounts"
	}
	if c.MaxLifetime == 0 {
		c.MaxLifetime = time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Client == nil {
		c.Client = &http.Client{Timeout: fetchTimeout, CheckRedirect: noRedirect}
	}
}
