package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// peakMemory is the most resident memory that the process has had, in bytes.
func (p *process) peakMemory() int64 {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(p.cmd.Process.Pid), "status"))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		p.t.Fatalf("VmHWM: %v", err)
	}
	return kib << 10
}

// The manifests give a process 512 MiB. Without a limit on unpacked messages it
// took 5 GB.
func TestGzipBombsOfStrangersCostNoMemory(t *testing.T) {
	keys := newKeyRing(t)
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, []string{
		"WORKFLOW_STORE=none", "EXECUTOR_URL=http://127.0.0.1:1", "AUTH_TOKENS_FILE=" + keys.path("tokens.yaml"), "REPORT_SECRET=known-to-this-case-only", "GOMEMLIMIT=460MiB",
	})
	p.startReady()
	before := p.peakMemory()
	bomb := strings.Repeat("x", 8<<20-64)
	token := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+strings.Repeat("a", 64))
	var (
		calls   sync.WaitGroup
		refused atomic.Int32
	)
	for range 64 {
		conn, err := grpc.NewClient(p.grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		calls.Go(func() {
			_, check := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: bomb})
			_, report := carillonv1.NewRunServiceClient(conn).ReportRun(token, &carillonv1.ReportRunRequest{ErrorMessage: bomb})
			for _, err := range []error{check, report} {
				switch status.Code(err) {
				case codes.Unimplemented:
					refused.Add(1)
				case codes.Unavailable: // on a busy machine the connection of a slow stranger is closed
				default:
					t.Errorf("a compressed call: %.100v", err)
				}
			}
		})
	}
	calls.Wait()
	if refused.Load() < 64 {
		t.Errorf("%d of 128 compressed calls were refused as such", refused.Load())
	}
	if grown := p.peakMemory() - before; grown > 128<<20 {
		t.Errorf("the process grew by %d MiB", grown>>20)
	}
	eventually(t, 10*time.Second, "it still serves", p.ready)
}
