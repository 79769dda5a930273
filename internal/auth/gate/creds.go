package gate

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
)

// Transport is TLS, except on the in-process listener.
func Transport(config *tls.Config) credentials.TransportCredentials {
	return transport{credentials.NewTLS(config)}
}

type transport struct {
	credentials.TransportCredentials
}

func (t transport) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if Loopback(raw.RemoteAddr()) {
		return raw, insideInfo{}, nil
	}
	return t.TransportCredentials.ServerHandshake(raw)
}

func (t transport) Clone() credentials.TransportCredentials {
	return transport{t.TransportCredentials.Clone()}
}

type insideInfo struct{ credentials.CommonAuthInfo }

func (insideInfo) AuthType() string { return "loopback" }

// Bearer adds a token to every call of a client. It calls read each time, because a token on disk may
// be renewed.
func Bearer(read func() (string, error)) credentials.PerRPCCredentials { return bearer(read) }

type bearer func() (string, error)

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := b()
	if err != nil || token == "" {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity is false: the caller decides, because loopback needs no TLS.
func (b bearer) RequireTransportSecurity() bool { return false }
