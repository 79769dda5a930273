package httpexecutor

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
)

// NewTrusting is New for a server whose certificate no authority signed.
func NewTrusting(cfg Config, certificate *x509.Certificate) (*Executor, error) {
	e, err := New(cfg)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	e.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}
	return e, nil
}
