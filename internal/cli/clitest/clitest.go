// Package clitest runs command lines in tests, against a gRPC server whose answers
// the test chooses.
package clitest

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
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Update is the flag of tests that compare with a file.
var Update = flag.Bool("update", false, "write the golden files")

// Noon is the time of every command under test.
var Noon = time.Date(2026, time.March, 8, 12, 0, 0, 0, time.UTC)

// Time reads RFC 3339.
func Time(text string) *timestamppb.Timestamp {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return timestamppb.New(t)
}

// Server is a real gRPC server that records the requests and gives the answers
// that the test sets.
type Server struct {
	Address     string
	Answers     map[string]func(proto.Message) (proto.Message, error) // by the name of the call
	Changes     []*carillonv1.WatchRunsResponse
	Exported    []*carillonv1.ExportRunsResponse
	StreamError error // of either stream

	mu       sync.Mutex
	requests []proto.Message
	Headers  []metadata.MD
}

// NewServer starts a server that refuses every call until the test sets an answer.
func NewServer(t *testing.T, options ...grpc.ServerOption) *Server {
	t.Helper()
	f := &Server{Answers: make(map[string]func(proto.Message) (proto.Message, error))}
	server := grpc.NewServer(append(options, grpc.UnaryInterceptor(f.unary), grpc.StreamInterceptor(f.watch))...)
	carillonv1.RegisterScheduleServiceServer(server, carillonv1.UnimplementedScheduleServiceServer{})
	carillonv1.RegisterWorkflowServiceServer(server, carillonv1.UnimplementedWorkflowServiceServer{})
	carillonv1.RegisterGrantServiceServer(server, carillonv1.UnimplementedGrantServiceServer{})
	carillonv1.RegisterQueueServiceServer(server, carillonv1.UnimplementedQueueServiceServer{})
	carillonv1.RegisterGroupServiceServer(server, carillonv1.UnimplementedGroupServiceServer{})
	carillonv1.RegisterLimitServiceServer(server, carillonv1.UnimplementedLimitServiceServer{})
	carillonv1.RegisterOverlapGroupServiceServer(server, carillonv1.UnimplementedOverlapGroupServiceServer{})
	carillonv1.RegisterEventServiceServer(server, carillonv1.UnimplementedEventServiceServer{})
	carillonv1.RegisterRunServiceServer(server, carillonv1.UnimplementedRunServiceServer{})
	carillonv1.RegisterWorkerServiceServer(server, carillonv1.UnimplementedWorkerServiceServer{})
	carillonv1.RegisterAlertServiceServer(server, carillonv1.UnimplementedAlertServiceServer{})
	carillonv1.RegisterAuditServiceServer(server, carillonv1.UnimplementedAuditServiceServer{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.Address = lis.Addr().String()
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(lis) }) // its end is Stop's
	t.Cleanup(func() {
		server.Stop()
		served.Wait()
	})
	return f
}

func (f *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	f.record(ctx, req.(proto.Message))
	name := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	if answer := f.Answers[name]; answer != nil {
		return answer(req.(proto.Message))
	}
	return nil, status.Error(codes.Unimplemented, "the test sets no answer to "+name)
}

func (f *Server) watch(_ any, stream grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
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
	for i := 0; export && err == nil && i < len(f.Exported); i++ {
		err = stream.SendMsg(f.Exported[i])
	}
	for i := 0; !export && err == nil && i < len(f.Changes); i++ {
		err = stream.SendMsg(f.Changes[i])
	}
	if err != nil {
		return err
	}
	return f.StreamError
}

func (f *Server) record(ctx context.Context, req proto.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	md, _ := metadata.FromIncomingContext(ctx)
	f.requests, f.Headers = append(f.requests, proto.Clone(req)), append(f.Headers, md)
}

// Requests are the requests so far.
func (f *Server) Requests() []proto.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

// Answer answers a call with the same message.
func (f *Server) Answer(name string, answer proto.Message) {
	f.Answers[name] = func(proto.Message) (proto.Message, error) { return answer, nil }
}

// Refuse answers a call with an error.
func (f *Server) Refuse(name string, err error) {
	f.Answers[name] = func(proto.Message) (proto.Message, error) { return nil, err }
}

// Result is what a command line wrote, and its exit code.
type Result struct {
	Out, ErrOut string
	Code        int
}

// Run executes a command line that calls the server.
func (f *Server) Run(t *testing.T, args ...string) Result {
	t.Helper()
	return Run(t, Env{Vars: map[string]string{"CARILLON_SERVER": f.Address}}, args...)
}

