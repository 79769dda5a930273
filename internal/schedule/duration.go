package schedule

import (
	"fmt"
	"strings"
	"time"
)

// ShortDuration is a duration without zero units: "1h30m", not "1h30m0s".
func ShortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Milliseconds is the value of a field in milliseconds with its duration:
// "5400000 (1h30m)".
func Milliseconds(d time.Duration) string {
	return fmt.Sprintf("%d (%s)", d.Milliseconds(), ShortDuration(d))
}
