package cert_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/cert"
)

// noon is now for both sides.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const worker = "spiffe://example.org/worker"

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

var serial int64

func newKey() crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func template(edits ...func(*x509.Certificate)) *x509.Certificate {
	serial++
	t := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "worker"},
		NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: uris(worker),
	}
	for _, edit := range edits {
		edit(t)
	}
	return t
}

func uris(all ...string) (out []*url.URL) {
	for _, text := range all {
		u, err := url.Parse(text)
		if err != nil {
			panic(err)
		}
		out = append(out, u)
	}
	return out
}

// sign makes a certificate; by nil signs itself.
func sign(t *x509.Certificate, key crypto.Signer, by *authority) *x509.Certificate {
	parent, signer := t, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), signer)
	if err != nil {
		panic(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return made
}

func newAuthority(by *authority, edits ...func(*x509.Certificate)) *authority {
	key := newKey()
	t := template(append([]func(*x509.Certificate){func(c *x509.Certificate) {
		c.Subject.CommonName, c.IsCA, c.BasicConstraintsValid, c.KeyUsage = "authority", true, true, x509.KeyUsageCertSign
		c.ExtKeyUsage, c.URIs = nil, nil
	}}, edits...)...)
	return &authority{sign(t, key, by), key}
}

// pair is a certificate with its key and what stands between it and the root.
func (a *authority) pair(edits ...func(*x509.Certificate)) tls.Certificate {
	return a.pairOf(newKey(), edits...)
}

func (a *authority) pairOf(key crypto.Signer, edits ...func(*x509.Certificate)) tls.Certificate {
	leaf := sign(template(edits...), key, a)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}
}

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
}

