package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func passAt(now time.Time, limit int) ledger.Pass {
	return ledger.Pass{Now: now, ClaimAhead: 950 * time.Millisecond, Grace: time.Minute, Limit: limit}
}

// A burst that does not fit into the window is loaded in portions, as claims make
// room. Until all of it is loaded, seen_until stays before it.
func TestAWindowSmallerThanABurst(t *testing.T) {
	const window, burst, limit = 100, 1000, 40
	runs := manyRuns(burst, burst, 0)
	s := ledger.NewShardState(1, noon.Add(-time.Minute), window)
	loaded, claimed := 0, make(map[schedule.Key]bool)
	for pass := 0; len(claimed) < burst; pass++ {
		if pass > 2*burst/limit {
			t.Fatalf("%d runs were claimed in %d passes", len(claimed), pass)
		}
		n := min(window-s.Planned(), burst-loaded)
		s.Load(&ledger.Open{Runs: runs[loaded : loaded+n]})
		loaded += n
		if s.LoadedUntil(noon.Add(-time.Microsecond)); loaded == burst {
			s.LoadedUntil(noon.Add(10 * time.Second))
		}
		now := noon.Add(time.Second)
		v := judge(s, passAt(now, limit))
		s.Commit(v, time.Minute)
		for _, key := range v.Claims {
			if claimed[key] {
				t.Fatalf("run %s was claimed twice", key)
			}
			claimed[key] = true
		}
		if complete := loaded == burst; complete != v.SeenUntil.Equal(now) || !complete && !v.SeenUntil.Before(noon) {
			t.Fatalf("%d of %d runs are loaded, and seen_until is %s", loaded, burst, v.SeenUntil)
		}
		if n := s.Planned(); n > window {
			t.Fatalf("%d planned runs are held, more than %d", n, window)
		}
	}
}

// What is over is forgotten: the state is as large as what is open.
func TestTheStateForgetsWhatIsOver(t *testing.T) {
	s := ledger.NewShardState(1, noon, 0)
	for round := range 3 {
		runs := manyRuns(300, 200, 50)
		s.Load(&ledger.Open{Runs: runs})
		keys := make([]schedule.Key, len(runs))
		for i := range runs {
			keys[i] = runs[i].Key
		}
		v := judge(s, passAt(noon, 50+round*100))
		if s.Commit(v, time.Minute); len(v.Claims) != min(50+round*100, 200) {
			t.Fatalf("%d claims", len(v.Claims))
		}
		s.Apply(ledger.Changes{Ended: keys})
		judge(s, passAt(noon, 10))
		if runs, schedules, groups, owners, listed := s.Known(); runs+schedules+groups+owners+listed != 0 {
			t.Fatalf("nothing is open, and the state holds %d runs, %d schedules, %d groups, %d owners; %d are in its lists", runs, schedules, groups, owners, listed)
		}
	}
}

// A claim transaction that does not find one run of a group as it was must not
// write a verdict that counts on it.
func TestNoVerdictCountsOnARunThatWasNotFound(t *testing.T) {
	runs := manyRuns(4, 4, 0)
	for i := range runs[:3] {
		runs[i].OverlapKey = "ada/shared"
	}
	s := ledger.NewShardState(1, noon, 0)
	s.Load(&ledger.Open{Runs: runs})
	v := judge(s, passAt(noon, 10))
	if len(v.Claims) != 2 || len(v.Ends) != 2 {
		t.Fatalf("got %d claims and %d ends, want one claim and two ends of the group, and one other claim", len(v.Claims), len(v.Ends))
	}
	claimed := v.Claims[slices.IndexFunc(v.Claims, func(key schedule.Key) bool { return key != runs[3].Key })]
	left := s.Without(v, []schedule.Key{claimed})
	if len(left.Claims) != 1 || left.Claims[0] != runs[3].Key || len(left.Ends) != 0 {
		t.Errorf("without run %s there remain %d claims and %d ends, want the claim of the other group only", claimed, len(left.Claims), len(left.Ends))
	}
	if len(v.Claims) != 2 || len(v.Ends) != 2 {
		t.Error("the verdicts themselves were changed")
	}
}

