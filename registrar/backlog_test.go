package registrar_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func daily(in *registrar.UpsertInput)    { in.Definition.CronExpr = "0 0 * * *" }
func yearly(in *registrar.UpsertInput)   { in.Definition.CronExpr = "0 0 1 1 *" }
func labelled(in *registrar.UpsertInput) { in.Definition.Labels = map[string]string{"a": "b"} }

// behind is a schedule with a planner that stopped after noon; it is 15:30 now, and 13:00, 14:00
// and 15:00 are due but unplanned.
func behind(t *testing.T) *rig {
	r := newRig(t, registrar.Config{})
	r.upsert(hourly())
	r.planned(noon.Add(time.Hour))
	r.after(3*time.Hour + 30*time.Minute)
	return r
}

func TestAnEditKeepsDueSlotsUnderTheOldRevision(t *testing.T) {
	r := behind(t)
	r.upsert(hourly(daily))
	s := r.stored()
	want := schedule.Backlog{From: noon.Add(time.Hour), Until: r.page.now.Add(time.Second), Revision: 1}
	if s.Backlog != want {
		r.Errorf("the backlog is %+v, want %+v", s.Backlog, want)
	}
	if !s.NextRunAt.Equal(time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)) {
		r.Errorf("the cursor stands at %s, want the new rule's first slot", s.NextRunAt)
	}
	r.events("backlog_opened() 13:00:00-15:30:00 n=0 r1", "changed")
}

func TestAnEditExtendsAnOpenRangeOfTheSameRevision(t *testing.T) {
	r := behind(t)
	r.stored().Backlog = schedule.Backlog{From: noon.Add(-2 * time.Hour), Until: noon.Add(time.Hour), Revision: 1}
	r.upsert(hourly(daily))
	want := schedule.Backlog{From: noon.Add(-2 * time.Hour), Until: r.page.now.Add(time.Second), Revision: 1}
	if got := r.stored().Backlog; got != want {
		r.Errorf("the backlog is %+v, want %+v", got, want)
	}
}

func TestASecondEditEndsTheRangeOfAnOlderRevision(t *testing.T) {
	r := behind(t)
	r.upsert(hourly(yearly))
	r.after(time.Minute)
	r.upsert(hourly(daily))
	if s := r.stored(); s.Backlog.Open() {
		r.Errorf("the backlog is %+v, want it closed", s.Backlog)
	}
	// It cannot be counted: the rule of revision 1 is not at hand. It is recorded.
	r.events("backlog_closed(missed) 13:00:00-15:30:00 n=0 r1", "changed")
}

