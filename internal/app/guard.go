package app

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"

	"github.com/carillon/carillon/internal/ratelimit"
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
	maxHeaderBytes    = 16 << 10
)

// The bounds of the gRPC listener.
const (
	connectionTimeout = 10 * time.Second // until a new connection speaks HTTP/2
	leastStreams      = 1000             // calls open at once on one connection, at least
	pingLeast         = 5 * time.Second  // clients may ask so often whether we still live; ours do every 30 s
	pingAfter         = time.Minute      // and so we ask a client that says nothing,
	pingTimeout       = 20 * time.Second // which is given up when it does not answer
)

// grpcLimits bound what one client can take. The largest message is part of
// registrarapi.NewServer. One connection may carry all the launches of a
// worker, and one, in this process, all REST calls.
func grpcLimits(maxLaunches int) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(connectionTimeout),
		grpc.MaxConcurrentStreams(uint32(openOnOne(maxLaunches))),
		grpc.MaxHeaderListSize(maxHeaderBytes),
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

// ownerLimits come after the gate, which says who calls.
func (a *App) ownerLimits() registrarapi.Interceptors {
	unary, stream := ratelimit.New(ratelimit.Limits{
		ReadsPerS: a.cfg.OwnerReadsPerS, WritesPerS: a.cfg.OwnerWritesPerS, Streams: ownerStreams,
	}, time.Now).Interceptors(a.registry)
	return registrarapi.Interceptors{Unary: unary, Stream: stream}
}

func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
}

// guard stands before everything on HTTP_ADDR. It bounds slow bodies and slow
// readers, says what browsers may do with answers, and keeps pages of other
// sites from making calls: a developer's browser reaches a loopback address as
// well as curl does, and Carillon there may be open and run commands.
func guard(next http.Handler, publicURL string) http.Handler {
	origins := http.NewCrossOriginProtection()
	publicHost := ""
	if u, err := url.Parse(publicURL); err == nil && u.Host != "" {
		publicHost = u.Hostname()
		_ = origins.AddTrustedOrigin(u.Scheme + "://" + u.Host) // one that is no origin was refused by Validate
	}
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuseHTTP(w, http.StatusForbidden, codes.PermissionDenied, "a page of another site may not make this call; of this one it may, at PUBLIC_URL")
	}))
	next = origins.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header(), r.TLS != nil)
		if !knownHost(r, publicHost) {
			refuseHTTP(w, http.StatusMisdirectedRequest, codes.InvalidArgument,
				fmt.Sprintf("the host %.100q is not this server's: on loopback only addresses, localhost and the host of PUBLIC_URL are", r.Host))
			return
		}
		control := http.NewResponseController(w)
		if r.Body != nil && r.Body != http.NoBody {
			_ = control.SetReadDeadline(time.Now().Add(readBodyTimeout)) // every connection of net/http has deadlines
			r.Body = &timedBody{r.Body, control}
		}
		next.ServeHTTP(&timedWriter{w, control}, r)
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

// knownHost refuses names that a stranger's DNS leads to a loopback address
// ("rebinding"): to a browser such a page is of this very site.
func knownHost(r *http.Request, publicHost string) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || host == strings.ToLower(publicHost)
}

// refuseHTTP answers as the API does, with a google.rpc.Status.
func refuseHTTP(w http.ResponseWriter, status int, code codes.Code, message string) {
	writeJSON(w, status, map[string]any{"code": int(code), "message": message, "details": []any{}})
}

// timedBody lifts the bound when the body has been read to its end: the answer
// may take as long as it likes. A body that was left unread keeps it, since
// net/http reads the rest before the next request.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// timedWriter gives each write its time.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *timedWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	return w.ResponseWriter.Write(p)
}

// Flush is for those who look for an http.Flusher.
func (w *timedWriter) Flush() {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	_ = w.control.Flush()
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