// CheckRequest checks that a command line succeeds, and which request it makes first.
func CheckRequest(t *testing.T, want proto.Message, args ...string) {
	t.Helper()
	f := NewAnsweringServer(t)
	if got := f.Run(t, args...); got.Code != command.ExitOK || got.ErrOut != "" {
		t.Fatalf("exit %d: %s", got.Code, got.ErrOut)
	}
	if diff := cmp.Diff(want, f.Requests()[0], protocmp.Transform()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

// Env is what a command line takes from the process.
type Env struct {
	In    string
	Vars  map[string]string
	Color bool
}

// Run executes a command line at Noon.
func Run(t *testing.T, s Env, args ...string) Result {
	t.Helper()
	var out, errs bytes.Buffer
	c := &command.CLI{
		In: strings.NewReader(s.In), Out: &out, ErrOut: &errs, Color: s.Color,
		Now: func() time.Time { return Noon }, Env: func(name string) string { return s.Vars[name] }, Version: "v0.0.0-test",
	}
	code := cli.Run(t.Context(), c, args)
	return Result{Out: out.String(), ErrOut: errs.String(), Code: code}
}

// Golden compares with a file in testdata; -update writes it.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *Update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run the test with -update to write it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); if that is intended, run the test with -update\n%s", path, diff)
	}
}

// Two keys of runs that begin with the same digits.
const (
	KeyA = "5f0c5a3d9b1e7c42a86d0f3b5e9172c4d8a60b1f3e5c7d9a2b4f6e8c0d1a3b5c"
	KeyB = "5f0c5a3d0000000000000000000000000000000000000000000000000000000b"
)

// Schedule is a schedule with every field set.
func Schedule() *carillonv1.Schedule {
	return &carillonv1.Schedule{
		ScheduleId: "nightly", WorkflowId: "report", Version: 3, UserId: "ada",
		CronExpr: "30 2 * * *", Timezone: "America/New_York", Dst: "vixie", JitterMs: 5000,
		OverlapPolicy: "queue", OverlapKey: "warehouse", MaxQueued: 10,
		CatchupPolicy: "latest", CatchupWindowMs: 86_400_000, RunTimeoutMs: 5_400_000, Priority: 7,
		Input: []byte(`{"b":1,"a":12345678901234567890}`), Labels: map[string]string{"team": "billing", "env": "prod"},
		ManagedBy: "workflow:report", Revision: 4, RevisedAt: Time("2026-03-01T09:00:00Z"),
		NextRunAt: Time("2026-03-09T06:30:00Z"), LastRunAt: Time("2026-03-08T07:00:00Z"),
		CreatedAt: Time("2025-01-01T00:00:00Z"), UpdatedAt: Time("2026-03-01T09:00:00Z"),
	}
}

// FailedRun is a run that ended FAILED (timeout).
func FailedRun() *carillonv1.Run {
	return &carillonv1.Run{
		IdempotencyKey: KeyA, ScheduleId: "nightly", Revision: 4, UserId: "ada", WorkflowId: "report", Version: 3,
		RunAt: Time("2026-03-08T07:00:00Z"), FireAt: Time("2026-03-08T07:00:02.5Z"), Status: "FAILED", Reason: "timeout",
		Trigger: "schedule", OverlapPolicy: "queue", Attempt: 2, RetryOf: KeyB, Deliveries: 1, RunId: "r-17",
		ClaimedAt: Time("2026-03-08T07:00:01.55Z"), LaunchedAt: Time("2026-03-08T07:00:02.504Z"), StartedAt: Time("2026-03-08T07:00:03Z"), CompletedAt: Time("2026-03-08T08:30:03Z"),
		ErrorCode: "TIMEOUT", ErrorMessage: "no sign of life", UpdatedAt: Time("2026-03-08T08:30:03Z"),
	}
}

