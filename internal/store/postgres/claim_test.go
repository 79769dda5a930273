package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
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

// The database refuses the batch, so its overlap keys are claimed one by one;
// at the second of them the connection's caller is gone.
func TestWhatWasClaimedBeforeAFailureIsHandedOut(t *testing.T) {
	t.Parallel()
	store, _ := fresh(t)
	term := lead(t, store)
	var keys []schedule.Key
	for _, id := range []string{"first", "second"} {
		s := everySecond(id, noon)
		create(t, store, noon, s)
		runs := []schedule.Run{slotOf(&s, noon.Add(-2*time.Second)), slotOf(&s, noon.Add(-time.Second))}
		keys = append(keys, runs[0].Key, runs[1].Key)
		err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{id}},
			func([]schedule.ChangeInput) ([]schedule.Change, error) {
				return []schedule.Change{{ScheduleID: id, Runs: runs, Now: noon}}, nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	req := schedule.ClaimRequest{Term: term, Now: noon, Limit: 10, Grace: time.Minute, Lease: time.Minute}
	for _, tc := range []struct {
		name      string
		failAt    int // which call of the judge
		launches  int
		wantError bool
	}{
		{name: "nothing was committed", failAt: 3, wantError: true},
		{name: "the first overlap key was", failAt: 4, launches: 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		result, err := store.Claim(ctx, req, func(g schedule.OverlapGroup) []schedule.Verdict {
			if calls++; calls == tc.failAt {
				cancel()
			}
			var all []schedule.Verdict
			for _, run := range g.Due { // more than one can be in flight
				all = append(all, schedule.Verdict{Key: run.Key, Action: schedule.VerdictClaim})
			}
			return all
		})
		cancel()
		if len(result.Launches) != tc.launches || (err != nil) != tc.wantError {
			t.Errorf("%s: %d launches were handed out with %v, want %d", tc.name, len(result.Launches), err, tc.launches)
		}
		inFlight := 0
		for _, key := range keys {
			run, err := store.GetRun(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if run.Status == schedule.StatusLaunching {
				inFlight++
			}
		}
		if inFlight != tc.launches {
			t.Errorf("%s: %d rows are LAUNCHING, want %d", tc.name, inFlight, tc.launches)
		}
		if !tc.wantError && !result.More {
			t.Errorf("%s: it does not say that more is left", tc.name)
		}
	}
}

// Rows whose run_at lies ahead are taken back and planned anew by an edit, also
// between the reading of what may be armed and the claim of it. The judge of
// another schedule is where such an edit finds its place here.
func TestARowThatAnEditReplacedMeanwhileIsNotClaimedAsItWasRead(t *testing.T) {
	t.Parallel()
	store, _ := fresh(t)
	term := lead(t, store)
	ahead := noon.Add(500 * time.Millisecond)
	edited, judged := everySecond("edited", noon), everySecond("judged", noon)
	edited.OverlapPolicy = schedule.OverlapAllow
	create(t, store, noon, edited, judged)
	put := func(s schedule.Schedule, change schedule.Change) {
		t.Helper()
		change.ScheduleID, change.Now, change.Runs = s.ScheduleID, noon, []schedule.Run{slotOf(&s, ahead)}
		err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}},
			func([]schedule.ChangeInput) ([]schedule.Change, error) { return []schedule.Change{change}, nil })
		if err != nil {
			t.Error(err)
		}
	}
	put(edited, schedule.Change{})
	put(judged, schedule.Change{})

	req := schedule.ClaimRequest{Term: term, Now: noon, Ahead: time.Second, Limit: 10, Grace: time.Minute, Lease: time.Minute}
	result, err := store.Claim(t.Context(), req, func(g schedule.OverlapGroup) []schedule.Verdict {
		if edited.Revision == 1 {
			edited.Revision, edited.OverlapPolicy = 2, schedule.OverlapSkip
			put(edited, schedule.Change{Row: &edited, NewRevision: true, DropPlannedAfter: noon})
		}
		return claimFirst(g)
	})
	if err != nil || len(result.Launches) != 1 || result.Launches[0].Run.ScheduleID != judged.ScheduleID {
		t.Fatalf("claimed %+v, want only the schedule that was judged; %v", result.Launches, err)
	}
	run, err := store.GetRun(t.Context(), schedule.SlotKey(edited.ScheduleID, ahead))
	if err != nil || run.Status != schedule.StatusPlanned || run.Revision != 2 {
		t.Errorf("the row stands as %s of revision %d, want PLANNED of 2: nobody has judged it; %v", run.Status, run.Revision, err)
	}
}

