package record_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/bench/record"
)

func TestOutOfOrder(t *testing.T) {
	for _, test := range []struct {
		name   string
		places []uint64 // of jobs, as they were called
		limit  int
		want   int
	}{
		{"one slot, in order", []uint64{0, 1, 2, 3}, 1, 0},
		{"one slot, and two were exchanged", []uint64{0, 2, 1, 3}, 1, 1},
		{"two slots: two neighbours may overtake one another", []uint64{1, 0, 3, 2}, 2, 0},
		{"two slots: one overtakes two", []uint64{2, 0, 1, 3}, 2, 1},
		{"two slots: the call of one is late, and the others go through the other slot", []uint64{1, 2, 3, 0}, 2, 0},
		{"a repeated call counts once", []uint64{0, 0, 0, 1, 2}, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var calls []record.Call
			for i, place := range test.places {
				calls = append(calls, record.Call{Slot: place, At: int64(i)})
			}
			place := func(c record.Call) int { return int(c.Slot) }
			if got := record.OutOfOrder(calls, place, test.limit); got != test.want {
				t.Errorf("%d are out of order, want %d", got, test.want)
			}
		})
	}
}

func TestUsed(t *testing.T) {
	from := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	call := func(after time.Duration) record.Call { return record.Call{At: from.Add(after).UnixNano()} }
	for _, test := range []struct {
		name  string
		calls []record.Call
		slots int
		share float64
		most  int
	}{
		{"one slot, one call after the other", []record.Call{call(0), call(time.Second), call(2 * time.Second), call(3 * time.Second)}, 1, 1, 1},
		{"one slot, half of the time", []record.Call{call(0), call(2 * time.Second)}, 1, .5, 1},
		{"what is before or after does not count", []record.Call{call(-500 * time.Millisecond), call(3500 * time.Millisecond)}, 1, .25, 1},
		{"two slots, one of them empty", []record.Call{call(0), call(time.Second), call(2 * time.Second), call(3 * time.Second)}, 2, .5, 1},
		{"more calls than slots", []record.Call{call(0), call(time.Millisecond), call(2 * time.Millisecond)}, 2, .375, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			share, most := record.Used(test.calls, test.slots, time.Second, from, 4*time.Second)
			if share != test.share || most != test.most {
				t.Errorf("used %g, at most %d at once, want %g and %d", share, most, test.share, test.most)
			}
		})
	}
}
