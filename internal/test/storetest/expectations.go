package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var expectations = []check{
	{"a schedule that promises something is judged from then on, and one that promises nothing never", expectWoken},
	{"an edit, a pause and a deletion have it judged anew", expectWokenAgain},
	{"a verdict comes back as it was written, and is judged again when it says", expectVerdicts},
	{"a judge sees the slots that have no verdict, the slot of its alert, and no run by hand", expectRuns},
	{"a judge sees the last success, but not one of a slot long ago", expectSuccesses},
	{"a judge sees the revisions since it last looked, and the newest pauses", expectHistory},
	{"runs that are more than a judge asked for are said to go on", expectManyRuns},
	{"a schedule without a success comes with how it fails", expectSuccessFailing},
	{"of two judges each expectation has one", expectRaced},
	{"what is late or alerting is counted", expectCounted},
	{"a schedule that cannot be read is judged as far as it can be", expectPoisoned},
}

// promising is an edit that promises each kind.
func promising(s *schedule.Schedule) {
	s.Expect = schedule.Expect{StartWithinMS: 60_000, FinishWithinMS: 120_000, SuccessEveryMS: 7_200_000, AlertAfter: 2, RemindEveryMS: 600_000}
}

func startOnly(s *schedule.Schedule) {
	s.Expect = schedule.Expect{StartWithinMS: 60_000, AlertAfter: 1}
}

// judging has what is due at now judged by decide, and returns the cases.
func (r *rig) judging(now time.Time, decide func(schedule.ExpectationCase) schedule.ExpectationVerdict) (cases []schedule.ExpectationCase) {
	r.Helper()
	n, err := r.EvaluateExpectations(r.ctx, schedule.EvaluateRequest{Now: now, Limit: 100, MaxRuns: 5, MaxHistory: 3},
		func(found []schedule.ExpectationCase) []schedule.ExpectationVerdict {
			cases = found
			verdicts := make([]schedule.ExpectationVerdict, len(found))
			for i := range found {
				verdicts[i] = decide(found[i])
			}
			return verdicts
		})
	r.ok(err, "judge expectations")
	r.hold(n == len(cases), "%d were judged, %d were shown", n, len(cases))
	return cases
}

// content leaves an expectation as it is until at.
func content(at time.Time) func(schedule.ExpectationCase) schedule.ExpectationVerdict {
	return func(c schedule.ExpectationCase) schedule.ExpectationVerdict {
		c.State.JudgeAt = at
		return schedule.ExpectationVerdict{State: c.State}
	}
}

func kindsOf(cases []schedule.ExpectationCase) map[schedule.ExpectationKind]bool {
	kinds := make(map[schedule.ExpectationKind]bool)
	for i := range cases {
		kinds[cases[i].State.Kind] = true
	}
	return kinds
}

// only is the one case that there must be.
func (r *rig) only(cases []schedule.ExpectationCase) schedule.ExpectationCase {
	r.Helper()
	if len(cases) != 1 {
		r.Fatalf("%d cases, want one: %+v", len(cases), cases)
	}
	return cases[0]
}

func expectWoken(r *rig) {
	r.create("silent")
	r.hold(len(r.judging(r.now, content(time.Time{}))) == 0, "nothing is judged of what promises nothing")
	s := r.create("promising", promising)
	equal(r, "the promise", r.row(s).Expect, s.Expect)
	cases := r.judging(r.now, content(time.Time{}))
	r.hold(len(cases) == 3 && len(kindsOf(cases)) == 3, "each kind is judged, got %v", kindsOf(cases))
	for _, c := range cases {
		r.hold(c.Schedule != nil && c.Schedule.ScheduleID == s.ScheduleID && c.Unreadable == nil, "with its schedule: %+v", c)
		equal(r, "a new state", c.State, schedule.ExpectationState{
			ScheduleID: s.ScheduleID, Kind: c.State.Kind, Status: schedule.ExpectationOK, WatchedSince: r.now, JudgedUntil: r.now, JudgeAt: r.now,
		})
	}
	r.hold(len(r.judging(r.at(1000*time.Hour), content(time.Time{}))) == 0, "what has nothing to judge is left alone")
}

