// Package proxy is a TCP link that can be broken: it swallows bytes without a
// word (a black hole, one way or both), delays them, or resets its connections.
// It is smaller than a library for it, and its black hole is as hard as a real
// one can be: both ends keep an established connection on which nothing comes.
//
// It takes no step in a slot's life.
package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Mode is how a link fares.
type Mode int

const (
	Pass      Mode = iota
	BlackHole      // nothing goes either way
	Mute           // the client's words do not arrive; the server's do
	Deaf           // the server's words do not arrive; the client's do
)

// Link listens on an address and hands on to another.
type Link struct {
	target   string
	listener net.Listener
	done     sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	mode    Mode
	delay   time.Duration
	closed  bool
	pairs   map[*pair]bool
}

type pair struct{ client, server *net.TCPConn }

// New starts a link to target on a loopback port of its own.
func New(target string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a link to %s: %w", target, err)
	}
	l := &Link{target: target, listener: listener, pairs: make(map[*pair]bool)}
	l.changed = sync.NewCond(&l.mu)
	l.done.Go(l.accept)
	return l, nil
}

// Addr is where clients connect to.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Set changes how the link fares. What was swallowed has only been held back:
// it goes on when the link passes again, as TCP would send it again.
func (l *Link) Set(mode Mode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode = mode
	l.changed.Broadcast()
}

// Delay delays each piece.
func (l *Link) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// Reset ends every connection with a RST.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		for _, conn := range []*net.TCPConn{p.client, p.server} {
			_ = conn.SetLinger(0) // it may be closed already
			_ = conn.Close()
		}
	}
}

// Close ends the link and waits for all that it started.
func (l *Link) Close() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
	l.Reset()
	l.done.Wait()
}

func (l *Link) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		l.done.Go(func() { l.join(conn.(*net.TCPConn)) })
	}
}

// join connects a client through, as soon as anything may pass.
func (l *Link) join(client *net.TCPConn) {
	defer client.Close()
	if !l.await(true) {
		return
	}
	conn, err := net.DialTimeout("tcp", l.target, 5*time.Second)
	if err != nil {
		_ = client.SetLinger(0) // the target refuses, so we do
		return
	}
	p := &pair{client, conn.(*net.TCPConn)}
	defer p.server.Close()
	l.mu.Lock()
	closed := l.closed
	l.pairs[p] = true
	l.mu.Unlock()
	if closed {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.carry(p.server, p.client, true) })
	both.Go(func() { l.carry(p.client, p.server, false) })
	both.Wait()
	l.mu.Lock()
	delete(l.pairs, p)
	l.mu.Unlock()
}

// carry hands on one direction until either end closes.
func (l *Link) carry(to, from *net.TCPConn, fromClient bool) {
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if !l.await(fromClient) {
			return
		}
		if n > 0 {
			if _, err := to.Write(piece[:n]); err != nil {
				_ = from.CloseRead() // the other direction may still have something to say
				return
			}
		}
		if errors.Is(err, io.EOF) {
			_ = to.CloseWrite()
			return
		}
		if err != nil {
			_ = to.SetLinger(0)
			_ = to.Close()
			return
		}
	}
}

// await returns when words of that end may pass; false when the link is closed.
func (l *Link) await(fromClient bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.delay > 0 && !l.closed {
		d := l.delay
		l.mu.Unlock()
		time.Sleep(d) // what a slow network does
		l.mu.Lock()
	}
	for !l.closed && (l.mode == BlackHole || l.mode == Mute && fromClient || l.mode == Deaf && !fromClient) {
		l.changed.Wait()
	}
	return !l.closed
}
