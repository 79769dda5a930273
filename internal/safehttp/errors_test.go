package safehttp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/test/services/reserve"
)

// address is an IPv4 address or an IPv6 one in brackets, with or without a port.
var address = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+|\[[0-9a-f:]+\]`)

// dnsAt is a resolver that reaches its server by dial.
func dnsAt(dial func(ctx context.Context) (net.Conn, error)) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
}

func TestErrorsNameNoAddressThatTheURLDoesNot(t *testing.T) {
	reset := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}))
	t.Cleanup(reset.Close)
	_, closed, _ := net.SplitHostPort(reserve.Addr(t))
	_, resets, _ := net.SplitHostPort(reset.Listener.Addr().String())
	loopback := resolve(t, map[string][][]netip.Addr{"trusted.example.com": {ips("127.0.0.1")}})
	var dialer net.Dialer
	for _, c := range []struct {
		name     string
		url      string
		allow    string
		resolver *net.Resolver
		want     string
	}{
		{"a name that does not exist", "http://none.example.com/", "", resolve(t, nil), "lookup none.example.com: no such host"},
		{"a DNS server that is down", "http://x.example.com/", "", dnsAt(func(ctx context.Context) (net.Conn, error) {
			return dialer.DialContext(ctx, "udp", reserve.Addr(t))
		}), "lookup x.example.com: "},
		{"a DNS server that does not answer", "http://x.example.com/", "", dnsAt(func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "read", Net: "udp", Source: &net.UDPAddr{IP: net.IPv4(10, 0, 0, 5)}, Addr: &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2)}, Err: os.ErrDeadlineExceeded}
		}), "lookup x.example.com: timeout"},
		{"a port where nobody listens", "http://trusted.example.com:" + closed + "/", "trusted.example.com", loopback, "connection refused"},
		{"a connection that is reset", "http://trusted.example.com:" + resets + "/", "trusted.example.com", loopback, ""},
		{"a name that leads inside", "http://trusted.example.com/", "", loopback, "resolves to a loopback address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy, err := safehttp.ParsePolicy(c.allow)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
			resp, err := policy.NewClient(safehttp.Options{Resolver: c.resolver}).Do(req)
			if err == nil {
				_ = resp.Body.Close()
				t.Fatalf("answered %s", resp.Status)
			}
			text := err.Error()
			if found := address.FindString(text); found != "" || !strings.Contains(text, c.want) {
				t.Errorf("the error %q names %q; want %q and no address", text, found, c.want)
			}
		})
	}
}

func TestABodyThatBreaksOffNamesNoAddress(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, out, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = out.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		_ = out.Flush()
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}))
	t.Cleanup(server.Close)
	policy, err := safehttp.ParsePolicy("loopback")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := policy.NewClient(safehttp.Options{}).Get(server.URL)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Fatal("the whole body came")
	}
	if text := strings.ReplaceAll(err.Error(), server.URL, ""); address.MatchString(text) {
		t.Errorf("the error is %q", text)
	}
}