func expectWokenAgain(r *rig) {
	s := r.create("s", startOnly)
	idle := func() { r.judging(r.at(1000*time.Hour), content(time.Time{})) }
	idle()
	s = r.rewrite(s, func(s *schedule.Schedule) { s.Pause = schedule.Pause{Paused: true} })
	r.only(r.judging(r.now, content(time.Time{})))
	s = r.revise(s, func(s *schedule.Schedule) { s.Expect = schedule.Expect{SuccessEveryMS: 7_200_000, AlertAfter: 1} })
	cases := r.judging(r.now, func(c schedule.ExpectationCase) schedule.ExpectationVerdict {
		return schedule.ExpectationVerdict{State: c.State, Drop: c.State.Kind == schedule.ExpectStart}
	})
	r.hold(len(cases) == 2, "the old promise is judged once more, and the new one: %v", kindsOf(cases))
	idle()
	r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	c := r.only(r.judging(r.now, func(c schedule.ExpectationCase) schedule.ExpectationVerdict {
		return schedule.ExpectationVerdict{State: c.State, Drop: true}
	}))
	r.hold(c.State.Kind == schedule.ExpectSuccess && !c.Schedule.Alive(), "what was dropped is gone, and a tombstone is shown: %+v", c)
	states, err := r.ListExpectations(r.ctx, s.ScheduleID)
	r.ok(err, "list expectations")
	r.hold(len(states) == 0, "nothing is left: %+v", states)
}

func expectSuccessFailing(r *rig) {
	r.lead()
	s := r.create("s", func(s *schedule.Schedule) { s.Expect = schedule.Expect{SuccessEveryMS: 7_200_000, AlertAfter: 1} })
	r.settleOne(r.bring(r.slot(s, r.at(-time.Minute)), schedule.StatusStarted), schedule.StatusFailed)
	c := r.only(r.judging(r.now, content(time.Time{})))
	r.hold(c.State.Kind == schedule.ExpectSuccess && c.Failure != nil && c.Failure.Failures == 1, "its failure: %+v", c)
}

func expectVerdicts(r *rig) {
	s := r.create("s", startOnly)
	full := schedule.ExpectationState{
		ScheduleID: s.ScheduleID, Kind: schedule.ExpectStart, Status: schedule.ExpectationAlerting, LimitMS: 1<<32 - 1, Late: 1 << 40, LateSince: odd(1),
		WatchedSince: odd(2), JudgedUntil: r.at(-time.Hour), MetAt: odd(4), AlertID: r.id("alert"), JudgeAt: r.at(time.Minute), JudgedAt: odd(6),
	}
	r.everyFieldSet(reflect.ValueOf(full), "ExpectationState")
	a := r.alert("alert")
	a.ScheduleID = s.ScheduleID
	r.only(r.judging(r.now, func(schedule.ExpectationCase) schedule.ExpectationVerdict {
		return schedule.ExpectationVerdict{State: full, Alerts: []schedule.Alert{a}, Deliveries: []schedule.AlertDelivery{r.message("m", r.now)}}
	}))
	for _, at := range []*time.Time{&full.LateSince, &full.WatchedSince, &full.MetAt, &full.JudgedAt} {
		*at = stored(*at)
	}
	states, err := r.ListExpectations(r.ctx, s.ScheduleID)
	r.ok(err, "list expectations")
	equal(r, "the state", states, []schedule.ExpectationState{full})
	r.hold(len(r.judging(r.at(59*time.Second), content(time.Time{}))) == 0, "it is not judged before it says")
	c := r.only(r.judging(r.at(time.Minute), content(time.Time{})))
	equal(r, "the state of the case", c.State, full)
	if c.Alert == nil {
		r.Fatalf("its open alert does not come with it")
	}
	equal(r, "its alert", *c.Alert, keptAlert(a))
	r.hold(len(r.claimMessages(r.now)) == 1, "its message is in the outbox")
}

