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

// Unary admits a call or refuses it. It runs inside the access log, which also logs refused calls.
func (g *Gate) Unary(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx, err := g.enter(ctx, call.FullMethod)
	if err != nil {
		return nil, err
	}
	resp, err := next(ctx, req)
	if err == nil && auth.FromContext(ctx).Via == auth.ViaReport { // only the handler checks the token
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
	found, _ := ctx.Value(identifiedKey{}).(identified)
	if rule, _ := auth.RuleOf(call.FullMethod); rule.Anyone {
		leave, err := g.watch(ctx, found)
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
	err = next(srv, g.stranger(gatedStream{ss, ctx}, call.FullMethod, found))
	if ended := endedBy(ctx); ended != nil {
		return ended
	}
	return err
}

// errExpired ends a stream when its credentials expire.
var errExpired = status.Error(codes.Unauthenticated, "the credentials of this stream have expired; open a new one")

// endedBy is the error of a stream that the gate has ended, otherwise nil.
func endedBy(ctx context.Context) error {
	if _, ended := status.FromError(context.Cause(ctx)); ended {
		return context.Cause(ctx)
	}
	return nil
}

type gatedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s gatedStream) Context() context.Context { return s.ctx }

// SendMsg fails once the gate has ended the stream.
func (s gatedStream) SendMsg(m any) error {
	if ended := endedBy(s.ctx); ended != nil {
		return ended
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg drops messages that arrive after the gate has ended the stream: the read itself does not
// end with s.ctx.
func (s gatedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if ended := endedBy(s.ctx); ended != nil {
		return ended
	}
	return err
}

// Early identifies the caller of a unary call before its message is read. Unary checks the roles after
// the message is read, because the audit entry of a refusal needs the target.
func (g *Gate) Early(srv any, ss grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	id, invalid := g.caller(ss.Context())
	ctx, known := auth.WithCall(ss.Context(), call.FullMethod)
	known.Identity = id
	rule, _ := auth.RuleOf(call.FullMethod)
	if !g.o.Off && !rule.Anyone && (invalid != nil || id.Via == auth.ViaReport && !rule.Report) {
		if invalid == nil {
			invalid = ErrUnauthenticated
		}
		return status.Error(codes.Unauthenticated, invalid.Error())
	}
	ctx = context.WithValue(ctx, identifiedKey{}, identified{id, invalid})
	return next(srv, g.stranger(gatedStream{ss, ctx}, call.FullMethod, identified{id, invalid}))
}

// identified is the result of Gate.caller.
type identified struct {
	id      auth.Identity
	invalid error // of the credentials
}

type identifiedKey struct{}

func (g *Gate) enter(ctx context.Context, method string) (context.Context, error) {
	found, ok := ctx.Value(identifiedKey{}).(identified)
	if !ok {
		found.id, found.invalid = g.caller(ctx)
		ctx = context.WithValue(ctx, identifiedKey{}, found)
	}
	ctx, call := auth.WithCall(ctx, method)
	call.Identity = found.id // for the log of a refusal
	admitted, err := g.admit(method, found.id, found.invalid)
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

// callerKey carries the identity of a call over the in-process connection. On other connections it is
// ignored. It is binary (-bin) because names may contain non-ASCII characters.
const callerKey = "carillon-caller-bin"

// viaProcess marks calls of this process to itself.
const viaProcess = "process"

func (g *Gate) caller(ctx context.Context) (auth.Identity, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	p, ok := peer.FromContext(ctx)
	if insideProcess(ctx) {
		var id auth.Identity
		if values := md.Get(callerKey); len(values) != 1 || json.Unmarshal([]byte(values[0]), &id) != nil {
			return auth.Identity{}, ErrUnauthenticated
		}
		return id, nil
	}
	c := Credentials{Authorization: md.Get("authorization")}
	if ok {
		if info, isTLS := p.AuthInfo.(credentials.TLSInfo); isTLS {
			c.TLS = &info.State
		}
	}
	return g.Identify(ctx, c)
}

func insideProcess(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	return ok && Loopback(p.Addr)
}

// Loopback reports whether the address belongs to an in-process connection.
func Loopback(addr net.Addr) bool { return addr != nil && addr.Network() == "bufconn" }

// Forward sends the identity of a call's context over the in-process connection. Calls without one are
// refused.
func (g *Gate) Forward(conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	return forwardingConn{conn, auth.FromContext, g.keepCredentials}
}

// InProcess makes every call as this process itself, which may do everything.
func InProcess(conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	return forwardingConn{conn, func(context.Context) auth.Identity { return auth.Identity{Via: viaProcess} }, func(context.Context) string { return "" }}
}

type forwardingConn struct {
	grpc.ClientConnInterface
	caller          func(context.Context) auth.Identity
	keepCredentials func(context.Context) string // returns the value of credentialsIDKey
}

// mark sets the identity. It removes metadata of the same names, which a client could have sent.
func (c forwardingConn) mark(ctx context.Context) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	md.Delete(callerKey)
	md.Delete(credentialsIDKey)
	if id := c.caller(ctx); id.Via != "" {
		if text, err := json.Marshal(id); err == nil {
			md.Set(callerKey, string(text))
		}
	}
	return metadata.NewOutgoingContext(ctx, md)
}

func (c forwardingConn) Invoke(ctx context.Context, method string, req, resp any, opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(c.mark(ctx), method, req, resp, opts...)
}

func (c forwardingConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	marked := c.mark(ctx)
	if id := c.keepCredentials(ctx); id != "" {
		marked = metadata.AppendToOutgoingContext(marked, credentialsIDKey, id)
	}
	return c.ClientConnInterface.NewStream(marked, desc, method, opts...)
}
