// Package gate stands before every call, over gRPC and REST alike. It makes
// what a caller shows an Identity, and admits the call if the one table of
// rules lets that identity make it. There is one function for each of the two,
// whichever way a call comes.
//
// A REST call shows its credentials at the HTTP listener; the identity then
// travels with the call over the loopback connection inside the process, which
// nobody outside can reach.
package gate

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/cert"
	"github.com/carillon/carillon/internal/auth/signed"
	"github.com/carillon/carillon/internal/auth/tokenfile"
	"github.com/carillon/carillon/internal/connlimit"
)

// Options are the ways in. Without any of them, and without Off, nobody gets
// in.
type Options struct {
	Off     bool             // everybody may everything
	Signed  *signed.Verifier // nil: no signed token is taken
	Tokens  *tokenfile.File  // nil: no static token is taken
	Callers cert.Callers     // nil: no certificate is taken
	Signers *cert.Authority  // of the certificates of Callers
	Logger  *slog.Logger
	Now     func() time.Time // default time.Now
	// Refused hears of requests that got no further than the HTTP listener, and
	// who made them as far as that is known; nil: nobody does.
	Refused func(r *http.Request, id auth.Identity, code codes.Code)
}

// Gate identifies and admits.
type Gate struct {
	o         Options
	log       *slog.Logger
	strangers strangerPools
	shown     sync.Map // Credentials of HTTP callers whose streams are open, by lent
	lent      atomic.Uint64
}

// New makes a gate.
func New(o Options) *Gate {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Refused == nil {
		o.Refused = func(*http.Request, auth.Identity, codes.Code) {}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Gate{o: o, log: o.Logger.With("component", "gate"), strangers: newStrangerPools()}
}

// Credentials are what a caller shows.
type Credentials struct {
	Authorization []string             // every header of this name
	TLS           *tls.ConnectionState // nil: the connection is plain
}

// ErrUnauthenticated is the one answer to whoever shows nothing that is good.
var ErrUnauthenticated = errors.New("not authenticated: send a valid token (Authorization: Bearer …) or a known client certificate")

// Identify is who shows these credentials. A token decides alone where there
// is one: a bad one is not made good by a certificate.
func (g *Gate) Identify(ctx context.Context, c Credentials) (auth.Identity, error) {
	if g.o.Off {
		connlimit.FromContext(ctx).Identify()
		return auth.Identity{Via: auth.ViaOpen}, nil
	}
	id, err := g.identify(ctx, c)
	if err != nil {
		return auth.Identity{}, g.unknown(ctx, c, err)
	}
	if id.Via != auth.ViaReport { // anything of its form passes here
		connlimit.FromContext(ctx).Identify()
	}
	return id, nil
}

// unknown logs why a caller is not known, and returns its answer: the one that
// everybody gets, and the name of the claim if a trusted key has signed the
// token.
func (g *Gate) unknown(ctx context.Context, c Credentials, err error) error {
	level, fields := slog.LevelWarn, []any{"err", err} // the log limits lines with err
	if len(c.Authorization) == 0 && (c.TLS == nil || len(c.TLS.PeerCertificates) == 0) {
		level = slog.LevelDebug // probes and browsers that show nothing
	}
	var wrong *auth.ClaimError
	if !errors.As(err, &wrong) {
		g.log.Log(ctx, level, "caller not identified", fields...)
		return ErrUnauthenticated
	}
	g.log.Log(ctx, level, "caller not identified", append(fields, "claim", wrong.Claim, "value", wrong.Value)...)
	return claimRefused{wrong}
}

// claimRefused is ErrUnauthenticated with the claim that is wrong.
type claimRefused struct{ claim *auth.ClaimError }

func (e claimRefused) Error() string { return ErrUnauthenticated.Error() + ": " + e.claim.Error() }

func (e claimRefused) Unwrap() error { return e.claim }

func (claimRefused) Is(target error) bool { return target == ErrUnauthenticated }

func (g *Gate) identify(ctx context.Context, c Credentials) (auth.Identity, error) {
	switch len(c.Authorization) {
	case 0:
		if c.TLS == nil || len(c.TLS.PeerCertificates) == 0 || g.o.Callers == nil || g.o.Signers == nil {
			return auth.Identity{}, errors.New("no credentials")
		}
		return g.o.Callers.Identify(c.TLS, g.o.Signers, g.o.Now())
	case 1:
	default:
		return auth.Identity{}, errors.New("more than one Authorization header")
	}
	scheme, token, _ := strings.Cut(c.Authorization[0], " ")
	switch token = strings.TrimSpace(token); {
	case !strings.EqualFold(scheme, "bearer") || token == "":
		return auth.Identity{}, errors.New("the Authorization header is not \"Bearer TOKEN\"")
	case isReportToken(token):
		// Good for nothing but the report that its own run's key is in, which the
		// registrar looks at.
		return auth.Identity{Via: auth.ViaReport}, nil
	case strings.HasPrefix(token, tokenfile.Prefix):
		if g.o.Tokens == nil {
			return auth.Identity{}, errors.New("static tokens are not accepted")
		}
		return g.o.Tokens.Identify(token)
	case g.o.Signed != nil:
		return g.o.Signed.Identify(ctx, token)
	}
	return auth.Identity{}, errors.New("signed tokens are not accepted")
}

// isReportToken tells the token of a run from all others: 64 hex digits.
func isReportToken(token string) bool {
	return len(token) == 64 && strings.Trim(token, "0123456789abcdef") == ""
}

// refusal is a call that its caller may not make.
type refusal struct {
	code codes.Code
	text string
}

func (r refusal) Error() string { return r.text }

// admit is the identity under which the caller makes the call. err is
// ErrUnauthenticated or a refusal.
func (g *Gate) admit(method string, id auth.Identity, shown error) (auth.Identity, error) {
	rule, known := auth.RuleOf(method)
	switch {
	case g.o.Off || known && rule.Anyone:
		return auth.Identity{Via: auth.ViaOpen}, nil
	case shown != nil:
		return auth.Identity{}, shown
	case id.Via == viaProcess:
		return id, nil
	case id.Via == auth.ViaReport && rule.Report:
		return id, nil
	case id.Via == auth.ViaReport: // before the name is looked at: anybody can make up such a token
		return auth.Identity{}, ErrUnauthenticated
	case !known:
		return auth.Identity{}, refusal{codes.Unimplemented, "no such call"}
	}
	admitted, ok := rule.Admit(id)
	if !ok {
		return auth.Identity{}, refusal{codes.PermissionDenied, method[strings.LastIndex(method, "/")+1:] + " is for the roles " + rule.Names() + "; the caller has none of them"}
	}
	return admitted, nil
}
