package api

import (
	"context"
	"math"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/explain"
)

func (s *scheduleServer) ExplainSlot(ctx context.Context, req *carillonv1.ExplainSlotRequest) (*carillonv1.ExplainSlotResponse, error) {
	var a explain.Answer
	var err error
	switch {
	case req.GetTime() != nil && req.GetLocal() != "":
		err = schedule.Invalid("local", req.GetLocal(), "cannot be combined with time", "give one of them")
	case req.GetTime() != nil:
		a, err = s.read.Explain(ctx, req.GetScheduleId(), req.GetTime().AsTime())
	case req.GetLocal() != "":
		a, err = s.read.ExplainReading(ctx, req.GetScheduleId(), req.GetLocal())
	default:
		a, err = s.read.ExplainLast(ctx, req.GetScheduleId())
	}
	if err != nil {
		return nil, err
	}
	resp := explanationOf(&a)
	if resp.Run != nil {
		s.links.add(resp.Run)
	}
	return resp, nil
}

func explainedReading(a *explain.Answer) *carillonv1.ExplainedReading {
	r := a.Reading
	if r == nil {
		return nil
	}
	const layout = "2006-01-02T15:04:05"
	out := &carillonv1.ExplainedReading{Local: r.Shown.Format(layout), Timezone: r.Zone, Shown: 1}
	switch {
	case r.Skipped():
		out.Shown, out.GapFrom, out.GapTo = 0, r.From.Format(layout), r.To.Format(layout)
	case a.Second != nil:
		out.Shown = 2
		out.Second = &carillonv1.ExplainedPass{
			Time: timestamp(a.Second.At), Verdict: string(a.Second.Verdict), Reason: string(a.Second.Why), Detail: a.Second.Detail,
			Sentences: a.Second.Sentences(), Slot: explainedSlot(a.Second.Slot),
		}
		if a.Second.Run != nil {
			out.Second.Run = runOf(a.Second.Run)
		}
	}
	return out
}

func explanationOf(a *explain.Answer) *carillonv1.ExplainSlotResponse {
	out := &carillonv1.ExplainSlotResponse{
		ScheduleId: a.ScheduleID, Time: timestamp(a.At), Now: timestamp(a.Now),
		Verdict: string(a.Verdict), Reason: string(a.Why), Detail: a.Detail, Sentences: a.Sentences(),
		Slot: explainedSlot(a.Slot), Before: explainedSlot(a.Previous), After: explainedSlot(a.Next), Rule: explainedRule(a.Rule),
		LatenessMs: span32(a.Lateness()), DriftMs: span32(a.Drift()),
		Others: explainedRuns(a.Others), Blocking: explainedRuns(a.Blocking),
		Range:     explainedRange(a.Range),
		Reading:   explainedReading(a),
		Gaps:      explainedGaps(a.Gaps),
		CreatedAt: timestamp(a.CreatedAt), CreatedBy: a.CreatedBy, DeletedAt: timestamp(a.DeletedAt), DeletedBy: a.DeletedBy,
		KeptSince: timestamp(a.KeptSince),
	}
	out.WouldStart = startOf(a.WouldStart)
	if a.Run != nil {
		out.Run = runOf(a.Run)
		out.Run.Launch = launchOf(a.Run, a.Attempts)
	}
	if p := a.Pause; p != nil {
		out.Pause = &carillonv1.ExplainedPause{From: timestamp(p.From), By: p.By, Note: p.Note, Until: timestamp(p.Until), EndedBy: p.EndedBy}
	}
	return out
}

// span32 is a duration in milliseconds; null if unknown.
func span32(d time.Duration, ok bool) *uint32 {
	if !ok {
		return nil
	}
	ms := uint32(min(max(d.Milliseconds(), 0), math.MaxUint32))
	return &ms
}

func explainedRuns(runs []schedule.Run) (out []*carillonv1.Run) {
	for i := range runs {
		out = append(out, runOf(&runs[i]))
	}
	return out
}

func explainedGaps(gaps []explain.Gap) (out []*carillonv1.LeadershipGap) {
	for _, g := range gaps {
		out = append(out, &carillonv1.LeadershipGap{Shard: uint32(g.Shard), From: timestamp(g.From), Until: timestamp(g.Until), Reason: string(g.Reason)})
	}
	return out
}

func explainedSlot(s *explain.Slot) *carillonv1.ExplainedSlot {
	if s == nil {
		return nil
	}
	out := &carillonv1.ExplainedSlot{RunAt: timestamp(s.RunAt), FireAt: timestamp(s.FireAt), Local: s.Local, Note: s.Note}
	if s.Run != nil {
		out.IdempotencyKey, out.Status, out.Reason = s.Run.Key.String(), string(s.Run.Status), string(s.Run.Reason)
	}
	return out
}

func explainedRule(r *explain.Rule) *carillonv1.ExplainedRule {
	if r == nil {
		return nil
	}
	d := r.Definition
	return &carillonv1.ExplainedRule{
		Words: r.Words, CronExpr: d.CronExpr, IntervalMs: d.IntervalMS, OnceAt: timestamp(d.OnceAt), Timezone: d.Timezone,
		StartAt: timestamp(d.StartAt), EndAt: timestamp(d.EndAt), JitterMs: d.JitterMS, Dst: string(d.DST),
		OverlapPolicy: string(d.OverlapPolicy), CatchupPolicy: string(d.CatchupPolicy),
		Revision: count32(r.Revision), MadeAt: timestamp(r.MadeAt), MadeBy: r.MadeBy, ReplacedAt: timestamp(r.ReplacedAt),
	}
}

func explainedRange(e *schedule.Event) *carillonv1.ExplainedRange {
	if e == nil {
		return nil
	}
	return &carillonv1.ExplainedRange{
		Kind: string(e.Kind), From: timestamp(e.From), To: timestamp(e.To), Count: count32(e.Count), Reason: string(e.Reason),
		Note: e.Note, RecordedAt: timestamp(e.Time), Actor: e.Actor,
	}
}
