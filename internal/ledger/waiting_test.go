package ledger_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// waitingBehind is a waiting run and the run in flight that it waits for.
func waitingBehind() (waiting, inFlight ledger.Run) {
	runs := manyRuns(1, 1, 1)
	waiting, inFlight = runs[0], runs[1]
	waiting.WaitingSince, waiting.Policy = noon, schedule.OverlapQueue
	inFlight.OverlapKey, inFlight.Status = waiting.OverlapKey, schedule.StatusStarted
	return waiting, inFlight
}

// A defect must not hold a waiting run forever: within ten seconds the state notices
// what differs from the tables.
func TestAWaitingRunIsNotHeldForever(t *testing.T) {
	waiting, inFlight := waitingBehind()
	for _, c := range []struct {
		name           string
		load           []ledger.Run
		lose           bool
		there          bool // the run in flight, in the tables
		claims, strays int
		lookedUp       int
	}{
		{name: "the run before it is in flight", load: []ledger.Run{waiting, inFlight}, there: true, lookedUp: 2},
		{name: "the run before it is over, and no change says so", load: []ledger.Run{waiting, inFlight}, claims: 1, strays: 1, lookedUp: 1},
		{name: "its group is free, and no pass would look at it", load: []ledger.Run{waiting}, lose: true, claims: 1, strays: 1},
		{name: "its group is free, and passes look at it", load: []ledger.Run{waiting}, claims: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := ledger.NewShardState(1, noon, 0)
			s.Load(&ledger.Open{Runs: c.load})
			read := tables{inFlight: map[schedule.Key]bool{inFlight.Key: c.there}}
			var claims, strays int
			for second := range 16 { // the first look-up, and one ten seconds later
				if c.lose && second == 1 {
					s.LoseFreed()
				}
				limit := 10
				if second == 0 {
					limit = 0
				}
				claim := ledger.Claim{State: s, Pass: passAt(noon.Add(time.Duration(second)*time.Second), limit)}
				v, err := claim.Decide(&read)
				if err != nil {
					t.Fatal(err)
				}
				s.Commit(v, time.Minute)
				claims, strays = claims+len(v.Claims), strays+len(claim.Strays)
			}
			if claims != c.claims || strays != c.strays || read.lookedUp != c.lookedUp {
				t.Errorf("%d claims, %d strays, %d look-ups; want %d, %d, %d", claims, strays, read.lookedUp, c.claims, c.strays, c.lookedUp)
			}
		})
	}
}

// A run in flight that the state does not know blocks its group in the tables. A sweep
// finds it, and the state is rebuilt.
func TestARunOfASweepThatIsUnknownDiscardsTheState(t *testing.T) {
	due, swept := waitingBehind()
	due.WaitingSince = time.Time{}
	for _, c := range []struct {
		name         string
		known, there bool
		claims       int
		stale        bool
	}{
		{name: "it is known", known: true, there: true},
		{name: "it is not known", there: true, stale: true},
		{name: "it has ended since the sweep", claims: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := ledger.NewShardState(1, noon, 0)
			s.Load(&ledger.Open{Runs: []ledger.Run{due}})
			if c.known {
				s.Load(&ledger.Open{Runs: []ledger.Run{swept}})
			}
			claim := ledger.Claim{State: s, Pass: passAt(noon, 10), Swept: []schedule.Key{swept.Key}}
			v, err := claim.Decide(&tables{inFlight: map[schedule.Key]bool{swept.Key: c.there}})
			if err != nil || len(v.Claims) != c.claims || s.Stale() != c.stale || (len(claim.Strays) > 0) != c.stale {
				t.Errorf("%d claims, stale %v, %d strays, %v; want %+v", len(v.Claims), s.Stale(), len(claim.Strays), err, c)
			}
		})
	}
}
