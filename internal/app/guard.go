package app

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/ratelimit"
	"github.com/carillon/carillon/internal/connlimit"
	launcherapi "github.com/carillon/carillon/launcher/api"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	registrarapi "github.com/carillon/carillon/registrar/api"
)

// The limits of the HTTP listener: a slow client must hold no more than a connection. Each route in
// registrar/api limits the size of its body.
const (
	readHeaderTimeout = 5 * time.Second
	readBodyTimeout   = 30 * time.Second
	writeTimeout      = 30 * time.Second // for one write, because a streamed answer has no end
	idleTimeout       = 2 * time.Minute
	lingerTimeout     = 500 * time.Millisecond // after the answer, for an unread body
	maxHeaderBytes    = 16 << 10
)

// The limits of the gRPC listener.
const (
	connectionTimeout = 10 * time.Second // until a new connection speaks HTTP/2
	leastStreams      = 1000             // minimum of MaxConcurrentStreams
	pingLeast         = 5 * time.Second  // shortest allowed interval of a client's pings; ours use 30 s
	pingAfter         = time.Minute      // without traffic, before the server pings a client
	pingTimeout       = 20 * time.Second // for the answer, before the server closes the connection
	grpcWriteTimeout  = 20 * time.Second // for one write

	// streamWindow bounds the buffered bytes of a call before its message is read, such as a call of an
	// unidentified caller. The default grows to 16 MiB with the bandwidth of the connection.
	streamWindow     = 64 << 10
	connectionWindow = 1 << 20
)

// grpcLimits limit one client. registrarapi.NewServer limits the size of messages. One connection may
// carry all launches of a worker, and the in-process one all REST calls.
func grpcLimits(maxLaunches int) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(connectionTimeout),
		grpc.MaxConcurrentStreams(uint32(maxOpenCalls(maxLaunches))),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingLeast, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
	}
}

// maxOpenCalls bounds the open calls of one connection and the open starts of one stream. It exceeds
// the launches of a worker.
func maxOpenCalls(maxLaunches int) int { return max(leastStreams, 2*maxLaunches) }

// startBatches configures StartBatch. In metrics each start counts as a call of Start.
func (a *App) startBatches() launcherapi.Options {
	return launcherapi.Options{
		Check: registrarapi.Check, Open: maxOpenCalls(a.cfg.MaxLaunches), Ending: a.ending, Logger: a.log.With("component", "api"),
		Puller: a.dispatcher, Environment: a.cfg.Environment,
		Observe: func(code codes.Code, took time.Duration) {
			a.observe(carillonv1.RunLauncher_Start_FullMethodName, code, took)
		},
	}
}

// ownerStreams is the maximum of open streams of one owner.
const ownerStreams = 20

// callerWatches is the maximum of open watches and exports of a caller without an owner. Each watch is
// a query every 250 ms.
const callerWatches = 100

// Simulations, forecasts and dry runs share half of the processors, so that launches always have the
// other half.
const (
	expensiveWaiting  = 100
	expensivePerOwner = 8
	expensiveMaxWait  = 10 * time.Second
)

func expensiveLimits() ratelimit.SemaphoreLimits {
	return ratelimit.SemaphoreLimits{
		Running: max(1, runtime.GOMAXPROCS(0)/2), Waiting: expensiveWaiting, PerOwner: expensivePerOwner, MaxWait: expensiveMaxWait,
	}
}

// ownerLimits run after the gate, which sets the identity.
func (a *App) ownerLimits() registrarapi.Interceptors {
	unary, stream := ratelimit.New(ratelimit.Limits{
		ReadsPerS: a.cfg.OwnerReadsPerS, WritesPerS: a.cfg.OwnerWritesPerS, EventsPerS: a.cfg.OwnerEventsPerS, Streams: ownerStreams, Watches: callerWatches,
	}, time.Now).Interceptors(a.registry)
	return registrarapi.Interceptors{
		Unary: unary, Stream: stream, Costly: ratelimit.NewSemaphore(expensiveLimits()).Interceptor(a.registry),
	}
}

