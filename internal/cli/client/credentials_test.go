package client_test

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
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

	"github.com/carillon/carillon/internal/cli/clitest"
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
	f := clitest.NewServer(t)
	f.Answer("ListSchedules", &carillonv1.ListSchedulesResponse{})
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
			env := map[string]string{"CARILLON_SERVER": f.Address}
			for name, value := range c.env {
				env[name] = value
			}
			if got := clitest.Run(t, clitest.Env{Vars: env}, append([]string{"schedule", "list"}, c.args...)...); got.Code != command.ExitOK {
				t.Fatal(got.ErrOut)
			}
			if got := strings.Join(f.Headers[len(f.Headers)-1].Get("authorization"), ";"); got != c.want {
				t.Errorf("shown: %q, want %q", got, c.want)
			}
		})
	}
	got := clitest.Run(t, clitest.Env{Vars: map[string]string{"CARILLON_TOKEN": "secret-token"}}, "schedule", "list", "--server", "carillon.example:9090")
	if got.Code != command.ExitUsage || !strings.Contains(got.ErrOut, "without TLS to carillon.example:9090") || strings.Contains(got.ErrOut, "secret-token") {
		t.Errorf("beyond loopback: exit %d: %s", got.Code, got.ErrOut)
	}
	got = f.Run(t, "schedule", "list", "--token-file", filepath.Join(t.TempDir(), "none"))
	if got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, "--token-file") {
		t.Errorf("no such file: exit %d: %s", got.Code, got.ErrOut)
	}
}

func TestWhoIsNotKnownIsToldHowToShowIt(t *testing.T) {
	f := clitest.NewServer(t)
	f.Refuse("ListSchedules", status.Error(codes.Unauthenticated, "not authenticated"))
	if got := f.Run(t, "schedule", "list"); got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, "CARILLON_TOKEN") {
		t.Errorf("exit %d: %s", got.Code, got.ErrOut)
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
	f := clitest.NewServer(t, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	f.Answer("ListSchedules", &carillonv1.ListSchedulesResponse{})
	file := tempFile(t, "ca.pem", authority)
	if got := f.Run(t, "schedule", "list", "--cacert", file); got.Code != command.ExitOK {
		t.Errorf("exit %d: %s", got.Code, got.ErrOut)
	}
	if got := f.Run(t, "schedule", "list", "--tls"); got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, "certificate") {
		t.Errorf("an authority that nobody named: exit %d: %s", got.Code, got.ErrOut)
	}
	if got := f.Run(t, "schedule", "list", "--timeout", "2s"); got.Code != command.ExitFailed {
		t.Errorf("in the clear: exit %d: %s", got.Code, got.ErrOut)
	}
	if got := f.Run(t, "schedule", "list", "--cacert", file, "--cert", file); got.Code != command.ExitUsage || !strings.Contains(got.ErrOut, "needs its key") {
		t.Errorf("a certificate without its key: exit %d: %s", got.Code, got.ErrOut)
	}
}
