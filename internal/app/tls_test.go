package app_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth/cert"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// pki is a CA in a folder: ca.pem, and NAME.pem with NAME.key for each certificate.
type pki struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{t: t, dir: t.TempDir()}
	p.cert, p.key = p.make("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	p.make("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	for _, name := range []string{"worker", "compiler", "stranger"} {
		uri, _ := url.Parse("spiffe://example.org/" + name)
		p.make(name, &x509.Certificate{URIs: []*url.URL{uri}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	return p
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) make(name string, template *x509.Certificate) (*x509.Certificate, ed25519.PrivateKey) {
	p.t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := p.cert, p.key
	if parent == nil {
		parent, signer = template, private
	}
	der, err := x509.CreateCertificate(nil, template, parent, public, signer)
	if err != nil {
		p.t.Fatal(err)
	}
	made, _ := x509.ParseCertificate(der)
	key, _ := x509.MarshalPKCS8PrivateKey(private)
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(p.path(file), pem.EncodeToMemory(block), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	return made, private
}

// settings are those of a process with TLS.
func (p *pki) settings(more map[string]any) map[string]any {
	all := map[string]any{
		"tls_cert_file": p.path("server.pem"), "tls_key_file": p.path("server.key"), "tls_client_ca_file": p.path("ca.pem"),
		"auth_mtls_roles": "spiffe://example.org/worker=worker,spiffe://example.org/compiler=compiler",
	}
	for name, value := range more {
		all[name] = value
	}
	return all
}

// client is the TLS configuration of a client; "": no certificate.
func (p *pki) client(name string) *tls.Config {
	p.t.Helper()
	c := cert.ClientConfig{CAFile: p.path("ca.pem")}
	if name != "" {
		c.CertFile, c.KeyFile = p.path(name+".pem"), p.path(name+".key")
	}
	config, err := cert.Client(c)
	if err != nil {
		p.t.Fatal(err)
	}
	return config
}

func TestACertificateIsTheSameCallerOverGRPCAndREST(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	g := newGuarded(t, p.settings(nil))
	for _, c := range []struct {
		name       string
		cert       string
		token      string
		list, pool codes.Code // ListSchedules, and an upsert with an invalid request
		rest       int        // GET /v1/schedules
	}{
		{name: "nobody", list: codes.Unauthenticated, pool: codes.Unauthenticated, rest: 401},
		{name: "a worker reads and changes nothing", cert: "worker", list: codes.OK, pool: codes.PermissionDenied, rest: 200},
		{name: "a compiler changes", cert: "compiler", list: codes.OK, pool: codes.InvalidArgument, rest: 200},
		{name: "one that nobody named is known and may nothing", cert: "stranger", list: codes.PermissionDenied, pool: codes.PermissionDenied, rest: 403},
		{name: "a token over TLS", token: "viewer", list: codes.OK, pool: codes.PermissionDenied, rest: 200},
		{name: "a token decides where both are shown", cert: "compiler", token: "viewer", list: codes.OK, pool: codes.PermissionDenied, rest: 200},
		{name: "and a bad one is not made good", cert: "compiler", token: "carillon_none", list: codes.Unauthenticated, pool: codes.Unauthenticated, rest: 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			dialing := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(p.client(c.cert)))}
			web := &http.Client{Transport: &http.Transport{TLSClientConfig: p.client(c.cert), ForceAttemptHTTP2: true}}
			defer web.CloseIdleConnections()
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+g.HTTPAddr()+"/v1/schedules", nil)
			if c.token != "" {
				dialing = append(dialing, grpc.WithPerRPCCredentials(shows("Bearer "+g.shown(c.token))))
				req.Header.Set("Authorization", "Bearer "+g.shown(c.token))
			}
			conn, err := grpc.NewClient(g.GRPCAddr(), dialing...)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			schedules := carillonv1.NewScheduleServiceClient(conn)
			if _, err := schedules.ListSchedules(t.Context(), &carillonv1.ListSchedulesRequest{}); status.Code(err) != c.list {
				t.Errorf("ListSchedules: %v, want %s", err, c.list)
			}
			if _, err := schedules.UpsertSchedule(t.Context(), &carillonv1.UpsertScheduleRequest{}); status.Code(err) != c.pool {
				t.Errorf("UpsertSchedule: %v, want %s", err, c.pool)
			}
			resp, err := web.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if text, _ := io.ReadAll(resp.Body); resp.StatusCode != c.rest {
				t.Errorf("REST: %d %s, want %d", resp.StatusCode, text, c.rest)
			}
		})
	}
	if resp, err := http.Get("http://" + g.HTTPAddr() + "/v1/schedules"); err == nil {
		if _ = resp.Body.Close(); resp.StatusCode == http.StatusOK {
			t.Error("the listener speaks in the clear too")
		}
	}
}

// shows is a fixed Authorization header.
type shows string

func (s shows) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": string(s)}, nil
}

func (shows) RequireTransportSecurity() bool { return true }

func TestALauncherAdmitsOnlyWorkersOverTLS(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	database := "sqlite:" + filepath.Join(t.TempDir(), "carillon.db")
	g := newGuarded(t, p.settings(map[string]any{"database_url": database, "roles": "registrar,launcher"}))
	newGuarded(t, map[string]any{
		"database_url": database, "roles": "worker", "launcher_addr": g.GRPCAddr(), "launcher_tls": "on", "launcher_ca_file": p.path("ca.pem"),
		"launcher_cert_file": p.path("worker.pem"), "launcher_key_file": p.path("worker.key"),
	})
	conn, err := grpc.NewClient(g.GRPCAddr(), grpc.WithTransportCredentials(credentials.NewTLS(p.client("compiler"))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	schedules := carillonv1.NewScheduleServiceClient(conn)
	if _, err := schedules.UpsertSchedule(t.Context(), &carillonv1.UpsertScheduleRequest{ScheduleId: "s", WorkflowId: "w", Version: 1, UserId: "ada"}); err != nil {
		t.Fatal(err)
	}
	triggered, err := schedules.TriggerSchedule(t.Context(), &carillonv1.TriggerScheduleRequest{ScheduleId: "s"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the executor has the run", func() bool {
		got, err := carillonv1.NewRunServiceClient(conn).GetRun(t.Context(), &carillonv1.GetRunRequest{IdempotencyKey: triggered.GetRun().GetIdempotencyKey()})
		return err == nil && got.GetRun().GetStatus() == "ENQUEUED"
	})
	if _, err := carillonv1.NewRunLauncherClient(conn).Start(t.Context(), &carillonv1.RunLauncherStartRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a compiler launches: %v", err)
	}
	if log := g.logged(); !strings.Contains(log, "spiffe://example.org/worker") {
		t.Error("the access log does not name the worker")
	}
}
