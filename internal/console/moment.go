package console

import (
	"fmt"
	"time"
)

// moment is an instant as a page shows it: short, with all of it in the title.
// The zero moment is none.
type moment struct {
	Instant time.Time
	now     time.Time
	zone    *time.Location
}

// Is reports whether there is an instant at all.
func (m moment) Is() bool { return !m.Instant.IsZero() }

// ISO is the instant for machines.
func (m moment) ISO() string { return m.Instant.UTC().Format(time.RFC3339Nano) }

// Title is the whole instant, in UTC and in the zone.
func (m moment) Title() string {
	utc := m.Instant.UTC().Format("Mon 2006-01-02 15:04:05.999") + " UTC"
	if m.zone == time.UTC {
		return utc
	}
	return m.Instant.In(m.zone).Format("Mon 2006-01-02 15:04:05.999 -07:00 ") + m.zone.String() + " · " + utc
}

// Text is as much of the date as is needed, and the time.
func (m moment) Text() string {
	return m.dated("15:04:05")
}

// Slot is Text without zero seconds, as most rules have.
func (m moment) Slot() string {
	if m.Instant.Truncate(time.Minute).Equal(m.Instant) {
		return m.dated("15:04")
	}
	return m.Text()
}

// Exact is Text to the millisecond.
func (m moment) Exact() string { return m.dated("15:04:05.000") }

func (m moment) dated(clock string) string {
	t, now := m.Instant.In(m.zone), m.now.In(m.zone)
	switch {
	case t.Year() == now.Year() && t.YearDay() == now.YearDay():
		return t.Format(clock)
	case t.Year() == now.Year():
		return t.Format("Mon 2 Jan " + clock)
	}
	return t.Format("2 Jan 2006 " + clock)
}

// Full has the whole date, the time and the offset.
func (m moment) Full() string { return m.Instant.In(m.zone).Format("Mon 2 Jan 2006, 15:04:05 -07:00") }

// Zone is the zone's name.
func (m moment) Zone() string { return m.zone.String() }

// Abbreviation is the zone's short name at the instant: "UTC", "EST".
func (m moment) Abbreviation() string { return m.Instant.In(m.zone).Format("MST") }

// Relative is how far away it is: "in 4 min", "2 h ago".
func (m moment) Relative() string {
	d := m.Instant.Sub(m.now)
	switch {
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return brief(-d) + " ago"
	}
	return "in " + brief(d)
}

// brief is a duration in its two largest words.
func brief(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second != 0:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return two(int(d/time.Minute), "min", int(d%time.Minute/time.Second), "s")
	case d < day:
		return two(int(d/time.Hour), "h", int(d%time.Hour/time.Minute), "min")
	case d < 60*day:
		return two(int(d/day), "d", int(d%day/time.Hour), "h")
	}
	return fmt.Sprintf("%d d", int(d/day))
}

func two(a int, large string, b int, small string) string {
	if b == 0 {
		return fmt.Sprintf("%d %s", a, large)
	}
	return fmt.Sprintf("%d %s %d %s", a, large, b, small)
}

// between is how long it took from a to b; empty where either is missing.
func between(a, b moment) string {
	if !a.Is() || !b.Is() {
		return ""
	}
	if d := b.Instant.Sub(a.Instant); d < 0 {
		return "−" + brief(-d)
	}
	return brief(b.Instant.Sub(a.Instant))
}
