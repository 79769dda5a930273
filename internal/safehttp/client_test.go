package safehttp_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/carillon/carillon/internal/safehttp"
)

// server counts what reaches it at an address of the loopback block.
func server(t *testing.T, ip string, port int, answer http.HandlerFunc) (at netip.AddrPort, hits *atomic.Int64) {
	t.Helper()
	lis, err := net.Listen("tcp", net.JoinHostPort(ip, fmt.Sprint(port)))
	if err != nil {
		t.Skipf("this machine does not listen on %s: %v", ip, err)
	}
	hits = new(atomic.Int64)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		if answer != nil {
			answer(w, r)
		}
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(lis) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return netip.MustParseAddrPort(lis.Addr().String()), hits
}

func policy(t *testing.T, list string) safehttp.Policy {
	t.Helper()
	p, err := safehttp.ParsePolicy(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func refused(err error) bool {
	var r *safehttp.RefusedError
	return errors.As(err, &r)
}

// hostile are addresses that lead, or might lead, to where only this machine
// may ask. %d is the port of a server on 127.0.0.1 that must hear of none.
var hostile = []string{
	// loopback, in all its spellings
	"http://127.0.0.1:%d/", "http://127.0.0.2:%d/", "http://127.255.255.254:%d/", "http://localhost:%d/", "http://LOCALHOST:%d/", "http://localhost.:%d/",
	"http://[::1]:%d/", "http://[0:0:0:0:0:0:0:1]:%d/", "http://[::ffff:127.0.0.1]:%d/", "http://[::ffff:7f00:1]:%d/", "http://[0:0:0:0:0:ffff:127.0.0.1]:%d/",
	"http://[::127.0.0.1]:%d/", "http://[::ffff:0:127.0.0.1]:%d/", "http://0.0.0.0:%d/", "http://0:%d/", "http://[::]:%d/", "http://0.1.2.3:%d/",
	"http://127.1:%d/", "http://127.0.1:%d/", "http://0177.1:%d/", "http://0177.0.0.1:%d/", "http://0x7f.1:%d/", "http://0x7f.0x0.0x0.0x1:%d/",
	"http://0x7f000001:%d/", "http://2130706433:%d/", "http://017700000001:%d/", "http://127.0.0.1.:%d/", "http://127.0.0.01:%d/", "http://127.0.0.1%%00:%d/",
	"http://①②⑦.⓪.⓪.①:%d/", "http://１２７.0.0.1:%d/", "http://127。0。0。1:%d/", "http://ⓛocalhost:%d/", "http://bücher.example:%d/",
	// names that lead inside
	"http://loop.test:%d/", "http://loop6.test:%d/", "http://mapped.test:%d/", "http://private.test:%d/", "http://meta.test:%d/", "http://both.test:%d/", "http://unspecified.test:%d/",
	// user names, and what looks like another host
	"http://u@127.0.0.1:%d/", "http://example.com@127.0.0.1:%d/", "http://a:b@loop.test:%d/", "http://1.1.1.1:80@127.0.0.1:%d/", "http://127.0.0.1:%d@loop.test/",
	"http://127.0.0.1:%d#@example.com/", "http://127.0.0.1:%d?@example.com/", "http://loop.test:%d\\@example.com/",
	// private and local networks
	"http://10.0.0.1/", "http://10.255.255.255/", "http://172.16.0.1/", "http://172.31.255.255/", "http://192.168.0.1/", "http://[fc00::1]/", "http://[fdff::1]/",
	"http://169.254.169.254/latest/meta-data/", "http://169.254.0.1/", "http://[fe80::1]/", "http://[fe80::1%%25lo]/", "http://[fd00:ec2::254]/", "http://metadata.google.internal./",
	"http://[::ffff:169.254.169.254]/", "http://[::ffff:10.0.0.1]/", "http://0xa9fea9fe/", "http://2852039166/", "http://100.64.0.1/", "http://100.127.255.254/", "http://100.100.100.200/",
	// translated and tunnelled, reserved, multicast
	"http://[64:ff9b::7f00:1]/", "http://[64:ff9b::169.254.169.254]/", "http://[64:ff9b:1::a00:1]/", "http://[2002:7f00:1::]/", "http://[2002:a9fe:a9fe::1]/",
	"http://[2001:0:7f00:1::]/", "http://[2001:db8::1]/", "http://[3fff::1]/", "http://[4000::1]/", "http://[ff02::1]/", "http://224.0.0.1/", "http://239.255.255.255/",
	"http://240.0.0.1/", "http://255.255.255.255/", "http://192.0.0.8/", "http://192.0.2.1/", "http://198.18.0.1/", "http://198.19.255.255/", "http://198.51.100.1/", "http://203.0.113.1/", "http://192.88.99.1/",
	// other ports, other schemes, no host
	"http://1.1.1.1:22/", "https://1.1.1.1:6379/", "http://1.1.1.1:0/", "http://1.1.1.1:99999/", "http://public.test:25/", "http://[2606:4700::1111]:11211/",
	"ftp://1.1.1.1/", "gopher://127.0.0.1:%d/", "file:///etc/passwd", "dict://127.0.0.1:%d/", "http:///etc/passwd", "//127.0.0.1:%d/", "http:127.0.0.1", "unix:///var/run/docker.sock",
}

func TestNoAddressThatAUserWritesLeadsInside(t *testing.T) {
	at, hits := server(t, "127.0.0.1", 0, nil)
	client := policy(t, "").NewClient(safehttp.Options{Resolver: resolve(t, map[string][][]netip.Addr{
		"loop.test": {ips("127.0.0.1")}, "loop6.test": {ips("::1")}, "mapped.test": {ips("::ffff:127.0.0.1")}, "private.test": {ips("10.1.2.3")},
		"meta.test": {ips("169.254.169.254")}, "both.test": {ips("127.0.0.1", "::1", "192.168.1.1")}, "unspecified.test": {ips("0.0.0.0")},
		"metadata.google.internal": {ips("169.254.169.254")}, "public.test": {ips("1.1.1.1")}, "localhost": {ips("127.0.0.1")},
	})})
	defer client.CloseIdleConnections()
	if len(hostile) < 70 {
		t.Fatalf("%d addresses, fewer than 70", len(hostile))
	}
	for _, format := range hostile {
		address := strings.ReplaceAll(strings.ReplaceAll(format, "%d", fmt.Sprint(at.Port())), "%%", "%")
		t.Run(address, func(t *testing.T) {
			resp, err := client.Get(address)
			if err == nil {
				_ = resp.Body.Close()
				t.Fatalf("was answered %s", resp.Status)
			}
			// What net/url cannot read, or net/http does not speak, is refused there.
			if _, unread := url.Parse(address); unread == nil && strings.HasPrefix(address, "http") && !refused(err) {
				t.Errorf("ended with %v; want it refused by the policy", err)
			}
		})
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestANameThatLeadsElsewhereAtTheNextLookUpIsRefusedThen(t *testing.T) {
	inside, insideHits := server(t, "127.0.0.1", 0, nil)
	_, outsideHits := server(t, "127.0.0.2", int(inside.Port()), nil)
	resolver := resolve(t, map[string][][]netip.Addr{"rebind.test": {ips("127.0.0.2"), ips("127.0.0.1")}})
	client := policy(t, "127.0.0.2").NewClient(safehttp.Options{Resolver: resolver})
	address := fmt.Sprintf("http://rebind.test:%d/", inside.Port())
	for call, want := range []bool{true, false, false} {
		resp, err := client.Get(address)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != want || err != nil && !refused(err) {
			t.Errorf("call %d ended with %v", call, err)
		}
		client.CloseIdleConnections()
	}
	if insideHits.Load() != 0 || outsideHits.Load() != 1 {
		t.Errorf("%d requests arrived inside, %d outside; want 0 and 1", insideHits.Load(), outsideHits.Load())
	}
}

func TestOfSeveralAddressesOnlyTheAllowedAreTried(t *testing.T) {
	inside, insideHits := server(t, "127.0.0.1", 0, nil)
	_, outsideHits := server(t, "127.0.0.2", int(inside.Port()), nil)
	resolver := resolve(t, map[string][][]netip.Addr{"mixed.test": {ips("127.0.0.1", "127.0.0.2")}, "inner.test": {ips("127.0.0.3", "127.0.0.1")}})
	client := policy(t, "127.0.0.2").NewClient(safehttp.Options{Resolver: resolver})
	defer client.CloseIdleConnections()
	resp, err := client.Get(fmt.Sprintf("http://mixed.test:%d/", inside.Port()))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if _, err := client.Get(fmt.Sprintf("http://inner.test:%d/", inside.Port())); !refused(err) { //nolint:bodyclose // there is none
		t.Errorf("ended with %v", err)
	}
	if insideHits.Load() != 0 || outsideHits.Load() != 1 {
		t.Errorf("%d requests arrived inside, %d outside; want 0 and 1", insideHits.Load(), outsideHits.Load())
	}
}

func TestNoRedirectIsFollowedAndNoProxyAsked(t *testing.T) {
	inside, insideHits := server(t, "127.0.0.1", 0, nil)
	target := fmt.Sprintf("http://127.0.0.1:%d/", inside.Port())
	for _, code := range []int{301, 302, 303, 307, 308} {
		outside, _ := server(t, "127.0.0.2", 0, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, code) })
		t.Setenv("HTTP_PROXY", target)
		t.Setenv("http_proxy", target)
		client := policy(t, "127.0.0.2").NewClient(safehttp.Options{})
		resp, err := client.Get("http://" + outside.String())
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		client.CloseIdleConnections()
		if resp.StatusCode != code {
			t.Errorf("answered %d; want the redirect itself, %d", resp.StatusCode, code)
		}
	}
	if n := insideHits.Load(); n != 0 {
		t.Errorf("%d requests went where a redirect or a proxy said", n)
	}
}

func TestWhatTheOperatorNamesIsAllowed(t *testing.T) {
	at, hits := server(t, "127.0.0.1", 0, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	answers := map[string][][]netip.Addr{"api.test": {ips("127.0.0.1")}, "a.below.test": {ips("127.0.0.1")}, "below.test": {ips("127.0.0.1")}}
	for _, c := range []struct {
		name  string
		allow string
		host  string
		want  bool
	}{
		{"a word", "loopback", "127.0.0.1", true},
		{"a word that means something else", "private", "127.0.0.1", false},
		{"an address", "127.0.0.1", "127.0.0.1", true},
		{"a block", "10.0.0.0/8, 127.0.0.0/8", "127.0.0.1", true},
		{"a name, whatever it leads to", "api.test", "api.test", true},
		{"a name in capitals", "API.test", "api.TEST", true},
		{"the address behind a name that is allowed", "api.test", "127.0.0.1", false},
		{"all below a name", "*.below.test", "a.below.test", true},
		{"the name itself, where all below it is allowed", "*.below.test", "below.test", false},
		{"the right port", fmt.Sprintf("127.0.0.1:%d", at.Port()), "127.0.0.1", true},
		{"another port", fmt.Sprintf("loopback:%d api.test:%d", at.Port()+1, at.Port()+1), "api.test", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := policy(t, c.allow).NewClient(safehttp.Options{Resolver: resolve(t, answers)})
			defer client.CloseIdleConnections()
			before := hits.Load()
			resp, err := client.Get(fmt.Sprintf("http://%s:%d/", c.host, at.Port()))
			if err == nil {
				_ = resp.Body.Close()
			}
			if allowed := err == nil; allowed != c.want || hits.Load()-before != map[bool]int64{true: 1}[c.want] {
				t.Errorf("allowed is %v (%v); want %v", allowed, err, c.want)
			}
		})
	}
}

func TestAClientForHTTPSOnlyRefusesHTTP(t *testing.T) {
	client := policy(t, "loopback").NewClient(safehttp.Options{HTTPSOnly: true})
	if _, err := client.Get("http://127.0.0.1:1/"); !refused(err) { //nolint:bodyclose // there is none
		t.Errorf("ended with %v", err)
	}
}
