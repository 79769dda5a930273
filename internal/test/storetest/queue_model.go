package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule"
)

// queueModels compare random histories of a dispatch queue with a sorted list.
var queueModels = []check{
	{"runs that are put at places, admitted and ended follow a sorted list", func(r *rig) { r.followsList(true) }},
	{"runs that change, wait again and fail follow a sorted list", func(r *rig) { r.followsList(false) }},
}

// drawn is a testing.TB for one history of rapid.
type drawn struct {
	testing.TB
	t *rapid.T
}

func (d drawn) Helper()                           { d.t.Helper() }
func (d drawn) Fatalf(format string, args ...any) { d.t.Fatalf(format, args...) }
func (d drawn) Errorf(format string, args ...any) { d.t.Errorf(format, args...) }
func (d drawn) FailNow()                          { d.t.FailNow() }
func (d drawn) Failed() bool                      { return d.t.Failed() }

// modelRun is a run as the model knows it.
type modelRun struct {
	run      schedule.Run
	name     string
	priority int32
	until    time.Time // delayed
}

// queueModel is a queue as three lists.
type queueModel struct {
	*jobs
	t       *rapid.T
	most    int
	waiting []*modelRun // those of one priority in their order; the order of priorities is made when it is read
	delayed []*modelRun
	flying  []*modelRun
	paused  bool
	n       int
}

// followsList draws histories. With places, runs are put at positions; else they change their
// priority and wait again: a list does not say how those of several priorities lie to each
// other once they have moved.
func (r *rig) followsList(places bool) {
	histories := 0
	rapid.Check(r.TB.(rapid.TB), func(t *rapid.T) {
		histories++
		own := *r
		own.TB = drawn{r.TB, t}
		most := rapid.IntRange(1, 4).Draw(t, "max_in_flight")
		m := &queueModel{jobs: own.jobs(fmt.Sprint("q", histories), maxInFlight(uint32(most))), t: t, most: most}
		actions := []func(){m.drawEntry(places), m.drawEntry(places), m.admit, m.admit, m.endOne, m.pauseOrResume, m.tick}
		if places {
			actions = append(actions, m.moveSome, m.moveSome)
		} else {
			actions = append(actions, m.changeOne, m.putBackOne, m.cancelOne)
		}
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			actions[rapid.IntRange(0, len(actions)-1).Draw(t, "action")]()
			m.waits(m.text())
		}
	})
}

// order is what waits: by priority, highest first, else as the list has it.
func (m *queueModel) order() []*modelRun {
	sorted := slices.Clone(m.waiting)
	slices.SortStableFunc(sorted, func(a, b *modelRun) int { return cmp.Compare(b.priority, a.priority) })
	return sorted
}

func (m *queueModel) text() string {
	later := slices.Clone(m.delayed)
	slices.SortStableFunc(later, func(a, b *modelRun) int {
		return cmp.Or(a.until.Compare(b.until), slices.Compare(a.run.Key[:], b.run.Key[:]))
	})
	var names []string
	for _, r := range slices.Concat(m.order(), later) {
		names = append(names, r.name)
	}
	return strings.Join(names, " ")
}

func (m *queueModel) drawEntry(places bool) func() {
	return func() {
		priority := int32(rapid.IntRange(-1, 1).Draw(m.t, "priority"))
		place := 0
		if places {
			place = rapid.IntRange(0, 6).Draw(m.t, "position")
		}
		var entering []*modelRun
		var runs []schedule.Run
		for range rapid.IntRange(1, 3).Draw(m.t, "runs") {
			m.n++
			r := &modelRun{name: fmt.Sprint(m.n), priority: priority}
			r.run = m.job(r.name, priority, func(run *schedule.Run) { run.MaxAttempts = 1 })
			entering, runs = append(entering, r), append(runs, r.run)
		}
		m.enqueue(place, runs...)
		m.insert(place, entering)
	}
}

// insert puts runs before the one that has the place in their priority, else at the end.
func (m *queueModel) insert(place int, entering []*modelRun) {
	at, nth := len(m.waiting), 0
	for i, r := range m.waiting {
		if r.priority != entering[0].priority {
			continue
		}
		if nth++; nth == place {
			at = i
		}
	}
	m.waiting = slices.Insert(m.waiting, at, entering...)
}

