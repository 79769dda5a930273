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

// The bounds of the HTTP listener: how long a client may take, so that a slow
// one holds a connection and nothing else. (How large a body may be is each
// route's own bound, in registrar/api.)
const (
	readHeaderTimeout = 5 * time.Second
	readBodyTimeout   = 30 * time.Second
	writeTimeout      = 30 * time.Second // of one write: an answer that streams has no end
	idleTimeout       = 2 * time.Minute
	lingerTimeout     = 500 * time.Millisecond // for a body that nobody reads, after the answer
	maxHeaderBytes    = 16 << 10
)

// The bounds of the gRPC listener.
const (
	connectionTimeout = 10 * time.Second // until a new connection speaks HTTP/2
	leastStreams      = 1000             // calls open at once on one connection, at least
	pingLeast         = 5 * time.Second  // clients may ask so often whether we still live; ours do every 30 s
	pingAfter         = time.Minute      // and so we ask a client that says nothing,
	pingTimeout       = 20 * time.Second // which is given up when it does not answer
	grpcWriteTimeout  = 20 * time.Second // of one write, to a client that does not read

	// A stream's window is what the transport keeps of a call that nobody reads
	// yet, such as a stranger's. It grows by the size of a message that is read.
	// By default it grows to 16 MiB with the bandwidth of the connection.
	streamWindow     = 64 << 10
	connectionWindow = 1 << 20
)

// grpcLimits bound what one client can take. The largest message is part of
// registrarapi.NewServer. One connection may carry all the launches of a
// worker, and one, in this process, all REST calls.
func grpcLimits(maxLaunches int) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(connectionTimeout),
		grpc.MaxConcurrentStreams(uint32(openOnOne(maxLaunches))),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingLeast, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
	}
}

// openOnOne is how many calls one connection may have open at once, and how many
// starts one stream: more than a worker has launches.
func openOnOne(maxLaunches int) int { return max(leastStreams, 2*maxLaunches) }

// startBatches are the bounds of StartBatch, of which each start counts as a
// call of Start.
func (a *App) startBatches() launcherapi.Options {
	return launcherapi.Options{
		Check: registrarapi.Check, Open: openOnOne(a.cfg.MaxLaunches), Ending: a.ending, Logger: a.log.With("component", "api"),
		Observe: func(code codes.Code, took time.Duration) {
			a.observe(carillonv1.RunLauncher_Start_FullMethodName, code, took)
		},
	}
}

// ownerStreams are the watches that one owner may have open.
const ownerStreams = 20

// callerWatches are the watches and exports that a caller without an owner may
// have open. Each watch is a query every 250 ms.
const callerWatches = 100

// The calls that look ahead (simulate, forecast, dry runs) share half of the
// processors, so that launches always have the other half.
const (
	expensiveWaiting  = 100
	expensivePerOwner = 8
	expensiveMaxWait = 10 * time.Second
)

func expensiveLimits() ratelimit.PlaceLimits {
	return ratelimit.PlaceLimits{
		Running: max(1, runtime.GOMAXPROCS(0)/2), Waiting: expensiveWaiting, PerOwner: expensivePerOwner, MaxWait: expensiveMaxWait,
	}
}

// ownerLimits come after the gate, which says who calls.
func (a *App) ownerLimits() registrarapi.Interceptors {
	unary, stream := ratelimit.New(ratelimit.Limits{
		ReadsPerS: a.cfg.OwnerReadsPerS, WritesPerS: a.cfg.OwnerWritesPerS, Streams: ownerStreams, Watches: callerWatches,
	}, time.Now).Interceptors(a.registry)
	return registrarapi.Interceptors{
		Unary: unary, Stream: stream, Costly: ratelimit.NewPlaces(expensiveLimits()).Interceptor(a.registry),
	}
}

// callerLimits stand before the gate and behind what identifies the caller: a
// call that the gate would refuse counts too.
func (a *App) callerLimits() registrarapi.Interceptors {
	return registrarapi.Interceptors{Unary: ratelimit.Refusals(a.cfg.CallerRefusalsPerS, time.Now, registrarapi.CodeOf, a.registry)}
}

func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnContext: connlimit.NewContext,
	}
}

// guard wraps everything on HTTP_ADDR. It bounds slow bodies and slow readers,
// sets what browsers may do with answers, and refuses calls by pages of other
// sites: a developer's browser reaches a loopback address as well as curl does,
// and Carillon may be open there and run commands.
//
// refused hears of each request that ends here.
func guard(next http.Handler, cfg *Config, refused func(*http.Request, auth.Identity, codes.Code)) http.Handler {
	origins := http.NewCrossOriginProtection()
	if u, err := url.Parse(cfg.PublicURL); err == nil && u.Host != "" {
		_ = origins.AddTrustedOrigin(u.Scheme + "://" + u.Host) // Validate refused one that is no origin
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
		answer.leaveBody()                                         // of a handler that wrote nothing
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // of what is buffered still
	})
}

// setSecurityHeaders are for API answers; the console sets its own policy over
// it. There is no CORS: nothing allows other sites to read.
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

// refuseHTTP answers as the API does, with a google.rpc.Status.
func refuseHTTP(w http.ResponseWriter, status int, code codes.Code, message string) {
	writeJSON(w, status, map[string]any{"code": int(code), "message": message, "details": []any{}})
}

// timedBody removes the read deadline when the body has been read to its end:
// the answer may take longer. Otherwise the deadline stays, because net/http
// reads the rest of the body before the next request.
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

// timedWriter bounds the time of each write.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	body    *timedBody // nil: the request has none
	left    bool       // the answer does not wait for the body
}

// leaveBody is called with every answer. If no handler wanted the body, the answer
// does not wait for it. By default net/http reads up to 256 KiB of an unread body
// before it answers, so a client that announces a body and does not send it would
// hold the connection for readBodyTimeout.
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

// Flush is for handlers that look for an http.Flusher.
func (w *timedWriter) Flush() {
	w.leaveBody()
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	_ = w.control.Flush()
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
