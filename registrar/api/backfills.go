package api

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

// Backfills runs past slots; *registrar.Registrar is one.
type Backfills interface {
	Backfill(ctx context.Context, in registrar.BackfillInput) (registrar.BackfillResult, error)
	GetBackfill(ctx context.Context, backfillID string) (*schedule.Backfill, error)
	// ListBackfills returns backfills, newest first.
	ListBackfills(ctx context.Context, f schedule.BackfillFilter) ([]schedule.Backfill, error)
	PauseBackfill(ctx context.Context, in registrar.BackfillChangeInput) (*schedule.Backfill, error)
	ResumeBackfill(ctx context.Context, in registrar.BackfillChangeInput) (*schedule.Backfill, error)
	CancelBackfill(ctx context.Context, in registrar.BackfillChangeInput) (*schedule.Backfill, error)
}

const backfillsPage kind = "b"

func (s *scheduleServer) BackfillSchedule(ctx context.Context, req *carillonv1.BackfillScheduleRequest) (*carillonv1.BackfillScheduleResponse, error) {
	done, err := s.backfills.Backfill(ctx, registrar.BackfillInput{
		ScheduleID: req.GetScheduleId(), From: fromTimestamp(req.GetFrom()), To: fromTimestamp(req.GetTo()),
		Reprocess: schedule.Reprocess(req.GetReprocess()), Order: schedule.BackfillOrder(req.GetOrder()),
		OverlapPolicy: schedule.OverlapPolicy(req.GetOverlapPolicy()),
		Concurrency:   int32(req.GetConcurrency()), RatePerMinute: int32(req.GetRatePerMinute()), // bounded by their rules
		Note: req.GetNote(), RequestID: req.GetRequestId(), DryRun: req.GetDryRun(), Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.BackfillScheduleResponse{
		Count: int32(done.Count), Slots: int32(done.Slots), First: timestamp(done.First), Last: timestamp(done.Last),
	}
	if done.Backfill != nil {
		resp.Backfill = backfillOf(done.Backfill, s.now())
	}
	return resp, nil
}

func (s *scheduleServer) GetBackfill(ctx context.Context, req *carillonv1.GetBackfillRequest) (*carillonv1.GetBackfillResponse, error) {
	b, err := s.backfills.GetBackfill(ctx, req.GetBackfillId())
	if err != nil {
		return nil, err
	}
	return &carillonv1.GetBackfillResponse{Backfill: backfillOf(b, s.now())}, nil
}

func (s *scheduleServer) ListBackfills(ctx context.Context, req *carillonv1.ListBackfillsRequest) (*carillonv1.ListBackfillsResponse, error) {
	at, id, err := backfillAfter(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	rows, err := s.backfills.ListBackfills(ctx, schedule.BackfillFilter{
		ScheduleID: req.GetScheduleId(), UserID: req.GetUserId(), State: schedule.BackfillState(req.GetState()),
		BeforeAt: at, BeforeID: id, Limit: size + 1,
	})
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, small)
	resp := &carillonv1.ListBackfillsResponse{}
	for i := range shown {
		resp.Backfills = append(resp.Backfills, backfillOf(&shown[i], s.now()))
	}
	if more {
		last := &shown[len(shown)-1]
		resp.NextPageToken = backfillPlace(last.CreatedAt, last.BackfillID)
	}
	return resp, nil
}

func (s *scheduleServer) PauseBackfill(ctx context.Context, req *carillonv1.PauseBackfillRequest) (*carillonv1.PauseBackfillResponse, error) {
	b, err := s.backfills.PauseBackfill(ctx, registrar.BackfillChangeInput{BackfillID: req.GetBackfillId(), Note: req.GetNote(), Actor: s.actor(ctx)})
	if err != nil {
		return nil, err
	}
	return &carillonv1.PauseBackfillResponse{Backfill: backfillOf(b, s.now())}, nil
}

func (s *scheduleServer) ResumeBackfill(ctx context.Context, req *carillonv1.ResumeBackfillRequest) (*carillonv1.ResumeBackfillResponse, error) {
	b, err := s.backfills.ResumeBackfill(ctx, registrar.BackfillChangeInput{BackfillID: req.GetBackfillId(), Note: req.GetNote(), Actor: s.actor(ctx)})
	if err != nil {
		return nil, err
	}
	return &carillonv1.ResumeBackfillResponse{Backfill: backfillOf(b, s.now())}, nil
}

func (s *scheduleServer) CancelBackfill(ctx context.Context, req *carillonv1.CancelBackfillRequest) (*carillonv1.CancelBackfillResponse, error) {
	b, err := s.backfills.CancelBackfill(ctx, registrar.BackfillChangeInput{
		BackfillID: req.GetBackfillId(), Note: req.GetNote(), CancelRuns: req.GetCancelRuns(), Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &carillonv1.CancelBackfillResponse{Backfill: backfillOf(b, s.now())}, nil
}

func backfillPlace(at time.Time, id string) string {
	return backfillsPage.token(strconv.FormatInt(at.UnixMicro(), 10) + "." + id)
}

func backfillAfter(token string) (at time.Time, id string, err error) {
	place, err := backfillsPage.key(token)
	if err != nil || place == "" {
		return at, "", err
	}
	micros, id, _ := strings.Cut(place, ".")
	unix, err := strconv.ParseInt(micros, 10, 64)
	at = time.UnixMicro(unix).UTC()
	if err != nil || unix < 0 || unix >= schedule.MaxTime.UnixMicro() || !schedule.ValidID(id) || backfillPlace(at, id) != token {
		return time.Time{}, "", forged(token)
	}
	return at, id, nil
}

func backfillOf(b *schedule.Backfill, now time.Time) *carillonv1.Backfill {
	return &carillonv1.Backfill{
		BackfillId: b.BackfillID, ScheduleId: b.ScheduleID, RequestId: b.RequestID, UserId: b.UserID, Revision: int32(b.Revision),
		From: timestamp(b.From), To: timestamp(b.To), Reprocess: string(b.Reprocess), Order: string(b.Order),
		OverlapPolicy: string(b.OverlapPolicy), Concurrency: b.Concurrency, RatePerMinute: b.RatePerMinute,
		Note: b.Note, CreatedBy: b.CreatedBy, State: string(b.State), Reason: string(b.Reason), StateNote: b.StateNote, ChangedBy: b.ChangedBy,
		Progress: &carillonv1.BackfillProgress{
			Total: int32(b.Slots), ToRun: int32(b.ToRun), PassedOver: int32(b.PassedOver), Started: int32(b.Started()), InFlight: int32(b.InFlight),
			Succeeded: int32(b.Succeeded), Failed: int32(b.Failed), Skipped: int32(b.Skipped), Cancelled: int32(b.Cancelled),
			Remaining: int32(b.Remaining()), Waiting: int32(b.Waiting), Eta: timestamp(b.ETA(now)), NotRun: int32(b.NotRun()),
		},
		CreatedAt: timestamp(b.CreatedAt), UpdatedAt: timestamp(b.UpdatedAt), EndedAt: timestamp(b.EndedAt),
	}
}
