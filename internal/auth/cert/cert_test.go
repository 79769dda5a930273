package cert_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/authtest"
	"github.com/carillon/carillon/internal/auth/cert"
)

// noon is now for both sides.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const worker = authtest.Worker

type authority = authtest.Authority

func newAuthority(by *authority) *authority { return authtest.NewAuthority(noon, by) }

func writePEM(t *testing.T, path, kind string, ders ...[]byte) string {
	t.Helper()
	var text []byte
	for _, der := range ders {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})...)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil { // as mounted secrets change
		t.Fatal(err)
	}
	return path
}

// site is a listener's files, and the time that it believes in.
type site struct {
	t   *testing.T
	dir string
	now time.Time
	ca  *authority // of clients
	own *authority // of the server

	signers *cert.Authority // of the last server
}

func newSite(t *testing.T) *site {
	s := &site{t: t, dir: t.TempDir(), now: noon, ca: newAuthority(nil), own: newAuthority(nil)}
	s.writeServer(s.own)
	writePEM(t, s.path("ca.pem"), "CERTIFICATE", s.ca.Cert.Raw)
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *site) writeServer(by *authority) {
	pair := by.Pair(func(c *x509.Certificate) {
		c.URIs, c.ExtKeyUsage, c.IPAddresses = nil, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []net.IP{net.IPv4(127, 0, 0, 1)}
	})
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		s.t.Fatal(err)
	}
	writePEM(s.t, s.path("cert.pem"), "CERTIFICATE", pair.Certificate[0])
	writePEM(s.t, s.path("key.pem"), "PRIVATE KEY", key)
}

func (s *site) server(required bool) *tls.Config {
	s.t.Helper()
	config, signers, err := cert.Server(cert.ServerConfig{
		CertFile: s.path("cert.pem"), KeyFile: s.path("key.pem"), ClientCAFile: s.path("ca.pem"), RequireClient: required,
		Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return s.now },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.signers = signers
	return config
}

// client trusts the server's authority and shows a certificate, if any.
func (s *site) client(pair *tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(s.own.Cert)
	c := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", Time: func() time.Time { return noon }}
	if pair != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return c
}

// shake makes one connection; state is the server's view of it.
func shake(t *testing.T, server, client *tls.Config) (state tls.ConnectionState, err error) {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	deadline := time.Now().Add(10 * time.Second)
	_ = near.SetDeadline(deadline)
	_ = far.SetDeadline(deadline)
	asked := make(chan error, 1)
	go func() {
		conn := tls.Client(far, client)
		err := conn.Handshake()
		if err == nil {
			_, err = conn.Read(make([]byte, 1)) // TLS 1.3: the server's refusal comes after
		}
		asked <- err
		_ = far.Close()
	}()
	conn := tls.Server(near, server)
	if err = conn.Handshake(); err == nil {
		_, err = io.WriteString(conn, "x")
		state = conn.ConnectionState()
	}
	_ = near.Close()
	if clientErr := <-asked; err == nil && clientErr != nil {
		err = clientErr
	}
	return state, err
}

func TestACertificateOfTheAuthorityIsACaller(t *testing.T) {
	s := newSite(t)
	callers, err := cert.ParseCallers(worker + "=worker, spiffe://example.org/ci=compiler+viewer")
	if err != nil {
		t.Fatal(err)
	}
	middle := newAuthority(s.ca)
	below := middle.Pair()
	below.Certificate = append(below.Certificate, middle.Cert.Raw)
	direct, ci := s.ca.Pair(), s.ca.Pair(func(c *x509.Certificate) { c.URIs = authtest.URIs("spiffe://example.org/ci") })
	for _, c := range []struct {
		name  string
		pair  tls.Certificate
		want  string
		roles int
	}{
		{"a worker", direct, worker, 1},
		{"with two roles", ci, "spiffe://example.org/ci", 2},
		{"behind an intermediate", below, worker, 1},
		{"one that nobody named has no role", s.ca.Pair(func(c *x509.Certificate) { c.URIs = authtest.URIs("spiffe://example.org/other") }), "spiffe://example.org/other", 0},
		{"a URI that differs in a letter's case has none", s.ca.Pair(func(c *x509.Certificate) { c.URIs = authtest.URIs("spiffe://example.org/Worker") }), "spiffe://example.org/Worker", 0},
		{"nor has one with more at the end", s.ca.Pair(func(c *x509.Certificate) { c.URIs = authtest.URIs(worker + "/x") }), worker + "/x", 0},
		{"nor one with less", s.ca.Pair(func(c *x509.Certificate) { c.URIs = authtest.URIs("spiffe://example.org/work") }), "spiffe://example.org/work", 0},
		{"a common name says nothing", s.ca.Pair(func(c *x509.Certificate) {
			c.Subject.CommonName, c.URIs = worker, authtest.URIs("spiffe://example.org/none")
		}), "spiffe://example.org/none", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			state, err := shake(t, s.server(true), s.client(&c.pair))
			if err != nil {
				t.Fatal(err)
			}
			id, err := callers.Identify(&state, s.signers, noon)
			if err != nil || id.Subject != c.want || len(id.Roles) != c.roles || id.Via != auth.ViaMTLS || id.Owner != "" {
				t.Errorf("%+v, %v", id, err)
			}
			if state.Version != tls.VersionTLS13 {
				t.Errorf("version %x", state.Version)
			}
			if _, err := callers.Identify(&state, s.signers, noon.Add(time.Hour)); err == nil {
				t.Error("it is still good once its certificate has run out")
			}
		})
	}
}

