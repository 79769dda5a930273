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

// A stream may stay open for days. What its caller has shown is looked at again
// and again, in the way that a new call would be: so a token that was taken out
// of its file, a key that was withdrawn and a role that was taken away end it.
//
// A change of a file is seen by reload within a second, so a stream ends within
// recheckEvery + recheckTime + handover and that second: less than ten seconds.
const (
	recheckEvery = 3 * time.Second
	// recheckTime bounds one look. A key that is not known is asked for over the
	// network, and a caller whose key is not known is not accepted meanwhile.
	recheckTime = time.Second
	// handover is what a stream in both directions has to answer what is open,
	// and its client to open another; see auth.Call.Revoked.
	handover = 4 * time.Second
)

// errRevoked is the answer to a caller that is no longer accepted.
var errRevoked = status.Error(codes.Unauthenticated, "the credentials of this stream are no longer accepted; open a new one")

// guardStream is the context of an admitted stream. It ends, with the answer as
// its cause, when the caller is accepted no longer. end must be called.
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

// untilRefused returns the answer to a caller that is accepted no longer; nil
// when ctx has ended.
func (g *Gate) untilRefused(ctx context.Context, method string, admitted auth.Identity) error {
	for wait(ctx, recheckEvery) {
		if refused := g.recheck(ctx, method, admitted); refused != nil && ctx.Err() == nil {
			return refused
		}
	}
	return nil
}

// wait reports whether ctx is still open after the time.
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

// recheck is the answer to a caller that would no longer be admitted as it was.
func (g *Gate) recheck(ctx context.Context, method string, before auth.Identity) error {
	ctx, cancel := context.WithTimeout(ctx, recheckTime)
	defer cancel()
	id, shown := g.callerAgain(ctx)
	now, err := g.admit(method, id, shown)
	var refused refusal
	switch {
	case errors.As(err, &refused):
		return status.Error(refused.code, refused.Error())
	case err != nil, now.Subject != before.Subject, now.Owner != before.Owner:
		return errRevoked
	}
	return nil
}

// shownKey carries over the loopback connection where what the caller has shown
// is kept. Anywhere else it is not looked at.
const shownKey = "carillon-shown"

// callerAgain is caller. Over the loopback connection it looks at what was shown
// at the HTTP listener, and not at who that was when the stream was opened.
func (g *Gate) callerAgain(ctx context.Context) (auth.Identity, error) {
	if insideProcess(ctx) {
		md, _ := metadata.FromIncomingContext(ctx)
		if at := md.Get(shownKey); len(at) == 1 {
			if shown, ok := g.shown.Load(at[0]); ok {
				return g.Identify(ctx, shown.(Credentials))
			}
		}
	}
	return g.caller(ctx)
}

type credentialsKey struct{}

// WithCredentials is the context of an HTTP request with what its caller has
// shown, for the streams that are opened on its behalf.
func WithCredentials(ctx context.Context, shown Credentials) context.Context {
	return context.WithValue(ctx, credentialsKey{}, shown)
}

// lend keeps what a caller has shown until ctx ends, and returns where; empty if
// ctx carries nothing.
func (g *Gate) lend(ctx context.Context) string {
	shown, ok := ctx.Value(credentialsKey{}).(Credentials)
	if !ok {
		return ""
	}
	at := strconv.FormatUint(g.lent.Add(1), 10)
	g.shown.Store(at, shown)
	context.AfterFunc(ctx, func() { g.shown.Delete(at) })
	return at
}
