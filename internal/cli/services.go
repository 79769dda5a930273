package cli

import carillonv1 "github.com/carillon/carillon/proto/carillon/v1"

func (l *link) alerts() carillonv1.AlertServiceClient {
	return carillonv1.NewAlertServiceClient(l.conn)
}
func (l *link) audit() carillonv1.AuditServiceClient { return carillonv1.NewAuditServiceClient(l.conn) }
func (l *link) grants() carillonv1.GrantServiceClient {
	return carillonv1.NewGrantServiceClient(l.conn)
}
func (l *link) runs() carillonv1.RunServiceClient { return carillonv1.NewRunServiceClient(l.conn) }
func (l *link) schedules() carillonv1.ScheduleServiceClient {
	return carillonv1.NewScheduleServiceClient(l.conn)
}
func (l *link) workers() carillonv1.WorkerServiceClient {
	return carillonv1.NewWorkerServiceClient(l.conn)
}
func (l *link) workflows() carillonv1.WorkflowServiceClient {
	return carillonv1.NewWorkflowServiceClient(l.conn)
}