// callerLimits run after Gate.Early identified the caller and before Gate.Unary, so that its refusals
// count too.
func (a *App) callerLimits() registrarapi.Interceptors {
	return registrarapi.Interceptors{Unary: ratelimit.Refusals(a.cfg.CallerRefusalsPerS, time.Now, registrarapi.CodeOf, a.registry)}
}

func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnContext: connlimit.NewContext,
	}
}

// guard wraps all of HTTP_ADDR. It limits slow bodies and slow readers, sets security headers, and
// refuses requests from pages of other sites: a browser can reach a loopback address, where Carillon
// may run commands without authentication.
//
// refused is called for each request refused here.
func guard(next http.Handler, cfg *Config, refused func(*http.Request, auth.Identity, codes.Code)) http.Handler {
	origins := http.NewCrossOriginProtection()
	if u, err := url.Parse(cfg.PublicURL); err == nil && u.Host != "" {
		_ = origins.AddTrustedOrigin(u.Scheme + "://" + u.Host) // checked by Validate
	}
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused(r, auth.Identity{}, codes.PermissionDenied)
		refuseHTTP(w, http.StatusForbidden, codes.PermissionDenied, "calls from pages of other sites are not allowed; use this server's own page at PUBLIC_URL")
	}))
	next = origins.Handler(next)
	known := cfg.hosts()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header(), r.TLS != nil)
		control := http.NewResponseController(w)
		answer := &timedWriter{ResponseWriter: w, control: control}
		if r.Body != nil && r.Body != http.NoBody {
			_ = control.SetReadDeadline(time.Now().Add(readBodyTimeout)) // every connection of net/http has deadlines
			answer.body = &timedBody{ReadCloser: r.Body, control: control}
			r.Body = answer.body
		}
		if known.allow(r) {
			next.ServeHTTP(answer, r)
		} else {
			refused(r, auth.Identity{}, codes.InvalidArgument)
			refuseHTTP(answer, http.StatusMisdirectedRequest, codes.InvalidArgument, known.refusal(r))
		}
		answer.leaveBody()                                         // if the handler wrote nothing
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // for the buffered rest
	})
}

// setSecurityHeaders is for API answers; the console replaces the policy. There is no CORS, so other
// sites cannot read answers.
func setSecurityHeaders(h http.Header, overTLS bool) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if overTLS {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// refuseHTTP answers like the API, with a google.rpc.Status.
func refuseHTTP(w http.ResponseWriter, status int, code codes.Code, message string) {
	writeJSON(w, status, map[string]any{"code": int(code), "message": message, "details": []any{}})
}

// timedBody removes the read deadline at the end of the body, because the answer may take longer.
// Before that the deadline must stay: net/http reads the rest of the body before the next request.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	begun   atomic.Bool // a handler may read in another goroutine
}

func (b *timedBody) Read(p []byte) (int, error) {
	b.begun.Store(true)
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// timedWriter limits the time of each write.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	body    *timedBody // nil: the request has none
	left    bool       // the answer does not wait for the body
}

// leaveBody sends the answer without waiting for a body that no handler has read. By default net/http
// first reads up to 256 KiB of it, so a client that announces a body and does not send it would hold
// the connection for readBodyTimeout.
//
// The connection stays open for lingerTimeout: a client that is still sending
// would otherwise be reset before it reads the answer.
func (w *timedWriter) leaveBody() {
	if w.body == nil || w.left || w.body.begun.Load() {
		return
	}
	w.left = true
	w.Header().Set("Connection", "close")
	_ = w.control.SetReadDeadline(time.Now().Add(lingerTimeout))
}

func (w *timedWriter) WriteHeader(code int) {
	w.leaveBody()
	w.ResponseWriter.WriteHeader(code)
}

func (w *timedWriter) Write(p []byte) (int, error) {
	w.leaveBody()
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *timedWriter) Flush() {
	w.leaveBody()
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	_ = w.control.Flush()
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
