package cli

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func tempFile(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestATokenIsShownAndNeverInTheClearBeyondLoopback(t *testing.T) {
	f := newFake(t)
	f.always("ListSchedules", &carillonv1.ListSchedulesResponse{})
	file := tempFile(t, "token", []byte("of-the-file\n"))
	for _, c := range []struct {
		name, want string
		env        map[string]string
		args       []string
	}{
		{name: "none"},
		{name: "of the environment", env: map[string]string{"CARILLON_TOKEN": "of-the-environment"}, want: "Bearer of-the-environment"},
		{name: "of a file", args: []string{"--token-file", file}, want: "Bearer of-the-file"},
		{name: "a file before the environment", env: map[string]string{"CARILLON_TOKEN": "x", "CARILLON_TOKEN_FILE": file}, want: "Bearer of-the-file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := map[string]string{"CARILLON_SERVER": f.address}
			for name, value := range c.env {
				env[name] = value
			}
			if got := execute(t, surroundings{env: env}, append([]string{"schedule", "list"}, c.args...)...); got.code != command.ExitOK {
				t.Fatal(got.errs)
			}
			if got := strings.Join(f.headers[len(f.headers)-1].Get("authorization"), ";"); got != c.want {
				t.Errorf("shown: %q, want %q", got, c.want)
			}
		})
	}
	got := execute(t, surroundings{env: map[string]string{"CARILLON_TOKEN": "secret-token"}}, "schedule", "list", "--server", "carillon.example:9090")
	if got.code != command.ExitUsage || !strings.Contains(got.errs, "without TLS to carillon.example:9090") || strings.Contains(got.errs, "secret-token") {
		t.Errorf("beyond loopback: exit %d: %s", got.code, got.errs)
	}
	got = f.run(t, "schedule", "list", "--token-file", filepath.Join(t.TempDir(), "none"))
	if got.code != command.ExitFailed || !strings.Contains(got.errs, "--token-file") {
		t.Errorf("no such file: exit %d: %s", got.code, got.errs)
	}
}

func TestWhoIsNotKnownIsToldHowToShowIt(t *testing.T) {
	f := newFake(t)
	f.refuses("ListSchedules", status.Error(codes.Unauthenticated, "not authenticated"))
	if got := f.run(t, "schedule", "list"); got.code != command.ExitFailed || !strings.Contains(got.errs, "CARILLON_TOKEN") {
		t.Errorf("exit %d: %s", got.code, got.errs)
	}
}

// serverFiles is a certificate for 127.0.0.1 that vouches for itself.
func serverFiles(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestTheServerIsKnownByItsAuthority(t *testing.T) {
	pair, authority := serverFiles(t)
	f := newFake(t, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	f.always("ListSchedules", &carillonv1.ListSchedulesResponse{})
	file := tempFile(t, "ca.pem", authority)
	if got := f.run(t, "schedule", "list", "--cacert", file); got.code != command.ExitOK {
		t.Errorf("exit %d: %s", got.code, got.errs)
	}
	if got := f.run(t, "schedule", "list", "--tls"); got.code != command.ExitFailed || !strings.Contains(got.errs, "certificate") {
		t.Errorf("an authority that nobody named: exit %d: %s", got.code, got.errs)
	}
	if got := f.run(t, "schedule", "list", "--timeout", "2s"); got.code != command.ExitFailed {
		t.Errorf("in the clear: exit %d: %s", got.code, got.errs)
	}
	if got := f.run(t, "schedule", "list", "--cacert", file, "--cert", file); got.code != command.ExitUsage || !strings.Contains(got.errs, "needs its key") {
		t.Errorf("a certificate without its key: exit %d: %s", got.code, got.errs)
	}
}

func TestTokenNewPrintsTheTokenOnceAndTheLineThatKnowsIt(t *testing.T) {
	got := execute(t, surroundings{}, "token", "new", "--subject", "ada", "--role", "user", "--expires", "24h")
	lines := strings.Split(got.out, "\n")
	if got.code != command.ExitOK || len(lines) < 6 {
		t.Fatalf("exit %d: %s%s", got.code, got.out, got.errs)
	}
	token := strings.TrimSpace(lines[1])
	sum := sha256.Sum256([]byte(token))
	want := `  - {subject: "ada", roles: [user], sha256: ` + hex.EncodeToString(sum[:]) + `, expires_at: 2026-03-09T12:00:00Z}`
	if !strings.HasPrefix(token, "carillon_") || lines[5] != want || strings.Count(got.out, token) != 1 {
		t.Errorf("got\n%s\nwant the line\n%s", got.out, want)
	}
	for want, args := range map[string][]string{
		"--subject": {"--role", "user"}, "--role is required": {"--subject", "ada"}, `--role "root" is not one of`: {"--subject", "ada", "--role", "root"},
		"is not a user_id": {"--subject", "*", "--role", "user"}, "is not allowed without": {"--subject", "ci", "--role", "compiler", "--owner", "ada"},
	} {
		if got := execute(t, surroundings{}, append([]string{"token", "new"}, args...)...); got.code != command.ExitUsage || !strings.Contains(got.errs, want) {
			t.Errorf("%v: exit %d: %s; want %q", args, got.code, got.errs, want)
		}
	}
}

func TestTheAuditTrailIsListedNewestFirst(t *testing.T) {
	f := newFake(t)
	f.always("ListAudit", &carillonv1.ListAuditResponse{Entries: []*carillonv1.AuditEntry{
		{Time: at("2026-03-08T11:00:00Z"), Subject: "ada", Via: "jwt", Method: "UpsertSchedule", Target: "nightly", UserId: "ada", Code: "OK", RevisionBefore: 3, RevisionAfter: 4},
		{Time: at("2026-03-08T10:00:00Z"), Subject: "bob", Via: "token", Method: "PauseSchedule", Target: "nightly", Code: "NotFound", RequestId: "r-1", Count: 12, OtherTargets: true},
		{Time: at("2026-03-08T09:00:00Z"), Via: "open", Method: "TriggerSchedule", Target: "nightly", UserId: "ada", Code: "OK", RevisionBefore: 3, RevisionAfter: 3},
	}})
	got := f.run(t, "audit", "list", "--target", "nightly", "--since", "1d")
	if got.code != command.ExitOK {
		t.Fatal(got.errs)
	}
	golden(t, "audit-list", got.out)
	req, _ := f.requests()[0].(*carillonv1.ListAuditRequest)
	if req.GetTarget() != "nightly" || !req.GetFrom().AsTime().Equal(noon.Add(-24*time.Hour)) {
		t.Errorf("asked: %v", req)
	}
}
