package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// The checker's own computation of slots, keys and jitter: nothing here may use package
// plan or other code that it checks.

// rule has the slots of a definition: every step from the anchor.
type rule struct {
	scheduleID   string
	step         int64     // seconds
	anchor       int64     // epoch seconds; never a slot itself
	end          int64     // last second that may be a slot
	jitter       int64     // milliseconds
	made         time.Time // the schedule, not the revision
	floor, endAt time.Time
	launch       time.Duration // launch_timeout_ms
	window       time.Duration // catchup_window_ms
	retry        schedule.RetryPolicy
}

func ruleOf(s *schedule.Schedule) rule {
	r := rule{
		scheduleID: s.ScheduleID, jitter: int64(s.JitterMS), end: 1 << 60, made: s.CreatedAt, floor: s.RevisedAt, endAt: s.EndAt, launch: s.LaunchTimeout(),
		window: time.Duration(s.CatchupWindowMS) * time.Millisecond, retry: s.Retry,
	}
	if !s.EndAt.IsZero() {
		r.end = s.EndAt.Unix()
	}
	if s.CreatedAt.After(r.floor) {
		r.floor = s.CreatedAt
	}
	if s.CronExpr != "" {
		_, _ = fmt.Sscanf(strings.TrimSuffix(s.CronExpr, " * * * * *"), "*/%d", &r.step) // divides a minute
		return r
	}
	r.step = int64(s.IntervalMS) / 1000
	r.anchor = s.CreatedAt.Unix()
	if s.CreatedAt.Nanosecond() > 0 {
		r.anchor++
	}
	return r
}

// late is the rule of a revision that an edit has ended: its remaining slots are planned
// after the edit and fire at once. Its limit is the creation of the schedule.
func (r rule) late() rule {
	r.floor = r.made
	return r
}

// between are the slots later than from (or at it) and not later than until.
func (r rule) between(from time.Time, including bool, until time.Time) (slots []time.Time) {
	if r.step == 0 {
		return nil
	}
	last := min(until.Unix(), r.end)
	for at := r.anchor + max(1, (from.Unix()-r.anchor)/r.step)*r.step; at <= last; at += r.step {
		t := time.Unix(at, 0).UTC()
		if t.After(from) || including && t.Equal(from) {
			slots = append(slots, t)
		}
	}
	return slots
}

// is reports whether the rule has a slot then.
func (r rule) is(at time.Time) bool {
	return r.step > 0 && at.Nanosecond() == 0 && at.Unix() > r.anchor && at.Unix() <= r.end && (at.Unix()-r.anchor)%r.step == 0
}

// key is the idempotency key of a slot.
func key(scheduleID string, at time.Time) schedule.Key {
	return sha256.Sum256(fmt.Appendf(nil, "%s:%d", scheduleID, at.Unix()))
}

// fireAt is when the slot may be launched: the fraction u, from the key's first bytes, of
// the time that the neighbours leave.
func (r rule) fireAt(at time.Time) time.Time {
	if r.jitter == 0 {
		return at
	}
	half := r.step * 1000 / 2
	before, after := min(r.jitter, half), min(r.jitter, half)
	k := key(r.scheduleID, at)
	u, n := binary.BigEndian.Uint64(k[:8]), uint64(before+after+1)
	// The upper half of the 128-bit product, by parts.
	lo, hi := (u&0xffffffff)*n, (u>>32)*n
	share := (hi + lo>>32) >> 32
	fire := at.Add(time.Duration(int64(share)-before) * time.Millisecond)
	if fire.Before(r.floor) {
		fire = r.floor
	}
	if !r.endAt.IsZero() && fire.After(r.endAt) {
		fire = r.endAt
	}
	return fire
}
