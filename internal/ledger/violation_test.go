package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestOverlappedFindsFlightsThatBeganTooEarly(t *testing.T) {
	t.Parallel()
	flight := func(id byte, key string, from, until int) ledger.Flight {
		at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
		return ledger.Flight{Key: schedule.Key{id}, OverlapKey: key, Launched: at(from), Completed: at(until)}
	}
	touching := flight(2, "a", 10, 20)
	touching.Launched = touching.Launched.Add(-5 * time.Millisecond)
	early := touching
	early.Launched = early.Launched.Add(-500 * time.Millisecond)
	for _, c := range []struct {
		name    string
		flights []ledger.Flight
		want    []byte // ids: of each violation the flight, and the one that was not over
	}{
		{"none", nil, nil},
		{"one after the other", []ledger.Flight{flight(2, "a", 10, 20), flight(1, "a", 0, 10)}, nil},
		{"two clocks that differ by milliseconds", []ledger.Flight{flight(1, "a", 0, 10), touching}, nil},
		{"two groups", []ledger.Flight{flight(1, "a", 0, 10), flight(2, "b", 5, 15)}, nil},
		{"the second begins before the end of the first", []ledger.Flight{flight(2, "a", 8, 20), flight(1, "a", 0, 10)}, []byte{2, 1}},
		{"half a second too early", []ledger.Flight{flight(1, "a", 0, 10), early}, []byte{2, 1}},
		{"one inside another, and a third before the end of that", []ledger.Flight{flight(1, "a", 0, 10), flight(2, "a", 2, 3), flight(3, "a", 5, 12), flight(4, "a", 12, 13)}, []byte{2, 1, 3, 1}},
	} {
		var got []byte
		for _, f := range ledger.Overlapped(c.flights) {
			got = append(got, f.Key[0], f.With.Key[0])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
