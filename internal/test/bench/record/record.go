// Package record is the executor's own account of a run: when each slot's call
// arrived. It is the same measure for every system.
package record

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Call is one call of an executor.
type Call struct {
	Slot uint64 // names schedule and instant; the same for repeated calls
	Due  int64  // the instant before which it must not come, Unix ns
	At   int64  // when it came, Unix ns
}

// chunk is how many calls are allocated at once: growing one slice would copy
// the whole record in the middle of a burst.
const chunk = 1 << 14

// Log is a record under way. The zero value is empty.
type Log struct {
	mu     sync.Mutex
	chunks [][]Call
	n      int
}

// Note takes a call down. The caller reads the clock: waiting for the record is
// no lateness.
func (l *Log) Note(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.chunks) - 1
	if last < 0 || len(l.chunks[last]) == chunk {
		l.chunks = append(l.chunks, make([]Call, 0, chunk))
		last++
	}
	l.chunks[last] = append(l.chunks[last], c)
	l.n++
}

// Len is how many calls there were.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// Calls are all calls so far.
func (l *Log) Calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Concat(l.chunks...)
}

// Forget clears the record.
func (l *Log) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chunks, l.n = nil, 0
}

// callBytes is how long a call is on its way to the harness.
const callBytes = 24

// Encode packs calls: millions of them go through a pipe.
func Encode(calls []Call) []byte {
	out := make([]byte, 0, callBytes*len(calls))
	for _, c := range calls {
		out = binary.LittleEndian.AppendUint64(out, c.Slot)
		out = binary.LittleEndian.AppendUint64(out, uint64(c.Due))
		out = binary.LittleEndian.AppendUint64(out, uint64(c.At))
	}
	return out
}

// Decode is the way back.
func Decode(packed []byte) ([]Call, error) {
	if len(packed)%callBytes != 0 {
		return nil, fmt.Errorf("a record of %d bytes is no whole number of calls of %d", len(packed), callBytes)
	}
	out := make([]Call, 0, len(packed)/callBytes)
	for ; len(packed) > 0; packed = packed[callBytes:] {
		out = append(out, Call{
			Slot: binary.LittleEndian.Uint64(packed),
			Due:  int64(binary.LittleEndian.Uint64(packed[8:])),
			At:   int64(binary.LittleEndian.Uint64(packed[16:])),
		})
	}
	return out, nil
}

// Work is what a run asks of a scheduler: N slots at each of Rounds instants, a
// second apart.
type Work struct {
	N, Rounds int
	First     time.Time     // a whole second
	Spread    time.Duration // the instants lie in so long a time after First
	Tail      int           // so many seconds more the slots go on, which are not evaluated: planning must not end before the last round
}

// Last is the last instant.
func (w Work) Last() time.Time {
	return w.First.Add(time.Duration(w.Rounds-1)*time.Second + w.Spread)
}

// End is the last instant of the tail.
func (w Work) End() time.Time { return w.Last().Add(time.Duration(w.Tail) * time.Second) }

// Slots is how many there are of all instants.
func (w Work) Slots() int { return w.N * w.Rounds }

// Verdict is a run as its executors saw it. The lateness is that of the first
// call of each slot.
type Verdict struct {
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
	Called  int     `json:"called"` // different slots
	Lost    int     `json:"lost"`   // were expected and never called
	Doubled int     `json:"doubled"`
	Early   int     `json:"early"`
	Strange int     `json:"strange"` // calls of slots that were not asked for
}

// Evaluate compares the calls with the slots that were to come.
func Evaluate(calls []Call, work Work) Verdict {
	var v Verdict
	first, last, end := work.First.UnixNano(), work.Last().UnixNano(), work.End().UnixNano()
	slices.SortFunc(calls, func(a, b Call) int {
		if a.Slot != b.Slot {
			return cmp.Compare(a.Slot, b.Slot)
		}
		return cmp.Compare(a.At, b.At)
	})
	late := make([]int64, 0, len(calls))
	for i, c := range calls {
		switch {
		case c.Due > last && c.Due <= end:
			continue
		case c.Due < first || c.Due > end:
			v.Strange++
			continue
		case c.At < c.Due:
			v.Early++
		}
		if i > 0 && calls[i-1].Slot == c.Slot {
			v.Doubled++
			continue
		}
		late = append(late, c.At-c.Due)
	}
	v.Called = len(late)
	v.Lost = max(0, work.Slots()-v.Called)
	v.Strange += max(0, v.Called-work.Slots())
	slices.Sort(late)
	v.P50, v.P99, v.Max = quantile(late, .5), quantile(late, .99), quantile(late, 1)
	return v
}

// Recovered is how long after an instant the first round is due from which on 99 % of the
// slots of each round are called within the bound; the whole rest of the work if there is
// none. The calls are in the order that Evaluate leaves.
func Recovered(calls []Call, work Work, after time.Time, within time.Duration) time.Duration {
	if after.IsZero() {
		return 0
	}
	inTime := make(map[int64]int) // slots of each round
	for i, c := range calls {
		again := i > 0 && calls[i-1].Slot == c.Slot
		if !again && c.At-c.Due < within.Nanoseconds() {
			inTime[c.Due]++
		}
	}
	round := work.Last()
	for !round.Before(after) && 100*inTime[round.UnixNano()] >= 99*work.N {
		round = round.Add(-time.Second)
	}
	return round.Add(time.Second).Sub(after)
}

// quantile of sorted nanoseconds, in milliseconds.
func quantile(sorted []int64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := min(len(sorted)-1, int(q*float64(len(sorted))))
	return float64(sorted[at]/1000) / 1000
}