// What a claim would have to read of a herd, in the second that is full with it,
// was read when its slots were planned.
func TestAClaimFindsTheDefinitionsReadThatWerePlanned(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	term := lead(t, store)
	s := everySecond("planned", noon)
	create(t, store, noon, s)
	due := noon.Add(time.Second)
	req := schedule.PlanRequest{Term: term, Now: noon, Horizon: due, Limit: 10, Grace: time.Minute}
	if _, err := store.Plan(t.Context(), req, planOne); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, url).Exec(t.Context(), `DELETE FROM schedule_revisions`); err != nil {
		t.Fatal(err)
	}
	claim := schedule.ClaimRequest{Term: term, Now: due, Limit: 10, Grace: time.Minute, Lease: time.Minute}
	result, err := store.Claim(t.Context(), claim, claimFirst)
	if err != nil || len(result.Launches) != 1 || result.Launches[0].Definition.CronExpr != s.CronExpr {
		t.Fatalf("%d launches, want that of %s with its definition; %v", len(result.Launches), s.ScheduleID, err)
	}
}

// A stamp costs half as much as a claim, and what the next claim takes needs none.
func TestWhatTheNextClaimTakesIsNotStamped(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	term := lead(t, store)
	s := everySecond("many", noon)
	s.OverlapPolicy = schedule.OverlapAllow
	create(t, store, noon, s)
	runs := []schedule.Run{slotOf(&s, noon.Add(-2*time.Second)), slotOf(&s, noon.Add(-time.Second))}
	err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}},
		func([]schedule.ChangeInput) ([]schedule.Change, error) {
			return []schedule.Change{{ScheduleID: s.ScheduleID, Runs: runs, Now: noon}}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	req := schedule.ClaimRequest{Term: term, Now: noon, Limit: 1, Spare: true, Grace: time.Minute, Lease: time.Minute}
	result, err := store.Claim(t.Context(), req, claimFirst)
	if err != nil || len(result.Launches) != 1 || !result.More {
		t.Fatalf("%d launches and More %v, want one and more; %v", len(result.Launches), result.More, err)
	}
	var stamped int
	if err := connect(t, url).QueryRow(t.Context(), `SELECT count(judged_at) FROM schedule_runs`).Scan(&stamped); err != nil || stamped > 0 {
		t.Errorf("%d rows are stamped, want none; %v", stamped, err)
	}
}

// What is alone under its key is taken unjudged, but not right after a claim in
// which little was: to try it in vain for each key is what an overloaded stream
// has no time for. Either way each verdict is the same.
func TestAfterAClaimInWhichLittleWasAloneTheNextJudgesAll(t *testing.T) {
	t.Parallel()
	store, _ := fresh(t)
	term := lead(t, store)
	schedules := make([]schedule.Schedule, 4)
	for i := range schedules {
		schedules[i] = everySecond(string(rune('a'+i)), noon)
		schedules[i].OverlapPolicy = schedule.OverlapSkip
	}
	create(t, store, noon, schedules...)
	slots := func(at time.Time) (keys []schedule.Key) {
		t.Helper()
		for i := range schedules {
			run := slotOf(&schedules[i], at)
			keys = append(keys, run.Key)
			err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{run.ScheduleID}},
				func([]schedule.ChangeInput) ([]schedule.Change, error) {
					return []schedule.Change{{ScheduleID: run.ScheduleID, Runs: []schedule.Run{run}, Now: noon}}, nil
				})
			if err != nil {
				t.Fatal(err)
			}
		}
		return keys
	}
	end := func(keys []schedule.Key) {
		t.Helper()
		settlements := make([]schedule.Settlement, len(keys))
		for i, key := range keys {
			settlements[i] = schedule.Settlement{Key: key, To: schedule.StatusSuccess}
		}
		if _, err := store.Settle(t.Context(), term, noon, settlements); err != nil {
			t.Fatal(err)
		}
	}
	var inFlight []schedule.Key
	for i, pass := range []struct {
		name             string
		ends             bool // what was in flight before
		judged, launches int
		status           schedule.Status
	}{
		{"all are alone, and taken unjudged", true, 0, 4, schedule.StatusLaunching},
		{"behind what is in flight all are skipped", false, 4, 0, schedule.StatusSkipped},
		{"all are alone again, and judged", true, 4, 4, schedule.StatusLaunching},
		{"and then no longer", true, 0, 4, schedule.StatusLaunching},
	} {
		if pass.ends {
			end(inFlight)
		}
		keys, judged := slots(noon.Add(time.Duration(i-10)*time.Second)), 0
		req := schedule.ClaimRequest{Term: term, Now: noon, Limit: 10, LoneUnjudged: true, Grace: time.Minute, Lease: time.Minute}
		result, err := store.Claim(t.Context(), req, func(g schedule.OverlapGroup) []schedule.Verdict {
			judged++
			return ledger.JudgeOverlap(g)
		})
		if err != nil || len(result.Launches) != pass.launches || judged != pass.judged {
			t.Errorf("%s: %d launches of %d judged, want %d of %d; %v", pass.name, len(result.Launches), judged, pass.launches, pass.judged, err)
		}
		for _, key := range keys {
			if run, err := store.GetRun(t.Context(), key); err != nil || run.Status != pass.status {
				t.Errorf("%s: a run is %s, want %s; %v", pass.name, run.Status, pass.status, err)
			}
		}
		if pass.launches > 0 {
			inFlight = keys
		}
	}
}
