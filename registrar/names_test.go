package registrar_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func asOwner(t testing.TB, owner string) context.Context {
	return auth.NewContext(t.Context(), auth.Identity{Subject: owner, Owner: owner, Roles: []auth.Role{auth.User}})
}

func everyDay(id string) registrar.UpsertInput {
	return registrar.UpsertInput{Definition: schedule.Definition{ScheduleID: id, WorkflowID: "w", Version: 1, CronExpr: "@daily"}}
}

// A step is an upsert of an owner, or with delete the end of a schedule.
type step struct {
	owner, id string
	as        string // the owner that a compiler names, default bob
	delete    bool
	want      string // the id under which it is stored
}

func TestUnderWhichIDAnOwnersScheduleIsStored(t *testing.T) {
	long := strings.Repeat("x", schedule.MaxIDLength-len("bob:"))
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"a free id is stored as it is", []step{{owner: "ada", id: "n", want: "n"}, {owner: "ada", id: "n", want: "n"}}},
		{"an id that another owner has gets a prefix", []step{{owner: "ada", id: "n", want: "n"}, {owner: "bob", id: "n", want: "bob:n"}, {owner: "ada", id: "n", want: "n"}}},
		{"so does one that another owner has deleted", []step{{owner: "ada", id: "n", want: "n"}, {owner: "ada", id: "n", delete: true}, {owner: "bob", id: "n", want: "bob:n"}}},
		{"the long id names the same schedule", []step{{owner: "ada", id: "n", want: "n"}, {owner: "bob", id: "n", want: "bob:n"}, {owner: "bob", id: "bob:n", want: "bob:n"}}},
		{"a deleted schedule comes back under its id", []step{
			{owner: "ada", id: "n", want: "n"}, {owner: "bob", id: "n", want: "bob:n"}, {owner: "bob", id: "n", delete: true}, {owner: "bob", id: "n", want: "bob:n"},
		}},
		{"an owner's own prefix is stored as it is", []step{{owner: "bob", id: "bob:n", want: "bob:n"}, {owner: "bob", id: "n", want: "bob:n"}}},
		{"another prefix is stored behind the owner's", []step{{owner: "bob", id: "ada:n", want: "bob:ada:n"}, {owner: "bob", id: "lg:n", want: "bob:lg:n"}, {owner: "bob", id: "lg:n", want: "bob:lg:n"}}},
		{"so nobody takes the long id of another", []step{{owner: "bob", id: "n", want: "n"}, {owner: "bob", id: "ada:n", want: "bob:ada:n"}, {owner: "ada", id: "n", want: "ada:n"}}},
		{"a compiler's id is stored as it is", []step{{owner: "", id: "lg:n", want: "lg:n"}, {owner: "bob", id: "lg:n", want: "lg:n"}}},
		{"an e-mail address is escaped in front of an id", []step{
			{owner: "ada", id: "n", want: "n"},
			{owner: "ada@example.com", id: "n", want: ":ada_40example.com:n"},
			{owner: "ada@example.com", id: "n", want: ":ada_40example.com:n"},
			{owner: "ada@example.com", id: ":ada_40example.com:n", want: ":ada_40example.com:n"},
		}},
		{"a free id of an owner with other characters is stored as it is", []step{{owner: "auth0|abc", id: "n", want: "n"}, {owner: "auth0_7cabc", id: "n", want: "auth0_7cabc:n"}}},
		{"owners that would escape to the same text do not meet", []step{
			{owner: "", id: "n", want: "n"}, {owner: "a|b", id: "n", want: ":a_7cb:n"}, {owner: "a_7cb", id: "n", want: "a_7cb:n"}, {owner: ":a_7cb", id: "n", want: ":_3aa_5f7cb:n"},
		}},
		{"a colon in an owner is escaped, so that it begins no other owner's names", []step{
			{owner: "", id: "b:n", want: "b:n"},
			{owner: "", id: "n", want: "n"},
			{owner: "a", id: "b:n", want: "a:b:n"},
			{owner: "a:b", id: "n", want: ":a_3ab:n"},
			{owner: "a", id: ":a_3ab:x", want: "a::a_3ab:x"},
		}},
		{"a name from before colons were escaped is kept", []step{
			{owner: "", as: "a:b", id: "a:b:n", want: "a:b:n"}, {owner: "a:b", id: "n", want: "a:b:n"},
		}},
		{"an owner too long to be a prefix is hashed", []step{
			{owner: "ada", id: "n", want: "n"}, {owner: strings.Repeat("ä", 128), id: "n", want: ":__290d9d82ff45cbf7e89de26126b1c6e9:n"},
		}},
		{"the longest id that fits", []step{{owner: "ada", id: long, want: long}, {owner: "bob", id: long, want: "bob:" + long}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onStores(t, func(s *stage) {
				for i, st := range tc.steps {
					ctx, in := asOwner(t, st.owner), everyDay(st.id)
					if st.owner == "" {
						in.Definition.UserID = cmp.Or(st.as, "bob")
					}
					if st.delete {
						s.must(s.Delete(ctx, st.id, st.owner))
						continue
					}
					done, err := s.Upsert(ctx, in)
					s.must(err)
					if got := done.Schedule.ScheduleID; got != st.want {
						s.Fatalf("step %d: %s's %s is stored as %s, want %s", i, st.owner, st.id, got, st.want)
					}
				}
			})
		})
	}
}

func TestAnIDThatDoesNotFitBehindItsOwnerIsRefused(t *testing.T) {
	onStores(t, func(s *stage) {
		id := strings.Repeat("x", schedule.MaxIDLength-len("bob:")+1)
		_, err := s.Upsert(asOwner(t, "ada"), everyDay(id))
		s.must(err)
		_, err = s.Upsert(asOwner(t, "bob"), everyDay(id))
		if fields(t, err) != "schedule_id" || !strings.Contains(err.Error(), "choose a shorter id") {
			s.Errorf("got %v", err)
		}
	})
}

