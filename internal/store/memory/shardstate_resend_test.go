package memory_test

import (
	"bytes"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// sendAgain compares what the state sends again, and which cancels it sends, with
// what the rows of the store say.
func (w *shardWorld) sendAgain() {
	changes, err := w.Changes()
	w.must(err)
	w.state.Apply(changes)
	w.compareCancels()
	limit, capacity := 100, func(string) int { return 100 }
	if !w.cancelsOverdue() { // else runs that were just tried may rest, and others get their places
		limit = draw(w, "limit of resends", 0, 1, 2, 3, 100, 100)
		capacities := map[string]int{"ada": draw(w, "capacity", 0, 1, 2, 100), "bob": draw(w, "capacity", 0, 1, 100), "eve": draw(w, "capacity", 1, 100)}
		capacity = func(owner string) int { return capacities[owner] }
	}
	want, all := w.store.OracleReclaim(w.term, w.now, limit, capacity)
	got := w.state.SendAgain(w.now, limit, capacity)
	chosen := slices.Clone(got)
	sendable := slices.DeleteFunc(slices.Clone(got), w.requested)
	if !slices.Equal(sendable, want) {
		w.Fatalf("at %s, limit %d: the state sends %v again, the store %v", w.now.Format("05.000"), limit, sendable, want)
	}
	w.seen.resent += len(want)
	w.seen.resentLeft += all - len(want)
	w.reclaiming = true
	sent, err := w.store.Reclaim(w.ctx, ledger.ReclaimRequest{Term: w.term, Now: w.now, Lease: shardLease, Keys: chosen})
	w.reclaiming = false
	w.must(err)
	launched := make([]schedule.Key, len(sent.Launches))
	for i := range sent.Launches {
		launched[i] = sent.Launches[i].Run.Key
	}
	if !slices.Equal(launched, sendable) {
		w.Fatalf("the store sent %v again, want %v", launched, sendable)
	}
	w.state.SentAgain(w.now, chosen, sent.Read)
	if again := w.state.SendAgain(w.now, limit, func(string) int { return 0 }); len(again) > 0 {
		w.Fatalf("without capacity %v are sent again", again)
	}
	for _, key := range w.state.SendAgain(w.now, 1000, nil) {
		if slices.Contains(chosen, key) {
			w.Fatalf("%v is due again at once", key)
		}
	}
}

// requested reports whether the cancel of a run is requested.
func (w *shardWorld) requested(key schedule.Key) bool {
	r, err := w.store.GetRun(w.ctx, key)
	w.must(err)
	return !r.CancelRequestedAt.IsZero()
}

func (w *shardWorld) cancelsOverdue() bool {
	return slices.ContainsFunc(w.open(schedule.RunFilter{}), func(r schedule.Run) bool {
		return r.Status == schedule.StatusLaunching && !r.CancelRequestedAt.IsZero()
	})
}

func (w *shardWorld) compareCancels() {
	never := func(schedule.Key) time.Time { return time.Time{} }
	var want []schedule.Key
	for _, r := range w.open(schedule.RunFilter{}) {
		if r.Status.InFlight() && !r.CancelRequestedAt.IsZero() {
			want = append(want, r.Key)
		}
	}
	got := w.state.CancelsDue(w.now, 1000, never)
	w.seen.cancelsSent += len(got)
	byKey := func(a, b schedule.Key) int { return bytes.Compare(a[:], b[:]) }
	slices.SortFunc(want, byKey)
	slices.SortFunc(got, byKey)
	if !slices.Equal(got, want) {
		w.Fatalf("the state sends the cancels of %v, the store those of %v", got, want)
	}
}
