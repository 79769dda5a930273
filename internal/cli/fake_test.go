package cli

import (
	"bytes"
	"context"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/test/services/leaks"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { leaks.Main(m) }

// noon is now for every command under test.
var noon = time.Date(2026, time.March, 8, 12, 0, 0, 0, time.UTC)

func at(text string) *timestamppb.Timestamp {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return timestamppb.New(t)
}

// fake is a real gRPC server that records what it is asked and answers what
// the test says.
type fake struct {
	address string
	answers map[string]func(proto.Message) (proto.Message, error) // by the name of the call
	stream  []*carillonv1.WatchRunsResponse
	export  []*carillonv1.ExportRunsResponse
	ended   error // of either stream

	mu      sync.Mutex
	asked   []proto.Message
	headers []metadata.MD
}

func newFake(t *testing.T, options ...grpc.ServerOption) *fake {
	t.Helper()
	f := &fake{answers: make(map[string]func(proto.Message) (proto.Message, error))}
	server := grpc.NewServer(append(options, grpc.UnaryInterceptor(f.unary), grpc.StreamInterceptor(f.watch))...)
	carillonv1.RegisterScheduleServiceServer(server, carillonv1.UnimplementedScheduleServiceServer{})
	carillonv1.RegisterWorkflowServiceServer(server, carillonv1.UnimplementedWorkflowServiceServer{})
	carillonv1.RegisterGrantServiceServer(server, carillonv1.UnimplementedGrantServiceServer{})
	carillonv1.RegisterRunServiceServer(server, carillonv1.UnimplementedRunServiceServer{})
	carillonv1.RegisterWorkerServiceServer(server, carillonv1.UnimplementedWorkerServiceServer{})
	carillonv1.RegisterAlertServiceServer(server, carillonv1.UnimplementedAlertServiceServer{})
	carillonv1.RegisterAuditServiceServer(server, carillonv1.UnimplementedAuditServiceServer{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.address = lis.Addr().String()
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(lis) }) // its end is Stop's
	t.Cleanup(func() {
		server.Stop()
		served.Wait()
	})
	return f
}

func (f *fake) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	f.record(ctx, req.(proto.Message))
	name := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	if answer := f.answers[name]; answer != nil {
		return answer(req.(proto.Message))
	}
	return nil, status.Error(codes.Unimplemented, "the test says no answer to "+name)
}

func (f *fake) watch(_ any, stream grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
	var req proto.Message = &carillonv1.WatchRunsRequest{}
	export := strings.HasSuffix(info.FullMethod, "/ExportRuns")
	if export {
		req = &carillonv1.ExportRunsRequest{}
	}
	if err := stream.RecvMsg(req); err != nil {
		return err
	}
	f.record(stream.Context(), req)
	var err error
	for i := 0; export && err == nil && i < len(f.export); i++ {
		err = stream.SendMsg(f.export[i])
	}
	for i := 0; !export && err == nil && i < len(f.stream); i++ {
		err = stream.SendMsg(f.stream[i])
	}
	if err != nil {
		return err
	}
	return f.ended
}

func (f *fake) record(ctx context.Context, req proto.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	md, _ := metadata.FromIncomingContext(ctx)
	f.asked, f.headers = append(f.asked, proto.Clone(req)), append(f.headers, md)
}

// requests is what was asked so far.
func (f *fake) requests() []proto.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// always answers a call with the same message.
func (f *fake) always(name string, answer proto.Message) {
	f.answers[name] = func(proto.Message) (proto.Message, error) { return answer, nil }
}

func (f *fake) refuses(name string, err error) {
	f.answers[name] = func(proto.Message) (proto.Message, error) { return nil, err }
}

// result is what a command line came to.
type result struct {
	out, errs string
	code      int
}

// run executes a command line against the fake; its commands need --server.
func (f *fake) run(t *testing.T, args ...string) result {
	t.Helper()
	return execute(t, surroundings{env: map[string]string{"CARILLON_SERVER": f.address}}, args...)
}

// surroundings are what a command line finds.
type surroundings struct {
	in    string
	env   map[string]string
	color bool
}

func execute(t *testing.T, s surroundings, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	c := &command.CLI{
		In: strings.NewReader(s.in), Out: &out, ErrOut: &errs, Color: s.color,
		Now: func() time.Time { return noon }, Env: func(name string) string { return s.env[name] }, Version: "v0.0.0-test",
	}
	code := run(t.Context(), c, args)
	return result{out: out.String(), errs: errs.String(), code: code}
}

// golden compares with a file in testdata; -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./internal/cli -update makes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); if it is meant so: go test ./internal/cli -update\n%s", path, diff)
	}
}

const (
	keyA = "5f0c5a3d9b1e7c42a86d0f3b5e9172c4d8a60b1f3e5c7d9a2b4f6e8c0d1a3b5c"
	keyB = "5f0c5a3d0000000000000000000000000000000000000000000000000000000b"
)

func nightly() *carillonv1.Schedule {
	return &carillonv1.Schedule{
		ScheduleId: "nightly", WorkflowId: "report", Version: 3, UserId: "ada",
		CronExpr: "30 2 * * *", Timezone: "America/New_York", Dst: "vixie", JitterMs: 5000,
		OverlapPolicy: "queue", OverlapKey: "warehouse", MaxQueued: 10,
		CatchupPolicy: "latest", CatchupWindowMs: 86_400_000, RunTimeoutMs: 5_400_000, Priority: 7,
		Input: []byte(`{"b":1,"a":12345678901234567890}`), Labels: map[string]string{"team": "billing", "env": "prod"},
		ManagedBy: "workflow:report", Revision: 4, RevisedAt: at("2026-03-01T09:00:00Z"),
		NextRunAt: at("2026-03-09T06:30:00Z"), LastRunAt: at("2026-03-08T07:00:00Z"),
		CreatedAt: at("2025-01-01T00:00:00Z"), UpdatedAt: at("2026-03-01T09:00:00Z"),
	}
}

func failedRun() *carillonv1.Run {
	return &carillonv1.Run{
		IdempotencyKey: keyA, ScheduleId: "nightly", Revision: 4, UserId: "ada", WorkflowId: "report", Version: 3,
		RunAt: at("2026-03-08T07:00:00Z"), FireAt: at("2026-03-08T07:00:02.5Z"), Status: "FAILED", Reason: "timeout",
		Trigger: "schedule", OverlapPolicy: "queue", Attempt: 2, RetryOf: keyB, Deliveries: 1, RunId: "r-17",
		ClaimedAt: at("2026-03-08T07:00:01.55Z"), LaunchedAt: at("2026-03-08T07:00:02.504Z"), StartedAt: at("2026-03-08T07:00:03Z"), CompletedAt: at("2026-03-08T08:30:03Z"),
		ErrorCode: "TIMEOUT", ErrorMessage: "no sign of life", UpdatedAt: at("2026-03-08T08:30:03Z"),
	}
}
