package api

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

func (s *queueServer) ReserveSlot(ctx context.Context, req *carillonv1.ReserveSlotRequest) (*carillonv1.ReserveSlotResponse, error) {
	wait := time.Duration(req.GetWaitMs()) * time.Millisecond
	free, err := place(s.waits.grants, wait)
	if err != nil {
		return nil, err
	}
	defer free()
	done, err := s.queues.Reserve(ctx, registrar.ReserveInput{
		QueueID: req.GetQueueId(), UserID: req.GetUserId(), RequestID: req.GetRequestId(), Limits: req.GetLimits(), HoldMS: req.GetHoldMs(), Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.ReserveSlotResponse{Repeated: done.Repeated}
	if wait > 0 && !done.Granted() {
		if done, err = s.granted(ctx, done.ID, wait); err != nil {
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
	wait := time.Duration(req.GetWaitMs()) * time.Millisecond
	free, err := place(s.waits.grants, wait)
	if err != nil { // a look keeps the reservation
		now, missing := s.queues.GetReservation(ctx, id, true)
		switch {
		case missing != nil:
			return nil, missing
		case !now.Granted():
			return nil, err
		}
		return &carillonv1.GetReservationResponse{Reservation: reservationOf(&now)}, nil
	}
	defer free()
	found, err := s.granted(ctx, id, wait)
	if err != nil {
		return nil, err
	}
	return &carillonv1.GetReservationResponse{Reservation: reservationOf(&found)}, nil
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
