package schedule

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Key is a run's idempotency key. A slot's is sha256 of "schedule_id:epoch_seconds(run_at)"; other
// triggers use other id spaces so that keys never collide. It prints as 64 lower-case hex digits.
type Key [sha256.Size]byte

// SlotKey is the key of the slot of a schedule at runAt (whole seconds).
func SlotKey(scheduleID string, runAt time.Time) Key {
	// On the planner's hot path: one buffer, no formatting package.
	var a [160]byte
	b := append(a[:0], scheduleID...)
	b = append(b, ':')
	b = strconv.AppendInt(b, runAt.Unix(), 10)
	return sha256.Sum256(b)
}

// ManualKey is the key of a manual run.
func ManualKey(scheduleID, requestID string) Key {
	return sha256.Sum256([]byte(scheduleID + "/m/" + requestID))
}

// BackfillKey is the key of a slot that is run again by a backfill.
func BackfillKey(scheduleID, requestID string, runAt time.Time) Key {
	return sha256.Sum256([]byte(scheduleID + "/b/" + requestID + "/" + strconv.FormatInt(runAt.Unix(), 10)))
}

// RetryKey is the key of a new attempt of the run with key k.
func RetryKey(k Key, requestID string) Key {
	return sha256.Sum256([]byte(k.String() + "/r/" + requestID))
}

// AttemptKey is the key of the automatic retry of the run with key k. It can be planned only
// once. No request id has a slash (see ValidID), so no retry by hand has this key.
func AttemptKey(k Key) Key { return RetryKey(k, "/auto") }

// SnoozeKey is the key of the run that follows the snoozed run with key k, in the same way.
func SnoozeKey(k Key) Key { return RetryKey(k, "/snooze") }

// AgainKey is the key of the run that follows the interrupted run with key k, in the same way.
func AgainKey(k Key) Key { return RetryKey(k, "/again") }

// EventsKey is the key of the run with which a consumer takes events at an instant. The instant keeps a
// restored backup from using a key again that an executor remembers.
func EventsKey(scheduleID string, at time.Time) Key {
	return sha256.Sum256([]byte(scheduleID + "/w//" + strconv.FormatInt(at.UnixMicro(), 10)))
}

// JobKey is the key of a job of a dispatch queue: the one at a place of a request. It begins
// with 6 bytes of Unix milliseconds, so that jobs of one time are neighbours in an index.
func JobKey(at time.Time, queueID, userID, requestID string, place int) (k Key) {
	h := sha256.Sum256([]byte(queueID + "/j/" + userID + "/" + requestID + "/" + strconv.Itoa(place)))
	var millis [8]byte
	binary.BigEndian.PutUint64(millis[:], uint64(at.UnixMilli()))
	copy(k[:6], millis[2:])
	copy(k[6:], h[:])
	return k
}

// MayBeOfJob reports whether a key begins with a time of this age, as that of each job does. One in
// 300 other keys looks so too.
func (k Key) MayBeOfJob() bool {
	var millis [8]byte
	copy(millis[2:], k[:6])
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(millis[:]))).UTC()
	return at.Year() >= 2020 && at.Year() < 2050
}

// ParseKey reads the 64 hex digits that String writes.
func ParseKey(s string) (Key, error) {
	var k Key
	if len(s) != 2*len(k) {
		return k, Invalid("idempotency_key", s, fmt.Sprintf("has %d characters", len(s)), "give the 64 hex digits that the API shows")
	}
	if _, err := hex.Decode(k[:], []byte(s)); err != nil {
		return k, Invalid("idempotency_key", s, "is not hexadecimal", "give the 64 hex digits that the API shows")
	}
	return k, nil
}

// MinKeyPrefix is the least number of hex digits that name a run.
const MinKeyPrefix = 4

// KeyRange is every key from First to Last, both included: those that begin
// with one prefix.
type KeyRange struct{ First, Last Key }

// ParseKeyPrefix is the range of the keys that begin with 4 to 64 hex digits.
func ParseKeyPrefix(s string) (r KeyRange, err error) {
	const digits = 2 * len(Key{})
	s = strings.ToLower(s)
	if len(s) < MinKeyPrefix || len(s) > digits {
		return r, Invalid("idempotency_key", s, fmt.Sprintf("has %d characters", len(s)), "give the 64 hex digits of a key, or at least its first 4")
	}
	if r.First, err = ParseKey(s + strings.Repeat("0", digits-len(s))); err == nil {
		r.Last, err = ParseKey(s + strings.Repeat("f", digits-len(s)))
	}
	return r, err
}

// TraceKeys are the keys that Key.TraceID maps to a trace id; empty if the id has another form.
func TraceKeys(traceID string) KeyRange {
	if len(traceID) != len(Key{}) { // 32 hex digits, half a key
		return KeyRange{}
	}
	r, err := ParseKeyPrefix(traceID)
	if err != nil {
		return KeyRange{}
	}
	return r
}

// IsZero reports whether the range is empty. A range that ends with the zero key holds nothing
// else.
func (r KeyRange) IsZero() bool { return r.Last.IsZero() }

// Contains reports whether a key is in the range.
func (r KeyRange) Contains(k Key) bool {
	return !r.IsZero() && bytes.Compare(k[:], r.First[:]) >= 0 && bytes.Compare(k[:], r.Last[:]) <= 0
}

// String is the key as lower-case hex.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// TraceID is the W3C trace id of the run: the first half of the key, so that all deliveries of a
// run share one trace.
func (k Key) TraceID() string { return hex.EncodeToString(k[:16]) }

// IsZero reports whether k is no key at all.
func (k Key) IsZero() bool { return k == Key{} }

// Fraction maps the key evenly onto [0, n): ⌊u·n/2^64⌋ with u the key's first
// eight bytes. Jitter is drawn from it, so that every worker, restart and
// preview computes the same offset.
func (k Key) Fraction(n uint64) uint64 {
	hi, _ := bits.Mul64(binary.BigEndian.Uint64(k[:8]), n)
	return hi
}

// Buckets is the fixed number of hash buckets that shards group.
const Buckets = 1024

// Owner returns the owner of a qualified overlap key: the text before its last
// '/'. An owner id can contain a slash, an overlap_key cannot.
func Owner(qualifiedOverlapKey string) string {
	return qualifiedOverlapKey[:max(strings.LastIndexByte(qualifiedOverlapKey, '/'), 0)]
}

// Bucket is the shard bucket of an owner's overlap key. Schedules that share
// an overlap key share a bucket, so that one leader judges them all.
func Bucket(qualifiedOverlapKey string) int {
	h := sha256.Sum256([]byte(qualifiedOverlapKey))
	return int(binary.BigEndian.Uint16(h[:2])) % Buckets
}

// SplitOverlapKey returns the owner and the overlap_key of a qualified overlap key.
func SplitOverlapKey(qualified string) (userID, overlapKey string) {
	userID = Owner(qualified)
	return userID, qualified[min(len(userID)+1, len(qualified)):]
}