func TestAPauseRecordsDueUnplannedSlots(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before func(*rig)
		want   []string
	}{
		{"nothing is due", func(r *rig) { r.planned(noon.Add(4 * time.Hour)) }, []string{"paused"}},
		{"three slots are due", func(*rig) {}, []string{"backlog_closed(paused) 13:00:00-15:30:00 n=3 r1", "paused"}},
		{"a range is open and nothing else due", func(r *rig) {
			r.planned(noon.Add(4 * time.Hour))
			r.stored().Backlog = schedule.Backlog{From: noon.Add(-2 * time.Hour), Until: noon.Add(time.Hour), Revision: 1}
		}, []string{"backlog_closed(paused) 10:00:00-12:59:59 n=3 r1", "paused"}},
		{"a range is open and more is due right behind it", func(r *rig) {
			r.stored().Backlog = schedule.Backlog{From: noon.Add(-2 * time.Hour), Until: noon.Add(time.Hour), Revision: 1}
		}, []string{"backlog_closed(paused) 10:00:00-15:30:00 n=6 r1", "paused"}},
		{"a range is open, and slots between it and the due slots have rows", func(r *rig) {
			r.stored().Backlog = schedule.Backlog{From: noon.Add(-2 * time.Hour), Until: noon.Add(-time.Hour), Revision: 1}
		}, []string{"backlog_closed(paused) 10:00:00-10:59:59 n=1 r1", "backlog_closed(paused) 13:00:00-15:30:00 n=3 r1", "paused"}},
		{"two outages made one range, and slots between them have rows", func(r *rig) {
			r.stored().Backlog = schedule.Backlog{From: noon.Add(-2 * time.Hour), Until: noon.Add(time.Hour), Revision: 1}
			r.stored().Planned = []time.Time{noon.Add(-time.Hour), noon}
		}, []string{"backlog_closed(paused) 10:00:00-10:59:59 n=1 r1", "backlog_closed(paused) 12:00:01-15:30:00 n=3 r1", "paused"}},
		{
			"an edit left the range of another rule", func(r *rig) { r.upsert(hourly(yearly)) },
			[]string{"backlog_closed(paused) 13:00:00-15:30:00 n=0 r1", "paused"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := behind(t)
			tc.before(r)
			if _, err := r.Pause(r.Context(), registrar.PauseInput{ScheduleID: "s", Actor: "me"}); err != nil {
				r.Fatal(err)
			}
			r.events(tc.want...)
			c := r.change()
			if c.EndDue.To != schedule.StatusSkipped || c.EndDue.Reason != schedule.ReasonPaused || c.EndRest {
				r.Errorf("due rows end %s(%s), others too: %t; want SKIPPED(paused), false", c.EndDue.To, c.EndDue.Reason, c.EndRest)
			}
			if s := r.stored(); s.Backlog.Open() || !s.PlanAt.IsZero() {
				r.Errorf("backlog %+v, plan_at %s; want none", s.Backlog, s.PlanAt)
			}
		})
	}
}

func TestADeletionRecordsDueUnplannedSlots(t *testing.T) {
	r := behind(t)
	if err := r.Delete(r.Context(), "s", "me"); err != nil {
		r.Fatal(err)
	}
	r.events("backlog_closed(deleted) 13:00:00-15:30:00 n=3 r1", "deleted")
	c := r.change()
	if c.EndDue.To != schedule.StatusCancelled || c.EndDue.Reason != schedule.ReasonDeleted || !c.EndRest || !c.DropPlannedAfter.Equal(r.page.now) {
		r.Errorf("planned rows end %s(%s), others too: %t", c.EndDue.To, c.EndDue.Reason, c.EndRest)
	}
	if s := r.stored(); s.Alive() || !s.PlanAt.IsZero() || !s.NextRunAt.IsZero() {
		r.Errorf("the tombstone is %+v", s)
	}
	if err := r.Delete(r.Context(), "s", "me"); err != nil {
		r.Errorf("a second deletion: %v, want none", err)
	}
	r.wroteNothing()
}

func TestAnEditThatAlsoPausesRecordsDueSlotsByTheOldRule(t *testing.T) {
	r := behind(t)
	yes := true
	r.upsert(hourly(yearly, func(in *registrar.UpsertInput) { in.Paused = &yes }))
	r.events("backlog_opened() 13:00:00-15:30:00 n=0 r1", "changed", "backlog_closed(paused) 13:00:00-15:30:00 n=3 r1", "paused")
	if s := r.stored(); s.Backlog.Open() {
		r.Errorf("the backlog is %+v, want it closed", s.Backlog)
	}
}

func TestAScheduleThatCannotBeReadCanStillBeDeleted(t *testing.T) {
	r := behind(t)
	r.stored().Timezone = "Mars/Olympus"
	if err := r.Delete(r.Context(), "s", "me"); err != nil {
		r.Fatal(err)
	}
	r.events("backlog_closed(deleted) 13:00:00-15:30:00 n=0 r1", "deleted")
}

func TestAnEditWhileNothingIsDueOpensNoRange(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.upsert(hourly())
	r.after(30 * time.Minute)
	r.upsert(hourly(labelled))
	r.events("changed")
}
