package client

import carillonv1 "github.com/carillon/carillon/proto/carillon/v1"

func (l *Link) Alerts() carillonv1.AlertServiceClient {
	return carillonv1.NewAlertServiceClient(l.conn)
}

func (l *Link) Audit() carillonv1.AuditServiceClient { return carillonv1.NewAuditServiceClient(l.conn) }

func (l *Link) Events() carillonv1.EventServiceClient {
	return carillonv1.NewEventServiceClient(l.conn)
}

func (l *Link) Grants() carillonv1.GrantServiceClient {
	return carillonv1.NewGrantServiceClient(l.conn)
}

func (l *Link) Groups() carillonv1.GroupServiceClient {
	return carillonv1.NewGroupServiceClient(l.conn)
}

// Launchers is the service of launchers.
func (l *Link) Launchers() carillonv1.RunLauncherClient {
	return carillonv1.NewRunLauncherClient(l.conn)
}

// Overlaps shows and starts overlap groups.
func (l *Link) Overlaps() carillonv1.OverlapGroupServiceClient {
	return carillonv1.NewOverlapGroupServiceClient(l.conn)
}

func (l *Link) Limits() carillonv1.LimitServiceClient {
	return carillonv1.NewLimitServiceClient(l.conn)
}

func (l *Link) Queues() carillonv1.QueueServiceClient {
	return carillonv1.NewQueueServiceClient(l.conn)
}
func (l *Link) Runs() carillonv1.RunServiceClient { return carillonv1.NewRunServiceClient(l.conn) }
func (l *Link) Schedules() carillonv1.ScheduleServiceClient {
	return carillonv1.NewScheduleServiceClient(l.conn)
}

func (l *Link) Workers() carillonv1.WorkerServiceClient {
	return carillonv1.NewWorkerServiceClient(l.conn)
}

func (l *Link) Workflows() carillonv1.WorkflowServiceClient {
	return carillonv1.NewWorkflowServiceClient(l.conn)
}
