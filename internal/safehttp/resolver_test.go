package safehttp_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// names is a DNS server of the test's own. Each name has answers, one for each
// time it is asked; the last one stays. A rebinding name is one whose second
// answer is another.
type names struct {
	mu      sync.Mutex
	answers map[string][][]netip.Addr
	asked   map[string]int
}

func ips(list ...string) []netip.Addr {
	out := make([]netip.Addr, len(list))
	for i, ip := range list {
		out[i] = netip.MustParseAddr(ip)
	}
	return out
}

// resolve starts the server and returns a resolver that asks it alone.
func resolve(t *testing.T, answers map[string][][]netip.Addr) *net.Resolver {
	t.Helper()
	n := &names{answers: answers, asked: make(map[string]int)}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		buf := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := n.reply(buf[:size]); reply != nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		serving.Wait()
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (n *names) reply(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	for _, ip := range n.next(strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")), q.Type) {
		header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET}
		if ip.Is4() {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: ip.As4()}})
		} else {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
		}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}

// next counts the look-ups of A records only: each comes with one of AAAA.
func (n *names) next(name string, kind dnsmessage.Type) (out []netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	rounds := n.answers[name]
	if len(rounds) == 0 {
		return nil
	}
	round := min(n.asked[name], len(rounds)-1)
	if kind == dnsmessage.TypeA {
		n.asked[name]++
	}
	for _, ip := range rounds[round] {
		if kind == dnsmessage.TypeA && ip.Is4() || kind == dnsmessage.TypeAAAA && ip.Is6() {
			out = append(out, ip)
		}
	}
	return out
}
