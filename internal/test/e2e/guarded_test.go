package e2e_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/tokenfile"
	"github.com/carillon/carillon/internal/test/services"
)

// keyRing is a folder with an authority, certificates and tokens.
type keyRing struct {
	t      *testing.T
	dir    string
	cert   *x509.Certificate
	key    ed25519.PrivateKey
	tokens map[string]string // by role
}

func newKeyRing(t *testing.T) *keyRing {
	t.Helper()
	k := &keyRing{t: t, dir: t.TempDir(), tokens: make(map[string]string)}
	k.cert, k.key = k.certificate("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	k.certificate("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	lines := []string{"tokens:"}
	for _, role := range []auth.Role{auth.Compiler, auth.Worker} {
		uri, _ := url.Parse("spiffe://example.org/" + string(role))
		k.certificate(string(role), &x509.Certificate{URIs: []*url.URL{uri}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		token, entry, err := tokenfile.New(tokenfile.Entry{Subject: string(role), Roles: []auth.Role{role}})
		if err != nil {
			t.Fatal(err)
		}
		k.tokens[string(role)] = token
		lines = append(lines, entry.Line())
	}
	k.write("tokens.yaml", []byte(strings.Join(lines, "\n")+"\n"))
	return k
}

func (k *keyRing) path(name string) string { return filepath.Join(k.dir, name) }

func (k *keyRing) write(name string, text []byte) {
	k.t.Helper()
	if err := os.WriteFile(k.path(name), text, 0o600); err != nil {
		k.t.Fatal(err)
	}
}

func (k *keyRing) certificate(name string, template *x509.Certificate) (*x509.Certificate, ed25519.PrivateKey) {
	k.t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		k.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := k.cert, k.key
	if parent == nil {
		parent, signer = template, private
	}
	der, err := x509.CreateCertificate(nil, template, parent, public, signer)
	if err != nil {
		k.t.Fatal(err)
	}
	made, _ := x509.ParseCertificate(der)
	key, _ := x509.MarshalPKCS8PrivateKey(private)
	k.write(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	k.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	return made, private
}

// reporter is an executor that accepts every run, and reports the end of those
// of the workflow "quick" by the token that came with them.
type reporter struct {
	server *httptest.Server
	client *http.Client
	work   sync.WaitGroup
}

func newReporter(k *keyRing) *reporter {
	pool := x509.NewCertPool()
	pool.AddCert(k.cert)
	r := &reporter{client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /run/{workflow}", r.run)
	mux.HandleFunc("DELETE /run/{key}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	r.server = httptest.NewServer(mux)
	k.t.Cleanup(func() {
		r.server.Close()
		r.work.Wait()
		r.client.CloseIdleConnections()
	})
	return r
}

func (r *reporter) run(w http.ResponseWriter, req *http.Request) {
	var body struct {
		URL   string `json:"report_url"`
		Token string `json:"report_token"`
	}
	_ = json.NewDecoder(req.Body).Decode(&body) // without a URL nothing is reported, and the test says so
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write([]byte(`{"run_id":"r"}`))
	if req.PathValue("workflow") != "quick" {
		return
	}
	r.work.Go(func() {
		for _, status := range []string{"STARTED", "SUCCESS"} {
			report, err := http.NewRequestWithContext(context.Background(), http.MethodPost, body.URL, bytes.NewBufferString(fmt.Sprintf(`{"status":%q,"run_id":"r"}`, status)))
			if err != nil {
				return
			}
			report.Header.Set("Authorization", "Bearer "+body.Token)
			if resp, err := r.client.Do(report); err == nil {
				_ = resp.Body.Close()
			}
		}
	})
}

// TestRolesApartWhereEveryCallIsAuthenticated runs registrar, launcher and
// worker as three processes, with authentication on in all of them: a run is
// launched and ends by its report, another is cancelled, and a worker that the
// launcher does not know is not ready, and says why.
func TestRolesApartWhereEveryCallIsAuthenticated(t *testing.T) {
	for _, c := range []struct {
		name    string
		server  func(k *keyRing) []string // of registrar and launcher
		worker  func(k *keyRing) []string
		refused func(k *keyRing) []string // a worker that is not let in
		client  func(k *keyRing) []string
	}{
		{
			name:    "by static tokens",
			server:  func(k *keyRing) []string { return []string{"AUTH_TOKENS_FILE=" + k.path("tokens.yaml")} },
			worker:  func(k *keyRing) []string { return []string{"LAUNCHER_TOKEN=" + k.tokens["worker"]} },
			refused: func(*keyRing) []string { return []string{"LAUNCHER_TOKEN=" + tokenfile.Prefix + "of-yesterday"} },
			client:  func(k *keyRing) []string { return []string{"CARILLON_TOKEN=" + k.tokens["compiler"]} },
		},
		{
			name: "by certificates",
			server: func(k *keyRing) []string {
				return []string{
					"TLS_CERT_FILE=" + k.path("server.pem"), "TLS_KEY_FILE=" + k.path("server.key"), "TLS_CLIENT_CA_FILE=" + k.path("ca.pem"),
					"AUTH_MTLS_ROLES=spiffe://example.org/compiler=compiler,spiffe://example.org/worker=worker",
				}
			},
			worker: func(k *keyRing) []string {
				return []string{"LAUNCHER_TLS=on", "LAUNCHER_CA_FILE=" + k.path("ca.pem"), "LAUNCHER_CERT_FILE=" + k.path("worker.pem"), "LAUNCHER_KEY_FILE=" + k.path("worker.key")}
			},
			refused: func(k *keyRing) []string {
				return []string{"LAUNCHER_TLS=on", "LAUNCHER_CA_FILE=" + k.path("ca.pem")}
			},
			client: func(k *keyRing) []string {
				return []string{"CARILLON_CACERT=" + k.path("ca.pem"), "CARILLON_CERT=" + k.path("compiler.pem"), "CARILLON_KEY=" + k.path("compiler.key")}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := newKeyRing(t)
			executor := newReporter(k)
			shared := append(settings(services.Postgres(t, nil), time.Minute),
				"WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+executor.server.URL+"/run/{workflow_id}", "EXECUTOR_CANCEL_URL="+executor.server.URL+"/run/{idempotency_key}")
			with := func(more ...[]string) []string {
				all := append([]string(nil), shared...)
				for _, m := range more {
					all = append(all, m...)
				}
				return all
			}
			registrar := newProcess(t, "registrar", []string{"serve", "--migrate", "--roles", "registrar"}, with(c.server(k), c.client(k)))
			launcher := newProcess(t, "launcher", []string{"serve", "--roles", "launcher"}, with(c.server(k)))
			worker := newProcess(t, "worker", []string{"serve", "--roles", "worker", "--launcher-addr", launcher.grpcAddr}, with(c.worker(k)))
			stranger := newProcess(t, "a worker that is not known", []string{"serve", "--roles", "worker", "--launcher-addr", launcher.grpcAddr}, with(c.refused(k)))
			registrar.start()
			g := guardedSite{t, registrar}
			g.carillon("", "schedule", "list")
			launcher.start()
			stranger.start()
			eventually(t, startBound, "a worker that is not known is not ready, and says why", func() error { return says(stranger, "does not accept this worker") })
			worker.startReady()
			g.live()
		})
	}
}

type guardedSite struct {
	t         *testing.T
	registrar *process
}

// carillon runs a command until it exits 0 and prints what is wanted.
func (g guardedSite) carillon(want string, args ...string) (stdout string) {
	g.t.Helper()
	eventually(g.t, startBound, "carillon "+strings.Join(args, " ")+" says "+want, func() error {
		out, errs, code := g.registrar.command("", args...)
		if stdout = out; code != 0 || !strings.Contains(out, want) {
			return fmt.Errorf("exit %d, %s%s", code, out, errs)
		}
		return nil
	})
	return stdout
}

func (g guardedSite) live() {
	g.t.Helper()
	trigger := func(id string) (key string) {
		g.carillon("", "schedule", "upsert", "--id", id, "--workflow", id, "--version", "1", "--user", "ada")
		var answer struct {
			Run struct {
				Key string `json:"idempotency_key"`
			} `json:"run"`
		}
		out := g.carillon("idempotency_key", "schedule", "trigger", id, "--request-id", "once", "-o", "json")
		if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.Run.Key == "" {
			g.t.Fatalf("%s: %v", out, err)
		}
		return answer.Run.Key
	}
	quick, slow := trigger("quick"), trigger("slow")
	g.carillon(`"status": "SUCCESS"`, "run", "get", quick, "-o", "json")
	g.carillon(`"status": "ENQUEUED"`, "run", "get", slow, "-o", "json")
	g.carillon("", "run", "cancel", slow)
	g.carillon(`"status": "CANCELLED"`, "run", "get", slow, "-o", "json")
}

// says looks into what a process answers of its readiness.
func says(p *process, want string) error {
	client := http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get("http://" + p.httpAddr + "/readyz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer map[string]string
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK || !strings.Contains(answer["launcher"], want) {
		return fmt.Errorf("%d %v", resp.StatusCode, answer)
	}
	return nil
}
