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
	// without calls is forgotten after a second.
	maxPeers = 256
	// otherPeers is the key that peers beyond maxPeers share.
	otherPeers = "other peers"
)

// PerPeer limits the log lines about unknown callers to one a second for each
// peer. It counts the lines that it leaves out. Run logs the counts that no later
// line has.
type PerPeer struct {
	log     *slog.Logger
	message string
	attr    string // attribute of the key in the lines of Run

	mu    sync.Mutex
	peers map[string]*peerLines
}

type peerLines struct {
	logged  time.Time // when its last line was written
	leftOut int       // lines not written since then
}

// NewPerPeer returns a PerPeer. Run writes lines with this message to log.
func NewPerPeer(log *slog.Logger, message string) *PerPeer {
	return &PerPeer{log: log, message: message, attr: "peer", peers: make(map[string]*peerLines)}
}

// NewPerSubject returns a PerPeer for AdmitKey with the subjects of callers.
func NewPerSubject(log *slog.Logger, message string) *PerPeer {
	p := NewPerPeer(log, message)
	p.attr = "subject"
	return p
}

// Admit reports whether a line about the peer may be written now, and how many
// lines were left out since its last one. addr is an IP address with or without
// port. An IPv6 /64 network is one peer, because one host commonly has all of it.
func (p *PerPeer) Admit(addr string) (leftOut int, ok bool) {
	return p.AdmitKey(PeerOf(addr))
}

// AdmitKey is Admit with a key that is not an address.
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

// Run logs the counts of peers that stopped calling and forgets them. When ctx
// ends it logs all remaining counts.
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

// sweep logs the counts of the peers whose last line is not after until.
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
			peer.logged, peer.leftOut = now, 0 // the count is a line too
		}
	}
	p.mu.Unlock()
	for key, n := range counts {
		p.log.InfoContext(ctx, p.message, p.attr, key, LeftOut, n)
	}
}

// Peers is the number of remembered peers.
func (p *PerPeer) Peers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.peers)
}

// PeerOf is the key of a peer for an address with or without port: the IPv4
// address, or the /64 network of an IPv6 address. Everything that is not an
// address shares one key.
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
