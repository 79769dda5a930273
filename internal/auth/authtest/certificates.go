package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Worker is the default name in a certificate.
const Worker = "spiffe://example.org/worker"

// Authority signs certificates that are valid from one hour before Noon to one hour after.
type Authority struct {
	Cert *x509.Certificate
	Key  crypto.Signer
	Noon time.Time
}

var serial atomic.Int64

func newKey() crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func template(noon time.Time, edits ...func(*x509.Certificate)) *x509.Certificate {
	t := &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: "worker"},
		NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: URIs(Worker),
	}
	for _, edit := range edits {
		edit(t)
	}
	return t
}

// URIs parses the texts.
func URIs(all ...string) (out []*url.URL) {
	for _, text := range all {
		u, err := url.Parse(text)
		if err != nil {
			panic(err)
		}
		out = append(out, u)
	}
	return out
}

// sign makes a certificate; by nil: self-signed.
func sign(t *x509.Certificate, key crypto.Signer, by *Authority) *x509.Certificate {
	parent, signer := t, key
	if by != nil {
		parent, signer = by.Cert, by.Key
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

// NewAuthority makes an authority, signed by another if by is not nil.
func NewAuthority(noon time.Time, by *Authority, edits ...func(*x509.Certificate)) *Authority {
	key := newKey()
	t := template(noon, append([]func(*x509.Certificate){func(c *x509.Certificate) {
		c.Subject.CommonName, c.IsCA, c.BasicConstraintsValid, c.KeyUsage = "authority", true, true, x509.KeyUsageCertSign
		c.ExtKeyUsage, c.URIs = nil, nil
	}}, edits...)...)
	return &Authority{sign(t, key, by), key, noon}
}

// Pair is a certificate with its key.
func (a *Authority) Pair(edits ...func(*x509.Certificate)) tls.Certificate {
	return a.pairOf(newKey(), edits...)
}

func (a *Authority) pairOf(key crypto.Signer, edits ...func(*x509.Certificate)) tls.Certificate {
	leaf := sign(template(a.Noon, edits...), key, a)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}
}

func chain(leaf tls.Certificate, above ...*Authority) tls.Certificate {
	for _, a := range above {
		leaf.Certificate = append(leaf.Certificate, a.Cert.Raw)
	}
	return leaf
}

// Broken are certificates that TLS itself refuses.
func (a *Authority) Broken() map[string]tls.Certificate {
	wrongKey := a.Pair()
	wrongKey.PrivateKey = newKey()
	cut := a.Pair()
	cut.Certificate = [][]byte{cut.Certificate[0][:len(cut.Certificate[0])-10]}
	return map[string]tls.Certificate{"shown without its key": wrongKey, "cut short": cut}
}

// Bad are certificates with exactly one fault for a verifier that trusts a.
func (a *Authority) Bad() map[string]tls.Certificate {
	stranger := NewAuthority(a.Noon, nil)
	expired := NewAuthority(a.Noon, nil, func(c *x509.Certificate) { c.NotAfter = a.Noon.Add(-time.Minute) })
	noSigner := NewAuthority(a.Noon, a, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature })
	serverOnly := NewAuthority(a.Noon, a, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	noIntermediate := NewAuthority(a.Noon, a)
	depth := NewAuthority(a.Noon, a, func(c *x509.Certificate) { c.MaxPathLenZero = true })
	tooDeep := NewAuthority(a.Noon, depth)
	leaf := func(edit func(*x509.Certificate)) tls.Certificate { return a.Pair(edit) }
	selfKey := newKey()
	weakKey, _ := rsa.GenerateKey(rand.Reader, 1024)
	flipped := a.Pair()
	flipped.Certificate = [][]byte{append([]byte(nil), flipped.Certificate[0]...)}
	flipped.Certificate[0][len(flipped.Certificate[0])-1] ^= 1
	bad := map[string]tls.Certificate{
		"of another authority":                stranger.Pair(),
		"of another authority that it brings": chain(stranger.Pair(), stranger),
		"signed by itself":                    {Certificate: [][]byte{sign(template(a.Noon), selfKey, nil).Raw}, PrivateKey: selfKey},
		"of an authority of the same name":    NewAuthority(a.Noon, nil).Pair(),
		"expired":                             leaf(func(c *x509.Certificate) { c.NotAfter = a.Noon.Add(-time.Second) }),
		"not valid yet":                       leaf(func(c *x509.Certificate) { c.NotBefore = a.Noon.Add(time.Minute) }),
		"of an authority that has expired":    expired.Pair(),
		"for servers":                         leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
		"for mail":                            leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection} }),
		"for nothing in particular":           leaf(func(c *x509.Certificate) { c.ExtKeyUsage = nil }),
		"for anything":                        leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} }),
		"without a URI":                       leaf(func(c *x509.Certificate) { c.URIs = nil }),
		"with a name in DNS alone":            leaf(func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, []string{"worker.example.org"} }),
		"with two URIs":                       leaf(func(c *x509.Certificate) { c.URIs = URIs(Worker, "spiffe://example.org/operator") }),
		"with the same URI twice":             leaf(func(c *x509.Certificate) { c.URIs = URIs(Worker, Worker) }),
		"with a URI of 300 letters":           leaf(func(c *x509.Certificate) { c.URIs = URIs("spiffe://example.org/" + strings.Repeat("w", 300)) }),
		"of an authority":                     leaf(func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }),
		"the authority's own":                 {Certificate: [][]byte{a.Cert.Raw}, PrivateKey: a.Key},
		"with another signature":              flipped,
		"with an unknown critical extension": leaf(func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}}
		}),
		"behind one that may not sign":            chain(noSigner.Pair(), noSigner),
		"behind one that is for servers":          chain(serverOnly.Pair(), serverOnly),
		"behind an intermediate that is not sent": noIntermediate.Pair(),
		"behind too many intermediates":           chain(tooDeep.Pair(), tooDeep, depth),
	}
	if weakKey != nil {
		bad["with an RSA key of 1024 bits"] = a.pairOf(weakKey)
	}
	return bad
}
