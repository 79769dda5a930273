package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/cert"
	"github.com/carillon/carillon/internal/auth/gate"
	"github.com/carillon/carillon/internal/auth/signed"
	"github.com/carillon/carillon/internal/auth/tokenfile"
	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
)

func (c *Config) usesJWT() bool { return c.AuthJWKSURL != "" || c.AuthJWTKeysFile != "" }

// hasCredentials reports whether a method of authentication is configured.
func (c *Config) hasCredentials() bool {
	return c.usesJWT() || c.AuthTokensFile != "" || c.AuthMTLSRoles != ""
}

// authOn reports whether callers must authenticate.
func (c *Config) authOn() bool { return c.Auth == "on" || c.Auth == "" && c.hasCredentials() }

// tlsOn reports whether the listeners speak TLS.
func (c *Config) tlsOn() bool { return c.TLSCertFile != "" }

func (c *Config) signedConfig() signed.Config {
	s := signed.Config{
		JWKSURL: c.AuthJWKSURL, KeysFile: c.AuthJWTKeysFile, Issuer: c.AuthJWTIssuer, Audience: c.AuthJWTAudience,
		RolesClaim: c.AuthRolesClaim, OwnerClaim: c.AuthOwnerClaim, AccountsClaim: c.AuthAccountsClaim, MaxLifetime: ms(c.AuthJWTMaxLifetimeMS),
	}
	for alg := range strings.SplitSeq(c.AuthJWTAlgorithms, ",") {
		if alg = strings.TrimSpace(alg); alg != "" {
			s.Algorithms = append(s.Algorithms, alg)
		}
	}
	return s
}

// authProblems returns the errors of the settings of authentication and TLS.
func (c *Config) authProblems() []error {
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	switch {
	case c.Auth == "on" && !c.hasCredentials():
		problem("AUTH: on has no way to authenticate; set AUTH_TOKENS_FILE, AUTH_JWKS_URL, AUTH_JWT_KEYS_FILE or AUTH_MTLS_ROLES")
	case c.Auth == "off" && c.hasCredentials():
		problem("AUTH: off contradicts the other AUTH_ settings; remove one of them")
	}
	if c.usesJWT() {
		s := c.signedConfig()
		if err := s.Validate(); err != nil {
			problems = append(problems, err)
		}
	} else if c.AuthJWTIssuer != "" || c.AuthJWTAudience != "" {
		problem("AUTH_JWKS_URL: is required for AUTH_JWT_ISSUER and AUTH_JWT_AUDIENCE, or AUTH_JWT_KEYS_FILE")
	}
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		problem("TLS_CERT_FILE, TLS_KEY_FILE: set both or neither")
	}
	if c.TLSClientCAFile != "" && !c.tlsOn() {
		problem("TLS_CLIENT_CA_FILE: needs TLS_CERT_FILE and TLS_KEY_FILE")
	}
	if c.TLSClientAuth == "required" && c.TLSClientCAFile == "" {
		problem("TLS_CLIENT_AUTH: required needs TLS_CLIENT_CA_FILE")
	}
	if _, err := cert.ParseCallers(c.AuthMTLSRoles); err != nil {
		problem("AUTH_MTLS_ROLES: %w", err)
	} else if c.AuthMTLSRoles != "" && c.TLSClientCAFile == "" {
		problem("AUTH_MTLS_ROLES: needs TLS_CLIENT_CA_FILE, the CA of the certificates")
	}
	if (c.LauncherCertFile == "") != (c.LauncherKeyFile == "") {
		problem("LAUNCHER_CERT_FILE, LAUNCHER_KEY_FILE: set both or neither")
	}
	if c.LauncherTLS != "on" && (c.LauncherCAFile != "" || c.LauncherCertFile != "") {
		problem("LAUNCHER_TLS: is off, so LAUNCHER_CA_FILE and LAUNCHER_CERT_FILE have no effect; set it to on")
	}
	if c.LauncherToken != "" && c.LauncherTLS != "on" && !loopback(c.LauncherAddr) {
		problem("LAUNCHER_TOKEN: would be sent unencrypted to %s; set LAUNCHER_TLS=on", c.LauncherAddr)
	}
	return problems
}

// checkOpen refuses listeners on other addresses than loopback without authentication, unless AUTH=off
// is explicit.
func (c *Config) checkOpen() error {
	if c.authOn() || c.Auth == "off" {
		return nil
	}
	for name, addr := range map[string]string{"HTTP_ADDR": c.HTTPAddr, "GRPC_ADDR": c.GRPCAddr} {
		if !loopback(addr) {
			return fmt.Errorf("%s: %s is reachable from other machines, and no authentication is configured; "+
				"set AUTH_TOKENS_FILE (see `carillon token new`), AUTH_JWKS_URL or TLS_CLIENT_CA_FILE with AUTH_MTLS_ROLES, "+
				"or AUTH=off to let everyone do everything", name, addr)
		}
	}
	return nil
}

