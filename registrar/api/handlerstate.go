package api

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

func (s *eventServer) GetHandlerState(ctx context.Context, req *carillonv1.GetHandlerStateRequest) (*carillonv1.GetHandlerStateResponse, error) {
	state, err := s.events.GetState(ctx, req.GetScheduleId())
	if err != nil {
		return nil, err
	}
	return &carillonv1.GetHandlerStateResponse{Handler: stateOf(req.GetScheduleId(), &state)}, nil
}

func (s *eventServer) SetHandlerState(ctx context.Context, req *carillonv1.SetHandlerStateRequest) (*carillonv1.SetHandlerStateResponse, error) {
	state, err := s.events.SetState(ctx, registrar.StateInput{
		ScheduleID: req.GetScheduleId(), State: req.GetState(), Revision: int64(req.GetStateRevision()),
	})
	if err != nil {
		return nil, err
	}
	return &carillonv1.SetHandlerStateResponse{Handler: stateOf(req.GetScheduleId(), &state)}, nil
}

func stateOf(scheduleID string, s *schedule.State) *carillonv1.HandlerState {
	return &carillonv1.HandlerState{ScheduleId: scheduleID, State: s.Value, StateRevision: uint32(s.Revision), Run: keyText(s.Run), UpdatedAt: timestamp(s.At)}
}