func (m *queueModel) admit() {
	free := rapid.IntRange(0, 5).Draw(m.t, "free")
	n := min(free, m.most-len(m.flying), len(m.waiting))
	if m.paused {
		n = 0
	}
	var names []string
	for _, r := range m.order()[:max(0, n)] {
		names = append(names, r.name)
		m.waiting = slices.DeleteFunc(m.waiting, func(w *modelRun) bool { return w == r })
		m.flying = append(m.flying, r)
	}
	m.admits(free, strings.Join(names, " "))
}

// take draws a run of a list and takes it out; nil: there is none.
func (m *queueModel) take(list *[]*modelRun, what string) *modelRun {
	if len(*list) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(*list)-1).Draw(m.t, what)
	r := (*list)[i]
	*list = slices.Delete(slices.Clone(*list), i, i+1)
	return r
}

func (m *queueModel) endOne() {
	if r := m.take(&m.flying, "ends"); r != nil {
		status := rapid.SampledFrom([]schedule.Status{schedule.StatusSuccess, schedule.StatusFailed}).Draw(m.t, "status")
		m.end(r.run, status)
	}
}

func (m *queueModel) pauseOrResume() {
	q := m.queue
	m.paused = !m.paused
	q.Pause = schedule.Pause{Paused: m.paused}
	m.putQueue(q)
}

// tick lets time pass, and sweeps what it makes due. Nothing is in flight for as long as a lease.
func (m *queueModel) tick() {
	m.now = m.at(time.Second)
	m.sweepQueues()
	var still []*modelRun
	for _, r := range m.delayed {
		if r.until.After(m.now) {
			still = append(still, r)
			continue
		}
		m.returns(r)
	}
	m.delayed = still
}

// returns lets a run wait at its old place: runs enter in the order of their numbers.
func (m *queueModel) returns(r *modelRun) {
	var number, other int
	_, _ = fmt.Sscan(r.name, &number)
	at := slices.IndexFunc(m.waiting, func(w *modelRun) bool {
		_, _ = fmt.Sscan(w.name, &other)
		return other > number
	})
	if at < 0 {
		at = len(m.waiting)
	}
	m.waiting = slices.Insert(m.waiting, at, r)
}

func (m *queueModel) changeOne() {
	if r := m.take(&m.waiting, "changes"); r != nil {
		r.priority = int32(rapid.IntRange(-1, 1).Draw(m.t, "new priority"))
		wait := rapid.IntRange(0, 2).Draw(m.t, "delay")
		m.ok(m.changes(r.run.Key, func(run *schedule.Run) {
			run.Priority, run.Queue.Priority = r.priority, schedule.QueuePriority(r.priority)
			if wait > 0 {
				run.FireAt, run.Queue.State = m.at(time.Duration(wait)*time.Second), schedule.QueueDelayed
			}
		}), "change")
		m.setAside(r, wait)
	}
}

// setAside lets a run wait again, or be delayed for some seconds first.
func (m *queueModel) setAside(r *modelRun, wait int) {
	if wait == 0 {
		m.returns(r)
		return
	}
	r.until = m.at(time.Duration(wait) * time.Second)
	m.delayed = append(m.delayed, r)
}

func (m *queueModel) putBackOne() {
	if r := m.take(&m.flying, "waits again"); r != nil {
		run := m.ledger(r.run.Key)
		m.ok(m.Release(m.ctx, []schedule.KeyRelease{{Key: run.Key, Held: m.leaseOf(run)}}, m.now), "release")
		wait := rapid.IntRange(0, 2).Draw(m.t, "delay")
		m.hold(m.putsBack(run, func(b *schedule.PutBack) {
			if wait > 0 {
				b.FireAt = m.at(time.Duration(wait) * time.Second)
			}
		}), "%s waits again", r.name)
		m.setAside(r, wait)
	}
}

// leaseOf is the end of the lease that the last admission gave: its timeout_at is as far from it
// as from the admission.
func (m *queueModel) leaseOf(run schedule.Run) time.Time { return run.TimeoutAt.Add(lease - retryFor) }

func (m *queueModel) cancelOne() {
	if r := m.take(&m.waiting, "is cancelled"); r != nil {
		m.cancel(r.run)
	}
}