// NewAnsweringServer starts a server that has an answer to every call.
func NewAnsweringServer(t *testing.T) *Server {
	t.Helper()
	f := NewServer(t)
	run := FailedRun()
	f.Answer("UpsertSchedule", &carillonv1.UpsertScheduleResponse{ScheduleId: "nightly", NextRunAt: Time("2026-03-09T06:30:00Z")})
	f.Answer("GetSchedule", &carillonv1.GetScheduleResponse{Schedule: Schedule()})
	f.Answer("ListSchedules", &carillonv1.ListSchedulesResponse{Schedules: []*carillonv1.Schedule{Schedule()}})
	f.Answer("PauseSchedule", &carillonv1.PauseScheduleResponse{Schedule: Schedule()})
	f.Answer("ResumeSchedule", &carillonv1.ResumeScheduleResponse{Schedule: Schedule()})
	f.Answer("DeleteSchedule", &carillonv1.DeleteScheduleResponse{})
	f.Answer("TriggerSchedule", &carillonv1.TriggerScheduleResponse{Run: run})
	f.Answer("PreviewSchedule", &carillonv1.PreviewScheduleResponse{})
	f.Answer("SimulateSchedules", &carillonv1.SimulateSchedulesResponse{})
	f.Answer("SimulateQueue", &carillonv1.SimulateQueueResponse{})
	f.Answer("ForecastLaunches", &carillonv1.ForecastLaunchesResponse{})
	f.Answer("ListScheduleEvents", &carillonv1.ListScheduleEventsResponse{})
	f.Answer("ListRevisions", &carillonv1.ListRevisionsResponse{})
	f.Answer("PutWorkflowVersion", &carillonv1.PutWorkflowVersionResponse{})
	f.Answer("GetWorkflowVersion", &carillonv1.GetWorkflowVersionResponse{WorkflowVersion: &carillonv1.WorkflowVersion{Dag: []byte("{}")}})
	f.Answer("ListWorkflowVersions", &carillonv1.ListWorkflowVersionsResponse{WorkflowVersions: []*carillonv1.WorkflowVersion{{WorkflowId: "report", Version: 3}}})
	f.Answer("DeployWorkflow", &carillonv1.DeployWorkflowResponse{})
	f.Answer("ShareWorkflow", &carillonv1.ShareWorkflowResponse{Share: &carillonv1.WorkflowShare{}})
	f.Answer("UnshareWorkflow", &carillonv1.UnshareWorkflowResponse{})
	f.Answer("ListWorkflowShares", &carillonv1.ListWorkflowSharesResponse{})
	f.Answer("CreateGrant", &carillonv1.CreateGrantResponse{Grant: Grant()})
	f.Answer("GetGrant", &carillonv1.GetGrantResponse{Grant: Grant()})
	f.Answer("ListGrants", &carillonv1.ListGrantsResponse{Grants: []*carillonv1.Grant{Grant()}})
	f.Answer("RevokeGrant", &carillonv1.RevokeGrantResponse{Grant: Grant()})
	f.answerQueues()
	f.Answer("EnqueueRun", &carillonv1.EnqueueRunResponse{Run: run})
	f.Answer("EnqueueRuns", &carillonv1.EnqueueRunsResponse{IdempotencyKeys: []string{KeyA}})
	f.Answer("ExplainRun", &carillonv1.ExplainRunResponse{Run: run, Sentences: []string{"It waits."}})
	f.Answer("MoveRun", &carillonv1.MoveRunResponse{Run: run})
	f.Answer("UpdateRun", &carillonv1.UpdateRunResponse{Run: run})
	f.Answer("GetRun", &carillonv1.GetRunResponse{Run: run})
	f.Answer("ListRuns", &carillonv1.ListRunsResponse{Runs: []*carillonv1.Run{run}})
	f.Answer("ReportRun", &carillonv1.ReportRunResponse{Run: run})
	f.Answer("CancelRun", &carillonv1.CancelRunResponse{Run: run, Effect: "What happens next."})
	f.Answer("CancelRuns", &carillonv1.CancelRunsResponse{
		Cancelled: 3, CancelRequested: 1, Sample: []*carillonv1.Run{run}, Schedules: []*carillonv1.CancelledSchedule{{ScheduleId: "nightly", Cancelled: 3, CancelRequested: 1}},
	})
	f.Answer("RetryRun", &carillonv1.RetryRunResponse{Run: run})
	f.Answer("RedriveRuns", &carillonv1.RedriveRunsResponse{
		Redriven: 3, LeftDead: 1, RequestId: "R", Sample: []*carillonv1.Run{run}, Schedules: []*carillonv1.RedrivenSchedule{{ScheduleId: "nightly", Redriven: 3}},
	})
	f.Answer("ListWorkers", &carillonv1.ListWorkersResponse{})
	f.Answer("Resign", &carillonv1.ResignResponse{Leadership: &carillonv1.Leadership{Shard: 3, WorkerId: "wa", Epoch: 17}})
	return f
}

