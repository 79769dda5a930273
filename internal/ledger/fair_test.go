package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// fairModel is a fair queue of one priority, as a list.
type fairModel struct {
	queue   *schedule.Queue
	waiting []*schedule.Run
	shares  map[ledger.FairTurns]int64
	clock   int64
	entered int64
}

func newFairModel(weights map[string]uint32) *fairModel {
	q := &schedule.Queue{No: 1, QueueDefinition: schedule.QueueDefinition{Fair: schedule.FairKey, Weights: weights}}
	return &fairModel{queue: q, shares: make(map[ledger.FairTurns]int64)}
}

func (m *fairModel) enter(keys ...string) {
	var runs []*schedule.Run
	for _, key := range keys {
		m.entered++
		r := &schedule.Run{Queue: schedule.QueuePlace{No: 1, State: schedule.QueueWaiting, FairKey: key, Position: m.entered}}
		runs = append(runs, r)
	}
	draw := ledger.NewFairDraw(runs, map[int32]*schedule.Queue{1: m.queue})
	facts := make(map[ledger.FairTurns]ledger.FairFacts)
	for _, of := range draw.Turns() {
		f := ledger.FairFacts{Share: m.shares[of], Clock: m.clock}
		for _, r := range m.waiting {
			if r.Queue.FairKey == of.Key {
				f.Last = max(f.Last, r.Queue.FairOrder)
			}
		}
		facts[of] = f
	}
	for i, share := range draw.Draw(facts) {
		m.shares[draw.Turns()[i]] = share
	}
	m.waiting = append(m.waiting, runs...)
	slices.SortStableFunc(m.waiting, func(a, b *schedule.Run) int {
		x, y := ledger.Waiting(a), ledger.Waiting(b)
		return ledger.CompareWaiting(&x, &y)
	})
}

// start takes the first run, and returns its key.
func (m *fairModel) start() string {
	r := m.waiting[0]
	m.waiting = m.waiting[1:]
	m.clock = max(m.clock, r.Queue.FairOrder)
	return r.Queue.FairKey
}

func (m *fairModel) waits(key string) bool {
	return slices.ContainsFunc(m.waiting, func(r *schedule.Run) bool { return r.Queue.FairKey == key })
}

// While runs of a key wait, at most floor(w/own)+1 runs of another key with the weight w start
// before the next one of it.
func TestNoKeyWaitsForMoreThanItsTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := make(map[string]uint32)
		var keys []string
		for i := range rapid.IntRange(2, 5).Draw(t, "keys") {
			key := string(rune('a' + i))
			keys = append(keys, key)
			if w := rapid.Uint32Range(0, 12).Draw(t, "weight"); w > 0 {
				weights[key] = w
			}
		}
		m := newFairModel(weights)
		since := make(map[string]map[string]int) // starts of others since a key began to wait or started
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(m.waiting) == 0 || rapid.Bool().Draw(t, "enters") {
				key := rapid.SampledFrom(keys).Draw(t, "key")
				if !m.waits(key) {
					since[key] = make(map[string]int)
				}
				m.enter(slices.Repeat([]string{key}, rapid.IntRange(1, 20).Draw(t, "runs"))...)
				continue
			}
			started := m.start()
			since[started] = make(map[string]int)
			for _, key := range keys {
				if key == started || !m.waits(key) {
					continue
				}
				since[key][started]++
				own, other := m.queue.Weight(key), m.queue.Weight(started)
				if n, most := since[key][started], int(other/own)+1; n > most {
					t.Fatalf("%d starts of %s (weight %d) while %s (weight %d) waits, not at most %d", n, started, other, key, own, most)
				}
			}
		}
	})
}

func TestKeysStartInProportionToTheirWeights(t *testing.T) {
	m := newFairModel(map[string]uint32{"a": 1, "b": 3, "c": 100})
	for range 50 {
		m.enter("a", "b")
		m.enter(slices.Repeat([]string{"c"}, 40)...)
	}
	m.enter(slices.Repeat([]string{"b"}, 200)...)
	counts := make(map[string]int)
	for range 1040 {
		counts[m.start()]++
	}
	if got := fmt.Sprint(counts); got != "map[a:10 b:30 c:1000]" {
		t.Errorf("1040 starts are %s, not map[a:10 b:30 c:1000]", got)
	}
}

func TestADrawIsOnlyForRunsThatBeginToWaitInAFairQueue(t *testing.T) {
	fair := &schedule.Queue{QueueDefinition: schedule.QueueDefinition{Fair: schedule.FairKey}}
	plain := &schedule.Queue{QueueDefinition: schedule.QueueDefinition{Fair: schedule.FairNone}}
	damaged := &schedule.Queue{QueueDefinition: schedule.QueueDefinition{Fair: schedule.FairKey}, Unreadable: true}
	run := func(state schedule.QueueState, order int64) *schedule.Run {
		return &schedule.Run{OverlapKey: "ada/x", Queue: schedule.QueuePlace{No: 1, State: state, FairOrder: order}}
	}
	for name, c := range map[string]struct {
		run   *schedule.Run
		queue *schedule.Queue
		draws bool
	}{
		"it waits":                     {run(schedule.QueueWaiting, 0), fair, true},
		"it has drawn":                 {run(schedule.QueueWaiting, 1), fair, false},
		"it is delayed":                {run(schedule.QueueDelayed, 0), fair, false},
		"it is chained":                {run(schedule.QueueChained, 0), fair, false},
		"its queue is not fair":        {run(schedule.QueueWaiting, 0), plain, false},
		"its queue cannot be read":     {run(schedule.QueueWaiting, 0), damaged, false},
		"its queue is gone":            {run(schedule.QueueWaiting, 0), nil, false},
		"it is outside of any queue":   {&schedule.Run{}, fair, false},
		"it has been admitted already": {run(schedule.QueueDispatching, 0), fair, false},
	} {
		t.Run(name, func(t *testing.T) {
			draws := ledger.NeedsDraw(c.run) && ledger.NewFairDraw([]*schedule.Run{c.run}, map[int32]*schedule.Queue{1: c.queue}) != nil
			if draws != c.draws {
				t.Errorf("it draws: %t, not %t", draws, c.draws)
			}
			if draws && c.run.Queue.FairKey != "ada" {
				t.Errorf("its key is %q, not that of its owner", c.run.Queue.FairKey)
			}
		})
	}
}
