package api

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Alerts answers the calls about alerts; *alert.Desk implements it.
type Alerts interface {
	Expectations(ctx context.Context, scheduleID string) ([]schedule.ExpectationState, error)
	Alerts(ctx context.Context, f schedule.AlertFilter) ([]schedule.Alert, error)
	Alert(ctx context.Context, alertID string) (*schedule.Alert, error)
	Acknowledge(ctx context.Context, ack schedule.AlertAck) (*schedule.Alert, error)
	Deliveries(ctx context.Context, f schedule.DeliveryFilter) ([]schedule.AlertDelivery, error)
	Redeliver(ctx context.Context, deliveryID string) (*schedule.AlertDelivery, error)
	Test(ctx context.Context, target string) ([]schedule.AlertDelivery, error)
}

type alertServer struct {
	carillonv1.UnimplementedAlertServiceServer
	alerts    Alerts
	schedules ScheduleReader
	actor     func(context.Context) string
}

func (s *alertServer) ListAlerts(ctx context.Context, req *carillonv1.ListAlertsRequest) (*carillonv1.ListAlertsResponse, error) {
	after, afterID, err := alertsPage.place(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	scheduleID, err := s.schedules.ScheduleID(ctx, req.GetScheduleId())
	if err != nil {
		return nil, err
	}
	f := schedule.AlertFilter{
		UserID: req.GetUserId(), ScheduleID: scheduleID, Kind: schedule.ExpectationKind(req.GetKind()),
		AfterOpened: after, AfterID: afterID, Limit: size + 1,
	}
	if req.State != nil {
		open := req.GetState() == "open"
		f.Open = &open
	}
	found, err := s.alerts.Alerts(ctx, f)
	if err != nil {
		return nil, err
	}
	shown, more := page(found, size, small[schedule.Alert])
	resp := &carillonv1.ListAlertsResponse{}
	for i := range shown {
		resp.Alerts = append(resp.Alerts, alertOf(&shown[i]))
	}
	if more {
		last := &shown[len(shown)-1]
		resp.NextPageToken = alertsPage.at(last.OpenedAt, last.AlertID)
	}
	return resp, nil
}

func (s *alertServer) GetAlert(ctx context.Context, req *carillonv1.GetAlertRequest) (*carillonv1.GetAlertResponse, error) {
	found, err := s.alerts.Alert(ctx, req.GetAlertId())
	if err != nil {
		return nil, err
	}
	return &carillonv1.GetAlertResponse{Alert: alertOf(found)}, nil
}

func (s *alertServer) AcknowledgeAlert(ctx context.Context, req *carillonv1.AcknowledgeAlertRequest) (*carillonv1.AcknowledgeAlertResponse, error) {
	found, err := s.alerts.Acknowledge(ctx, schedule.AlertAck{AlertID: req.GetAlertId(), By: s.actor(ctx), Note: req.GetNote()})
	if err != nil {
		return nil, err
	}
	return &carillonv1.AcknowledgeAlertResponse{Alert: alertOf(found)}, nil
}

func (s *alertServer) ListAlertDeliveries(ctx context.Context, req *carillonv1.ListAlertDeliveriesRequest) (*carillonv1.ListAlertDeliveriesResponse, error) {
	after, afterID, err := deliveriesPage.place(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	found, err := s.alerts.Deliveries(ctx, schedule.DeliveryFilter{
		Runs: req.GetRuns(), AlertID: req.GetAlertId(), ScheduleID: req.GetScheduleId(), State: schedule.DeliveryState(req.GetState()),
		AfterCreated: after, AfterID: afterID, Limit: size + 1,
	})
	if err != nil {
		return nil, err
	}
	shown, more := page(found, size, small[schedule.AlertDelivery])
	resp := &carillonv1.ListAlertDeliveriesResponse{Deliveries: deliveriesOf(shown)}
	if more {
		last := &shown[len(shown)-1]
		resp.NextPageToken = deliveriesPage.at(last.CreatedAt, last.DeliveryID)
	}
	return resp, nil
}

func (s *alertServer) RedeliverAlert(ctx context.Context, req *carillonv1.RedeliverAlertRequest) (*carillonv1.RedeliverAlertResponse, error) {
	found, err := s.alerts.Redeliver(ctx, req.GetDeliveryId())
	if err != nil {
		return nil, err
	}
	return &carillonv1.RedeliverAlertResponse{Delivery: deliveriesOf([]schedule.AlertDelivery{*found})[0]}, nil
}

func (s *alertServer) TestAlerts(ctx context.Context, req *carillonv1.TestAlertsRequest) (*carillonv1.TestAlertsResponse, error) {
	sent, err := s.alerts.Test(ctx, req.GetTarget())
	if err != nil {
		return nil, err
	}
	return &carillonv1.TestAlertsResponse{Deliveries: deliveriesOf(sent)}, nil
}

func alertOf(a *schedule.Alert) *carillonv1.Alert {
	return &carillonv1.Alert{
		AlertId: a.AlertID, ScheduleId: a.ScheduleID, WorkflowId: a.WorkflowID, UserId: a.UserID, Kind: string(a.Kind),
		Revision: count32(a.Revision), LimitMs: a.LimitMS, Cause: string(a.Cause), Late: count32(a.Late),
		FirstSlot: timestamp(a.FirstSlot), LastSlot: timestamp(a.LastSlot), Deadline: timestamp(a.Deadline),
		OpenedAt: timestamp(a.OpenedAt), ClosedAt: timestamp(a.ClosedAt), Resolution: string(a.Resolution),
		AckedAt: timestamp(a.AckedAt), AckedBy: a.AckedBy, AckNote: a.AckNote, IdempotencyKey: keyText(a.RunKey), Detail: a.Detail,
	}
}

func deliveriesOf(found []schedule.AlertDelivery) []*carillonv1.AlertDelivery {
	out := make([]*carillonv1.AlertDelivery, len(found))
	for i := range found {
		d := &found[i]
		out[i] = &carillonv1.AlertDelivery{
			DeliveryId: d.DeliveryID, AlertId: d.AlertID, ScheduleId: d.ScheduleID, UserId: d.UserID, Type: d.Type,
			Host: d.Host, Target: d.Target, TargetKind: d.TargetKind, State: string(d.State), Attempts: count32(int64(d.Attempts)),
			LastStatus: count32(int64(d.LastStatus)), LastError: d.LastError,
			CreatedAt: timestamp(d.CreatedAt), EndedAt: timestamp(d.EndedAt), Disabled: d.Disabled, IdempotencyKey: keyText(d.RunKey),
		}
		if d.State == schedule.DeliveryPending {
			out[i].NextAt = timestamp(d.NextAt)
		}
	}
	return out
}

// at encodes the position of a row in a list ordered by time and id.
func (k kind) at(at time.Time, id string) string {
	return k.token(strconv.FormatInt(at.UnixMicro(), 10) + "." + id)
}

// place decodes a token of at; zero without a token.
func (k kind) place(token string) (at time.Time, id string, err error) {
	key, err := k.key(token)
	if err != nil || key == "" {
		return at, "", err
	}
	micros, id, _ := strings.Cut(key, ".")
	unix, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || unix < 1 || unix >= schedule.MaxTime.UnixMicro() || !schedule.ValidID(id) || k.at(time.UnixMicro(unix), id) != token {
		return at, "", forged(token)
	}
	return time.UnixMicro(unix).UTC(), id, nil
}