func (f *Server) answerQueues() {
	queue := &carillonv1.Queue{QueueId: "gpu", UserId: "ada", MaxInFlight: 2, Waiting: 3, Revision: 1}
	f.Answer("UpsertQueue", &carillonv1.UpsertQueueResponse{Queue: queue})
	f.Answer("GetQueue", &carillonv1.GetQueueResponse{Queue: queue})
	f.Answer("ListQueues", &carillonv1.ListQueuesResponse{Queues: []*carillonv1.Queue{queue}})
	f.Answer("DeleteQueue", &carillonv1.DeleteQueueResponse{})
	f.Answer("PauseQueue", &carillonv1.PauseQueueResponse{Queue: queue})
	f.Answer("ResumeQueue", &carillonv1.ResumeQueueResponse{Queue: queue})
	f.Answer("CloseQueue", &carillonv1.CloseQueueResponse{Queue: queue})
	f.Answer("OpenQueue", &carillonv1.OpenQueueResponse{Queue: queue})
	group := &carillonv1.Group{GroupId: "night", QueueId: "gpu", UserId: "ada", Mode: "parallel", OnFailure: "continue", State: "RUNNING", Members: 3, Succeeded: 1}
	f.Answer("CreateGroup", &carillonv1.CreateGroupResponse{Group: group})
	f.Answer("AddToGroup", &carillonv1.AddToGroupResponse{Group: group, IdempotencyKeys: []string{KeyA}})
	f.Answer("SealGroup", &carillonv1.SealGroupResponse{Group: group})
	f.Answer("GetGroup", &carillonv1.GetGroupResponse{Group: group})
	f.Answer("ListGroups", &carillonv1.ListGroupsResponse{Groups: []*carillonv1.Group{group}})
	f.Answer("CancelGroup", &carillonv1.CancelGroupResponse{Group: group})
	f.Answer("RetryGroup", &carillonv1.RetryGroupResponse{Group: group})
	limit := &carillonv1.Limit{LimitId: "customer", UserId: "ada", Keyed: true, MaxInFlight: Pointer[uint32](2), Used: 3, Revision: 1}
	f.Answer("UpsertLimit", &carillonv1.UpsertLimitResponse{Limit: limit})
	f.Answer("GetLimit", &carillonv1.GetLimitResponse{Limit: limit})
	f.Answer("ListLimits", &carillonv1.ListLimitsResponse{Limits: []*carillonv1.Limit{limit}})
	overlap := &carillonv1.OverlapGroup{OverlapKey: "warehouse", UserId: "ada", Status: "idle"}
	f.Answer("GetOverlapGroup", &carillonv1.GetOverlapGroupResponse{Group: overlap})
	f.Answer("ListOverlapGroups", &carillonv1.ListOverlapGroupsResponse{Groups: []*carillonv1.OverlapGroup{overlap}})
	f.Answer("RunOverlapGroup", &carillonv1.RunOverlapGroupResponse{})
	f.Answer("DeleteLimit", &carillonv1.DeleteLimitResponse{})
	f.Answer("SetLimitKey", &carillonv1.SetLimitKeyResponse{Key: &carillonv1.LimitKey{Key: "a7", Used: 1}})
	f.Answer("ListQueueEvents", &carillonv1.ListQueueEventsResponse{})
	f.Answer("ListWaiting", &carillonv1.ListWaitingResponse{})
	f.answerReservations()
}

func (f *Server) answerReservations() {
	reservation := &carillonv1.Reservation{ReservationId: KeyA, QueueId: "gpu", UserId: "ada", RequestedBy: "carl", Granted: true, HoldMs: 30_000, CreatedAt: Time("2026-03-08T12:00:00Z"), GrantedAt: Time("2026-03-08T12:00:05Z"), EndsAt: Time("2026-03-08T12:00:35Z")}
	f.Answer("ReserveSlot", &carillonv1.ReserveSlotResponse{Reservation: reservation})
	f.Answer("GetReservation", &carillonv1.GetReservationResponse{Reservation: reservation})
	f.Answer("ListReservations", &carillonv1.ListReservationsResponse{Reservations: []*carillonv1.Reservation{reservation}})
	f.Answer("ExtendReservation", &carillonv1.ExtendReservationResponse{Reservation: reservation})
	f.Answer("ReleaseReservation", &carillonv1.ReleaseReservationResponse{Reservation: reservation})
}

// Pointer is v as a field that may be unset.
func Pointer[T any](v T) *T { return &v }

// WriteFile writes a file of a test.
func WriteFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Grant is an active grant of ada.
func Grant() *carillonv1.Grant {
	return &carillonv1.Grant{
		GrantId: "ada-reports", UserId: "ada", BillingAccountId: "acme", Scopes: []string{"graph:execute:langgraph:*", "graph:execute:report"},
		ExpiresAt: Time("2026-06-01T00:00:00Z"), RevokedAt: Time("2026-03-08T11:00:00Z"), RevokedBy: "bob", RevokeNote: "she left",
		CreatedBy: "ada", CreatedAt: Time("2026-03-01T09:00:00Z"), State: "revoked",
	}
}

// Split splits a line into words like a shell, with single quotes.
func Split(line string) []string {
	var words []string
	var word strings.Builder
	quoted, begun := false, false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range strings.TrimSpace(line) {
		switch {
		case r == '\'':
			quoted, begun = !quoted, true
		case !quoted && (r == '>' || r == '<'):
			return words
		case !quoted && r == ' ':
			end()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return words
}
