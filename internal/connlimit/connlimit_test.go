package connlimit_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/carillon/carillon/internal/connlimit"
)

// fakes is a listener of pipes with the peers' addresses given.
type fakes struct{ conns chan net.Conn }

func (f fakes) Accept() (net.Conn, error) {
	c, ok := <-f.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (f fakes) Close() error { return nil }
func (fakes) Addr() net.Addr { return &net.TCPAddr{} }

type from struct {
	net.Conn
	peer net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.peer }

func dial(t *testing.T, l fakes, peer string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	l.conns <- from{server, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(peer))}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestTheIdlestAnonymousConnectionMakesRoom(t *testing.T) {
	const none = 99 // no such connection
	for _, c := range []struct {
		name       string
		peers      []string // of connections one second apart
		identified []int
		used       []int // read from at the end
		next       string
		wantClosed int // index; -1: the new connection is refused
		wantReason connlimit.Reason
	}{
		{name: "the oldest goes", peers: []string{"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.4:1"}, next: "192.0.2.5:1", wantClosed: 0, wantReason: connlimit.Evicted},
		{name: "one that was used stays", peers: []string{"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.4:1"}, used: []int{0}, next: "192.0.2.5:1", wantClosed: 1, wantReason: connlimit.Evicted},
		{name: "identified ones stay", peers: []string{"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.4:1"}, identified: []int{0, 1}, next: "192.0.2.5:1", wantClosed: 2, wantReason: connlimit.Evicted},
		{name: "no room among identified ones", peers: []string{"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.4:1"}, identified: []int{0, 1, 2, 3}, next: "192.0.2.5:1", wantClosed: -1, wantReason: connlimit.TooMany},
		{name: "a peer evicts one of its own", peers: []string{"192.0.2.9:1", "192.0.2.1:1", "192.0.2.1:2"}, next: "192.0.2.1:3", wantClosed: 1, wantReason: connlimit.Evicted},
		{name: "identified ones do not count for their peer", peers: []string{"192.0.2.9:1", "192.0.2.1:1", "192.0.2.1:2"}, identified: []int{1, 2}, next: "192.0.2.1:3", wantClosed: none},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				raw := fakes{make(chan net.Conn, 1)}
				var reason connlimit.Reason
				l := connlimit.Listen(raw, connlimit.Limits{Total: 4, PerPeer: 2, Refused: func(r connlimit.Reason, _ net.Addr) { reason = r }})
				var clients, servers []net.Conn
				for _, p := range c.peers {
					clients = append(clients, dial(t, raw, p))
					s, err := l.Accept()
					if err != nil {
						t.Fatal(err)
					}
					servers = append(servers, s)
					time.Sleep(time.Second)
				}
				for _, i := range c.identified {
					connlimit.Of(servers[i].RemoteAddr()).Identify()
				}
				for _, i := range c.used {
					go func() { _, _ = clients[i].Write([]byte("x")) }()
					if _, err := servers[i].Read(make([]byte, 1)); err != nil {
						t.Fatal(err)
					}
				}
				next := dial(t, raw, c.next)
				close(raw.conns)
				if _, err := l.Accept(); (c.wantClosed < 0) != errors.Is(err, net.ErrClosed) {
					t.Errorf("accept: %v", err)
				}
				if reason != c.wantReason {
					t.Errorf("reason %q, want %q", reason, c.wantReason)
				}
				for i, client := range append(clients, next) {
					want := i == c.wantClosed || c.wantClosed < 0 && i == len(clients)
					_ = client.SetReadDeadline(time.Now().Add(time.Second))
					_, err := client.Read(make([]byte, 1))
					if closed := errors.Is(err, io.EOF); closed != want {
						t.Errorf("connection %d: closed is %v (%v)", i, closed, err)
					}
				}
			})
		})
	}
}

func TestAClosedConnectionLeavesRoom(t *testing.T) {
	raw := fakes{make(chan net.Conn, 1)}
	l := connlimit.Listen(raw, connlimit.Limits{Total: 1, PerPeer: 1, Refused: func(r connlimit.Reason, _ net.Addr) { t.Errorf("refused: %s", r) }})
	for range 3 {
		dial(t, raw, "192.0.2.1:1")
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		_ = c.Close()
	}
}

// wire is HTTP/2 as a client sends it: calls and resets in the order of script,
// h for HEADERS, r for RST_STREAM, d for DATA.
func wire(t *testing.T, script string) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&b, nil)
	err := framer.WriteSettings()
	stream := uint32(1)
	for _, letter := range script {
		switch letter {
		case 'h':
			stream += 2
			err = errors.Join(err, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte{0x82}, EndHeaders: true}))
		case 'r':
			err = errors.Join(err, framer.WriteRSTStream(stream, http2.ErrCodeCancel))
		case 'd':
			err = errors.Join(err, framer.WriteData(stream, false, bytes.Repeat([]byte{3}, 1000))) // bytes like a frame type
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFramesAreCountedAndBounded(t *testing.T) {
	const seconds = time.Second
	repeat := func(s string, n int) string { return string(bytes.Repeat([]byte(s), n)) }
	for _, c := range []struct {
		name       string
		script     string
		identified bool
		wantClosed bool
		wantTook   time.Duration // at least; and at most 200 ms more
	}{
		{name: "calls within the burst are read at once", script: repeat("hd", 20)},
		{name: "anonymous calls beyond the burst are read at their rate", script: repeat("h", 60), wantTook: 4 * seconds},
		{name: "identified calls are read at once", script: repeat("hd", 500), identified: true},
		{name: "a few resets are nothing", script: repeat("hr", 5)},
		{name: "more anonymous resets close the connection", script: repeat("hr", 6), wantClosed: true},
		{name: "identified clients may reset more", script: repeat("hr", 50), identified: true},
		{name: "and not any number", script: repeat("hr", 51), identified: true, wantClosed: true},
	} {
		for _, chunk := range []int{1, 7, 1 << 20} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					raw := fakes{make(chan net.Conn, 1)}
					l := connlimit.Listen(raw, connlimit.Limits{Total: 9, PerPeer: 9, Calls: 10, CallBurst: 20, Resets: 1, ResetBurst: 5, IdentifiedResetBurst: 50})
					client := dial(t, raw, "192.0.2.1:1")
					plain, err := l.Accept()
					if err != nil {
						t.Fatal(err)
					}
					server, _, err := connlimit.Credentials(insecure.NewCredentials()).ServerHandshake(plain)
					if err != nil {
						t.Fatal(err)
					}
					if c.identified {
						connlimit.Of(server.RemoteAddr()).Identify()
					}
					sent := wire(t, c.script)
					go func() { _, _ = client.Write(sent); _ = client.Close() }()
					began, read, buffer := time.Now(), 0, make([]byte, chunk)
					for err == nil {
						var n int
						n, err = server.Read(buffer)
						read += n
					}
					if closed := !errors.Is(err, io.EOF); closed != c.wantClosed || !closed && read != len(sent) {
						t.Errorf("read %d of %d bytes, then %v", read, len(sent), err)
					}
					if took := time.Since(began); took < c.wantTook || took > c.wantTook+200*time.Millisecond {
						t.Errorf("took %s, want %s", took, c.wantTook)
					}
					_ = server.Close()
				})
			})
		}
	}
}
