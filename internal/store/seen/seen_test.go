package seen_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/seen"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func TestAClaimLooksThroughWhatTheOneBeforeDidNotStamp(t *testing.T) {
	t.Parallel()
	term := schedule.Term{Shard: 1, Holder: "me", Epoch: 7}
	for _, tc := range []struct {
		name      string
		meanwhile func(b *seen.Bounds)
		term      schedule.Term
		after     time.Duration
		all       bool
	}{
		{name: "soon after, only what has come due since", term: term, after: time.Millisecond},
		{name: "a second later everything", term: term, after: time.Second, all: true},
		{name: "in the next term everything", term: schedule.Term{Shard: 1, Holder: "me", Epoch: 8}, after: time.Millisecond, all: true},
		{name: "in another shard everything", term: schedule.Term{Shard: 2, Holder: "me", Epoch: 7}, after: time.Millisecond, all: true},
		{name: "after a clock that stepped back everything", term: term, after: -time.Millisecond, all: true},
		{
			name: "after a late row everything", term: term, after: time.Millisecond, all: true,
			meanwhile: func(b *seen.Bounds) { b.Put(noon) },
		},
		{
			name: "after a row that lies ahead only what has come due", term: term, after: time.Millisecond,
			meanwhile: func(b *seen.Bounds) { b.Put(noon.Add(time.Microsecond)) },
		},
		{
			name: "after no row at all only what has come due", term: term, after: time.Millisecond,
			meanwhile: func(b *seen.Bounds) { b.Put(time.Time{}) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var b seen.Bounds
			first := b.Next(term, noon)
			if !first.All {
				t.Error("the first claim does not look through everything")
			}
			b.Stamped(first)
			if tc.meanwhile != nil {
				tc.meanwhile(&b)
			}
			next := b.Next(tc.term, noon.Add(tc.after))
			if next.All != tc.all || !tc.all && !next.After.Equal(noon) {
				t.Errorf("all %v after %s, want %v", next.All, next.After, tc.all)
			}
		})
	}
}

// The claim may have read before the row was committed.
func TestARowPutDownDuringAClaimIsNotTakenForStamped(t *testing.T) {
	t.Parallel()
	var b seen.Bounds
	term := schedule.Term{Shard: 0, Holder: "me", Epoch: 1}
	look := b.Next(term, noon)
	b.Put(noon.Add(-time.Second))
	b.Stamped(look)
	if next := b.Next(term, noon.Add(time.Millisecond)); !next.All {
		t.Errorf("the next claim looks only after %s", next.After)
	}
}

func TestEverythingIsLookedThroughOnceASecondHoweverManyClaimsThereAre(t *testing.T) {
	t.Parallel()
	var b seen.Bounds
	term := schedule.Term{Shard: 0, Holder: "me", Epoch: 1}
	all := 0
	for at := noon; at.Before(noon.Add(3 * time.Second)); at = at.Add(100 * time.Millisecond) {
		look := b.Next(term, at)
		if look.All {
			all++
		}
		b.Stamped(look)
	}
	if all != 3 {
		t.Errorf("everything was looked through %d times in three seconds, want 3", all)
	}
}
