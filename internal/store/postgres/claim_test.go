package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
)

// due are schedules with one due slot each, and a leader that knows them.
func due(t *testing.T, ids ...string) (store *postgres.Store, url string, k *leaseRenewer, runs []schedule.Run) {
	t.Helper()
	store, url = fresh(t)
	for _, id := range ids {
		s := everySecond(id, noon)
		create(t, store, noon, s)
		runs = append(runs, slotOf(&s, noon))
		insert(t, store, id, runs[len(runs)-1])
	}
	k = newLeaseRenewer(store, lead(t, store))
	if err := k.load(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	return store, url, k, runs
}

// keysOf are the runs of launches.
func keysOf(claimed *ledger.Claimed) (keys []schedule.Key) {
	for i := range claimed.Launches {
		keys = append(keys, claimed.Launches[i].Run.Key)
	}
	return keys
}

func TestAChangeIsReadOnceHoweverLongItsTransactionWasOpen(t *testing.T) {
	t.Parallel()
	store, url, k, runs := due(t, "first")
	s := everySecond("slow", noon)
	create(t, store, noon, s)
	slow := slotOf(&s, noon)
	insert(t, store, "slow", slow)
	open := connect(t, url)
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := open.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	// The row of the slow run comes into being only with the commit.
	exec(`DELETE FROM changes`)
	exec(`CREATE TEMP TABLE held AS SELECT * FROM open_runs WHERE sid = (SELECT sid FROM schedules WHERE schedule_id = 'slow')`)
	exec(`DELETE FROM open_runs WHERE sid = (SELECT sid FROM schedules WHERE schedule_id = 'slow')`)
	exec(`BEGIN`)
	exec(`INSERT INTO open_runs SELECT * FROM held`)
	exec(`INSERT INTO changes (kind, first_bucket, last_bucket, keys) VALUES (2, 0, 1023, ARRAY[$1::bytea])`, slow.Key[:])
	claim := func(want ...schedule.Key) {
		t.Helper()
		claimed, err := k.claimLoaded(t.Context(), noon)
		if err != nil || !slices.Equal(keysOf(&claimed), want) {
			t.Fatalf("claimed %v, want %v; %v", keysOf(&claimed), want, err)
		}
	}
	claim(runs[0].Key)
	later := everySecond("later", noon)
	create(t, store, noon, later)
	quick := slotOf(&later, noon)
	insert(t, store, "later", quick) // its transaction began later and ends before
	claim(quick.Key)
	claim()
	exec(`COMMIT`)
	claim(slow.Key)
	reads := 0
	err := connect(t, url).QueryRow(t.Context(), `SELECT count(*) FROM changes
		WHERE xid >= pg_snapshot_xmax($1::pg_snapshot) OR xid IN (SELECT pg_snapshot_xip($1::pg_snapshot))`,
		strings.SplitN(string(k.position), " ", 2)[1]).Scan(&reads)
	if err != nil || reads != 0 {
		t.Errorf("%d changes would be read again (%v)", reads, err)
	}
}

func TestAPositionOfAnotherServerIsLost(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(ledger.Position) ledger.Position{
		"the server was started again": func(p ledger.Position) ledger.Position { return "1" + p },
		"another store made it":        func(ledger.Position) ledger.Position { return "17" },
		"it has no snapshot":           func(ledger.Position) ledger.Position { return "17 of 18" },
		"there is none":                func(ledger.Position) ledger.Position { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _, k, runs := due(t, "s")
			k.position = of(k.position)
			if _, err := k.claimLoaded(t.Context(), noon); !errors.Is(err, ledger.ErrPositionLost) {
				t.Errorf("got %v, want ErrPositionLost", err)
			}
			if run, err := store.GetRun(t.Context(), runs[0].Key); err != nil || run.Status != schedule.StatusPlanned {
				t.Errorf("the run is %s, want PLANNED; %v", run.Status, err)
			}
			if claimed, err := k.claim(t.Context(), noon); err != nil || len(claimed.Launches) != 1 {
				t.Errorf("after a rebuild %d runs are launched, want 1; %v", len(claimed.Launches), err)
			}
		})
	}
}

func TestAClaimLeavesOutWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		other   string // another transaction, which stays open
		by      string // somebody who writes no change
		refused bool
		status  schedule.Status // of the run that is left out; empty: it is gone
	}{
		{name: "a run that another transaction has locked", other: `SELECT 1 FROM open_runs WHERE sid = (SELECT sid FROM schedules WHERE schedule_id = 'a') FOR UPDATE`, status: schedule.StatusPlanned},
		{name: "a run that has ended", by: `DELETE FROM open_runs WHERE sid = (SELECT sid FROM schedules WHERE schedule_id = 'a')`},
		{name: "a run of another revision", by: `UPDATE open_runs SET revision = 9 WHERE sid = (SELECT sid FROM schedules WHERE schedule_id = 'a')`, status: schedule.StatusPlanned},
		{
			name: "a run whose group has another exclusive run in flight", refused: true, status: schedule.StatusPlanned,
			by: `INSERT INTO open_runs SELECT (json_populate_record(r, json_build_object('state', 3, 'status', 4, 'exclusive_flight', true,
					'idempotency_key', '\x' || repeat('00', 32)))).* FROM open_runs r WHERE r.sid = (SELECT sid FROM schedules WHERE schedule_id = 'a')`,
		},
		{name: "a run whose row is damaged", by: `UPDATE open_runs SET max_queued = -1 WHERE sid = (SELECT sid FROM schedules WHERE schedule_id = 'a')`, status: schedule.StatusFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, url, k, runs := due(t, "a", "b")
			if tc.by != "" {
				if _, err := connect(t, url).Exec(t.Context(), tc.by); err != nil {
					t.Fatal(err)
				}
			}
			if tc.other != "" {
				conn := connect(t, url)
				if _, err := conn.Exec(t.Context(), `BEGIN; `+tc.other); err != nil {
					t.Fatal(err)
				}
			}
			claimed, err := k.claimLoaded(t.Context(), noon)
			if err != nil || !slices.Equal(keysOf(&claimed), []schedule.Key{runs[1].Key}) || !slices.Equal(claimed.Verdicts.Claims, keysOf(&claimed)) {
				t.Errorf("claimed %v of %v, want only the other run; %v", keysOf(&claimed), claimed.Verdicts.Claims, err)
			}
			left := claimed.Missing
			if tc.refused {
				left = claimed.Refused
			}
			if !slices.Equal(left, []schedule.Key{runs[0].Key}) {
				t.Errorf("missing %v, refused %v: want the run that is left out", claimed.Missing, claimed.Refused)
			}
			var status schedule.Status // in SQL: the row may be unreadable
			err = connect(t, url).QueryRow(t.Context(), `SELECT coalesce((SELECT status FROM schedule_runs WHERE idempotency_key = $1), '')`, runs[0].Key[:]).Scan(&status)
			if err != nil || status != tc.status {
				t.Errorf("it is %s, want %s; %v", status, tc.status, err)
			}
		})
	}
}

