package gate

import (
	"context"
	"encoding/json"
	"errors"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/connlimit"
)

// Unary admits a call or refuses it. It stands inside the access log, so that
// refused calls have their line too.
func (g *Gate) Unary(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx, err := g.enter(ctx, call.FullMethod)
	if err != nil {
		return nil, err
	}
	resp, err := next(ctx, req)
	if err == nil && auth.FromContext(ctx).Via == auth.ViaReport { // only now is it known that the token is a run's own
		connlimit.FromContext(ctx).Identify()
	}
	return resp, err
}

// Stream is Unary for streams.
func (g *Gate) Stream(srv any, ss grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, err := g.enter(ss.Context(), call.FullMethod)
	if err != nil {
		return err
	}
	shown, _ := ctx.Value(metKey{}).(met)
	if rule, _ := auth.RuleOf(call.FullMethod); rule.Anyone {
		leave, err := g.watch(ctx, shown)
		if err != nil {
			return err
		}
		defer leave()
	}
	known := auth.CallFrom(ctx).Identity
	if !known.Expires.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, known.Expires, errExpired)
		defer cancel()
	}
	ctx, end := g.guardStream(ctx, call, known)
	defer end()
	err = next(srv, g.stranger(entered{ss, ctx}, call.FullMethod, shown))
	if over := overBy(ctx); over != nil {
		return over
	}
	return err
}

// errExpired ends streams, which may be open for longer than what let them in
// is good.
var errExpired = status.Error(codes.Unauthenticated, "the credentials of this stream have expired; open a new one")

// overBy is the answer of a stream that the gate has ended; nil if it has not.
func overBy(ctx context.Context) error {
	if _, ended := status.FromError(context.Cause(ctx)); ended {
		return context.Cause(ctx)
	}
	return nil
}

type entered struct {
	grpc.ServerStream
	ctx context.Context // a stream is its context
}

func (e entered) Context() context.Context { return e.ctx }

// SendMsg sends nothing more once the gate has ended the stream, however much
// the handler has at hand.
func (e entered) SendMsg(m any) error {
	if over := overBy(e.ctx); over != nil {
		return over
	}
	return e.ServerStream.SendMsg(m)
}

// RecvMsg hands nothing to the handler that came after the gate has ended the
// stream: reading does not end with the context.
func (e entered) RecvMsg(m any) error {
	err := e.ServerStream.RecvMsg(m)
	if over := overBy(e.ctx); over != nil {
		return over
	}
	return err
}

// Early stands before the message of a unary call is read, and lets in who is
// known here. What its caller may do is judged once it is read, by Unary: a
// refusal is kept together with what it was about.
func (g *Gate) Early(srv any, ss grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	id, shown := g.caller(ss.Context())
	ctx, known := auth.WithCall(ss.Context(), call.FullMethod)
	known.Identity = id
	rule, _ := auth.RuleOf(call.FullMethod)
	if !g.o.Off && !rule.Anyone && (shown != nil || id.Via == auth.ViaReport && !rule.Report) {
		if shown == nil {
			shown = ErrUnauthenticated
		}
		return status.Error(codes.Unauthenticated, shown.Error())
	}
	ctx = context.WithValue(ctx, metKey{}, met{id, shown})
	return next(srv, g.stranger(entered{ss, ctx}, call.FullMethod, met{id, shown}))
}

// met is who shows which credentials, as Early or enter found.
type met struct {
	id    auth.Identity
	shown error
}

type metKey struct{}

func (g *Gate) enter(ctx context.Context, method string) (context.Context, error) {
	known, ok := ctx.Value(metKey{}).(met)
	if !ok {
		known.id, known.shown = g.caller(ctx)
		ctx = context.WithValue(ctx, metKey{}, known)
	}
	ctx, call := auth.WithCall(ctx, method)
	call.Identity = known.id // as it is, also where it is refused
	admitted, err := g.admit(method, known.id, known.shown)
	var refused refusal
	switch {
	case errors.As(err, &refused):
		return ctx, status.Error(refused.code, refused.Error())
	case err != nil:
		return ctx, status.Error(codes.Unauthenticated, err.Error())
	}
	call.Identity = admitted
	return auth.NewContext(ctx, admitted), nil
}

// callerKey carries the identity of a call over the loopback connection.
// Anywhere else it is not looked at. It is binary (-bin) because names can be
// outside ASCII, which other metadata cannot carry.
const callerKey = "carillon-caller-bin"

// viaProcess marks what this process asks of itself.
const viaProcess = "process"

func (g *Gate) caller(ctx context.Context) (auth.Identity, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	p, ok := peer.FromContext(ctx)
	if insideProcess(ctx) {
		var id auth.Identity
		if said := md.Get(callerKey); len(said) != 1 || json.Unmarshal([]byte(said[0]), &id) != nil {
			return auth.Identity{}, ErrUnauthenticated
		}
		return id, nil
	}
	shown := Credentials{Authorization: md.Get("authorization")}
	if ok {
		if info, isTLS := p.AuthInfo.(credentials.TLSInfo); isTLS {
			shown.TLS = &info.State
		}
	}
	return g.Identify(ctx, shown)
}

func insideProcess(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	return ok && Loopback(p.Addr)
}

// Loopback reports whether the address is that of a connection inside the
// process.
func Loopback(addr net.Addr) bool { return addr != nil && addr.Network() == "bufconn" }

// Forward passes the identity in a call's context on with it, over the
// loopback connection. What has none is nobody there.
func (g *Gate) Forward(conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	return carrying{conn, auth.FromContext, g.lend}
}

// InProcess makes every call one of this process itself, which may everything.
func InProcess(conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	return carrying{conn, func(context.Context) auth.Identity { return auth.Identity{Via: viaProcess} }, func(context.Context) string { return "" }}
}

type carrying struct {
	grpc.ClientConnInterface
	caller func(context.Context) auth.Identity
	lend   func(context.Context) string // where a stream finds what its caller has shown
}

// mark replaces whatever the context carried: only this process says who calls.
func (c carrying) mark(ctx context.Context) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	md.Delete(callerKey)
	md.Delete(shownKey)
	if id := c.caller(ctx); id.Via != "" {
		if said, err := json.Marshal(id); err == nil {
			md.Set(callerKey, string(said))
		}
	}
	return metadata.NewOutgoingContext(ctx, md)
}

func (c carrying) Invoke(ctx context.Context, method string, req, resp any, opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(c.mark(ctx), method, req, resp, opts...)
}

func (c carrying) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	marked := c.mark(ctx)
	if at := c.lend(ctx); at != "" {
		marked = metadata.AppendToOutgoingContext(marked, shownKey, at)
	}
	return c.ClientConnInterface.NewStream(marked, desc, method, opts...)
}
