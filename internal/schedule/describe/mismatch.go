package describe

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// Mismatch is what keeps a reading of the clock from matching an expression,
// field by field: "minute 7 does not match */5". It is nothing where all match.
func Mismatch(expr string, local time.Time) []string {
	fields := split(expr)
	if fields == nil {
		return nil
	}
	reading := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
	var out []string
	says := func(what, partial, field string) {
		if !matches(partial, reading) {
			out = append(out, fmt.Sprintf("%s does not match %s", what, field))
		}
	}
	if fields[4] != "*" {
		says(reading.Month().String(), "* * * * "+fields[4]+" *", fields[4])
	}
	says("the "+ordinal(reading.Format("2"))+", a "+reading.Weekday().String()+",",
		"* * * "+fields[3]+" * "+fields[5], "day of month "+fields[3]+" and day of week "+fields[5])
	says(reading.Format("hour 15"), "* * "+fields[2]+" * * *", fields[2])
	says("minute "+unpadded(reading.Format("04")), "* "+fields[1]+" * * * *", fields[1])
	says("second "+unpadded(reading.Format("05")), fields[0]+" * * * * *", fields[0])
	return out
}

// matches reports whether a reading is a slot where the clock shows each once.
func matches(expr string, reading time.Time) bool {
	parsed, err := cronexpr.Parse(expr)
	if err != nil {
		return true // not this package's to complain about
	}
	next, ok := parsed.In(time.UTC, cronexpr.Literal).Next(reading.Add(-time.Second))
	return ok && next.Equal(reading)
}

func unpadded(n string) string {
	if trimmed := strings.TrimPrefix(n, "0"); trimmed != "" {
		return trimmed
	}
	return "0"
}
