// Package cert identifies callers by client certificates, and reloads the certificates of listeners
// and clients while the process runs.
//
// A caller's name is the only URI in its certificate (SPIFFE or other), compared byte by byte. The
// common name is ignored. The certificate must be signed by TLS_CLIENT_CA_FILE, never by the system
// CAs, and allow client authentication.
package cert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/reload"
)

const minRSABits = 2048

// ServerConfig configures the TLS of a listener.
type ServerConfig struct {
	CertFile, KeyFile string
	ClientCAFile      string // empty: no client certificate is requested
	RequireClient     bool   // refuse the handshake without one
	MinVersion        uint16 // default TLS 1.3
	Logger            *slog.Logger
	Now               func() time.Time // default time.Now
}

// Server returns the TLS configuration of a listener and the authority of its clients' certificates,
// nil without ClientCAFile. Changed files take effect for new connections.
//
// If a client certificate is required, an invalid one ends the handshake. Otherwise it is checked when
// a call has no token, and the answer is the same as for other unknown callers: a TLS alert would
// reveal the reason.
func Server(c ServerConfig) (*tls.Config, *Authority, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	own, err := reload.Open(c.Logger, c.Now, func() (*tls.Certificate, error) { return readPair(c.CertFile, c.KeyFile) }, c.CertFile, c.KeyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("TLS_CERT_FILE, TLS_KEY_FILE: %w", err)
	}
	config := &tls.Config{
		MinVersion: max(c.MinVersion, tls.VersionTLS12), Time: c.Now,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own.Get(), nil },
		SessionTicketsDisabled: true, // a resumed session would outlive a removed CA
		NextProtos:             []string{"h2", "http/1.1"},
	}
	if c.MinVersion == 0 {
		config.MinVersion = tls.VersionTLS13
	}
	if c.ClientCAFile == "" {
		return config, nil, nil
	}
	pool, err := reload.Open(c.Logger, c.Now, func() (*x509.CertPool, error) { return ReadPool(c.ClientCAFile) }, c.ClientCAFile)
	if err != nil {
		return nil, nil, fmt.Errorf("TLS_CLIENT_CA_FILE: %w", err)
	}
	config.ClientAuth = tls.RequestClientCert
	if c.RequireClient {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.VerifyConnection = func(state tls.ConnectionState) error {
			_, err := nameOf(state.PeerCertificates[0]) // never empty: it was required
			return err
		}
	}
	config.ClientCAs = pool.Get()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := config.Clone()
		now.GetConfigForClient, now.ClientCAs = nil, pool.Get()
		return now, nil
	}
	return config, &Authority{pool: pool}, nil
}

// ClientConfig configures the TLS of a client.
type ClientConfig struct {
	CAFile            string // empty: system CAs
	CertFile, KeyFile string // empty: no client certificate
	Logger            *slog.Logger
}

// Client returns the TLS configuration of a client. A changed client certificate is reloaded, a
// changed CA is not.
func Client(c ClientConfig) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pool, err := ReadPool(c.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return nil, errors.New("a client certificate needs its key, and a key its certificate")
	}
	if c.CertFile != "" {
		own, err := reload.Open(c.Logger, time.Now, func() (*tls.Certificate, error) { return readPair(c.CertFile, c.KeyFile) }, c.CertFile, c.KeyFile)
		if err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own.Get(), nil }
	}
	return config, nil
}

func readPair(certFile, keyFile string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// ReadPool reads the CA certificates of a PEM file; none is an error.
func ReadPool(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", path)
	}
	return pool, nil
}

// Identify returns the identity of a connection's client certificate, signed by the authority. A URI
// without an entry has no roles.
func (c Callers) Identify(state *tls.ConnectionState, by *Authority, now time.Time) (auth.Identity, error) {
	if len(state.PeerCertificates) == 0 {
		return auth.Identity{}, errors.New("no client certificate")
	}
	if err := by.verify(state.PeerCertificates, now); err != nil {
		return auth.Identity{}, err
	}
	uri, err := nameOf(state.PeerCertificates[0])
	if err != nil {
		return auth.Identity{}, err
	}
	return auth.Identity{Subject: uri, Roles: c[uri], Via: auth.ViaMTLS, Expires: state.PeerCertificates[0].NotAfter}, nil
}
