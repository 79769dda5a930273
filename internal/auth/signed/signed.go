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

// Verifier knows callers by the tokens of one issuer.
type Verifier struct {
	cfg    Config
	keys   keys
	parser *jwt.Parser
}

// New reads the keys. Those of a JWKS address are fetched again until ctx ends.
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

// why says in the log why a token is not valid that no trusted key has signed. It
// is not part of the answer.
type why string

func (w why) Error() string { return string(w) }

// Identify is who shows this token. An error wraps ErrInvalid.
func (v *Verifier) Identify(ctx context.Context, token string) (auth.Identity, error) {
	if !wellFormed(token) {
		return auth.Identity{}, fmt.Errorf("%w: it is not a signed JWT of at most %d bytes whose members are unique", ErrInvalid, maxToken)
	}
	claims := jwt.MapClaims{}
	parsed, err := v.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) { return v.key(ctx, t) })
	switch {
	case errors.Is(err, jwt.ErrTokenInvalidClaims): // its signature is good
		return auth.Identity{}, v.refuse(claims)
	case err != nil || !parsed.Valid:
		reason := why("its signature does not match the key, or AUTH_JWT_ALGORITHMS does not list its alg")
		errors.As(err, &reason)
		return auth.Identity{}, fmt.Errorf("%w: %w", ErrInvalid, reason)
	case v.untimely(claims) != nil:
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
	if id.Has(auth.User) {
		id.Owner, _ = claims[v.cfg.OwnerClaim].(string)
		if !schedule.ValidOwner(id.Owner) {
			return auth.Identity{}, invalid(v.cfg.OwnerClaim, claims[v.cfg.OwnerClaim], "is not an owner id; "+schedule.OwnerHint)
		}
		id.Accounts = slices.DeleteFunc(wordsOf(claims, v.cfg.AccountsClaim), func(word string) bool { return !schedule.ValidID(word) })
	}
	return id, nil
}

// wellFormed looks at a token before anything of it is decoded by others:
// three parts of a bounded length, and JSON that says everything once.
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

// key is the one that the header names. The header chooses among the keys that
// are loaded, and nothing else: jku, x5u, jwk and x5c are not looked at.
func (v *Verifier) key(ctx context.Context, t *jwt.Token) (any, error) {
	for _, unknown := range []string{"crit", "cty", "enc", "zip"} { // each would change what the token means
		if _, ok := t.Header[unknown]; ok {
			return nil, why("its header has " + unknown)
		}
	}
	if typ, ok := t.Header["typ"]; ok {
		word, _ := typ.(string)
		if !strings.EqualFold(word, "JWT") && !strings.EqualFold(word, "at+jwt") {
			return nil, why("the typ of its header is neither JWT nor at+jwt")
		}
	}
	var found key
	var ok bool
	if named, present := t.Header["kid"]; present {
		kid, isText := named.(string)
		if !isText || kid == "" || len(kid) > maxKID {
			return nil, why("the kid of its header is not a short text")
		}
		found, ok = v.keys.named(ctx, kid)
	} else {
		found, ok = v.keys.only(ctx)
	}
	switch {
	case !ok:
		return nil, why("no trusted key has its kid " + schedule.Quote(fmt.Sprint(t.Header["kid"])))
	case !found.fits(t.Method.Alg()):
		return nil, why("its alg does not match the key with its kid")
	}
	return found.public, nil
}

// rolesOf are the roles that the claim names; other words in it are ignored.
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

// wordsOf are the words of a claim: a list, or a text with spaces between them.
// The claim is looked up by its whole name, then along its dots.
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
