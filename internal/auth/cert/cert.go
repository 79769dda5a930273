// Package cert knows callers by client certificates, and keeps the
// certificates of listeners and clients up to date while the process runs.
//
// A caller is the one URI in its certificate (SPIFFE or any other), compared
// byte by byte as the certificate holds it; its common name says nothing. The certificate must come
// from TLS_CLIENT_CA_FILE, never from the machine's own roots, and be made for
// clients.
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

// ServerConfig says where a listener's certificates are.
type ServerConfig struct {
	CertFile, KeyFile string
	ClientCAFile      string // empty: no client certificate is asked for
	RequireClient     bool   // refuse the handshake without one
	MinVersion        uint16 // default TLS 1.3
	Logger            *slog.Logger
	Now               func() time.Time // default time.Now
}

// Server is the TLS of a listener, and who signs its clients' certificates, nil
// without ClientCAFile. Changed files take effect for new connections.
//
// Where a certificate is required, a bad one ends the handshake. Where it is
// not, it is looked at when a call shows nothing else, and the call is answered
// like any other of nobody: TLS would say in its alert what is wrong.
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
		SessionTicketsDisabled: true, // a resumed session would outlive the authority that let it in
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
			_, err := nameOf(state.PeerCertificates[0]) // there is one: it was required
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

// ClientConfig says what a client of this product trusts and shows.
type ClientConfig struct {
	CAFile            string // empty: the machine's roots
	CertFile, KeyFile string // empty: no certificate is shown
	Logger            *slog.Logger
}

// Client is the TLS of a client. Its own certificate is read again when it
// changes; the authority is read once.
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

// ReadPool reads the CA certificates of a PEM file. One without any is an error.
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

// Identify is who is at the other end of a connection, by a certificate that the
// authority has signed. A URI that no entry names is somebody without roles.
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
