package console

import "time"

// ReasonWords, Brief and ReadingIn are tried out by themselves.
var (
	ReasonWords = reasonWords
	Brief       = brief
	ReadingIn   = readingIn
)

// TextOf is an instant as a page shows it to a viewer in a zone.
func TextOf(at, now time.Time, zone *time.Location) (text, slot, relative, title string) {
	m := moment{Instant: at, now: now, zone: zone}
	return m.Text(), m.Slot(), m.Relative(), m.Title()
}
