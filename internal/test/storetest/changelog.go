package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// changeLogs are the clauses on what a leader reads of what others have committed.
var changeLogs = func() (checks []check) {
	for _, c := range slices.Concat(logged, loggedRetries) {
		checks = append(checks, check{"a leader learns of " + c.name, func(r *rig) { r.learns(c.act) }})
	}
	return append(checks,
		check{"a change is read from every position before it, again too", changesAgain},
		check{"a change is read by every shard that it concerns, and by no other", changesOfShards},
		check{"while others write, no change is missed", changesWhileOthersWrite},
		check{"a change that stays open over several readings is read once it is committed", changesOfOpenTransactions},
		check{"retention keeps the changes of the last minute", changesKept},
	)
}()

// OpenWriters is optional for a test adapter: the store lets others write while a
// transaction is open.
type OpenWriters interface{ WritesBesideOthers() }

// loggedChange is a way in which runs and schedules change. act makes what is there before
// the leader loads; what it returns is the change.
type loggedChange struct {
	name string
	act  func(r *rig) (change func())
}

var logged = []loggedChange{
	{"a run by hand", func(r *rig) func() {
		s := r.create("s")
		return func() { r.add(r.manual(s, "m", r.now)) }
	}},
	{"a run by hand of a schedule that is paused", func(r *rig) func() {
		s := r.create("s")
		r.rewrite(s, func(s *schedule.Schedule) { s.Pause.Paused = true })
		return func() { r.add(r.manual(s, "m", r.now)) }
	}},
	{"a settlement that ends a run", func(r *rig) func() {
		run := r.bring(r.due(r.create("s"), 1), schedule.StatusStarted)
		return func() { r.succeed(run) }
	}},
	{"a settlement by a launcher that ends a run", func(r *rig) func() {
		run := r.bring(r.due(r.create("s"), 1), schedule.StatusEnqueued)
		return func() {
			_, err := r.SettleLaunched(r.ctx, r.now, []schedule.Settlement{{Key: run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed}})
			r.ok(err, "settle")
		}
	}},
	{"an outcome that comes after another one was recorded", func(r *rig) func() {
		run := r.bring(r.due(r.create("s"), 1), schedule.StatusLaunching)
		r.begin(r.beginRequest(run))
		r.finish(run.Key, schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "1"})
		r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusEnqueued})
		return func() { r.finish(run.Key, schedule.Outcome{Status: schedule.StatusSuccess, RunID: "1"}) }
	}},
	{"a report that ends a run", func(r *rig) func() {
		run := r.bring(r.due(r.create("s"), 1), schedule.StatusEnqueued)
		return func() {
			r.moveRun(run.Key, schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusSuccess, CompletedAt: r.now}})
		}
	}},
	{"the cancel of a planned run", func(r *rig) func() {
		run := r.add(r.slot(r.create("s"), r.at(time.Second)))[0]
		return func() {
			r.moveRun(run.Key, schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, CompletedAt: r.now}})
		}
	}},
	{"the cancel of a run that waits", func(r *rig) func() {
		run := r.add(r.slot(r.create("s", withPolicy(schedule.OverlapQueue)), r.at(-time.Second), func(run *schedule.Run) { run.WaitingSince = r.now }))[0]
		return func() {
			r.moveRun(run.Key, schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, CompletedAt: r.now}})
		}
	}},
	{"the request to cancel a run in flight", func(r *rig) func() {
		run := r.bring(r.due(r.create("s", withPolicy(schedule.OverlapReplace)), 1), schedule.StatusStarted)
		return func() { r.askCancel(run.Key, schedule.ReasonCancelled, r.now) }
	}},
	{"a sweep that ends a run at its timeout", func(r *rig) func() {
		r.bring(r.due(r.create("s"), 1), schedule.StatusStarted, func(s *schedule.Settlement) { s.TimeoutAt = r.at(time.Second) })
		return func() {
			r.now = r.at(2 * time.Second)
			r.hold(len(r.sweep()) == 1, "the run ends")
		}
	}},
	{"a sweep that ends a run whose cancel nobody confirmed", func(r *rig) func() {
		run := r.bring(r.due(r.create("s"), 1), schedule.StatusStarted)
		r.askCancel(run.Key, schedule.ReasonCancelled, r.at(-time.Hour))
		return func() { r.hold(len(r.sweep()) == 1, "the run ends") }
	}},
	{"a schedule's edit that takes planned runs back", func(r *rig) func() {
		s := r.create("s")
		r.add(r.slot(s, r.at(time.Second)), r.slot(s, r.at(2*time.Second)))
		return func() {
			s.Revision++
			r.change(schedule.Change{Row: &s, NewRevision: true, ChangedBy: s.UserID, DropPlannedAfter: r.at(time.Second)})
		}
	}},
	{"an edit of the overlap key", func(r *rig) func() {
		s := r.create("s", withPolicy(schedule.OverlapSkip))
		r.add(r.slot(s, r.at(time.Second)), r.manual(s, "m", r.now))
		return func() {
			s.Revision, s.OverlapKey = s.Revision+1, r.id("another")
			r.change(schedule.Change{Row: &s, NewRevision: true, ChangedBy: s.UserID, DropPlannedAfter: r.now})
		}
	}},
	{"a pause that ends what is due", func(r *rig) func() {
		s := r.create("s", withPolicy(schedule.OverlapQueue))
		r.add(r.due(s, 1), r.slot(s, r.at(time.Second)), r.slot(s, r.at(-2*time.Second), func(run *schedule.Run) { run.WaitingSince = r.now }))
		return func() {
			s.Pause.Paused = true
			c := schedule.Change{Row: &s, DropPlannedAfter: r.now}
			c.EndDue.To, c.EndDue.Reason = schedule.StatusSkipped, schedule.ReasonPaused
			r.change(c)
		}
	}},
	{"a pause that leaves what is due to the claim", func(r *rig) func() {
		s := r.create("s")
		r.add(r.due(s, 1))
		return func() { r.rewrite(s, func(s *schedule.Schedule) { s.Pause.Paused = true }) }
	}},
	{"the end of a pause by its user", func(r *rig) func() {
		s := r.create("s", func(s *schedule.Schedule) { s.Pause.Paused = true })
		r.add(r.due(s, 1))
		return func() { r.rewrite(s, func(s *schedule.Schedule) { s.Pause.Paused = false }) }
	}},
	{"the end of a pause by the planner", func(r *rig) func() {
		s := r.create("s", planAt(r.now), func(s *schedule.Schedule) { s.Pause = schedule.Pause{Paused: true, Until: r.at(time.Millisecond)} })
		r.add(r.due(s, 1))
		return func() {
			r.now = r.at(2 * time.Millisecond)
			r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
				d := keep(c)
				d.EndPause = true
				return d
			})
			r.hold(!r.row(s).Pause.Paused, "the pause has ended")
		}
	}},
	{"a deletion", func(r *rig) func() {
		s := r.create("s")
		r.add(r.due(s, 1), r.slot(s, r.at(time.Second)), r.manual(s, "m", r.at(time.Second)))
		return func() {
			s.DeletedAt = r.now
			c := schedule.Change{Row: &s, DropPlannedAfter: r.now, EndRest: true}
			c.EndDue.To, c.EndDue.Reason = schedule.StatusCancelled, schedule.ReasonDeleted
			r.change(c)
		}
	}},
	{"slots that the planner plans for soon and for a time that was looked at", func(r *rig) func() {
		r.create("s", planAt(r.now))
		return func() {
			r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
				d := keep(c)
				d.Rows = []schedule.Run{r.slot(c.Schedule, r.at(-time.Second)), r.slot(c.Schedule, r.at(9*time.Second))}
				return d
			})
		}
	}},
	{"a missed slot that the planner fires, and one that it skips", func(r *rig) func() {
		s := r.create("s", planAt(r.now))
		fires, skipped := r.add(r.slot(s, r.at(-2*grace)))[0], r.add(r.slot(s, r.at(-3*grace)))[0]
		return func() {
			r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
				d := keep(c)
				d.LateVerdicts = []schedule.LateVerdict{
					{Key: fires.Key, Fire: true, FireAt: r.at(time.Second), Trigger: schedule.TriggerCatchup},
					{Key: skipped.Key, Reason: schedule.ReasonMissed},
				}
				return d
			})
		}
	}},
	{"runs that a backfill feeds", func(r *rig) func() {
		s := r.create("s")
		r.ask(r.backfill(s, "one"))
		return func() { r.feed(put(r.backfilled(s, r.at(-time.Hour)))) }
	}},
	{"a backfill that takes its planned runs back", func(r *rig) func() {
		s := r.create("s")
		b := r.ask(r.backfill(s, "one"))
		r.feed(put(r.backfilled(s, r.at(-time.Hour), func(run *schedule.Run) { run.FireAt = r.at(time.Second) })))
		return func() {
			b.State = schedule.BackfillPaused
			r.changeBackfill(b, schedule.BackfillChange{Row: &b, DropPlanned: true})
		}
	}},
	{"a backfill that ends its planned runs and asks for the cancel of the others", func(r *rig) func() {
		s := r.create("s")
		b := r.ask(r.backfill(s, "one"))
		r.feed(put(r.backfilled(s, r.at(-2*time.Hour))))
		r.claim()
		r.feed(put(r.backfilled(s, r.at(-time.Hour), func(run *schedule.Run) { run.FireAt = r.at(time.Second) })))
		return func() {
			r.changeBackfill(b, schedule.BackfillChange{Row: &b, EndPlanned: schedule.ReasonCancelled, AskCancel: schedule.ReasonCancelled})
		}
	}},
}