// CheckDev allows dev without authentication only on loopback, even with AUTH=off, because dev runs
// commands for every caller.
func (c *Config) CheckDev() error {
	if c.authOn() || loopback(c.HTTPAddr) && loopback(c.GRPCAddr) {
		return nil
	}
	return fmt.Errorf("HTTP_ADDR, GRPC_ADDR: %s and %s are not both on loopback, and dev runs commands on this machine for every caller; "+
		"set AUTH_TOKENS_FILE (see `carillon token new`), or use serve", c.HTTPAddr, c.GRPCAddr)
}

// loopback reports whether only this machine can reach the address. An empty host means every address.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// buildGate builds the gate and the TLS of the listeners.
func (a *App) buildGate(ctx context.Context) error {
	signers, err := a.buildTLS()
	if err != nil {
		return err
	}
	if !a.cfg.authOn() {
		a.gate = gate.New(gate.Options{Off: true, Logger: a.log})
		if !loopback(a.cfg.HTTPAddr) || !loopback(a.cfg.GRPCAddr) {
			a.log.Warn("AUTH is off: everyone who can reach this process may do everything")
		}
		return nil
	}
	if a.tls == nil && (!loopback(a.cfg.HTTPAddr) || !loopback(a.cfg.GRPCAddr)) {
		a.log.Warn("tokens are sent unencrypted unless a proxy in front of this process terminates TLS; set TLS_CERT_FILE and TLS_KEY_FILE")
	}
	o := gate.Options{Logger: a.log, Refused: a.refused}
	if a.cfg.usesJWT() {
		s := a.cfg.signedConfig()
		s.Logger = a.log
		ctx, a.stopKeys = context.WithCancel(context.WithoutCancel(ctx)) // keys are fetched until Close
		if o.Signed, err = signed.New(ctx, s); err != nil {
			return err
		}
	}
	if a.cfg.AuthTokensFile != "" {
		if o.Tokens, err = tokenfile.Open(a.cfg.AuthTokensFile, a.log, nil); err != nil {
			return fmt.Errorf("AUTH_TOKENS_FILE: %w", err)
		}
	}
	if a.cfg.AuthMTLSRoles != "" {
		o.Callers, _ = cert.ParseCallers(a.cfg.AuthMTLSRoles) // checked by Validate
		o.Signers = signers
	}
	a.gate = gate.New(o)
	return nil
}

// refused counts and logs a request that is refused at the HTTP listener. Services log other calls.
func (a *App) refused(r *http.Request, id auth.Identity, code codes.Code) {
	a.observe("", code, 0)
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	limits, key := a.strangers.refusals, id.Subject
	if key == "" {
		limits, key = a.strangers.calls, logthrottle.PeerOf(from)
	}
	leftOut, ok := limits.AdmitKey(key)
	if !ok {
		return
	}
	fields := []any{"component", "api", "method", schedule.Storable(r.Method+" "+r.URL.Path, schedule.MaxIDLength), "code", code.String(), "took", "0s", "protocol", "rest", "peer", from, "auth", id.Via}
	if id.Subject != "" {
		fields = append(fields, "subject", id.Subject, "roles", id.Roles)
	}
	if leftOut > 0 {
		fields = append(fields, logthrottle.LeftOut, leftOut)
	}
	a.log.InfoContext(r.Context(), "call", fields...)
}

func (a *App) buildTLS() (signers *cert.Authority, err error) {
	if !a.cfg.tlsOn() {
		return nil, nil
	}
	c := cert.ServerConfig{
		CertFile: a.cfg.TLSCertFile, KeyFile: a.cfg.TLSKeyFile, ClientCAFile: a.cfg.TLSClientCAFile,
		RequireClient: a.cfg.TLSClientAuth == "required", Logger: a.log,
	}
	if a.cfg.TLSMinVersion == "1.2" {
		c.MinVersion = tls.VersionTLS12
	}
	a.tls, signers, err = cert.Server(c)
	return signers, err
}

// scheme is that of the HTTP listener.
func (a *App) scheme() string {
	if a.tls != nil {
		return "https://"
	}
	return "http://"
}

// launcherDialing returns the dial options of LAUNCHER_ADDR.
func (c *Config) launcherDialing() ([]grpc.DialOption, error) {
	var dialing []grpc.DialOption
	if c.LauncherTLS == "on" {
		config, err := cert.Client(cert.ClientConfig{CAFile: c.LauncherCAFile, CertFile: c.LauncherCertFile, KeyFile: c.LauncherKeyFile})
		if err != nil {
			return nil, errors.Join(errors.New("LAUNCHER_CA_FILE, LAUNCHER_CERT_FILE, LAUNCHER_KEY_FILE"), err)
		}
		dialing = append(dialing, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	}
	if token := c.LauncherToken.Reveal(); token != "" {
		dialing = append(dialing, grpc.WithPerRPCCredentials(gate.Bearer(func() (string, error) { return token, nil })))
	}
	return dialing, nil
}
