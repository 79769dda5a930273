package cert

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/auth/reload"
)

// Authority is who signs the certificates of clients, as its file says it now:
// one that is taken out of it is believed no longer, on open connections too.
type Authority struct {
	pool *reload.File[*x509.CertPool]

	mu    sync.Mutex
	of    *x509.CertPool
	known map[[sha256.Size]byte]time.Time // chains that of has verified, and until when they are good
}

// maxKnown bounds what is remembered; who is forgotten is verified again.
const maxKnown = 1000

// verify refuses a client's certificates that the authority does not stand
// behind. Every call asks, and signatures are dear, so what is good is remembered.
func (a *Authority) verify(shown []*x509.Certificate, now time.Time) error {
	pool := a.pool.Get()
	hash := sha256.New()
	for _, c := range shown {
		hash.Write(c.Raw)
	}
	chain := [sha256.Size]byte(hash.Sum(nil))
	a.mu.Lock()
	until, known := a.known[chain]
	known = known && a.of == pool && now.Before(until)
	a.mu.Unlock()
	if known {
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
		return errors.New("the client certificate has expired") // x509 takes its last instant
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of != pool || len(a.known) >= maxKnown {
		a.of, a.known = pool, make(map[[sha256.Size]byte]time.Time)
	}
	a.known[chain] = until
	return nil
}
