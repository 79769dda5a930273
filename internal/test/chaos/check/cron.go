package check

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the zones of the workload, whatever the machine has

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// names reports whether a second is a slot of a definition: slow, and hard to
// get wrong. anchor is where an interval without a start counts from.
func names(d *record.Definition, anchor, at time.Time) bool {
	if !d.StartAt.IsZero() && at.Before(d.StartAt) || !d.EndAt.IsZero() && at.After(d.EndAt) {
		return false
	}
	switch {
	case !d.OnceAt.IsZero():
		return at.Equal(d.OnceAt)
	case d.IntervalMS > 0:
		first := int64(0)
		if d.StartAt.IsZero() {
			first = 1
		} else {
			anchor = d.StartAt
		}
		since := at.Sub(anchor).Milliseconds()
		return since%int64(d.IntervalMS) == 0 && since/int64(d.IntervalMS) >= first
	case d.CronExpr == "":
		return false // started by hand only
	}
	return cronNames(d.CronExpr, at.In(zone(d.Timezone)))
}

func zone(name string) *time.Location {
	if name == "" {
		return time.UTC
	}
	found, err := time.LoadLocation(name)
	if err != nil {
		panic(fmt.Sprintf("the checker does not know the zone %q", name))
	}
	return found
}

// cronNames reports whether a six-field expression names a wall-clock time. It
// knows numbers, lists, ranges and steps; no zone of the workload has daylight
// saving, and no day is named.
func cronNames(expr string, wall time.Time) bool {
	fields := strings.Fields(expr)
	if len(fields) != 6 || fields[3] != "*" || fields[5] != "*" {
		panic(fmt.Sprintf("the checker cannot read the expression %q", expr))
	}
	return fieldNames(fields[0], wall.Second(), 59) && fieldNames(fields[1], wall.Minute(), 59) &&
		fieldNames(fields[2], wall.Hour(), 23) && fieldNames(fields[4], int(wall.Month()), 12)
}

func fieldNames(field string, value, top int) bool {
	return slices.ContainsFunc(strings.Split(field, ","), func(item string) bool {
		span, stepText, stepped := strings.Cut(item, "/")
		low, high, step := 0, top, 1
		if span != "*" {
			lowText, highText, ranged := strings.Cut(span, "-")
			low = number(lowText)
			if high = low; ranged {
				high = number(highText)
			} else if stepped {
				high = top
			}
		}
		if stepped {
			step = number(stepText)
		}
		return value >= low && value <= high && (value-low)%step == 0
	})
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("the checker cannot read the cron item %q", text))
	}
	return n
}

func ceilSecond(at time.Time) time.Time {
	whole := at.Truncate(time.Second)
	if whole.Before(at) {
		whole = whole.Add(time.Second)
	}
	return whole.UTC()
}

// slotKey is the documented key of a slot.
func slotKey(scheduleID string, runAt time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s:%d", scheduleID, runAt.Unix()))
	return hex.EncodeToString(sum[:])
}

// farNeighbour is how far the next slot of anything in the workload may be off.
const farNeighbour = 3 * time.Minute

// jittered is the documented fire_at of a slot, before it is clamped to the
// life of its schedule.
func jittered(d *record.Definition, runAt time.Time) time.Time {
	if d.JitterMS == 0 {
		return runAt
	}
	open := *d // the neighbours are the spec's, not those inside start_at and end_at
	open.StartAt, open.EndAt = time.Time{}, time.Time{}
	reach := func(direction time.Duration) int64 {
		if d.IntervalMS > 0 {
			return min(int64(d.JitterMS), int64(d.IntervalMS)/2)
		}
		for off := time.Second; off <= farNeighbour; off += time.Second {
			if names(&open, time.Time{}, runAt.Add(direction*off)) {
				return min(int64(d.JitterMS), off.Milliseconds()/2)
			}
		}
		return int64(d.JitterMS)
	}
	back, ahead := reach(-1), reach(1)
	key, _ := hex.DecodeString(slotKey(d.ScheduleID, runAt)) // we have just made it
	draw := binary.BigEndian.Uint64(key[:8])
	// ⌊draw·(back+ahead+1)/2^64⌋ by halves, so that nothing overflows.
	width := uint64(back + ahead + 1)
	high := (draw>>32)*width + (draw&0xffffffff)*width>>32
	return runAt.Add(time.Duration(int64(high>>32)-back) * time.Millisecond)
}
