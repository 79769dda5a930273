package worker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// grant creates a grant of owner u for workflow w.
func (r *rig) grant(id string, more ...func(*registrar.GrantInput)) {
	r.Helper()
	in := registrar.GrantInput{GrantID: id, UserID: "u", BillingAccountID: "acme", Scopes: []string{"graph:execute:w"}}
	for _, change := range more {
		change(&in)
	}
	if _, err := r.registrar.CreateGrant(r.Context(), in); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) revokeGrant(id string) (answered time.Time) {
	r.Helper()
	if _, err := r.registrar.RevokeGrant(r.Context(), registrar.RevokeInput{Grant: schedule.GrantRef{GrantID: id}}); err != nil {
		r.Fatal(err)
	}
	return time.Now()
}

func onGrant(id string) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) { in.Definition.ExecutionGrantID = id }
}

func TestNothingIsSentLaterThanASecondAfterARevocation(t *testing.T) {
	// At the very instant of a slot, and just before and after, when it is armed.
	for _, off := range []time.Duration{0, -time.Millisecond, time.Millisecond, -200 * time.Millisecond} {
		t.Run(off.String(), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.grant("g")
				r.every("s", time.Second, overlap(schedule.OverlapAllow), onGrant("g"))
				stop := r.start()
				defer stop()
				r.until(3*time.Second + off)
				answered := r.revokeGrant("g")
				r.until(8 * time.Second)
				r.quietAfter("s", answered, time.Now())
				if len(r.executor.calls("s")) == 0 {
					r.Error("nothing was sent before the revocation either")
				}
				r.is(r.slot("s", 6*time.Second), schedule.StatusSkipped, schedule.ReasonGrantRevoked)
			})
		})
	}
}

func TestAScheduleLivesOnWhenItsGrantHasEnded(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.grant("short", func(in *registrar.GrantInput) { in.ExpiresAt = r.at(4 * time.Second) })
		r.grant("next")
		r.every("s", 2*time.Second, onGrant("short"))
		stop := r.start()
		defer stop()
		r.until(5 * time.Second)
		r.is(r.slot("s", 2*time.Second), schedule.StatusSuccess, schedule.ReasonNone)
		ended := r.slot("s", 4*time.Second) // at the very end of the grant
		r.is(ended, schedule.StatusSkipped, schedule.ReasonGrantExpired)
		if !strings.Contains(ended.ErrorMessage, `"short" expired at`) {
			r.Errorf("its message is %q", ended.ErrorMessage)
		}
		r.every("s", 2*time.Second, onGrant("next"), func(in *registrar.UpsertInput) { in.Definition.StartAt = r.at(6 * time.Second) })
		r.until(7 * time.Second)
		r.is(r.slot("s", 6*time.Second), schedule.StatusSuccess, schedule.ReasonNone)
	})
}

func TestAForgedGrantReachesNoExecutor(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.grant("theirs", func(in *registrar.GrantInput) { in.UserID = "another-tenant" })
		r.grant("g")
		r.every("s", 2*time.Second, onGrant("g"))
		// As if somebody had written it into the database: no upsert takes it.
		err := r.store.ChangeSchedules(r.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"s"}}, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
			s := found[0].Schedule
			s.ExecutionGrantID, s.Revision = "theirs", s.Revision+1
			return []schedule.Change{{ScheduleID: "s", Row: s, NewRevision: true, Now: time.Now()}}, nil
		})
		if err != nil {
			r.Fatal(err)
		}
		byHand := r.trigger("s", "one")
		stop := r.start()
		defer stop()
		r.until(5 * time.Second)
		for _, run := range []schedule.Run{r.slot("s", 2*time.Second), r.slot("s", 4*time.Second), r.run(byHand.Key)} {
			r.is(run, schedule.StatusSkipped, schedule.ReasonGrantDenied)
			if strings.Contains(run.ErrorMessage, "another-tenant") {
				r.Errorf("the message tells of another tenant: %q", run.ErrorMessage)
			}
		}
		if n := len(r.executor.calls("s")); n != 0 {
			r.Errorf("the executor was called %d times", n)
		}
	})
}

func TestWhereAGrantIsRequiredSchedulesOfBeforeAreSkipped(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.config.RequireGrant = true
		r.every("s", 2*time.Second)
		stop := r.start()
		defer stop()
		r.until(3 * time.Second)
		r.is(r.slot("s", 2*time.Second), schedule.StatusSkipped, schedule.ReasonGrantDenied)
	})
}
