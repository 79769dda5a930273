package sim

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// dice draw by hash: a draw depends on its purpose, never on earlier draws.
type dice uint64

// of narrows the draws to a purpose.
func (d dice) of(purpose uint64) dice {
	// The finalizer of splitmix64.
	x := uint64(d) ^ (purpose+0x9e3779b97f4a7c15)*0xbf58476d1ce4e5b9
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return dice(x ^ x>>31)
}

// below is a number from 0 to n-1.
func (d dice) below(n int) int { return int(uint64(d) % uint64(n)) }

// within is a number from low to high, both included.
func (d dice) within(low, high int) int { return low + d.below(high-low+1) }

// perMille is true in the given number of cases out of a thousand.
func (d dice) perMille(n int) bool { return d.below(1000) < n }

// span is a duration from low up to high, to the nanosecond.
func (d dice) span(low, high time.Duration) time.Duration {
	return low + time.Duration(uint64(d)%uint64(high-low+1))
}

// pick is one of several.
func pick[T any](d dice, from ...T) T { return from[d.below(len(from))] }

// The purposes of draws that are not calls.
const (
	forProfile uint64 = 1 << 20 * iota
	forSchedules
	forUsers
	forAdversary
	forExecutor
	forProcess
	forNetwork
	forGrants
	forBackfills
	forIncidents
	forPresence
	forQueues
	forLimits
	forEvents
)

// idOf is a key as a number. The first bytes of the key of a job are its time: of those
// that entered a queue together they are the same.
func idOf(key schedule.Key) uint64 {
	if bytes.HasPrefix(key[:], timeOfJobs) {
		return binary.LittleEndian.Uint64(key[8:])
	}
	return binary.LittleEndian.Uint64(key[:])
}

// timeOfJobs begins the keys of jobs in the first quarter of an hour of a bubble.
var timeOfJobs = []byte{0x00, 0xdc, 0x6a}
