package record_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/test/bench/record"
)

func TestEvaluate(t *testing.T) {
	due := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	after := func(slot uint64, late time.Duration) record.Call {
		return record.Call{Slot: slot, Due: due.UnixNano(), At: due.Add(late).UnixNano()}
	}
	tomorrow := record.Call{Slot: 9, Due: due.Add(24 * time.Hour).UnixNano(), At: due.Add(time.Second).UnixNano()}
	for _, test := range []struct {
		name     string
		calls    []record.Call
		expected int
		want     record.Verdict
	}{
		{
			name:     "each slot is called once, after it is due",
			calls:    []record.Call{after(2, 3*time.Millisecond), after(1, time.Millisecond)},
			expected: 2,
			want:     record.Verdict{P50: 3, P99: 3, Max: 3, Called: 2},
		},
		{
			name:     "a slot that nobody called is lost",
			calls:    []record.Call{after(1, time.Millisecond)},
			expected: 3,
			want:     record.Verdict{P50: 1, P99: 1, Max: 1, Called: 1, Lost: 2},
		},
		{
			name:     "a second call of a slot is doubled and its lateness does not count",
			calls:    []record.Call{after(1, 9*time.Millisecond), after(1, time.Millisecond)},
			expected: 1,
			want:     record.Verdict{P50: 1, P99: 1, Max: 1, Called: 1, Doubled: 1},
		},
		{
			name:     "a call one nanosecond before the instant is early",
			calls:    []record.Call{after(1, -1)},
			expected: 1,
			want:     record.Verdict{Called: 1, Early: 1},
		},
		{
			name:     "a call of a slot outside the run is strange and covers no loss",
			calls:    []record.Call{after(1, time.Millisecond), tomorrow},
			expected: 2,
			want:     record.Verdict{P50: 1, P99: 1, Max: 1, Called: 1, Lost: 1, Strange: 1},
		},
		{
			name:     "the tail is not evaluated",
			calls:    []record.Call{after(1, time.Millisecond), {Slot: 2, Due: due.Add(time.Second).UnixNano(), At: due.UnixNano()}},
			expected: 1,
			want:     record.Verdict{P50: 1, P99: 1, Max: 1, Called: 1},
		},
		{name: "nothing came at all", expected: 2, want: record.Verdict{Lost: 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log record.Log
			for _, c := range test.calls {
				log.Note(c)
			}
			calls, err := record.Decode(record.Encode(log.Calls()))
			if err != nil {
				t.Fatal(err)
			}
			got := record.Evaluate(calls, record.Work{N: test.expected, Rounds: 1, First: due, Tail: 5})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARecordThatWasCutIsRefused(t *testing.T) {
	if _, err := record.Decode(make([]byte, 25)); err == nil {
		t.Error("25 bytes are no whole number of calls")
	}
}

func TestAStreamHasRecoveredOnceEachRoundIsInTime(t *testing.T) {
	first := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	work := record.Work{N: 2, Rounds: 5, First: first}
	const within = 100 * time.Millisecond
	stream := func(late ...time.Duration) (calls []record.Call) { // of one slot a round; the other is in time
		for round, l := range late {
			due := first.Add(time.Duration(round) * time.Second)
			for slot, l := range []time.Duration{0, l} {
				if l >= 0 {
					calls = append(calls, record.Call{Slot: uint64(10*round + slot), Due: due.UnixNano(), At: due.Add(l).UnixNano()})
				}
			}
		}
		return calls
	}
	for _, test := range []struct {
		name string
		late []time.Duration // negative: never called
		want time.Duration
	}{
		{"the first round after the stall is in time", []time.Duration{0, time.Second, 0, 0, 0}, 500 * time.Millisecond},
		{"two rounds more are late", []time.Duration{0, time.Second, within, within, 0}, 2500 * time.Millisecond},
		{"a slot that is never called counts as late", []time.Duration{0, 0, 0, -1, 0}, 2500 * time.Millisecond},
		{"the last round is late", []time.Duration{0, 0, 0, 0, within}, 3500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			stall := first.Add(1500 * time.Millisecond)
			if got := record.Recovered(stream(test.late...), work, stall, within); got != test.want {
				t.Errorf("recovered after %s, want %s", got, test.want)
			}
		})
	}
}