func expectRuns(r *rig) {
	r.lead()
	s := r.create("s", startOnly)
	slot := func(d time.Duration) schedule.Run { return r.slot(s, r.at(d)) }
	old, last, judged, fresh := slot(-4*time.Hour), slot(-3*time.Hour), slot(-2*time.Hour), slot(-time.Hour)
	for _, run := range []schedule.Run{old, last, judged} {
		r.bring(run, schedule.StatusEnqueued, func(e *schedule.Settlement) { e.LaunchedAt = r.now })
	}
	done := r.bring(fresh, schedule.StatusSuccess, func(e *schedule.Settlement) {
		e.LaunchedAt, e.StartedAt, e.CompletedAt, e.Reason = r.at(-time.Minute), r.at(-50*time.Second), r.at(-40*time.Second), schedule.ReasonAccepted
	})
	r.add(r.manual(s, "by-hand", r.at(-30*time.Minute)), slot(0), slot(time.Hour))
	a := r.alert("alert")
	a.LastSlot = last.RunAt
	r.judging(r.now, func(c schedule.ExpectationCase) schedule.ExpectationVerdict {
		c.State.AlertID, c.State.JudgedUntil = a.AlertID, judged.RunAt
		return schedule.ExpectationVerdict{State: c.State, Alerts: []schedule.Alert{a}}
	})
	c := r.only(r.judging(r.now, content(time.Time{})))
	var shown []time.Time
	for _, run := range c.Runs {
		shown = append(shown, run.RunAt)
	}
	equal(r, "the runs", shown, []time.Time{last.RunAt, fresh.RunAt, r.now})
	if len(c.Runs) == 3 {
		equal(r, "one of them", c.Runs[1], schedule.SlotRun{
			RunAt: done.RunAt, Status: done.Status, Reason: done.Reason, ClaimedAt: done.ClaimedAt,
			LaunchedAt: done.LaunchedAt, StartedAt: done.StartedAt, CompletedAt: done.CompletedAt,
		})
		r.hold(!c.Runs[1].ClaimedAt.IsZero() && c.Runs[2].Status == schedule.StatusPlanned, "with its instants: %+v", c.Runs)
	}
	r.hold(c.RunsUntil.IsZero(), "that is all of them")
}

func expectManyRuns(r *rig) {
	s := r.create("s", startOnly, func(s *schedule.Schedule) { s.CronExpr = "* * * * *" })
	for i := range 7 {
		r.add(r.slot(s, r.at(time.Duration(i-6)*time.Minute)))
	}
	r.judging(r.now, func(c schedule.ExpectationCase) schedule.ExpectationVerdict {
		c.State.JudgedUntil = r.at(-6 * time.Minute)
		return schedule.ExpectationVerdict{State: c.State}
	})
	c := r.only(r.judging(r.now, content(time.Time{})))
	r.hold(len(c.Runs) == 5 && c.RunsUntil.Equal(r.at(-time.Minute)), "five of six, until the fifth: %d until %v", len(c.Runs), c.RunsUntil)
}

func expectSuccesses(r *rig) {
	r.lead()
	s := r.create("s", func(s *schedule.Schedule) { s.Expect = schedule.Expect{SuccessEveryMS: 7_200_000, AlertAfter: 1} })
	ended := func(e *schedule.Settlement) { e.CompletedAt = r.at(-time.Minute) }
	r.bring(r.slot(s, r.at(-2*time.Hour)), schedule.StatusSuccess, func(e *schedule.Settlement) { e.CompletedAt = r.at(-time.Hour) })
	c := r.only(r.judging(r.now, content(r.now)))
	equal(r, "the last success", c.LastSuccess, r.at(-time.Hour))
	r.hold(len(c.Runs) == 0, "no runs are shown besides: %+v", c.Runs)
	r.bring(r.slot(s, r.at(-4*time.Hour)), schedule.StatusSuccess, ended) // before 2 h and a run timeout of 1 h
	equal(r, "behind that of a slot long ago", r.only(r.judging(r.now, content(r.now))).LastSuccess, r.at(-time.Hour))
	r.bring(r.slot(s, r.at(-3*time.Hour)), schedule.StatusFailed, ended)
	equal(r, "behind a failure", r.only(r.judging(r.now, content(r.now))).LastSuccess, r.at(-time.Hour))
	r.bring(r.manual(s, "by-hand", r.at(-2*time.Minute)), schedule.StatusSuccess, ended)
	equal(r, "of a run by hand", r.only(r.judging(r.now, content(r.now))).LastSuccess, r.at(-time.Minute))
}

