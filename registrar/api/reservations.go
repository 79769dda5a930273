package api

import (
	"context"
	"time"

	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

func (s *queueServer) ReserveSlot(ctx context.Context, req *carillonv1.ReserveSlotRequest) (*carillonv1.ReserveSlotResponse, error) {
	done, err := s.queues.Reserve(ctx, registrar.ReserveInput{
		QueueID: req.GetQueueId(), UserID: req.GetUserId(), RequestID: req.GetRequestId(), Limits: req.GetLimits(), HoldMS: req.GetHoldMs(), Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.ReserveSlotResponse{Repeated: done.Repeated}
	if req.GetWaitMs() > 0 && !done.Granted() {
		if done, err = s.granted(ctx, done.ID, time.Duration(req.GetWaitMs())*time.Millisecond); err != nil {
			return nil, err
		}
	}
	resp.Reservation = reservationOf(&done)
	return resp, nil
}

func (s *queueServer) GetReservation(ctx context.Context, req *carillonv1.GetReservationRequest) (*carillonv1.GetReservationResponse, error) {
	id, err := reservationID(req.GetReservationId())
	if err != nil {
		return nil, err
	}
	found, err := s.granted(ctx, id, time.Duration(req.GetWaitMs())*time.Millisecond)
	if err != nil {
		return nil, err
	}
	return &carillonv1.GetReservationResponse{Reservation: reservationOf(&found)}, nil
}

// granted waits for the grant of a reservation, at most for a time, and returns it as it is then.
func (s *queueServer) granted(ctx context.Context, id schedule.Key, wait time.Duration) (registrar.ReservationNow, error) {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		found, err := s.queues.GetReservation(ctx, id, wait > 0)
		if err != nil || wait == 0 || found.Granted() {
			return found, err
		}
		look := time.NewTimer(pause)
		select {
		case <-look.C:
			continue
		case <-deadline.C:
		case <-s.ending: // another process goes on
		case <-ctx.Done():
			look.Stop()
			return registrar.ReservationNow{}, status.FromContextError(ctx.Err()).Err()
		}
		look.Stop()
		return s.queues.GetReservation(ctx, id, true)
	}
}

func (s *queueServer) ListReservations(ctx context.Context, req *carillonv1.ListReservationsRequest) (*carillonv1.ListReservationsResponse, error) {
	list, err := s.queues.ListReservations(ctx, req.GetQueueId())
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.ListReservationsResponse{}
	for i := range list {
		resp.Reservations = append(resp.Reservations, reservationOf(&list[i]))
	}
	return resp, nil
}

func (s *queueServer) ExtendReservation(ctx context.Context, req *carillonv1.ExtendReservationRequest) (*carillonv1.ExtendReservationResponse, error) {
	id, err := reservationID(req.GetReservationId())
	if err != nil {
		return nil, err
	}
	found, err := s.queues.ExtendReservation(ctx, id, req.HoldMs)
	if err != nil {
		return nil, err
	}
	return &carillonv1.ExtendReservationResponse{Reservation: reservationOf(&found)}, nil
}

func (s *queueServer) ReleaseReservation(ctx context.Context, req *carillonv1.ReleaseReservationRequest) (*carillonv1.ReleaseReservationResponse, error) {
	id, err := reservationID(req.GetReservationId())
	if err != nil {
		return nil, err
	}
	before, err := s.queues.ReleaseReservation(ctx, id, s.actor(ctx))
	if err != nil {
		return nil, err
	}
	return &carillonv1.ReleaseReservationResponse{Reservation: reservationOf(&before)}, nil
}

func reservationID(text string) (schedule.Key, error) {
	id, err := schedule.ParseKey(text)
	if err != nil {
		return id, schedule.Invalid("reservation_id", text, "is not 64 hex digits", "")
	}
	return id, nil
}

func reservationOf(r *registrar.ReservationNow) *carillonv1.Reservation {
	return &carillonv1.Reservation{
		ReservationId: r.ID.String(), QueueId: r.QueueID, UserId: r.UserID, RequestedBy: r.RequestedBy, Limits: r.Limits.Texts(), Granted: r.Granted(),
		Position: uint32(r.Position), HoldMs: r.HoldMS, CreatedAt: timestamp(r.CreatedAt), GrantedAt: timestamp(r.GrantedAt), EndsAt: timestamp(r.EndsAt),
	}
}
