package connlimit

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/carillon/carillon/internal/logthrottle"
)

// Limits of one listener.
type Limits struct {
	Total   int // connections open at once
	PerPeer int // of them, anonymous ones of one peer
	// WriteTimeout closes a connection when one write takes longer; 0: no bound. It
	// replaces TCP_USER_TIMEOUT, which grpc-go sets on TCP connections only, not on
	// wrapped ones.
	WriteTimeout time.Duration
	// Calls are the HTTP/2 calls and resets that the anonymous connections of one
	// peer may make a second, and CallBurst how many at once. More are read later.
	Calls     rate.Limit
	CallBurst int
	// Resets are the streams that one connection may reset a second, and
	// ResetBurst how many at once. One more closes the connection.
	Resets     rate.Limit
	ResetBurst int
	// IdentifiedResetBurst replaces ResetBurst on a connection that is not
	// anonymous: a client that gives up its calls resets all of them at once.
	IdentifiedResetBurst int

	// Refused is called for each connection that a limit closed; optional.
	Refused func(Reason, net.Addr)
}

// Reason says why a connection was closed.
type Reason string

// The reasons.
const (
	TooMany       Reason = "too_many" // in all, and none is anonymous
	Evicted       Reason = "evicted"  // it was idle and anonymous, and another one came
	TooManyResets Reason = "too_many_resets"
)

// Listener is a net.Listener with Limits.
type Listener struct {
	net.Listener
	limits Limits

	mu    sync.Mutex
	open  map[*Conn]struct{}
	peers map[string]*shared
}

// shared is the state that the connections of one peer share.
type shared struct {
	open  map[*Conn]struct{}
	calls *rate.Limiter
}

// Listen returns a listener that limits the connections of lis.
func Listen(lis net.Listener, limits Limits) *Listener {
	if limits.Refused == nil {
		limits.Refused = func(Reason, net.Addr) {}
	}
	return &Listener{Listener: lis, limits: limits, open: make(map[*Conn]struct{}), peers: make(map[string]*shared)}
}

// Accept returns the next connection within the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, closed, reason := l.admit(raw)
		switch {
		case c == nil:
			_ = raw.Close() // nothing was read or written
			l.limits.Refused(reason, raw.RemoteAddr())
			continue
		case closed != nil:
			_ = closed.Close()
			l.limits.Refused(Evicted, closed.Conn.RemoteAddr())
		}
		return c, nil
	}
}

// admit adds raw and returns the connection to close for it, if any; or nil and why raw
// is refused.
func (l *Listener) admit(raw net.Conn) (c, closed *Conn, reason Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := logthrottle.PeerOf(raw.RemoteAddr().String())
	p := l.peers[key]
	if p == nil {
		l.forget()
		p = &shared{open: make(map[*Conn]struct{}), calls: rate.NewLimiter(l.limits.Calls, l.limits.CallBurst)}
		l.peers[key] = p
	}
	switch {
	case len(p.open) >= l.limits.PerPeer && anonymous(p.open) >= l.limits.PerPeer:
		closed = idlest(p.open)
	case len(l.open) >= l.limits.Total:
		if closed = idlest(l.open); closed == nil {
			return nil, nil, TooMany
		}
	}
	if closed != nil {
		l.remove(closed)
	}
	c = &Conn{Conn: raw, listener: l, peer: p, closed: make(chan struct{})}
	c.touch()
	l.open[c], p.open[c] = struct{}{}, struct{}{}
	return c, closed, ""
}

// anonymous counts the anonymous connections.
func anonymous(open map[*Conn]struct{}) (n int) {
	for c := range open {
		if !c.identified.Load() {
			n++
		}
	}
	return n
}

// idlest returns the anonymous connection that has been idle longest, or nil.
func idlest(open map[*Conn]struct{}) (found *Conn) {
	for c := range open {
		if !c.identified.Load() && (found == nil || c.used.Load() < found.used.Load()) {
			found = c
		}
	}
	return found
}

// forget drops peers without connections when there are more than the limit of
// connections. It keeps peers that have used up their calls: otherwise a new connection
// would get a new allowance.
func (l *Listener) forget() {
	if len(l.peers) < 2*l.limits.Total {
		return
	}
	for key, p := range l.peers {
		if len(p.open) == 0 && p.calls.Tokens() >= float64(l.limits.CallBurst) {
			delete(l.peers, key)
		}
	}
	for key, p := range l.peers { // more peers flood than connections are allowed
		if len(l.peers) < 4*l.limits.Total {
			return
		}
		if len(p.open) == 0 {
			delete(l.peers, key)
		}
	}
}

func (l *Listener) remove(c *Conn) {
	delete(l.open, c)
	delete(c.peer.open, c)
}

// Conn is a connection of a Listener.
type Conn struct {
	net.Conn
	listener   *Listener
	peer       *shared
	used       atomic.Int64 // when it was last read or written, Unix nanoseconds
	identified atomic.Bool
	closing    sync.Once
	closed     chan struct{}
}

func (c *Conn) touch() { c.used.Store(time.Now().UnixNano()) }

// Identify records that a caller authenticated on the connection. A nil connection
// belongs to another listener.
func (c *Conn) Identify() {
	if c != nil && !c.identified.Load() {
		c.identified.Store(true)
	}
}

func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.touch()
	return n, err
}

func (c *Conn) Write(p []byte) (int, error) {
	c.touch()
	if timeout := c.listener.limits.WriteTimeout; timeout > 0 {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(timeout)) // fails only on a closed connection
	}
	return c.Conn.Write(p)
}

// Close may be called more than once.
func (c *Conn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		c.listener.remove(c)
	})
	return c.Conn.Close()
}

// RemoteAddr returns an address from which Of finds the connection, through TLS and gRPC.
func (c *Conn) RemoteAddr() net.Addr { return remote{c.Conn.RemoteAddr(), c} }

type remote struct {
	net.Addr
	conn *Conn
}

// Of returns the connection of an address from RemoteAddr, or nil.
func Of(address net.Addr) *Conn {
	if r, ok := address.(remote); ok {
		return r.conn
	}
	return nil
}
