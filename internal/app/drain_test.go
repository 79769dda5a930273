package app_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/client"
	"github.com/carillon/carillon/launcher/wire"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func aStart(n int) schedule.StartRequest {
	at := time.Date(2026, 3, 8, 14, 0, n, 0, time.UTC)
	return schedule.StartRequest{
		Key: schedule.SlotKey("s", at), WorkflowID: "w", Version: 1, UserID: "u",
		ScheduledFor: at, FireAt: at, Trigger: schedule.TriggerSchedule, Attempt: 1, RunTimeout: time.Hour,
	}
}

// A launcher in shutdown answers the starts that it has received, and does not wait for the open stream
// of a worker.
func TestALauncherAnswersItsStartsDuringShutdown(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	executor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		_, _ = io.WriteString(w, `{"run_id":"r","status":"SUCCESS"}`)
	}))
	defer executor.Close()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.Flags(fs, nil)
	cfg, err := app.Load(fs, map[string]any{
		"roles": "launcher", "http_addr": "127.0.0.1:0", "grpc_addr": "127.0.0.1:0", "data_dir": t.TempDir(), "workflow_store": "none", "executor_url": executor.URL,
	})
	if err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	log := &locked{w: &written}
	a, err := app.New(t.Context(), cfg, app.Options{Logger: app.NewLogger(log, cfg), Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	c, err := client.New(a.GRPCAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	answered := make(chan error, 1)
	go func() {
		reply, err := c.Start(t.Context(), aStart(0))
		if err == nil && reply.Outcome.Status != schedule.StatusSuccess {
			t.Errorf("answered with %+v", reply)
		}
		answered <- err
	}()
	<-asked
	end()
	eventually(t, "nobody listens any more", func() bool {
		conn, err := net.Dial("tcp", a.GRPCAddr())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	select {
	case err := <-ended:
		t.Fatalf("the process ended with %v before it had answered", err)
	case err := <-answered:
		t.Fatalf("the start ended with %v before the executor answered", err)
	default:
	}
	close(answer)
	if err := <-answered; err != nil {
		t.Errorf("the open start: %v", err)
	}
	began := time.Now()
	if err := <-ended; err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("the process ended with %v, %s after its last answer", err, time.Since(began))
	}
	if text := written.String(); strings.Contains(text, "StartBatch") {
		t.Errorf("a stream that went well stands in the log:\n%s", text)
	}
}

// Each start of a stream is checked separately.
func TestAnInvalidStartDoesNotAffectValidOnes(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+g.tokens["worker"])
	stream, err := carillonv1.NewRunLauncherClient(g.conn).StartBatch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	req := &carillonv1.RunLauncherStartBatchRequest{}
	bad := func(change func(*carillonv1.RunLauncherStartRequest)) {
		one := aStart(len(req.Starts))
		start := wire.Start(&one)
		change(start)
		req.Starts = append(req.Starts, start)
	}
	bad(func(*carillonv1.RunLauncherStartRequest) {})
	bad(func(r *carillonv1.RunLauncherStartRequest) { r.WorkflowId = "no id" })
	bad(func(r *carillonv1.RunLauncherStartRequest) { r.IdempotencyKey = "no key" })
	bad(func(r *carillonv1.RunLauncherStartRequest) { r.Input = []byte("{no JSON") })
	bad(func(r *carillonv1.RunLauncherStartRequest) {
		r.Input = []byte(`"` + strings.Repeat("x", schedule.MaxInputBytes) + `"`)
	})
	bad(func(r *carillonv1.RunLauncherStartRequest) { r.ScheduledFor = nil })
	bad(func(*carillonv1.RunLauncherStartRequest) {})
	if err := stream.Send(req); err != nil {
		t.Fatal(err)
	}
	for seen := 0; seen < len(req.Starts); {
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range resp.GetAnswers() {
			seen++
			good := a.GetNumber() == 0 || a.GetNumber() == uint64(len(req.Starts)-1)
			if ok := a.GetOutcome().GetOk(); ok != good || !good && codes.Code(a.GetCode()) != codes.InvalidArgument {
				t.Errorf("answer %v", a)
			}
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	_, _ = stream.Recv()
	for _, want := range []string{
		`carillon_calls_total{code="OK",method="/carillon.v1.RunLauncher/Start"} 2`,
		`carillon_calls_total{code="InvalidArgument",method="/carillon.v1.RunLauncher/Start"} 5`,
	} {
		if code, text := g.send("operator", http.MethodGet, "/metrics", ""); !strings.Contains(text, want) {
			t.Errorf("metrics (%d) have no %s", code, want)
		}
	}
}
