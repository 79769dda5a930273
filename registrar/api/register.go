package api

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/carillon/carillon/internal/auth"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Services are the implementations of the calls. *registrar.Registrar is each of the first six,
// every store is Workers.
type Services struct {
	Writer    ScheduleWriter
	Reader    ScheduleReader
	Backfills Backfills
	Workflows Workflows
	Grants    Grants
	Runs      Runs
	Queues    Queues     // nil: its calls are UNIMPLEMENTED
	Limits    Limits     // nil: its calls are UNIMPLEMENTED
	Events    Events     // nil: its calls are UNIMPLEMENTED
	Groups    Groups     // nil: its calls are UNIMPLEMENTED
	Overlaps  Overlaps   // nil: its calls are UNIMPLEMENTED
	Workers   Workers    // nil: its calls are UNIMPLEMENTED
	Trail     AuditTrail // nil: its calls are UNIMPLEMENTED
	Alerts    Alerts     // nil: its calls are UNIMPLEMENTED

	// Actor names who makes a call, for events and revisions; nil: the subject of
	// the caller's identity.
	Actor func(context.Context) string
	// Links lead from runs to other systems.
	Links Links
	// Now is the clock that runs are stamped by; nil: time.Now.
	Now func() time.Time
	// EndWaits and GrantWaits bound the calls that wait with wait_ms, for ends of runs and for grants of
	// reservations; 0: the default.
	EndWaits, GrantWaits int
	// Ending is closed at shutdown to end watches. nil: they end with their clients.
	Ending <-chan struct{}
}

// Register puts the registrar's services on a server, which NewServer made.
func Register(server grpc.ServiceRegistrar, s Services) {
	if s.Actor == nil {
		s.Actor = func(ctx context.Context) string { return auth.FromContext(ctx).Subject }
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	carillonv1.RegisterScheduleServiceServer(server, &scheduleServer{write: s.Writer, read: s.Reader, alerts: s.Alerts, actor: s.Actor, backfills: s.Backfills, now: s.Now, links: s.Links})
	carillonv1.RegisterWorkflowServiceServer(server, &workflowServer{workflows: s.Workflows, actor: s.Actor})
	carillonv1.RegisterGrantServiceServer(server, &grantServer{grants: s.Grants, actor: s.Actor, now: s.Now})
	carillonv1.RegisterRunServiceServer(server, &runServer{runs: s.Runs, queues: s.Queues, groups: s.Groups, actor: s.Actor, now: s.Now, ending: s.Ending, links: s.Links})
	if s.Groups == nil {
		carillonv1.RegisterGroupServiceServer(server, carillonv1.UnimplementedGroupServiceServer{})
	} else {
		carillonv1.RegisterGroupServiceServer(server, &groupServer{groups: s.Groups, queues: s.Queues, actor: s.Actor})
	}
	if s.Queues == nil {
		carillonv1.RegisterQueueServiceServer(server, carillonv1.UnimplementedQueueServiceServer{})
	} else {
		carillonv1.RegisterQueueServiceServer(server, &queueServer{queues: s.Queues, runs: s.Runs, actor: s.Actor, now: s.Now, ending: s.Ending, links: s.Links, waits: newWaits(s.Queues, cmp.Or(s.EndWaits, mostEndWaits), cmp.Or(s.GrantWaits, mostGrantWaits))})
	}
	if s.Limits == nil {
		carillonv1.RegisterLimitServiceServer(server, carillonv1.UnimplementedLimitServiceServer{})
	} else {
		carillonv1.RegisterLimitServiceServer(server, &limitServer{limits: s.Limits})
	}
	if s.Overlaps == nil {
		carillonv1.RegisterOverlapGroupServiceServer(server, carillonv1.UnimplementedOverlapGroupServiceServer{})
	} else {
		carillonv1.RegisterOverlapGroupServiceServer(server, &overlapServer{overlaps: s.Overlaps, actor: s.Actor})
	}
	if s.Events == nil {
		carillonv1.RegisterEventServiceServer(server, carillonv1.UnimplementedEventServiceServer{})
	} else {
		carillonv1.RegisterEventServiceServer(server, &eventServer{events: s.Events})
	}
	if s.Trail == nil {
		carillonv1.RegisterAuditServiceServer(server, carillonv1.UnimplementedAuditServiceServer{})
	} else {
		carillonv1.RegisterAuditServiceServer(server, &auditServer{trail: s.Trail})
	}
	if s.Alerts == nil {
		carillonv1.RegisterAlertServiceServer(server, carillonv1.UnimplementedAlertServiceServer{})
	} else {
		carillonv1.RegisterAlertServiceServer(server, &alertServer{alerts: s.Alerts, schedules: s.Reader, actor: s.Actor})
	}
	if s.Workers == nil {
		carillonv1.RegisterWorkerServiceServer(server, carillonv1.UnimplementedWorkerServiceServer{})
		return
	}
	carillonv1.RegisterWorkerServiceServer(server, &workerServer{workers: s.Workers, now: s.Now})
}

// RegisterReports puts ReportRun alone on the server of a launcher without the
// registrar's role, for its executors. Every other call is UNIMPLEMENTED there.
func RegisterReports(server grpc.ServiceRegistrar, runs Runs) {
	carillonv1.RegisterRunServiceServer(server, &reportServer{all: &runServer{runs: runs}})
}

type reportServer struct {
	carillonv1.UnimplementedRunServiceServer
	all *runServer
}

func (s *reportServer) ReportRun(ctx context.Context, req *carillonv1.ReportRunRequest) (*carillonv1.ReportRunResponse, error) {
	return s.all.ReportRun(ctx, req)
}