func (r *rig) moveRun(key schedule.Key, c schedule.RunChange) {
	r.Helper()
	c.Now = r.now
	_, moved, err := r.ChangeRun(r.ctx, key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) { return c, nil })
	r.ok(err, "change a run")
	r.hold(moved, "the run changes")
}

// learns compares what a leader knows that loaded before a change, and has read
// changes since, with what one knows that loads after it.
func (r *rig) learns(prepare func(r *rig) (change func())) {
	r.lead()
	change := prepare(r)
	m := r.load()
	before := m.text()
	change()
	m.pass()
	r.hold(m.text() != before, "something changes: %s", before)
	equal(r, "what the leader knows", m.text(), r.load().text())
}

// text is what the memory knows in the window. The status of a run in flight and its
// epoch are left out: changes do not tell them.
func (m *memory) text() string {
	var lines []string
	for run := range m.state.All() {
		if run.Status.InFlight() {
			run.Status, run.Epoch = "in flight", 0
		} else if run.WaitingSince.IsZero() && run.FireAt.After(m.r.at(window)) {
			continue
		}
		lines = append(lines, fmt.Sprintf("%+v", run))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// changesAgain reads from an old position, and the same changes twice.
func changesAgain(r *rig) {
	r.lead()
	s := r.create("s")
	first := r.bring(r.due(s, 3), schedule.StatusStarted)
	old := r.load()
	r.succeed(first)
	r.add(r.manual(s, "second", r.at(time.Second)))
	m := r.load()
	m.position = old.position
	m.read()
	equal(r, "what the leader knows after reading again", m.text(), r.load().text())
	old.read()
	equal(r, "what an older leader knows", old.text(), m.text())
}

func changesOfShards(r *rig) {
	terms := r.split(2)
	var memories []*memory
	for _, term := range terms {
		r.asTerm(term, func() { memories = append(memories, r.load()) })
	}
	s := r.createIn(terms[0], "s", withPolicy(schedule.OverlapSkip))
	other := r.createIn(terms[1], "other")
	r.add(r.manual(s, "m", r.now), r.manual(other, "m", r.now))
	r.rewrite(s, func(s *schedule.Schedule) { s.OverlapKey, s.Revision = other.OverlapKey, 1 })
	r.add(r.manual(r.row(s), "n", r.now))
	for i, term := range terms {
		r.asTerm(term, func() {
			memories[i].read()
			equal(r, fmt.Sprintf("what the leader of shard %d knows", i), memories[i].text(), r.load().text())
			n := 0
			for run := range memories[i].state.All() {
				n++
				r.hold(of(term, run.OverlapKey), "shard %d knows its own runs only, got one of %s", i, run.OverlapKey)
			}
			r.hold(n > 0, "shard %d knows something", i)
		})
	}
}

// changesWhileOthersWrite lets writers insert and end runs while the leader reads.
func changesWhileOthersWrite(r *rig) {
	r.lead()
	const writers, each = 3, 12
	var schedules []schedule.Schedule
	for i := range writers {
		schedules = append(schedules, r.create(fmt.Sprint("s-", i)))
	}
	m := r.load()
	var writing sync.WaitGroup
	writing.Add(writers)
	r.crowd(writers+1, func(i int) {
		if i == writers {
			done := make(chan struct{})
			go func() { writing.Wait(); close(done) }()
			for over := false; !over; {
				select {
				case <-done:
					over = true
				default:
				}
				req := r.claimRequest()
				req.Limit = 0
				if _, err := m.claim(req); err != nil {
					r.Errorf("claim: %v", err)
					return
				}
			}
			return
		}
		defer writing.Done()
		for j := range each {
			run := r.manual(schedules[i], fmt.Sprint(j), r.at(time.Second))
			if err := r.tryChange(schedule.ChangeRequest{}, schedule.Change{ScheduleID: run.ScheduleID, Runs: []schedule.Run{run}}); err != nil {
				r.Errorf("add: %v", err)
				return
			}
			if j%2 == 1 {
				continue
			}
			end := schedule.RunChange{Now: r.now, Settle: &schedule.Settlement{To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, CompletedAt: r.now}}
			if _, _, err := r.ChangeRun(r.ctx, run.Key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) { return end, nil }); err != nil {
				r.Errorf("end: %v", err)
				return
			}
		}
	})
	equal(r, "what the leader knows", m.text(), r.load().text())
}

func changesOfOpenTransactions(r *rig) {
	if _, so := r.Store.(OpenWriters); !so {
		r.Skip("this store has one writer")
	}
	r.lead()
	s := r.create("s")
	slow, quick := r.bring(r.manual(s, "slow", r.now), schedule.StatusStarted), r.bring(r.manual(s, "quick", r.now), schedule.StatusStarted)
	m := r.load()
	opened, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		var once sync.Once
		_, _, err := r.ChangeRun(r.ctx, slow.Key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) {
			once.Do(func() { close(opened) })
			<-release
			return schedule.RunChange{Now: r.now, Settle: &schedule.Settlement{To: schedule.StatusSuccess, CompletedAt: r.now}}, nil
		})
		ended <- err
	}()
	commit := sync.OnceFunc(func() { close(release) })
	defer commit() // or a failure would leave the transaction open
	<-opened
	m.read()
	r.succeed(quick)
	m.read()
	m.read()
	equal(r, "what is in flight while one end is open", m.inFlight(), []schedule.Key{slow.Key})
	position := m.position
	commit()
	r.ok(<-ended, "end a run slowly")
	m.read()
	equal(r, "what is in flight once it is committed", m.inFlight(), nil)
	m = r.load()
	m.position = position
	m.read()
	equal(r, "what another leader knows that reads from that position", m.text(), r.load().text())
}

func (m *memory) inFlight() (keys []schedule.Key) {
	for run := range m.state.All() {
		if run.Status.InFlight() {
			keys = append(keys, run.Key)
		}
	}
	return keys
}

func changesKept(r *rig) {
	r.lead()
	s := r.create("s")
	first, second := r.bring(r.manual(s, "first", r.now), schedule.StatusStarted), r.bring(r.manual(s, "second", r.now), schedule.StatusStarted)
	m := r.load()
	r.succeed(first)
	_, err := r.Prune(r.ctx, r.term, r.at(-time.Hour), 100)
	r.ok(err, "prune")
	m.read()
	equal(r, "what is in flight", m.inFlight(), []schedule.Key{second.Key})
}
