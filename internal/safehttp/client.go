package safehttp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// RefusedError is why a request was not made. It must not contain looked-up addresses, which would
// reveal our network to the user who chose the name.
type RefusedError struct{ why string }

func (e *RefusedError) Error() string {
	return "the address is not allowed: it " + e.why + " (see ALLOW_EGRESS)"
}

func refuse(format string, args ...any) error {
	return &RefusedError{why: fmt.Sprintf(format, args...)}
}

// The limits of a client. The caller's context limits the whole call.
const (
	connectTimeout   = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 30 * time.Second
	maxHeaderBytes   = 64 << 10
)

// Options are optional.
type Options struct {
	HTTPSOnly bool          // refuse http
	Resolver  *net.Resolver // nil: the system's
}

// NewClient makes a client that enforces the policy. It uses no redirects and no proxy.
func (p Policy) NewClient(o Options) *http.Client {
	transport := &http.Transport{
		Proxy:                  nil,
		DialContext:            p.dialer(o.Resolver),
		TLSHandshakeTimeout:    handshakeTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ForceAttemptHTTP2:      true,
	}
	return &http.Client{
		Transport:     checked{policy: p, httpsOnly: o.HTTPSOnly, next: transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// checked refuses a URL before its host is looked up.
type checked struct {
	policy    Policy
	httpsOnly bool
	next      *http.Transport
}

func (c checked) RoundTrip(req *http.Request) (*http.Response, error) {
	err := c.policy.CheckURL(req.URL)
	if err == nil && c.httpsOnly && req.URL.Scheme != "https" {
		err = refuse("begins with http://; only https is allowed")
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // required of a RoundTripper; the error does not matter
		}
		return nil, err
	}
	return c.next.RoundTrip(req)
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (c checked) CloseIdleConnections() { c.next.CloseIdleConnections() }

// CheckURL refuses suspicious URLs without a lookup. The dialer may still refuse the address.
func (p Policy) CheckURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("begins with neither http:// nor https://")
	case u.User != nil:
		return refuse("holds a user name before @; give credentials in a header")
	case u.Opaque != "" || u.Host == "":
		return refuse("names no host")
	}
	name := u.Hostname()
	port := uint16(80)
	if u.Scheme == "https" {
		port = 443
	}
	if text := u.Port(); text != "" || strings.HasSuffix(u.Host, ":") {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return refuse("has no valid port")
		}
		port = uint16(n)
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		return p.checkAddress(netip.AddrPortFrom(ip, port))
	}
	if why := checkHost(name); why != "" {
		return refuse("%s", why)
	}
	return nil
}

// checkHost returns the problem of a host name, or "". It refuses unusual spellings of addresses
// (0177.1, 0x7f000001, 2130706433, wide digits), because some resolvers accept them.
func checkHost(name string) string {
	const maxName = 253
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > maxName {
		return "names no host"
	}
	for _, label := range strings.Split(name, ".") {
		if label == "" || len(label) > 63 {
			return "has an empty or overlong part in its host name"
		}
		for _, c := range []byte(label) {
			switch {
			case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			default:
				return "has a host name of other characters than a–z 0–9 - . _; write an international name in its xn-- form"
			}
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if looksNumeric(last) {
		return "writes an address in digits, but not as four numbers from 0 to 255"
	}
	return ""
}

func looksNumeric(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	hex, found := strings.CutPrefix(strings.ToLower(label), "0x")
	return found && strings.Trim(hex, "0123456789abcdef") == ""
}

// dialer checks each address immediately before the system connects to it, after the lookup, so that
// DNS cannot change in between.
func (p Policy) dialer(resolver *net.Resolver) func(ctx context.Context, network, address string) (net.Conn, error) {
	trusting := net.Dialer{Timeout: connectTimeout, Resolver: resolver}
	checking := trusting
	checking.Control = func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return refuse("resolves to no address")
		}
		return p.checkAddress(at)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		name, text, err := net.SplitHostPort(address)
		if err != nil {
			return nil, refuse("names no host")
		}
		dial := checking.DialContext
		if port, err := strconv.ParseUint(text, 10, 16); err == nil && p.trusts(name, uint16(port)) {
			dial = trusting.DialContext
		}
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, withoutAddresses(err)
		}
		return conn{c}, nil
	}
}