func TestTwoIDsOfASetThatComeToTheSameAreRefused(t *testing.T) {
	onStores(t, func(s *stage) {
		_, err := s.Upsert(asOwner(t, "ada"), everyDay("n"))
		s.must(err)
		_, err = s.ApplySchedules(asOwner(t, "bob"), registrar.ApplyInput{
			Set: "x", Schedules: []registrar.UpsertInput{everyDay("n"), everyDay("bob:n")}, Fields: []string{"schedules[0].", "schedules[1]."},
		})
		if fields(t, err) != "schedules[1].schedule_id" {
			s.Errorf("got %v", err)
		}
	})
}

// The second owner of a name uses the short id in every call, and none of them
// reaches the first owner's schedule.
func TestAShortIDIsGoodInEveryCall(t *testing.T) {
	onStores(t, func(s *stage) {
		ada, bob := asOwner(t, "ada"), asOwner(t, "bob")
		for _, ctx := range []context.Context{ada, bob} {
			_, err := s.Upsert(ctx, everyDay("n"))
			s.must(err)
		}
		run, err := s.Trigger(bob, registrar.TriggerInput{ScheduleID: "n", RequestID: "r", OverlapPolicy: schedule.OverlapAllow})
		s.must(err)
		if run.ScheduleID != "bob:n" || run.Key != schedule.ManualKey("bob:n", "r") {
			s.Errorf("the run is of %s", run.ScheduleID)
		}
		stored := func(name string, got string, err error) {
			s.Helper()
			s.must(err)
			if got != "bob:n" {
				s.Errorf("%s is answered with %q, want bob:n", name, got)
			}
		}
		got, err := s.Get(bob, "n", 1)
		stored("get", got.Schedule.ScheduleID, err)
		paused, err := s.Pause(bob, registrar.PauseInput{ScheduleID: "n"})
		stored("pause", paused.Schedule.ScheduleID, err)
		view, err := s.Resume(bob, registrar.ResumeInput{ScheduleID: "n"})
		stored("resume", view.Schedule.ScheduleID, err)
		runs, err := s.ListRuns(bob, schedule.RunFilter{ScheduleID: "n", Limit: 10})
		s.must(err)
		stored("runs", runs[0].ScheduleID, err)
		events, err := s.Events(bob, "n", 0, 10)
		stored("events", events[0].ScheduleID, err)
		revisions, err := s.Revisions(bob, "n", 0, 10)
		stored("revisions", revisions[0].Definition.ScheduleID, err)
		answer, err := s.Explain(bob, "n", s.now.Add(-time.Hour))
		stored("explain", answer.ScheduleID, err)
		backfilled, err := s.Backfill(bob, registrar.BackfillInput{ScheduleID: "n", RequestID: "b", From: s.now.Add(-72 * time.Hour), Reprocess: schedule.ReprocessAll})
		s.must(err)
		stored("backfill", backfilled.Backfill.ScheduleID, err)
		backfills, err := s.ListBackfills(bob, schedule.BackfillFilter{ScheduleID: "n", Limit: 10})
		stored("backfills", backfills[0].ScheduleID, err)
		id, err := s.ScheduleID(bob, "n")
		stored("the id of filters", id, err)
		saved, _, err := s.Preview(bob, registrar.PreviewInput{ScheduleID: "n", Count: 3})
		s.must(err)
		spec := everyDay("n")
		unsaved, _, err := s.Preview(bob, registrar.PreviewInput{ScheduleID: "n", Spec: &spec, Count: 3})
		if s.must(err); !slices.Equal(saved, unsaved) {
			s.Errorf("the preview of the saved schedule is %v, of the same definition %v", saved, unsaved)
		}
		s.must(s.Delete(bob, "n", "bob"))
		if _, err := s.Get(bob, "n", 1); !errors.Is(err, schedule.ErrNotFound) || !strings.Contains(err.Error(), `no schedule "n"`) {
			s.Errorf("deleted, it is answered with %v", err)
		}
		theirs, err := s.Get(ada, "n", 1)
		s.must(err)
		if theirs.Schedule.ScheduleID != "n" || theirs.Schedule.Revision != 1 {
			s.Errorf("the first owner's schedule became %+v", theirs.Schedule)
		}
		if runs, err := s.ListRuns(ada, schedule.RunFilter{ScheduleID: "n", Limit: 10}); err != nil || len(runs) != 0 {
			s.Errorf("it has the runs %v, %v", runs, err)
		}
	})
}

func TestOwnersWhoTakeAnIDAtOnceEachGetOne(t *testing.T) {
	onStores(t, func(s *stage) {
		const owners = 8
		ids := make([]string, owners)
		errs := make([]error, owners)
		var all sync.WaitGroup
		for i := range owners {
			all.Go(func() {
				done, err := s.Upsert(asOwner(t, fmt.Sprint("o", i)), everyDay("n"))
				if errs[i] = err; err == nil {
					ids[i] = done.Schedule.ScheduleID
				}
			})
		}
		all.Wait()
		short := 0
		for i, id := range ids {
			s.must(errs[i])
			if id == "n" {
				short++
			} else if want := fmt.Sprintf("o%d:n", i); id != want {
				s.Errorf("the schedule of owner %d is stored as %s, want n or %s", i, id, want)
			}
		}
		if short != 1 {
			s.Errorf("%d owners got the short id, want one: %v", short, ids)
		}
	})
}