// certified makes a certificate whose URIs are these very bytes. Through
// x509.Certificate.URIs they would be parsed and printed again.
func certified(t *testing.T, by *authority, uris ...string) tls.Certificate {
	t.Helper()
	var names []asn1.RawValue
	for _, uri := range uris {
		names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(uri)})
	}
	value, err := asn1.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	return by.Pair(func(c *x509.Certificate) {
		c.URIs = nil
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: value}}
	})
}

func TestNamesAreComparedByteByByte(t *testing.T) {
	s := newSite(t)
	callers, err := cert.ParseCallers(worker + "=worker")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, uri string
		roles     int
	}{
		{"the very name", worker, 1},
		{"the scheme in upper case", "SPIFFE://example.org/worker", 0},
		{"an empty fragment", worker + "#", 0},
		{"an empty query", worker + "?", 0},
		{"a slash at the end", worker + "/", 0},
		{"an escaped letter", "spiffe://example.org/work%65r", 0},
		{"the trust domain in upper case", "spiffe://EXAMPLE.org/worker", 0},
		{"an empty user", "spiffe://@example.org/worker", 0},
		{"a port", "spiffe://example.org:443/worker", 0},
		{"two slashes", "spiffe://example.org//worker", 0},
		{"a path that leads back", "spiffe://example.org/x/../worker", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			pair := certified(t, s.ca, c.uri)
			state, err := shake(t, s.server(false), s.client(&pair))
			if err != nil {
				t.Fatal(err)
			}
			id, err := callers.Identify(&state, s.signers, noon)
			if c.roles == 0 && err != nil {
				return // refused is as good as without a role
			}
			if err != nil || id.Subject != c.uri || len(id.Roles) != c.roles {
				t.Errorf("%+v, %v; want the subject %s with %d roles", id, err, c.uri, c.roles)
			}
		})
	}
}

func TestOddNamesAreRefusedAtTheStart(t *testing.T) {
	for _, c := range []struct{ name, uri, says string }{
		{"the scheme in upper case", "SPIFFE://example.org/worker", "is not a SPIFFE ID"},
		{"the trust domain in upper case", "spiffe://Example.org/worker", "is not a SPIFFE ID"},
		{"a slash at the end", worker + "/", "is not a SPIFFE ID"},
		{"a trust domain and a slash", "spiffe://example.org/", "is not a SPIFFE ID"},
		{"an empty segment", "spiffe://example.org//worker", "is not a SPIFFE ID"},
		{"an escape", "spiffe://example.org/work%65r", "is not a SPIFFE ID"},
		{"a port", "spiffe://example.org:443/worker", "is not a SPIFFE ID"},
		{"a user", "spiffe://me@example.org/worker", "is not a SPIFFE ID"},
		{"a query", worker + "?a", "is not a SPIFFE ID"},
		{"an empty fragment", worker + "#", "is not a SPIFFE ID"},
		{"a path that leads back", "spiffe://example.org/x/../worker", "in its path"},
		{"another scheme, with a host in upper case", "https://Example.org/w", "is not in its plain form"},
		{"another scheme, with a user", "https://me@example.org/w", "is not in its plain form"},
		{"another scheme, with a fragment", "https://example.org/w#x", "is not in its plain form"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := cert.ParseCallers(c.uri + "=worker"); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want it to say %q", err, c.says)
			}
		})
	}
	for _, uri := range []string{worker, "spiffe://example.org", "spiffe://a-b.c_d/ns/x/sa/Y.1", "https://example.org/w", "https://example.org/w?a=b", "urn:example:worker"} {
		if _, err := cert.ParseCallers(uri + "=worker"); err != nil {
			t.Errorf("%s is refused: %v", uri, err)
		}
	}
}

