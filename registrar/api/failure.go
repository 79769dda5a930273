package api

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// addRecent adds how the newest runs of a schedule ended.
func addRecent(out *carillonv1.Schedule, recent *schedule.Recent) {
	for i := range recent.Outcomes {
		out.RecentOutcomes = append(out.RecentOutcomes, string(recent.Outcomes[i].Status))
	}
	if len(recent.Outcomes) > 0 {
		last := &recent.Outcomes[0]
		out.LastOutcome = &carillonv1.ScheduleOutcome{
			Status: string(last.Status), Reason: string(last.Reason), ErrorCode: last.ErrorCode,
			RunAt: timestamp(last.RunAt), EndedAt: timestamp(last.EndedAt), IdempotencyKey: last.Key.String(),
		}
	}
	if f := recent.Failure; f != nil {
		out.Failure = &carillonv1.ScheduleFailure{
			Failures: count32(f.Failures), FirstAt: timestamp(f.FirstEndedAt), LastAt: timestamp(f.LastEndedAt),
			Reason: string(f.Reason), ErrorCode: f.ErrorCode, ErrorMessage: f.ErrorMessage, IdempotencyKey: f.LastKey.String(),
			FirstRunAt: timestamp(f.FirstRunAt), LastRunAt: timestamp(f.LastRunAt),
		}
	}
}

func (s *scheduleServer) GroupFailures(ctx context.Context, req *carillonv1.GroupFailuresRequest) (*carillonv1.GroupFailuresResponse, error) {
	groups, err := s.read.FailureGroups(ctx, req.GetUserId())
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.GroupFailuresResponse{}
	total := int64(0)
	for i := range groups {
		g := &groups[i]
		total += g.Schedules
		resp.Groups = append(resp.Groups, &carillonv1.FailureGroup{
			Reason: string(g.Reason), ErrorCode: g.ErrorCode, Schedules: count32(g.Schedules), Failures: count32(g.Failures),
			FirstAt: timestamp(g.FirstAt), LastAt: timestamp(g.LastAt), Examples: g.Examples,
		})
	}
	resp.Schedules = count32(total)
	return resp, nil
}

// keyText is empty for no key.
func keyText(k schedule.Key) string {
	if k.IsZero() {
		return ""
	}
	return k.String()
}
