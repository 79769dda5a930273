package registrar_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func (r *rig) pause(until time.Time) registrar.View {
	r.Helper()
	v, err := r.Pause(r.Context(), registrar.PauseInput{ScheduleID: "s", Note: "why", Until: until, Actor: "op"})
	if err != nil {
		r.Fatal(err)
	}
	return v.View
}

func TestAPauseSurvivesEveryDeploy(t *testing.T) {
	yes, no := true, false
	for _, tc := range []struct {
		name   string
		paused *bool
		change func(*registrar.UpsertInput)
		want   bool
		writes bool
	}{
		{"the same again", nil, nil, true, false},
		{"a change", nil, labelled, true, true},
		{"the same again, which says paused", &yes, nil, true, false},
		{"the same again, which says that it runs", &no, nil, false, true},
		{"a change, which says that it runs", &no, labelled, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			r.upsert(hourly())
			r.pause(time.Time{})
			r.after(90 * time.Minute)
			in := hourly(func(in *registrar.UpsertInput) { in.Paused = tc.paused })
			if tc.change != nil {
				tc.change(&in)
			}
			result := r.upsert(in)
			s := r.stored()
			if s.Pause.Paused != tc.want || result.Changed != tc.writes {
				r.Errorf("paused %t, written %t; want %t, %t", s.Pause.Paused, result.Changed, tc.want, tc.writes)
			}
			if tc.want && (s.Pause.Note != "why" || s.Pause.By != "op" || !result.NextRunAt.IsZero()) {
				r.Errorf("the pause is %+v and the next slot %s", s.Pause, result.NextRunAt)
			}
			if !tc.want && (!s.NextRunAt.Equal(noon.Add(2*time.Hour)) || s.Backlog.Open()) {
				r.Errorf("it goes on at %s with backlog %+v; what fell into the pause is not missed", s.NextRunAt, s.Backlog)
			}
		})
	}
}

func TestAResumeContinuesFromNow(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.upsert(hourly())
	r.pause(time.Time{})
	r.after(150 * time.Minute)
	v, err := r.Resume(r.Context(), registrar.ResumeInput{ScheduleID: "s", Actor: "op"})
	if err != nil || v.Paused || !v.NextRunAt.Equal(noon.Add(3*time.Hour)) {
		r.Errorf("%+v, %v; want it to go on at 15:00", v, err)
	}
	r.events("resumed")
	if s := r.stored(); !s.PlanAt.Equal(noon.Add(170*time.Minute)) || s.Backlog.Open() {
		r.Errorf("plan_at %s, backlog %+v", s.PlanAt, s.Backlog)
	}
	if _, err := r.Resume(r.Context(), registrar.ResumeInput{ScheduleID: "s"}); err != nil {
		r.Errorf("a second resume: %v, want none", err)
	}
	r.wroteNothing()
}

func TestAPauseWithAnEndIsLookedAtThen(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.upsert(hourly())
	until := noon.Add(90 * time.Minute).In(time.FixedZone("", 3600))
	if v := r.pause(until); !v.Paused || !v.NextRunAt.IsZero() {
		r.Errorf("%+v, want it paused", v)
	}
	if s := r.stored(); !s.PlanAt.Equal(until) {
		r.Errorf("the planner looks at %s, want %s", s.PlanAt, until)
	}
	r.pause(until.Add(300 * time.Nanosecond)) // the stores have microsecond precision
	r.wroteNothing()
}

func TestAChangeEndsAnExpiredPauseAsThePlannerWould(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.upsert(hourly())
	r.pause(noon.Add(90 * time.Minute)) // 13:30
	r.after(3*time.Hour + time.Minute)  // 14:00 and 15:00 have fallen due since
	r.upsert(hourly(yearly))
	s := r.stored()
	if s.Pause.Paused || !s.Backlog.From.Equal(noon.Add(2*time.Hour)) {
		r.Errorf("pause %+v, backlog %+v; want it over, and what is due since", s.Pause, s.Backlog)
	}
	r.events("pause_ended", "backlog_opened() 14:00:00-15:01:00 n=0 r1", "changed")
}

func TestAnInvalidPauseIsRefused(t *testing.T) {
	r := newRig(t, registrar.Config{})
	for name, in := range map[string]registrar.PauseInput{
		"an unknown schedule": {ScheduleID: "none"},
		"a deleted schedule":  {ScheduleID: "s"},
	} {
		if in.ScheduleID == "s" {
			r.upsert(hourly())
			if err := r.Delete(r.Context(), "s", ""); err != nil {
				r.Fatal(err)
			}
		}
		if _, err := r.Pause(r.Context(), in); !errors.Is(err, schedule.ErrNotFound) {
			r.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	r.upsert(hourly())
	for name, in := range map[string]registrar.PauseInput{
		"an end in the past":      {ScheduleID: "s", Until: noon},
		"a note that is too long": {ScheduleID: "s", Note: strings.Repeat("x", 1025)},
		"a note with a NUL":       {ScheduleID: "s", Note: "a\x00b"},
	} {
		var invalid *schedule.InvalidError
		if _, err := r.Pause(r.Context(), in); !errors.As(err, &invalid) {
			r.Errorf("%s: %v, want it refused", name, err)
		}
	}
}
