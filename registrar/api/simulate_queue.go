package api

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

// maxSimulatedKeys bounds the limit sets in an answer.
const maxSimulatedKeys = 100

func (s *queueServer) SimulateQueue(ctx context.Context, req *carillonv1.SimulateQueueRequest) (*carillonv1.SimulateQueueResponse, error) {
	in := registrar.SimulateQueueInput{
		QueueID: req.GetQueueId(), Empty: req.GetBacklog() == "none", For: millis(req.GetForMs()), Compare: req.GetCompare(), Seed: req.GetSeed(),
	}
	if d := req.GetDefinition(); d != nil {
		in.MaxInFlight, in.Rate, in.PromoteAfter, in.Resumed = d.MaxInFlight, rateOrNil(d.GetRate()), d.PromoteAfterMs, d.GetResumed()
	}
	for _, l := range req.GetLimits() {
		in.Limits = append(in.Limits, registrar.ProposedLimit{Limit: l.GetLimit(), MaxInFlight: l.MaxInFlight, Rate: rateOrNil(l.GetRate())})
	}
	for _, a := range req.GetArrivals() {
		arrivals := registrar.Arrivals{
			Name: a.GetName(), Every: millis(a.GetEveryMs()), Runs: int(a.GetRuns()), Random: a.GetRandom(), Priority: a.GetPriority(), Limits: a.GetLimits(),
			WorkflowID: a.GetWorkflowId(),
		}
		if a.GetRun() != nil {
			run := assumedOf(a.GetRun())
			arrivals.Run = &run
		}
		in.Arrivals = append(in.Arrivals, arrivals)
	}
	for _, d := range req.GetDurations() {
		in.Durations = append(in.Durations, registrar.AssumedDuration{WorkflowID: d.GetWorkflowId(), Run: assumedOf(d.GetRun())})
	}
	done, err := s.queues.SimulateQueue(ctx, in)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.SimulateQueueResponse{Proposed: simulatedQueueOf(&done.Proposed), From: timestamp(done.From), Until: timestamp(done.Until), Assumes: done.Assumes}
	if done.Saved != nil {
		resp.Saved = simulatedQueueOf(done.Saved)
	}
	return resp, nil
}

func rateOrNil(r *carillonv1.Rate) *schedule.RateDefinition {
	if r == nil {
		return nil
	}
	rate := rateFrom(r)
	return &rate
}

func simulatedQueueOf(q *registrar.SimulatedQueue) *carillonv1.SimulatedQueue {
	s := &q.Sums
	n := func(n int) uint32 { return count32(int64(n)) }
	out := &carillonv1.SimulatedQueue{
		MaxInFlight: q.MaxInFlight, Runs: n(s.Runs), Started: n(s.Started), Ended: n(s.Ended), Waiting: n(s.Waiting),
		WaitP50Ms: wait32(s.P50), WaitP90Ms: wait32(s.P90), WaitMaxMs: wait32(s.Max), StartsPerMinute: math.Round(s.PerMinute*1000) / 1000,
		UsedPercent: percent(s.Share), MostInFlight: n(s.Most), LastEndAt: timestamp(s.LastEnd),
	}
	for i := range s.Limits {
		l := &s.Limits[i]
		used := &carillonv1.SimulatedLimit{Limit: l.Ref.String(), MostUsed: n(l.Most), UsedPercent: percent(l.Share)}
		if !l.Unlimited {
			most := n(l.Max)
			used.MaxInFlight = &most
		}
		out.Limits = append(out.Limits, used)
	}
	for i := range s.Longest {
		w := &s.Longest[i]
		wait := &carillonv1.SimulatedWait{Arrivals: q.ArrivalsOf[w.Run.Key], Since: timestamp(w.Since), StartedAt: timestamp(w.Run.Started), WaitMs: wait32(w.Wait)}
		if wait.GetArrivals() == "" {
			wait.IdempotencyKey = w.Run.Key.String()
		}
		out.Longest = append(out.Longest, wait)
	}
	sets := slices.SortedFunc(maps.Keys(s.Keys), func(a, b string) int {
		if n := s.Keys[b].Runs - s.Keys[a].Runs; n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	for _, set := range sets[:min(len(sets), maxSimulatedKeys)] {
		out.Keys = append(out.Keys, simulatedKeyOf(set, s.Keys[set]))
	}
	return out
}

func simulatedKeyOf(set string, w ledger.WaitSums) *carillonv1.SimulatedKey {
	return &carillonv1.SimulatedKey{
		Limits: schedule.Limits(set).Texts(), Runs: count32(int64(w.Runs)), Started: count32(int64(w.Started)),
		WaitP50Ms: wait32(w.P50), WaitP90Ms: wait32(w.P90), WaitMaxMs: wait32(w.Max),
	}
}

func wait32(d time.Duration) uint32 { return count32(d.Milliseconds()) }

func percent(share float64) uint32 { return uint32(math.Round(min(share, 10) * 100)) }