// A state whose commit has an unknown result gives no verdict until it is rebuilt.
func TestADiscardedStateGivesNoVerdict(t *testing.T) {
	s := ledger.NewShardState(1, noon, 0)
	s.Load(&ledger.Open{Runs: manyRuns(3, 3, 0)})
	s.Discard()
	if v := judge(s, passAt(noon, 10)); v.Moved() || !s.Stale() {
		t.Errorf("got %+v", v)
	}
}

// tables answer what a claim transaction would read.
type tables struct {
	changes  []ledger.Changes // one for each reading
	inFlight map[schedule.Key]bool
	lookedUp int
}

func (r *tables) Changes() (c ledger.Changes, err error) {
	if len(r.changes) > 0 {
		c, r.changes = r.changes[0], r.changes[1:]
	}
	return c, nil
}

func (r *tables) InFlight([]schedule.Key) (map[schedule.Key]bool, error) {
	r.lookedUp++
	return r.inFlight, nil
}

func (r *tables) Facts(ids []schedule.RevisionID) (ledger.Facts, error) { return same(ids) }

// A run that no change has ended is found gone by the look-up, and its group is
// free: a lost change costs a second, not the group.
func TestABlockerThatIsGoneFreesItsGroup(t *testing.T) {
	runs := manyRuns(1, 1, 1)
	runs[1].OverlapKey = runs[0].OverlapKey
	for name, c := range map[string]struct {
		read    tables
		claims  int
		ends    int
		strays  int
		lookUps int
	}{
		"it is in flight":                {read: tables{inFlight: map[schedule.Key]bool{runs[1].Key: true}}, ends: 1, lookUps: 1},
		"it is gone, and a change says":  {read: tables{changes: []ledger.Changes{{}, {Ended: []schedule.Key{runs[1].Key}}}}, claims: 1, lookUps: 1},
		"it is gone, and no change says": {read: tables{}, claims: 1, strays: 1, lookUps: 1},
		"a change says it at once":       {read: tables{changes: []ledger.Changes{{Ended: []schedule.Key{runs[1].Key}}}}, claims: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := ledger.NewShardState(1, noon, 0)
			s.Load(&ledger.Open{Runs: runs})
			claim := ledger.Claim{State: s, Pass: passAt(noon, 10)}
			v, err := claim.Decide(&c.read)
			strays := claim.Strays
			if err != nil || len(v.Claims) != c.claims || len(v.Ends) != c.ends || len(strays) != c.strays || c.read.lookedUp != c.lookUps {
				t.Errorf("%d claims, %d ends, strays %v, %d look-ups, %v; want %+v", len(v.Claims), len(v.Ends), strays, c.read.lookedUp, err, c)
			}
		})
	}
}

// A slot of a backfill is dropped and inserted again under its key between two
// readings: its end and its row come together.
func TestARunThatEndedAndWasInsertedAgainIsKnown(t *testing.T) {
	runs := manyRuns(1, 1, 0)
	for name, loaded := range map[string][]ledger.Run{"it was known before": runs, "it was not": nil} {
		t.Run(name, func(t *testing.T) {
			s := ledger.NewShardState(1, noon, 0)
			s.Load(&ledger.Open{Runs: loaded})
			s.Apply(ledger.Changes{Ended: []schedule.Key{runs[0].Key}, Runs: runs})
			if v := judge(s, passAt(noon, 10)); len(v.Claims) != 1 {
				t.Errorf("%d claims, want the run that was inserted again", len(v.Claims))
			}
		})
	}
}

func (r *tables) Superseded([]schedule.Key) (map[schedule.Key]bool, error) { return nil, nil }

func (r *tables) Queues([]string) (map[string]*schedule.Queue, error) { return nil, nil }

func (r *tables) Waiting(int32, int) (int, error) { return 0, nil }