func TestBadCertificatesAreNobodys(t *testing.T) {
	s := newSite(t)
	callers, _ := cert.ParseCallers(worker + "=worker")
	bad := s.ca.Bad()
	maps.Copy(bad, s.ca.Broken())
	bad["of the server's authority"] = s.own.Pair()
	for name, pair := range bad {
		t.Run(name, func(t *testing.T) {
			for _, required := range []bool{true, false} {
				state, err := shake(t, s.server(required), s.client(&pair))
				if err == nil && !required { // the handshake is left in peace, and the caller is nobody
					_, err = callers.Identify(&state, s.signers, noon)
				}
				if err == nil {
					t.Errorf("required %v: it is let in", required)
				}
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		if _, err := shake(t, s.server(true), s.client(nil)); err == nil {
			t.Error("a connection without a certificate is let in where one is required")
		}
		state, err := shake(t, s.server(false), s.client(nil))
		if err != nil {
			t.Errorf("a connection without a certificate is refused where none is required: %v", err)
		}
		if _, err := (cert.Callers{}).Identify(&state, s.signers, noon); err == nil {
			t.Error("and is somebody")
		}
	})
	t.Run("an old version of TLS", func(t *testing.T) {
		pair, client := s.ca.Pair(), s.client(nil)
		client.Certificates, client.MaxVersion = []tls.Certificate{pair}, tls.VersionTLS12
		if _, err := shake(t, s.server(true), client); err == nil {
			t.Error("TLS 1.2 is spoken")
		}
	})
}

func TestChangedCertificatesTakeEffectForNewConnections(t *testing.T) {
	s := newSite(t)
	server := s.server(true)
	was, next := s.ca.Pair(), newAuthority(nil)
	fresh := next.Pair()
	callers, _ := cert.ParseCallers(worker + "=worker")
	open, err := shake(t, server, s.client(&was))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := callers.Identify(&open, s.signers, noon); err != nil {
		t.Fatal(err)
	}
	if _, err := shake(t, server, s.client(&was)); err != nil {
		t.Fatal(err)
	}
	if _, err := shake(t, server, s.client(&fresh)); err == nil {
		t.Fatal("another authority's certificate is let in")
	}
	writePEM(t, s.path("ca.pem"), "CERTIFICATE", next.Cert.Raw)
	s.own = newAuthority(nil)
	s.writeServer(s.own)
	s.now = s.now.Add(time.Second)
	if _, err := shake(t, server, s.client(&fresh)); err != nil {
		t.Errorf("a certificate of the new authority, to the server's new one: %v", err)
	}
	if _, err := shake(t, server, s.client(&was)); err == nil {
		t.Error("a certificate of the authority that is gone is let in")
	}
	if _, err := callers.Identify(&open, s.signers, noon); err == nil {
		t.Error("a connection from before the change goes on")
	}
	if err := os.WriteFile(s.path("cert.pem"), []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(time.Second)
	if _, err := shake(t, server, s.client(&fresh)); err != nil {
		t.Errorf("a file that is being written stops the listener: %v", err)
	}
}

func TestCallersAreNamedByWholeURIs(t *testing.T) {
	for text, want := range map[string]string{
		"worker=worker": "not a URI", "spiffe://x/w": "is not URI=role", "spiffe://x/w=": "is not a role", "spiffe://x/w=root": "is not a role",
		"spiffe://x/w=user": "needs an owner", "spiffe://x/w=worker,spiffe://x/w=viewer": "there twice", "=worker": "is not URI=role",
	} {
		if _, err := cert.ParseCallers(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want it to say %q", text, err, want)
		}
	}
	if callers, err := cert.ParseCallers(" , "); err != nil || len(callers) != 0 {
		t.Errorf("nobody: %v, %v", callers, err)
	}
}
