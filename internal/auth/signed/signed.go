package signed

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
)

// Verifier identifies callers by the tokens of one issuer.
type Verifier struct {
	cfg    Config
	keys   keys
	parser *jwt.Parser
}

// New loads the keys. Those of a JWKS URL are refreshed until ctx ends.
func New(ctx context.Context, c Config) (*Verifier, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.defaults()
	found, err := openKeys(ctx, &c)
	if err != nil {
		return nil, err
	}
	return &Verifier{cfg: c, keys: found, parser: jwt.NewParser(
		jwt.WithValidMethods(c.Algorithms), jwt.WithIssuer(c.Issuer), jwt.WithAudience(c.Audience),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(Leeway), jwt.WithTimeFunc(c.Now),
		jwt.WithStrictDecoding(), jwt.WithJSONNumber(),
	)}, nil
}

// logReason is why a token without a trusted signature is invalid. It is only for the log.
type logReason string

func (r logReason) Error() string { return string(r) }

// Identify returns the identity of a token. An error wraps ErrInvalid.
func (v *Verifier) Identify(ctx context.Context, token string) (auth.Identity, error) {
	if !wellFormed(token) {
		return auth.Identity{}, fmt.Errorf("%w: it is not a signed JWT of at most %d bytes whose members are unique", ErrInvalid, maxToken)
	}
	claims := jwt.MapClaims{}
	parsed, err := v.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) { return v.key(ctx, t) })
	switch {
	case errors.Is(err, jwt.ErrTokenInvalidClaims): // its signature is valid
		return auth.Identity{}, v.refuse(claims)
	case err != nil || !parsed.Valid:
		reason := logReason("its signature does not match the key, or AUTH_JWT_ALGORITHMS does not list its alg")
		errors.As(err, &reason)
		return auth.Identity{}, fmt.Errorf("%w: %w", ErrInvalid, reason)
	case v.checkTimes(claims) != nil:
		return auth.Identity{}, v.refuse(claims)
	}
	id := auth.Identity{Via: auth.ViaJWT, Roles: rolesOf(claims, v.cfg.RolesClaim)}
	if exp, err := claims.GetExpirationTime(); err == nil && exp != nil {
		id.Expires = exp.Add(Leeway)
	}
	id.Subject, _ = claims["sub"].(string)
	if !auth.ValidSubject(id.Subject) {
		return auth.Identity{}, invalid("sub", claims["sub"], fmt.Sprintf("is not 1 to %d printable characters without a space at the beginning or end", auth.MaxSubject))
	}
	if id.NeedsOwner() {
		id.Owner, _ = claims[v.cfg.OwnerClaim].(string)
		if !schedule.ValidOwner(id.Owner) {
			return auth.Identity{}, invalid(v.cfg.OwnerClaim, claims[v.cfg.OwnerClaim], "is not an owner id; "+schedule.OwnerHint)
		}
		id.Accounts = slices.DeleteFunc(wordsOf(claims, v.cfg.AccountsClaim), func(word string) bool { return !schedule.ValidID(word) })
	}
	return id, nil
}

// wellFormed checks a token before the parser sees it: bounded length, three parts, JSON objects
// without duplicate members.
func wellFormed(token string) bool {
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return false
	}
	parts := strings.Split(token, ".")
	if parts[2] == "" {
		return false
	}
	for _, part := range parts[:2] {
		text, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if err != nil || len(text) == 0 || text[0] != '{' || rawjson.Problem(text, maxDepth) != "" {
			return false
		}
	}
	return true
}

// key returns the key that the header names. A header can only choose a loaded key: jku, x5u, jwk and
// x5c are ignored.
func (v *Verifier) key(ctx context.Context, t *jwt.Token) (any, error) {
	for _, unknown := range []string{"crit", "cty", "enc", "zip"} { // each changes the meaning of the token
		if _, ok := t.Header[unknown]; ok {
			return nil, logReason("its header has " + unknown)
		}
	}
	if typ, ok := t.Header["typ"]; ok {
		word, _ := typ.(string)
		if !strings.EqualFold(word, "JWT") && !strings.EqualFold(word, "at+jwt") {
			return nil, logReason("the typ of its header is neither JWT nor at+jwt")
		}
	}
	var found key
	var ok bool
	if named, present := t.Header["kid"]; present {
		kid, isText := named.(string)
		if !isText || kid == "" || len(kid) > maxKID {
			return nil, logReason("the kid of its header is not a short text")
		}
		found, ok = v.keys.named(ctx, kid)
	} else {
		found, ok = v.keys.only(ctx)
	}
	switch {
	case !ok:
		return nil, logReason("no trusted key has its kid " + schedule.Quote(fmt.Sprint(t.Header["kid"])))
	case !found.fits(t.Method.Alg()):
		return nil, logReason("its alg does not match the key with its kid")
	}
	return found.public, nil
}

// rolesOf returns the roles in the claim and ignores other words.
func rolesOf(claims jwt.MapClaims, name string) []auth.Role {
	words := wordsOf(claims, name)
	var roles []auth.Role
	for _, role := range auth.Roles {
		if slices.Contains(words, string(role)) {
			roles = append(roles, role)
		}
	}
	return roles
}

// wordsOf returns the words of a claim: a list, or a string separated by spaces. It looks for the
// whole name first, then for the path that its dots describe.
func wordsOf(claims jwt.MapClaims, name string) (words []string) {
	value, ok := claims[name]
	if !ok {
		value = map[string]any(claims)
		for step := range strings.SplitSeq(name, ".") {
			members, _ := value.(map[string]any)
			value = members[step]
		}
	}
	switch v := value.(type) {
	case string:
		words = strings.Fields(v)
	case []any:
		for _, one := range v {
			word, _ := one.(string)
			words = append(words, word)
		}
	}
	return words
}
