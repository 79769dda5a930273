package describe

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// LocalFormat shows an instant in its zone, with the offset and the zone's name
// for it.
const LocalFormat = "2006-01-02T15:04:05-07:00 MST"

// Spec is the timing rule of a definition in words, with its zone and window:
// "at 02:30, Monday to Friday, America/New_York time, from 2026-03-01T00:00:00Z".
func Spec(d *schedule.Definition) string {
	var words string
	switch {
	case d.CronExpr != "":
		words = Cron(d.CronExpr) + ", " + zone(d.Timezone)
	case d.IntervalMS > 0:
		words = "every " + Span(d.Interval()) + ", in real time"
	case !d.OnceAt.IsZero():
		words = "once, at " + Instant(d.OnceAt)
	case d.Consume.Any():
		return "on events of " + strings.Join(d.Consume.Topics, ", ")
	default:
		return "by hand only"
	}
	if d.JitterMS > 0 {
		words += ", moved by up to " + Span(d.Jitter()) + " either way"
	}
	if !d.StartAt.IsZero() {
		words += ", from " + Instant(d.StartAt)
	}
	if !d.EndAt.IsZero() {
		words += ", until " + Instant(d.EndAt)
	}
	return words
}

func zone(name string) string {
	if name == "" || name == "UTC" {
		return "UTC"
	}
	return name + " time"
}

// Instant is a time in UTC, with a fraction only where there is one.
func Instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Span is a length of time in words: its two largest units, "1 hour 30 minutes",
// below ten seconds with the fraction.
func Span(d time.Duration) string {
	if d < 0 {
		return "minus " + Span(-d)
	}
	if d < 10*time.Second {
		return small(d)
	}
	d = d.Round(time.Second)
	var parts []string
	for _, u := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		n := d / u.length
		d -= n * u.length
		if n > 0 {
			parts = append(parts, Count(int(n), u.name))
		} else if len(parts) > 0 {
			break // 1 day 3 seconds is a day
		}
		if len(parts) == 2 {
			break
		}
	}
	return strings.Join(parts, " ")
}

func small(d time.Duration) string {
	switch {
	case d == 0:
		return "no time"
	case d < time.Millisecond:
		return "under a millisecond"
	case d < time.Second:
		return Count(int(d.Milliseconds()), "millisecond")
	case d%time.Second == 0:
		return Count(int(d/time.Second), "second")
	}
	return strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64) + " seconds"
}

// Count is a number of things: "1 slot", "3 slots".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// list joins words as people do: "a, b and c".
func list(words []string, last string) string {
	n := len(words)
	if n < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n-1], ", ") + " " + last + " " + words[n-1]
}
