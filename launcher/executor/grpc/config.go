package grpcexecutor

import (
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/carillon/carillon/internal/schedule"
)

// DefaultTimeout bounds one call.
const DefaultTimeout = 10 * time.Second

// Config configures the executor. Only Target is required.
type Config struct {
	Target  string        // EXECUTOR_URL: host:port, dns:///host:port or unix:///path
	Token   string        // EXECUTOR_TOKEN, sent as a bearer token; empty: none
	Timeout time.Duration // of one call; 0: DefaultTimeout
	// Environment is ENVIRONMENT; empty: not set.
	Environment string
	Plaintext   bool // no TLS off this machine either: something else encrypts, such as a mesh
}

// Validate returns all problems as one *schedule.InvalidError. Its fields are the
// names of the environment variables.
func (c Config) Validate() error {
	var bad schedule.Collect
	switch scheme, rest, hasScheme := strings.Cut(c.Target, "://"); {
	case c.Target == "":
		bad.Note("EXECUTOR_URL", "is empty", "give the executor's address, such as 127.0.0.1:7001")
	case hasScheme && scheme == "unix":
	case hasScheme && scheme != "dns":
		bad.Add("EXECUTOR_URL", c.Target, "is not an address of a gRPC server", "write host:port, dns:///host:port or unix:///path (EXECUTOR=http takes http addresses)")
	case hasScheme && !strings.HasPrefix(rest, "/"):
		bad.Add("EXECUTOR_URL", c.Target, "contains a DNS server", "write dns:///host:port")
	case c.host() == "":
		bad.Add("EXECUTOR_URL", c.Target, "has no host or no port", "write host:port")
	}
	if strings.ContainsAny(c.Token, "\r\n\x00") {
		bad.Note("EXECUTOR_TOKEN", "contains a line break or NUL", "remove it; a trailing line break often comes from reading a file")
	}
	if c.Timeout < 0 {
		bad.Add("EXECUTOR_TIMEOUT_MS", c.Timeout, "is negative", "give 0 for the default of "+DefaultTimeout.String())
	}
	return bad.Err()
}

// host returns the target's host; empty without a host or a port.
func (c Config) host() string {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(c.Target, "dns:///"))
	if err != nil || port == "" {
		return ""
	}
	return host
}

// credentials are TLS with the system's roots, except on this machine.
func (c Config) credentials() credentials.TransportCredentials {
	host := c.host()
	if ip := net.ParseIP(host); c.Plaintext || host == "localhost" || ip != nil && ip.IsLoopback() || strings.HasPrefix(c.Target, "unix:") {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(nil)
}
