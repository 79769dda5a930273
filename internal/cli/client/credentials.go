package client

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/carillon/carillon/internal/auth/cert"
	"github.com/carillon/carillon/internal/auth/gate"
	"github.com/carillon/carillon/internal/cli/command"
)

// credentialFlags are the flags of TLS and of the client's identity.
type credentialFlags struct {
	tls               bool
	tokenFile         string
	caFile            string
	certFile, keyFile string
}

// Environment variables for the flags. A token is never a flag: a list of processes
// shows flags.
const (
	envToken     = "CARILLON_TOKEN"
	envTokenFile = "CARILLON_TOKEN_FILE"
	envTLS       = "CARILLON_TLS"
	envCA        = "CARILLON_CACERT"
	envCert      = "CARILLON_CERT"
	envKey       = "CARILLON_KEY"
)

func (s *credentialFlags) flags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.BoolVar(&s.tls, "tls", false, "use TLS ("+envTLS+"; implied by the next three)")
	f.StringVar(&s.caFile, "cacert", "", "`FILE` with the CA of the server's certificate ("+envCA+"; default: system CAs)")
	f.StringVar(&s.certFile, "cert", "", "`FILE` with the client certificate ("+envCert+")")
	f.StringVar(&s.keyFile, "key", "", "`FILE` with the client key ("+envKey+")")
	f.StringVar(&s.tokenFile, "token-file", "", "`FILE` with the token ("+envTokenFile+", or the token itself in "+envToken+")")
}

// withEnvironment fills unset flags from the environment.
func (s credentialFlags) withEnvironment(env func(string) string) credentialFlags {
	for to, name := range map[*string]string{&s.caFile: envCA, &s.certFile: envCert, &s.keyFile: envKey, &s.tokenFile: envTokenFile} {
		if *to == "" {
			*to = env(name)
		}
	}
	s.tls = s.tls || env(envTLS) == "1" || env(envTLS) == "true" || s.caFile != "" || s.certFile != "" || s.keyFile != ""
	return s
}

// dialOptions are the gRPC options of these flags for an address.
func (c *Client) dialOptions(cmd *cobra.Command, address string) ([]grpc.DialOption, error) {
	s := c.credentials.withEnvironment(c.Env)
	dialing := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if s.tls {
		config, err := cert.Client(cert.ClientConfig{CAFile: s.caFile, CertFile: s.certFile, KeyFile: s.keyFile})
		if err != nil {
			return nil, command.Usage(cmd, "--cacert, --cert, --key: %w", err)
		}
		dialing = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))}
	}
	read := c.tokenReader(s)
	if read == nil {
		return dialing, nil
	}
	if !s.tls && !onLoopback(address) {
		return nil, command.Usage(cmd, "refusing to send a token without TLS to %s; give --tls or --cacert", address)
	}
	return append(dialing, grpc.WithPerRPCCredentials(gate.Bearer(read))), nil
}

// tokenReader reads the token for each call, so that a long --watch uses a renewed
// token; nil: there is no token.
func (c *Client) tokenReader(s credentialFlags) func() (string, error) {
	if s.tokenFile != "" {
		return func() (string, error) {
			text, err := os.ReadFile(s.tokenFile)
			token := strings.TrimSpace(string(text))
			if err == nil && token == "" {
				err = errors.New("it is empty")
			}
			if err != nil {
				return "", fmt.Errorf("--token-file %s: %w", s.tokenFile, err)
			}
			return token, nil
		}
	}
	if token := strings.TrimSpace(c.Env(envToken)); token != "" {
		return func() (string, error) { return token, nil }
	}
	return nil
}

func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
