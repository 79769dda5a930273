package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/command"
)

// healthTimeout is a little longer than the timeout of /readyz itself.
const healthTimeout = 3 * time.Second

func NewHealthCommand(c *command.CLI) *cobra.Command {
	var addr string
	var live, withTLS bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the process on this machine whether it is ready",
		Long: "Calls /readyz of the process at HTTP_ADDR (as set for `carillon serve` in the same environment). Exits with 0 if it\n" +
			"is ready, else 1. Meant for container health checks.",
		Example: "  carillon health\n  carillon health --live --http-addr 127.0.0.1:8080",
		Args:    command.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := healthURL(addr, withTLS, live)
			if err != nil {
				return command.Usage(cmd, "--http-addr: %w", err)
			}
			return askHealth(cmd.Context(), c, url)
		},
	}
	f := cmd.Flags()
	f.StringVar(&addr, "http-addr", cmp.Or(c.Env("HTTP_ADDR"), "127.0.0.1:8080"), "`HOST:PORT` that the process listens on (HTTP_ADDR)")
	f.BoolVar(&live, "live", false, "call /healthz: whether it is alive, ready or not")
	f.BoolVar(&withTLS, "tls", c.Env("TLS_CERT_FILE") != "", "the process uses TLS (default if TLS_CERT_FILE is set)")
	return cmd
}

// healthURL is the URL for a process that listens on addr. For a wildcard address it
// is on loopback.
func healthURL(addr string, withTLS, live bool) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%q is not host:port", addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	scheme, path := "http://", "/readyz"
	if withTLS {
		scheme = "https://"
	}
	if live {
		path = "/healthz"
	}
	return scheme + net.JoinHostPort(host, port) + path, nil
}

func askHealth(ctx context.Context, c *command.CLI, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// The certificate is not for a loopback address. The call stays on this machine.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // nothing secret is sent
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("cannot connect: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(text)))
	}
	_, err = fmt.Fprintln(c.Out, strings.TrimSpace(string(text)))
	return err
}
