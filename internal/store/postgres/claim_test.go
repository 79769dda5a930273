package postgres_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
)

func lead(t *testing.T, store *postgres.Store) schedule.Term {
	t.Helper()
	term, ok, err := store.Takeover(t.Context(), schedule.TakeoverRequest{Holder: "leader", TTL: time.Hour, LockHeld: true})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return term
}

func TestStrandedRowsEndUnderEveryPolicy(t *testing.T) {
	t.Parallel()
	store, _ := fresh(t)
	term := lead(t, store)
	late := noon.Add(-time.Hour)
	keys := make(map[schedule.OverlapPolicy]schedule.Key)
	for _, policy := range schedule.OverlapPolicies {
		s := everySecond("deleted-"+string(policy), noon)
		s.OverlapPolicy, s.DeletedAt = policy, noon
		create(t, store, noon, s)
		run := slotOf(&s, late)
		keys[policy] = run.Key
		err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}},
			func([]schedule.ChangeInput) ([]schedule.Change, error) {
				return []schedule.Change{{ScheduleID: s.ScheduleID, Runs: []schedule.Run{run}, Now: noon}}, nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	req := schedule.ClaimRequest{Term: term, Now: noon, Limit: 10, Grace: time.Minute, Lease: time.Minute}
	if _, err := store.Claim(t.Context(), req, claimFirst); err != nil {
		t.Fatal(err)
	}
	for policy, key := range keys {
		run, err := store.GetRun(t.Context(), key)
		if err != nil || run.Status != schedule.StatusCancelled || run.Reason != schedule.ReasonDeleted {
			t.Errorf("under %s it is %s(%s), want CANCELLED(deleted); %v", policy, run.Status, run.Reason, err)
		}
	}
}
