package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// ledgerModel is a ledger in memory that is judged by the same judge as the
// store: whatever history the two are taken through, their rows must agree.
type ledgerModel struct {
	runs []*schedule.Run
}

// group is what the store must show of one overlap key; asked says whether it
// must show it at all.
func (m *ledgerModel) group(key string, now time.Time) (g schedule.OverlapGroup, asked bool) {
	g.OverlapKey = key
	for _, run := range m.runs {
		switch {
		case run.OverlapKey != key:
		case run.Status.InFlight():
			g.InFlight = append(g.InFlight, *run)
		case run.Status != schedule.StatusPlanned:
		case !run.WaitingSince.IsZero():
			g.Waiting = append(g.Waiting, *run)
		case !run.FireAt.After(now) && run.Exclusive:
			g.Due = append(g.Due, *run)
		}
	}
	slices.SortFunc(g.Waiting, byInstant)
	slices.SortFunc(g.Due, byInstant) // one trigger and priority: claim order is the same
	return g, len(g.Due) > 0 || len(g.Waiting) > 0 && len(g.InFlight) == 0
}

func (m *ledgerModel) run(key schedule.Key) *schedule.Run {
	i := slices.IndexFunc(m.runs, func(run *schedule.Run) bool { return run.Key == key })
	return m.runs[i]
}

func (m *ledgerModel) claim(keys []string, now time.Time) {
	for _, key := range keys {
		g, asked := m.group(key, now)
		if !asked {
			continue
		}
		for _, v := range judge(g) {
			run := m.run(v.Key)
			switch v.Action {
			case schedule.VerdictClaim:
				run.Status, run.WaitingSince = schedule.StatusLaunching, time.Time{}
			case schedule.VerdictWait:
				if run.WaitingSince = now; !v.Since.IsZero() {
					run.WaitingSince = v.Since
				}
			case schedule.VerdictSkip:
				run.Status, run.Reason, run.WaitingSince = schedule.StatusSkipped, v.Reason, time.Time{}
			case schedule.VerdictCancel:
				if run.CancelRequestedAt.IsZero() {
					run.CancelRequestedAt, run.CancelReason = now, v.Reason
				}
			}
		}
	}
}

// overlapHistories takes overlap keys, one policy each, through random slots,
// claims and ends.
func overlapHistories(r *rig) {
	r.lead()
	for seed := range uint64(3) {
		r.overlapHistory(seed)
	}
}

func (r *rig) overlapHistory(seed uint64) {
	random := rand.New(rand.NewPCG(20_260_302, seed))
	var schedules []schedule.Schedule
	var keys []string
	for i, policy := range []schedule.OverlapPolicy{schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapReplace, schedule.OverlapQueue, schedule.OverlapCoalesce, schedule.OverlapCoalesce} {
		s := r.create(fmt.Sprint(seed, "-", i, "-", policy), withPolicy(policy), func(s *schedule.Schedule) { s.MaxQueued = uint32(1 + i) })
		schedules, keys = append(schedules, s), append(keys, s.QualifiedOverlapKey())
	}
	var model ledgerModel
	for step := range 60 {
		r.now = r.at(time.Second)
		switch random.IntN(3) {
		case 0:
			s := schedules[random.IntN(len(schedules))]
			run := r.add(r.slot(s, r.now))[0]
			model.runs = append(model.runs, &run)
		case 1:
			r.claim(func(req *claimRequest) { req.Grace = time.Hour })
			model.claim(keys, r.now)
			r.agree(&model, fmt.Sprintf("seed %d, step %d", seed, step))
		case 2:
			r.endOne(&model, random)
		}
	}
	r.agree(&model, fmt.Sprintf("seed %d, at the end", seed))
}

// endOne ends a run in flight, if there is any.
func (r *rig) endOne(model *ledgerModel, random *rand.Rand) {
	var flying []*schedule.Run
	for _, run := range model.runs {
		if run.Status.InFlight() {
			flying = append(flying, run)
		}
	}
	if len(flying) == 0 {
		return
	}
	run := flying[random.IntN(len(flying))]
	run.Status, run.Reason = schedule.StatusSuccess, schedule.ReasonNone
	if run.CancelReason != schedule.ReasonNone {
		run.Status, run.Reason = schedule.StatusCancelled, run.CancelReason
	}
	r.hold(r.settle(schedule.Settlement{Key: run.Key, To: run.Status, Reason: run.Reason})[0], "a run in flight ends")
}

// agree fails unless store and model hold the same rows.
func (r *rig) agree(model *ledgerModel, when string) {
	r.Helper()
	for _, want := range model.runs {
		got := r.ledger(want.Key)
		r.hold(got.Status == want.Status && got.Reason == want.Reason &&
			got.WaitingSince.Equal(want.WaitingSince) && got.CancelRequestedAt.Equal(want.CancelRequestedAt) && got.CancelReason == want.CancelReason,
			"%s: %s of %s is %s(%s), waiting since %v, cancel %v; the store has %s(%s), %v, %v", when, want.RunAt, want.ScheduleID,
			want.Status, want.Reason, want.WaitingSince, want.CancelRequestedAt, got.Status, got.Reason, got.WaitingSince, got.CancelRequestedAt)
	}
}
