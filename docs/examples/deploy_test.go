package examples_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/carillon/carillon/docs/examples"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/migrated"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/api"
)

// connect serves a real registrar over an empty database.
func connect(t *testing.T) *grpc.ClientConn {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := sqlite.Open(t.Context(), "sqlite:"+migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db")), sqlite.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r := registrar.New(registrar.Options{Schedules: store, Runs: store, Backfills: store, Workflows: store, Shares: store, Grants: store, Logger: quiet})
	server := api.NewServer(quiet, nil)
	api.Register(server, api.Services{Writer: r, Reader: r, Workflows: r, Grants: r, Runs: r, Backfills: r})
	listener := bufconn.Listen(1 << 20)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:///registrar", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-served
	})
	return conn
}

func TestDeployMakesEachTriggerASchedule(t *testing.T) {
	conn := connect(t)
	for range 2 { // the second time changes nothing
		n, err := examples.Deploy(t.Context(), conn, "dev")
		if err != nil || n != 8 {
			t.Fatalf("Deploy() = %d, %v, want 8", n, err)
		}
	}
	list, err := carillonv1.NewScheduleServiceClient(conn).ListSchedules(t.Context(), &carillonv1.ListSchedulesRequest{PageSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	tours := 0
	for _, s := range list.GetSchedules() {
		if s.GetRevision() != 1 || s.GetUserId() != "dev" || s.GetNextRunAt() == nil {
			t.Errorf("schedule %s: %v", s.GetScheduleId(), s)
		}
		if strings.HasSuffix(s.GetScheduleId(), ".tour") {
			tours++
		}
	}
	if len(list.GetSchedules()) != 8 || tours != 4 {
		t.Errorf("%d schedules, %d tours, want 8 and 4", len(list.GetSchedules()), tours)
	}
}

func TestDeployLeavesAloneWhatTheUserHasChanged(t *testing.T) {
	conn := connect(t)
	client := carillonv1.NewWorkflowServiceClient(conn)
	for _, own := range []*carillonv1.DeployWorkflowRequest{
		{WorkflowId: "health-check", Version: 2, UserId: "dev", Dag: []byte(`{}`)},
		{WorkflowId: "disk-space-watch", Version: 1, UserId: "dev", Dag: []byte(`{}`)},
	} {
		if _, err := client.DeployWorkflow(t.Context(), own); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := examples.Deploy(t.Context(), conn, "dev"); err != nil || n != 4 {
		t.Errorf("Deploy() = %d, %v, want the 4 of the other two", n, err)
	}
}

func TestExamplesHoldNothingButWhatTheirReaderExpects(t *testing.T) {
	workflows, err := examples.Workflows()
	if err != nil || len(workflows) != 4 {
		t.Fatalf("%d examples, %v, want 4", len(workflows), err)
	}
	for _, w := range workflows {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(w.DAG, &members); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"workflow_id", "version", "triggers", "steps"} {
			if members[name] == nil {
				t.Errorf("%s has no %s", w.WorkflowID, name)
			}
		}
		if len(members) != 4 {
			t.Errorf("%s has %d members, want 4", w.WorkflowID, len(members))
		}
	}
}
