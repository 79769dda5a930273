// Package gate authenticates and authorizes every call over gRPC and REST. Gate.Identify turns
// credentials into an Identity, and Gate.admit checks that identity against the rules of package auth.
//
// A REST call is identified at the HTTP listener. Its identity is then sent with the call over the
// in-process connection, which is not reachable from outside.
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

// Options are the accepted credentials. Without any of them, and without Off, every caller is refused.
type Options struct {
	Off     bool             // everyone may do everything
	Signed  *signed.Verifier // nil: signed tokens are refused
	Tokens  *tokenfile.File  // nil: static tokens are refused
	Callers cert.Callers     // nil: certificates are refused
	Signers *cert.Authority  // of the certificates of Callers
	Logger  *slog.Logger
	Now     func() time.Time // default time.Now
	// Refused is called for requests refused at the HTTP listener, with the identity as far as it is
	// known.
	Refused func(r *http.Request, id auth.Identity, code codes.Code)
}

// Gate identifies callers and admits their calls.
type Gate struct {
	o             Options
	log           *slog.Logger
	strangers     strangerPools
	credentials   sync.Map // Credentials of HTTP callers with open streams, by id
	credentialsID atomic.Uint64
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

// Credentials are sent by a caller.
type Credentials struct {
	Authorization []string             // every header of this name
	TLS           *tls.ConnectionState // nil: the connection is plain
}

// ErrUnauthenticated is the answer to a caller without valid credentials. It does not say why.
var ErrUnauthenticated = errors.New("not authenticated: send a valid token (Authorization: Bearer …) or a known client certificate")

// Identify returns the identity of the credentials. An invalid token is refused even if the client
// certificate is valid.
func (g *Gate) Identify(ctx context.Context, c Credentials) (auth.Identity, error) {
	if g.o.Off {
		connlimit.FromContext(ctx).Identify()
		return auth.Identity{Via: auth.ViaOpen}, nil
	}
	id, err := g.identify(ctx, c)
	if err != nil {
		return auth.Identity{}, g.unknown(ctx, c, err)
	}
	if id.Via != auth.ViaReport { // not checked yet
		connlimit.FromContext(ctx).Identify()
	}
	return id, nil
}

// unknown logs why a caller is not identified and returns ErrUnauthenticated, with the claim if a
// trusted key has signed the token.
func (g *Gate) unknown(ctx context.Context, c Credentials, err error) error {
	level, fields := slog.LevelWarn, []any{"err", err} // logthrottle limits lines with err
	if len(c.Authorization) == 0 && (c.TLS == nil || len(c.TLS.PeerCertificates) == 0) {
		level = slog.LevelDebug // probes and browsers without credentials
	}
	var wrong *auth.ClaimError
	if !errors.As(err, &wrong) {
		g.log.Log(ctx, level, "caller not identified", fields...)
		return ErrUnauthenticated
	}
	g.log.Log(ctx, level, "caller not identified", append(fields, "claim", wrong.Claim, "value", wrong.Value)...)
	return claimRefused{wrong}
}

// claimRefused is ErrUnauthenticated with the invalid claim.
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
		// The registrar checks it: valid only for a report of the run that it belongs to.
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

// isReportToken reports whether a token has the format of a run's token: 64 hex digits.
func isReportToken(token string) bool {
	return len(token) == 64 && strings.Trim(token, "0123456789abcdef") == ""
}

// refusal is a call that its caller may not make.
type refusal struct {
	code codes.Code
	text string
}

func (r refusal) Error() string { return r.text }

// admit returns the identity for the call. err is invalid, the error of the credentials, or a refusal.
func (g *Gate) admit(method string, id auth.Identity, invalid error) (auth.Identity, error) {
	rule, known := auth.RuleOf(method)
	switch {
	case g.o.Off || known && rule.Anyone:
		return auth.Identity{Via: auth.ViaOpen}, nil
	case invalid != nil:
		return auth.Identity{}, invalid
	case id.Via == viaProcess:
		return id, nil
	case id.Via == auth.ViaReport && rule.Report:
		return id, nil
	case id.Via == auth.ViaReport: // unchecked, so it must not reveal which methods exist
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
