package logthrottle

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

const (
	// peerInterval is the shortest time between two lines about one peer.
	peerInterval = time.Second
	// maxPeers bounds memory and log volume: further peers share one line. A peer
	// is forgotten after a second without calls, so this is peers at one time.
	maxPeers = 256
	// otherPeers is the key that peers beyond maxPeers share.
	otherPeers = "other peers"
)

// PerPeer limits what unknown callers can write to the log: one line a second
// for each peer. It counts the lines that it leaves out, and Run logs each count
// that no later line carries.
type PerPeer struct {
	log     *slog.Logger
	message string
	attr    string // of the key in the lines of Run

	mu    sync.Mutex
	peers map[string]*peerLines
}

type peerLines struct {
	logged  time.Time // when its last line was written
	leftOut int       // lines since then
}

// NewPerPeer returns a PerPeer that has written nothing. message is the message
// of the lines that Run writes to log.
func NewPerPeer(log *slog.Logger, message string) *PerPeer {
	return &PerPeer{log: log, message: message, attr: "peer", peers: make(map[string]*peerLines)}
}

// NewPerSubject returns a PerPeer for AdmitKey with subjects of callers.
func NewPerSubject(log *slog.Logger, message string) *PerPeer {
	p := NewPerPeer(log, message)
	p.attr = "subject"
	return p
}

// Admit reports whether a line about the peer may be written now, and how many
// were left out since its last one. addr is an IP address, with or without a
// port. The /64 network of an IPv6 address is one peer, because one host
// commonly has all of it.
func (p *PerPeer) Admit(addr string) (leftOut int, ok bool) {
	return p.AdmitKey(PeerOf(addr))
}

// AdmitKey is Admit with a key that is no address.
func (p *PerPeer) AdmitKey(key string) (leftOut int, ok bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.peers[key]
	if peer == nil && len(p.peers) >= maxPeers {
		key = otherPeers
		peer = p.peers[key]
	}
	if peer == nil {
		p.peers[key] = &peerLines{logged: now}
		return 0, true
	}
	if now.Sub(peer.logged) < peerInterval {
		peer.leftOut++
		return 0, false
	}
	leftOut = peer.leftOut
	peer.logged, peer.leftOut = now, 0
	return leftOut, true
}

// Run logs the counts of peers that stopped calling and forgets these peers,
// until ctx ends. Then it logs all counts that are left.
func (p *PerPeer) Run(ctx context.Context) {
	every := time.NewTicker(peerInterval)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			p.sweep(ctx, time.Now())
			return
		case now := <-every.C:
			p.sweep(ctx, now.Add(-peerInterval))
		}
	}
}

// sweep takes the peers whose last line is not after until.
func (p *PerPeer) sweep(ctx context.Context, until time.Time) {
	now := time.Now()
	counts := make(map[string]int)
	p.mu.Lock()
	for key, peer := range p.peers {
		switch {
		case peer.logged.After(until):
		case peer.leftOut == 0:
			delete(p.peers, key)
		default:
			counts[key] = peer.leftOut
			peer.logged, peer.leftOut = now, 0 // the count is a line, too
		}
	}
	p.mu.Unlock()
	for key, n := range counts {
		p.log.InfoContext(ctx, p.message, p.attr, key, LeftOut, n)
	}
}

// Peers is how many peers are remembered.
func (p *PerPeer) Peers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.peers)
}

// PeerOf is the key of one peer's limits, for an address with or without a port:
// an IPv4 address, or the first 64 bits of an IPv6 address, which is what one
// customer of a network commonly has. What is no address shares one key.
func PeerOf(addr string) string {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		at, err := netip.ParseAddrPort(addr)
		if err != nil {
			return "unknown"
		}
		ip = at.Addr()
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	const network = 64
	prefix, err := ip.Prefix(network)
	if err != nil {
		return "unknown"
	}
	return prefix.String()
}
