package gate

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
)

// A stream may stay open for days. Its credentials are checked repeatedly like those of a new call, so
// that a removed token, a withdrawn key or a removed role ends the stream.
//
// Package reload notices a changed file within a second, so a stream ends within recheckEvery +
// recheckTimeout + handover + 1 s, less than ten seconds.
const (
	recheckEvery = 3 * time.Second
	// recheckTimeout is for one check. An unknown key is fetched over the network; until then the
	// caller is not accepted.
	recheckTimeout = time.Second
	// handover is the time in which a bidirectional stream answers open requests and its client opens
	// another stream; see auth.Call.Revoked.
	handover = 4 * time.Second
)

// errRevoked ends the stream of a caller that is no longer accepted.
var errRevoked = status.Error(codes.Unauthenticated, "the credentials of this stream are no longer accepted; open a new one")

// guardStream returns the context of an admitted stream. When the caller is no longer accepted, it is
// cancelled with the answer as its cause. end must be called.
func (g *Gate) guardStream(ctx context.Context, info *grpc.StreamServerInfo, admitted auth.Identity) (_ context.Context, end func()) {
	rule, _ := auth.RuleOf(info.FullMethod)
	if g.o.Off || rule.Anyone || admitted.Via == viaProcess {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	grace, revoked := time.Duration(0), make(chan struct{})
	if info.IsClientStream {
		grace, auth.CallFrom(ctx).Revoked = handover, revoked
	}
	var rechecks sync.WaitGroup
	rechecks.Go(func() {
		refused := g.untilRefused(ctx, info.FullMethod, admitted)
		if refused == nil {
			return
		}
		close(revoked)
		wait(ctx, grace)
		cancel(refused)
	})
	return ctx, func() {
		cancel(nil)
		rechecks.Wait()
	}
}

// untilRefused returns the answer once the caller is no longer accepted; nil when ctx has ended.
func (g *Gate) untilRefused(ctx context.Context, method string, admitted auth.Identity) error {
	for wait(ctx, recheckEvery) {
		if refused := g.recheck(ctx, method, admitted); refused != nil && ctx.Err() == nil {
			return refused
		}
	}
	return nil
}

// wait reports whether ctx is still open after d.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// recheck returns an error if the caller would no longer be admitted as before.
func (g *Gate) recheck(ctx context.Context, method string, before auth.Identity) error {
	ctx, cancel := context.WithTimeout(ctx, recheckTimeout)
	defer cancel()
	id, invalid := g.callerAgain(ctx)
	now, err := g.admit(method, id, invalid)
	var refused refusal
	switch {
	case errors.As(err, &refused):
		return status.Error(refused.code, refused.Error())
	case err != nil, now.Subject != before.Subject, now.Owner != before.Owner:
		return errRevoked
	}
	return nil
}

// credentialsIDKey carries the key of Gate.credentials over the in-process connection. On other
// connections it is ignored.
const credentialsIDKey = "carillon-shown"

// callerAgain is caller, but on the in-process connection it checks the credentials from the HTTP
// listener again instead of using the identity of the stream's start.
func (g *Gate) callerAgain(ctx context.Context) (auth.Identity, error) {
	if insideProcess(ctx) {
		md, _ := metadata.FromIncomingContext(ctx)
		if ids := md.Get(credentialsIDKey); len(ids) == 1 {
			if kept, ok := g.credentials.Load(ids[0]); ok {
				return g.Identify(ctx, kept.(Credentials))
			}
		}
	}
	return g.caller(ctx)
}

type credentialsKey struct{}

// WithCredentials returns ctx with the caller's credentials, for streams opened on its behalf.
func WithCredentials(ctx context.Context, c Credentials) context.Context {
	return context.WithValue(ctx, credentialsKey{}, c)
}

// keepCredentials stores the credentials of ctx until it ends, and returns their key in g.credentials;
// empty if there are none.
func (g *Gate) keepCredentials(ctx context.Context) string {
	c, ok := ctx.Value(credentialsKey{}).(Credentials)
	if !ok {
		return ""
	}
	id := strconv.FormatUint(g.credentialsID.Add(1), 10)
	g.credentials.Store(id, c)
	context.AfterFunc(ctx, func() { g.credentials.Delete(id) })
	return id
}
