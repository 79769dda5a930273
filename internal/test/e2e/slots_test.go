package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones below, whatever the machine has
)

// expectedSlots looks at every second of a window and asks whether the
// expression names it: slow, and hard to get wrong. Both ends are inclusive.
func expectedSlots(t testing.TB, s *registered, from, until time.Time) []time.Time {
	t.Helper()
	var slots []time.Time
	for at := ceilSecond(from); !at.After(until); at = at.Add(time.Second) {
		if s.matches(t, at) {
			slots = append(slots, at)
		}
	}
	return slots
}

func ceilSecond(at time.Time) time.Time {
	whole := at.Truncate(time.Second)
	if whole.Before(at) {
		whole = whole.Add(time.Second)
	}
	return whole.UTC()
}

// matches reports whether a second is a slot of the schedule's definition.
func (s *registered) matches(t testing.TB, at time.Time) bool {
	t.Helper()
	return s.matchesAs(t, s.definition, at)
}

// matchesAs is matches while the schedule was defined as d.
func (s *registered) matchesAs(t testing.TB, d definition, at time.Time) bool {
	t.Helper()
	if !d.StartAt.IsZero() && at.Before(d.StartAt) || !d.EndAt.IsZero() && at.After(d.EndAt) {
		return false
	}
	switch {
	case !d.OnceAt.IsZero():
		return at.Equal(d.OnceAt)
	case d.IntervalMS > 0:
		anchor, first := ceilSecond(s.createdAt), int64(1)
		if !d.StartAt.IsZero() {
			anchor, first = d.StartAt, 0
		}
		since := at.Sub(anchor).Milliseconds()
		return since%int64(d.IntervalMS) == 0 && since/int64(d.IntervalMS) >= first
	}
	zone := time.UTC
	if d.Timezone != "" {
		var err error
		if zone, err = time.LoadLocation(d.Timezone); err != nil {
			t.Fatal(err)
		}
	}
	return cronNames(t, d.CronExpr, at.In(zone))
}

// cronNames reports whether a six-field expression names a wall-clock time. It
// knows numbers, lists, ranges and steps; no zone of these tests has daylight
// saving.
func cronNames(t testing.TB, expr string, wall time.Time) bool {
	t.Helper()
	fields := strings.Fields(expr)
	if len(fields) != 6 || fields[3] != "*" || fields[5] != "*" {
		t.Fatalf("the checker cannot read the expression %q", expr)
	}
	return fieldNames(t, fields[0], wall.Second(), 59) && fieldNames(t, fields[1], wall.Minute(), 59) &&
		fieldNames(t, fields[2], wall.Hour(), 23) && fieldNames(t, fields[4], int(wall.Month()), 12)
}

func fieldNames(t testing.TB, field string, value, top int) bool {
	t.Helper()
	return slices.ContainsFunc(strings.Split(field, ","), func(item string) bool {
		span, stepText, stepped := strings.Cut(item, "/")
		low, high, step := 0, top, 1
		if span != "*" {
			lowText, highText, ranged := strings.Cut(span, "-")
			low = number(t, lowText)
			if high = low; ranged {
				high = number(t, highText)
			} else if stepped {
				high = top
			}
		}
		if stepped {
			step = number(t, stepText)
		}
		return value >= low && value <= high && (value-low)%step == 0
	})
}

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("the checker cannot read the cron item %q", text)
	}
	return n
}

// slotKey is the documented key of a slot.
func slotKey(scheduleID string, runAt time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s:%d", scheduleID, runAt.Unix()))
	return hex.EncodeToString(sum[:])
}
