package storetest

import (
	"embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// The histories are random programs over everything that a store can do, with
// the answers that were agreed on: whatever the prose leaves open, both stores
// answer the same. To record them again after a change of the contract, run one
// store's test with CARILLON_RECORD_HISTORIES=1 and the other's without, and
// read the diff.

//go:embed testdata/history-*.txt
var recorded embed.FS

var histories = []check{
	{"a random history is answered as it was recorded (1)", func(r *rig) { r.replay(1) }},
	{"a random history is answered as it was recorded (2)", func(r *rig) { r.replay(2) }},
	{"a random history is answered as it was recorded (3)", func(r *rig) { r.replay(3) }},
}

// history is one program under way.
type history struct {
	*rig
	random *rand.Rand
	lines  []string
	names  map[schedule.Key]string
	shown  map[string]string // by what it is of, the line that was dumped last
	turn   int
}

func (r *rig) replay(seed uint64) {
	r.name, r.user, r.term.Shard = "h", "h-owner", 1 // the same in every run: ties are broken by keys
	h := &history{rig: r, random: rand.New(rand.NewPCG(20_260_302, seed)), names: map[schedule.Key]string{}, shown: map[string]string{}}
	h.lead()
	for i, policy := range []schedule.OverlapPolicy{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapReplace} {
		h.create(string(policy), planAt(h.at(10*time.Second)), withPolicy(policy), func(s *schedule.Schedule) {
			s.MaxQueued, s.RunTimeoutMS, s.Priority = 2, 60_000, int32(i%2)
			if policy != schedule.OverlapReplace { // two policies under one key
				s.OverlapKey = fmt.Sprint("key-", i/2)
			}
		})
	}
	for h.turn = range 120 {
		h.now = h.at(time.Duration(h.random.IntN(8)) * time.Second)
		h.do()
		if h.turn%4 == 3 {
			h.dump()
		}
	}
	h.compare(fmt.Sprintf("testdata/history-%d.txt", seed))
}

// do does one random thing.
func (h *history) do() {
	deeds := []func(){
		h.planSome, h.planSome, h.claimSome, h.claimSome, h.claimSome, h.settleSome, h.settleSome, h.settleSome,
		h.beginSome, h.beginSome, h.reclaimSome, h.sweepSome, h.changeOne, h.addOne, h.cancelOne, h.retryOne, h.look,
	}
	deeds[h.random.IntN(len(deeds))]()
}

func (h *history) say(format string, args ...any) {
	h.lines = append(h.lines, fmt.Sprintf("%s  ", h.clock(h.now))+fmt.Sprintf(format, args...))
}

// clock is an instant as seconds after noon; "-" is none.
func (h *history) clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%+ds", t.Sub(noon)/time.Second)
}

// called names a run as a reader can find it.
func (h *history) called(run schedule.Run) string {
	if name, known := h.names[run.Key]; known {
		return name
	}
	name := fmt.Sprintf("%s/%s%s", strings.TrimPrefix(run.ScheduleID, h.name+"."), run.Trigger, h.clock(run.RunAt))
	if n := len(h.names); run.Trigger != schedule.TriggerSchedule {
		name += fmt.Sprint("#", n)
	}
	h.names[run.Key] = name
	return name
}

func (h *history) nameAll(keys []schedule.Key) string {
	var names []string
	for _, key := range keys {
		names = append(names, h.called(h.ledger(key)))
	}
	return strings.Join(names, " ")
}

// inStatus are the rows of a status, oldest slot first.
func (h *history) inStatus(statuses ...schedule.Status) []schedule.Run {
	runs, err := h.ListRuns(h.ctx, schedule.RunFilter{Statuses: statuses, Now: h.at(time.Hour), Limit: 1000})
	h.ok(err, "list runs")
	slices.SortFunc(runs, byInstant)
	return runs
}

func pick[T any](h *history, from []T) (T, bool) {
	if len(from) == 0 {
		var none T
		return none, false
	}
	return from[h.random.IntN(len(from))], true
}

// planSome plans every tenth second, and judges what is late in turn.
func (h *history) planSome() {
	result, seen := h.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
		d := keep(c)
		d.EndPause = c.Schedule.Pause.Paused
		for d.NextRunAt.Before(h.at(30 * time.Second)) {
			d.Rows = append(d.Rows, h.slot(c.Schedule, d.NextRunAt))
			d.NextRunAt = d.NextRunAt.Add(10 * time.Second)
		}
		d.PlanAt = d.NextRunAt
		for i, run := range c.Late {
			d.LateVerdicts = append(d.LateVerdicts, schedule.LateVerdict{
				Key: run.Key, Fire: i%2 == 0, FireAt: h.at(time.Second), Trigger: schedule.TriggerCatchup, Reason: schedule.ReasonMissed,
			})
		}
		return d
	}, func(req *schedule.PlanRequest) {
		req.Horizon, req.Grace = h.at(15*time.Second), 20*time.Second
	})
	var late int
	for _, c := range seen {
		late += len(c.Late)
	}
	ids := idsOf(seen)
	slices.Sort(ids)
	h.say("plan %s: %d new, %d late, %d skipped", strings.Join(ids, " "), result.Inserted, late, len(result.Skipped))
}

func (h *history) claimSome() {
	limit := h.random.IntN(5)
	result := h.claim(func(req *claimRequest) {
		req.Limit, req.Grace, req.Lease = limit, 20*time.Second, 10*time.Second
	})
	var ended []string
	for _, s := range result.Skipped {
		ended = append(ended, fmt.Sprintf("%s:%s(%s)", h.called(h.ledger(s.Key)), s.To, s.Reason))
	}
	slices.Sort(ended)
	cancels := keysOf(result.Cancels)
	slices.SortFunc(cancels, compareKeys)
	h.say("claim %d: launched [%s], ended %v, %d began to wait, cancels [%s], more %v",
		limit, h.nameAll(launched(result)), ended, result.Waiting, h.nameAll(cancels), result.More)
}

func (h *history) settleSome() {
	var settlements []schedule.Settlement
	for _, run := range h.inStatus(schedule.StatusLaunching, schedule.StatusEnqueued, schedule.StatusStarted) {
		if h.random.IntN(2) == 0 {
			continue
		}
		to, _ := pick(h, schedule.Statuses[1:])
		settlement := schedule.Settlement{Key: run.Key, To: to, RunID: fmt.Sprint("run-", h.turn)}
		switch to {
		case schedule.StatusLaunching:
			settlement.ClaimedUntil = h.at(5 * time.Second)
		case schedule.StatusEnqueued, schedule.StatusStarted:
			settlement.LaunchedAt, settlement.TimeoutAt = h.now, h.at(time.Minute)
		case schedule.StatusFailed:
			settlement.Reason, settlement.ErrorCode, settlement.LaunchedAt = schedule.ReasonWorkflowFailed, "E", h.now
		}
		settlements = append(settlements, settlement)
	}
	moved := h.settle(settlements...)
	for i, settlement := range settlements {
		h.say("settle %s to %s: %v", h.called(h.ledger(settlement.Key)), settlement.To, moved[i])
	}
}
