package cert

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/auth/reload"
)

// Authority verifies client certificates with the CA certificates of a file. A CA that is removed from
// the file is no longer trusted, also on open connections.
type Authority struct {
	pool *reload.File[*x509.CertPool]

	mu           sync.Mutex
	verifiedWith *x509.CertPool
	verified     map[[sha256.Size]byte]time.Time // expiry by hash of the chain
}

// maxVerified bounds the cache of verified chains.
const maxVerified = 1000

// verify checks the certificate chain of a client. It caches valid chains, because every call needs
// the check and signatures are expensive.
func (a *Authority) verify(shown []*x509.Certificate, now time.Time) error {
	pool := a.pool.Get()
	hash := sha256.New()
	for _, c := range shown {
		hash.Write(c.Raw)
	}
	chain := [sha256.Size]byte(hash.Sum(nil))
	a.mu.Lock()
	until, cached := a.verified[chain]
	cached = cached && a.verifiedWith == pool && now.Before(until)
	a.mu.Unlock()
	if cached {
		return nil
	}
	o := x509.VerifyOptions{Roots: pool, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, c := range shown[1:] {
		o.Intermediates.AddCert(c)
	}
	chains, err := shown[0].Verify(o)
	if err != nil {
		return err
	}
	until = chains[0][0].NotAfter
	for _, c := range chains[0] {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	if !now.Before(until) {
		return errors.New("the client certificate has expired") // x509 still accepts the last instant
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.verifiedWith != pool || len(a.verified) >= maxVerified {
		a.verifiedWith, a.verified = pool, make(map[[sha256.Size]byte]time.Time)
	}
	a.verified[chain] = until
	return nil
}