func newSite(t *testing.T) *site {
	s := &site{t: t, dir: t.TempDir(), now: noon, ca: newAuthority(nil), own: newAuthority(nil)}
	s.writeServer(s.own)
	writePEM(t, s.path("ca.pem"), "CERTIFICATE", s.ca.cert.Raw)
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *site) writeServer(by *authority) {
	pair := by.pair(func(c *x509.Certificate) {
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
	config, err := cert.Server(cert.ServerConfig{
		CertFile: s.path("cert.pem"), KeyFile: s.path("key.pem"), ClientCAFile: s.path("ca.pem"), RequireClient: required,
		Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return s.now },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return config
}

// client trusts the server's authority and shows a certificate, if any.
func (s *site) client(pair *tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(s.own.cert)
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
	below := middle.pair()
	below.Certificate = append(below.Certificate, middle.cert.Raw)
	direct, ci := s.ca.pair(), s.ca.pair(func(c *x509.Certificate) { c.URIs = uris("spiffe://example.org/ci") })
	for _, c := range []struct {
		name  string
		pair  tls.Certificate
		want  string
		roles int
	}{
		{"a worker", direct, worker, 1},
		{"with two roles", ci, "spiffe://example.org/ci", 2},
		{"behind an intermediate", below, worker, 1},
		{"one that nobody named has no role", s.ca.pair(func(c *x509.Certificate) { c.URIs = uris("spiffe://example.org/other") }), "spiffe://example.org/other", 0},
		{"a URI that differs in a letter's case has none", s.ca.pair(func(c *x509.Certificate) { c.URIs = uris("spiffe://example.org/Worker") }), "spiffe://example.org/Worker", 0},
		{"nor has one with more at the end", s.ca.pair(func(c *x509.Certificate) { c.URIs = uris(worker + "/x") }), worker + "/x", 0},
		{"nor one with less", s.ca.pair(func(c *x509.Certificate) { c.URIs = uris("spiffe://example.org/work") }), "spiffe://example.org/work", 0},
		{"a common name says nothing", s.ca.pair(func(c *x509.Certificate) {
			c.Subject.CommonName, c.URIs = worker, uris("spiffe://example.org/none")
		}), "spiffe://example.org/none", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			state, err := shake(t, s.server(true), s.client(&c.pair))
			if err != nil {
				t.Fatal(err)
			}
			id, err := callers.Identify(&state, noon)
			if err != nil || id.Subject != c.want || len(id.Roles) != c.roles || id.Via != auth.ViaMTLS || id.Owner != "" {
				t.Errorf("%+v, %v", id, err)
			}
			if state.Version != tls.VersionTLS13 {
				t.Errorf("version %x", state.Version)
			}
			if _, err := callers.Identify(&state, noon.Add(time.Hour)); err == nil {
				t.Error("it is still good once its certificate has run out")
			}
		})
	}
}

func TestBadCertificatesAreRefusedInTheHandshake(t *testing.T) {
	s := newSite(t)
	stranger := newAuthority(nil)
	expired := newAuthority(nil, func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Minute) })
	noSigner := newAuthority(s.ca, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature })
	serverOnly := newAuthority(s.ca, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	noIntermediate := newAuthority(s.ca)
	depth := newAuthority(s.ca, func(c *x509.Certificate) { c.MaxPathLenZero = true })
	tooDeep := newAuthority(depth)
	chain := func(leaf tls.Certificate, above ...*authority) tls.Certificate {
		for _, a := range above {
			leaf.Certificate = append(leaf.Certificate, a.cert.Raw)
		}
		return leaf
	}
	leaf := func(edit func(*x509.Certificate)) tls.Certificate { return s.ca.pair(edit) }
	selfKey := newKey()
	weakKey, _ := rsa.GenerateKey(rand.Reader, 1024)
	wrongKey := s.ca.pair()
	wrongKey.PrivateKey = newKey()
	cut := s.ca.pair()
	cut.Certificate = [][]byte{cut.Certificate[0][:len(cut.Certificate[0])-10]}
	flipped := s.ca.pair()
	flipped.Certificate = [][]byte{append([]byte(nil), flipped.Certificate[0]...)}
	flipped.Certificate[0][len(flipped.Certificate[0])-1] ^= 1
	bad := map[string]tls.Certificate{
		"of another authority":                stranger.pair(),
		"of another authority that it brings": chain(stranger.pair(), stranger),
		"of the server's authority":           s.own.pair(),
		"signed by itself":                    {Certificate: [][]byte{sign(template(), selfKey, nil).Raw}, PrivateKey: selfKey},
		"of an authority of the same name":    newAuthority(nil).pair(),
		"expired":                             leaf(func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Second) }),
		"not valid yet":                       leaf(func(c *x509.Certificate) { c.NotBefore = noon.Add(time.Minute) }),
		"of an authority that has expired":    expired.pair(),
		"for servers":                         leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
		"for mail":                            leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection} }),
		"for nothing in particular":           leaf(func(c *x509.Certificate) { c.ExtKeyUsage = nil }),
		"for anything":                        leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} }),
		"without a URI":                       leaf(func(c *x509.Certificate) { c.URIs = nil }),
		"with a name in DNS alone":            leaf(func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, []string{"worker.example.org"} }),
		"with two URIs":                       leaf(func(c *x509.Certificate) { c.URIs = uris(worker, "spiffe://example.org/operator") }),
		"with the same URI twice":             leaf(func(c *x509.Certificate) { c.URIs = uris(worker, worker) }),
		"with a URI of 300 letters":           leaf(func(c *x509.Certificate) { c.URIs = uris("spiffe://example.org/" + strings.Repeat("w", 300)) }),
		"of an authority":                     leaf(func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }),
		"the authority's own":                 {Certificate: [][]byte{s.ca.cert.Raw}, PrivateKey: s.ca.key},
		"shown without its key":               wrongKey,
		"cut short":                           cut,
		"with another signature":              flipped,
		"with an unknown critical extension": leaf(func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}}
		}),
		"behind one that may not sign":            chain(noSigner.pair(), noSigner),
		"behind one that is for servers":          chain(serverOnly.pair(), serverOnly),
		"behind an intermediate that is not sent": noIntermediate.pair(),
		"behind more than may stand between":      chain(tooDeep.pair(), tooDeep, depth),
	}
	if weakKey != nil {
		bad["with an RSA key of 1024 bits"] = s.ca.pairOf(weakKey)
	}
	for name, pair := range bad {
		t.Run(name, func(t *testing.T) {
			for _, required := range []bool{true, false} {
				if state, err := shake(t, s.server(required), s.client(&pair)); err == nil {
					t.Errorf("required %v: it is let in, verified chains %d", required, len(state.VerifiedChains))
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
		if _, err := (cert.Callers{}).Identify(&state, noon); err == nil {
			t.Error("and is somebody")
		}
	})
	t.Run("an old version of TLS", func(t *testing.T) {
		pair, client := s.ca.pair(), s.client(nil)
		client.Certificates, client.MaxVersion = []tls.Certificate{pair}, tls.VersionTLS12
		if _, err := shake(t, s.server(true), client); err == nil {
			t.Error("TLS 1.2 is spoken")
		}
	})
}

func TestChangedCertificatesTakeEffectForNewConnections(t *testing.T) {
	s := newSite(t)
	server := s.server(true)
	was, next := s.ca.pair(), newAuthority(nil)
	fresh := next.pair()
	if _, err := shake(t, server, s.client(&was)); err != nil {
		t.Fatal(err)
	}
	if _, err := shake(t, server, s.client(&fresh)); err == nil {
		t.Fatal("another authority's certificate is let in")
	}
	writePEM(t, s.path("ca.pem"), "CERTIFICATE", next.cert.Raw)
	s.own = newAuthority(nil)
	s.writeServer(s.own)
	s.now = s.now.Add(time.Second)
	if _, err := shake(t, server, s.client(&fresh)); err != nil {
		t.Errorf("a certificate of the new authority, to the server's new one: %v", err)
	}
	if _, err := shake(t, server, s.client(&was)); err == nil {
		t.Error("a certificate of the authority that is gone is let in")
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