// The holder of the lock of a run is about to move it, so it is not sent again now.
func TestARunThatAnotherTransactionHasLockedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	store, url, k, runs := due(t, "a", "b")
	if claimed, err := k.claimLoaded(t.Context(), noon); err != nil || len(claimed.Launches) != 2 {
		t.Fatalf("claimed %d runs: %v", len(claimed.Launches), err)
	}
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), `BEGIN; SELECT 1 FROM open_runs WHERE sid = (SELECT sid FROM schedules WHERE schedule_id = 'a') FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	later := noon.Add(time.Minute) // the leaseRenewer's lease
	sendAgain := func(now time.Time) []schedule.Key {
		keys := k.state.SendAgain(now, 10, nil)
		sent, err := store.Reclaim(t.Context(), ledger.ReclaimRequest{Term: k.term, Now: now, Lease: time.Minute, Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		k.state.SentAgain(now, keys, sent.Read)
		var launched []schedule.Key
		for i := range sent.Launches {
			launched = append(launched, sent.Launches[i].Run.Key)
		}
		return launched
	}
	if got := sendAgain(later); !slices.Equal(got, []schedule.Key{runs[1].Key}) {
		t.Errorf("sent again: %v, want only the run that nobody has locked", got)
	}
	if _, err := conn.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if got := sendAgain(later.Add(time.Second)); !slices.Equal(got, []schedule.Key{runs[0].Key}) {
		t.Errorf("sent again a second later: %v, want the other one", got)
	}
}

// The edit comes after the changes were read and before the verdicts are written:
// the capacity of an owner is asked for in between.
func TestARunThatAnEditReplacedMeanwhileIsJudgedAgain(t *testing.T) {
	t.Parallel()
	store, _ := fresh(t)
	s := everySecond("edited", noon)
	create(t, store, noon, s)
	ahead := noon.Add(500 * time.Millisecond)
	insert(t, store, "edited", slotOf(&s, ahead))
	k := newLeaseRenewer(store, lead(t, store))
	k.pass.ClaimAhead = time.Second
	k.pass.Capacity = func(string) int {
		if s.Revision == 1 {
			s.Revision, s.Priority = 2, 3
			err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"edited"}},
				func([]schedule.ChangeInput) ([]schedule.Change, error) {
					return []schedule.Change{{
						ScheduleID: "edited", Row: &s, NewRevision: true, DropPlannedAfter: noon, Runs: []schedule.Run{slotOf(&s, ahead)}, Now: noon,
					}}, nil
				})
			if err != nil {
				t.Error(err)
			}
		}
		return 10
	}
	claimed, err := k.claim(t.Context(), noon)
	if err != nil || len(claimed.Launches) != 1 || len(claimed.Missing) > 0 {
		t.Fatalf("%d runs launched, %v missing, want 1 and none; %v", len(claimed.Launches), claimed.Missing, err)
	}
	if l := claimed.Launches[0]; l.Run.Revision != 2 || l.Definition.Priority != 3 {
		t.Errorf("launched under revision %d with priority %d, want 2 and 3", l.Run.Revision, l.Definition.Priority)
	}
}

// What a claim would have to read of a burst, in the second that is full with it,
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
	result, err := newLeaseRenewer(store, term).claim(t.Context(), due)
	if err != nil || len(result.Launches) != 1 || result.Launches[0].Definition.CronExpr != s.CronExpr {
		t.Fatalf("%d launches, want that of %s with its definition; %v", len(result.Launches), s.ScheduleID, err)
	}
}

// A snapshot of an age proves that a change was committed before. The start of its
// transaction proves nothing.
func TestChangesAreKeptAsLongAsAReaderMayNeedThem(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	term := lead(t, store)
	conn := connect(t, url)
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	prune := func(t *testing.T) {
		t.Helper()
		for n := 1; n > 0; {
			var err error
			if n, err = store.Prune(t.Context(), term, noon.Add(-time.Hour), 2); err != nil {
				t.Fatal(err)
			}
		}
	}
	const oldChanges = `INSERT INTO changes (kind, first_bucket, last_bucket, at)
		SELECT kind, 0, 0, now() - interval '1 day' FROM generate_series(1, 4) kind, generate_series(1, 3)`
	slow, err := connect(t, url).Begin(t.Context())
	if err == nil {
		_, err = slow.Exec(t.Context(), oldChanges)
	}
	if err != nil {
		t.Fatal(err)
	}
	exec(oldChanges)
	prune(t) // its snapshot sees those of conn
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	const another = `INSERT INTO change_snapshots SELECT now() - interval '1 day', 'another', pg_current_snapshot()::text`
	for _, step := range []struct {
		name, before, kept string
	}{
		{"no snapshot is a minute old", ``, "6 6 6 6"},
		{"the snapshot of another server is old", another, "6 6 6 6"},
		{"the snapshot is over a minute old", `UPDATE change_snapshots SET taken_at = now() - interval '61 seconds'`, "6 6 3 6"},
		{"the snapshot is over an hour old", `UPDATE change_snapshots SET taken_at = now() - interval '61 minutes'`, "3 3 3 3"},
		{"all snapshots are over an hour old", `UPDATE change_snapshots SET taken_at = taken_at - interval '61 minutes'`, "0 0 0 0"},
	} {
		exec(`SELECT 1;` + step.before)
		prune(t)
		var kept string
		err := conn.QueryRow(t.Context(), `SELECT string_agg((SELECT count(*) FROM changes c WHERE c.kind = k)::text, ' ' ORDER BY k) FROM generate_series(1, 4) k`).Scan(&kept)
		if err != nil || kept != step.kept {
			t.Errorf("%s: kept %s of kinds 1 to 4, want %s; %v", step.name, kept, step.kept, err)
		}
	}
	var snapshots int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM change_snapshots`).Scan(&snapshots); err != nil || snapshots != 2 {
		t.Errorf("%d snapshots are kept, want that of an hour ago and that of now; %v", snapshots, err)
	}
}

// A crash of the server's processes can bring transaction numbers back, and keeps its
// start time. The generation of instances changes then too.
func TestAPositionNamesTheGenerationOfTheServer(t *testing.T) {
	t.Parallel()
	_, url, k, _ := due(t, "s")
	var generation string
	if err := connect(t, url).QueryRow(t.Context(), postgres.ServerGeneration).Scan(&generation); err != nil {
		t.Fatal(err)
	}
	if of, _, _ := strings.Cut(string(k.position), " "); of != generation {
		t.Errorf("the position is of %q, want %q", of, generation)
	}
}