func expectHistory(r *rig) {
	s := r.create("s", startOnly)
	c := r.only(r.judging(r.now, content(r.now)))
	r.hold(len(c.Revisions) == 0 && len(c.Pauses) == 0, "it was made before it was watched: %+v", c)
	for i := range 4 {
		r.change(schedule.Change{ScheduleID: s.ScheduleID, Events: []schedule.Event{
			{Kind: schedule.EventPaused, Time: r.at(time.Duration(2*i) * time.Second)}, {Kind: schedule.EventTriggered, Time: r.now},
		}})
	}
	edited := s
	edited.Revision, edited.RevisedAt, edited.CronExpr = 2, r.at(time.Second), "1 * * * *"
	r.change(schedule.Change{Row: &edited, NewRevision: true, Now: edited.RevisedAt})
	c = r.only(r.judging(r.at(time.Minute), content(r.now)))
	r.hold(len(c.Revisions) == 2 && c.Revisions[0].Revision == 2 && c.Revisions[1].Revision == 1, "both revisions, the newest first: %+v", c.Revisions)
	equal(r, "the newest", c.Revisions[0].Definition.CronExpr, edited.CronExpr)
	equal(r, "it was made at", c.Revisions[0].CreatedAt, r.at(time.Second))
	r.hold(len(c.Pauses) == 3, "the newest three pauses: %+v", c.Pauses)
	for i, e := range c.Pauses {
		equal(r, "a pause, the oldest first", e.Time, r.at(time.Duration(2*(i+1))*time.Second))
	}
}

func expectRaced(r *rig) {
	const many = 30
	for i := range many {
		r.create(fmt.Sprint("s", i), startOnly)
	}
	var mu sync.Mutex
	judged := make(map[string]int)
	r.crowd(4, func(int) {
		for range 2 * many {
			_, err := r.EvaluateExpectations(r.ctx, schedule.EvaluateRequest{Now: r.now, Limit: 3, MaxRuns: 5, MaxHistory: 3},
				func(cases []schedule.ExpectationCase) []schedule.ExpectationVerdict {
					verdicts := make([]schedule.ExpectationVerdict, len(cases))
					for i := range cases {
						verdicts[i].State = cases[i].State
						verdicts[i].State.JudgeAt = time.Time{}
						verdicts[i].State.Late++
					}
					return verdicts
				})
			if err != nil {
				r.Errorf("judge: %v", err)
			}
		}
	})
	for i := range many {
		states, err := r.ListExpectations(r.ctx, r.id(fmt.Sprint("s", i)))
		r.ok(err, "list expectations")
		for _, e := range states {
			mu.Lock()
			judged[e.ScheduleID] += int(e.Late)
			mu.Unlock()
		}
	}
	for id, n := range judged {
		r.hold(n == 1, "%s was judged %d times", id, n)
	}
	r.hold(len(judged) == many, "%d of %d were judged", len(judged), many)
}

func expectCounted(r *rig) {
	r.create("s", promising)
	r.judging(r.now, func(c schedule.ExpectationCase) schedule.ExpectationVerdict {
		switch c.State.Kind {
		case schedule.ExpectStart:
			c.State.Status = schedule.ExpectationLate
		case schedule.ExpectFinish:
			c.State.Status = schedule.ExpectationAlerting
		}
		return schedule.ExpectationVerdict{State: c.State}
	})
	unmet, err := r.UnmetExpectations(r.ctx)
	r.ok(err, "count")
	equal(r, "unmet", unmet, map[schedule.ExpectationKind]int{schedule.ExpectStart: 1, schedule.ExpectFinish: 1})
}

func expectPoisoned(r *rig) {
	poisoner, ok := r.Store.(Poisoner)
	if !ok {
		r.Skip("this store cannot be poisoned")
	}
	bad, good := r.create("bad", startOnly), r.create("good", startOnly)
	r.ok(poisoner.Poison(r.ctx, bad.ScheduleID), "poison")
	cases := r.judging(r.now, content(time.Time{}))
	r.hold(len(cases) == 2, "both are judged: %+v", cases)
	for _, c := range cases {
		r.hold((c.Unreadable != nil) == (c.State.ScheduleID == bad.ScheduleID), "%s: unreadable is %v", c.State.ScheduleID, c.Unreadable)
		r.hold(c.State.ScheduleID == bad.ScheduleID || c.Schedule.ScheduleID == good.ScheduleID, "the good one comes whole")
	}
}

// notFound says whether an error is that there is no such thing.
func notFound(err error) bool { return errors.Is(err, schedule.ErrNotFound) }
