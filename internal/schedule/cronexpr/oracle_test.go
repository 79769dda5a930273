package cronexpr_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// The oracle is the rules in the slowest possible words: look at every minute
// (or second), read the wall clock with time.In, and ask each field's text
// whether it names what the clock shows. It shares no code with the package.

// reading is what a wall clock shows.
type reading struct {
	date                 time.Time // midnight UTC of the local date
	hour, minute, second int
}

// tick is one instant under observation.
type tick struct {
	at      int64
	shows   reading
	shown   bool      // an earlier instant within 26 h showed the same
	skipped []reading // readings lost in a forward jump of at most 3 h at this instant
}

// window is a stretch of observed instants.
type window struct {
	from, until int64
	ticks       []tick
}

// observe looks at loc in steps from 27 hours before from, so that repeated
// readings are known in the window itself.
func observe(loc *time.Location, from, until, step int64) window {
	w := window{from: from, until: until}
	last := map[int64]int64{} // reading → latest instant that showed it
	before := int64(0)
	for at := from - 27*3600; at < until; at += step {
		local := time.Unix(at, 0).In(loc)
		_, offset := local.Zone()
		wall := at + int64(offset)
		t := tick{at: at, shows: readingOf(local)}
		if previous, ok := last[wall]; ok {
			t.shown = previous >= at-26*3600
		}
		last[wall] = at
		if jump := wall - before - step; before != 0 && 0 < jump && jump <= 3*3600 {
			for lost := before + step; lost < wall; lost += step {
				t.skipped = append(t.skipped, readingOf(time.Unix(lost, 0).UTC()))
			}
		}
		before = wall
		if at >= from {
			w.ticks = append(w.ticks, t)
		}
	}
	return w
}

func readingOf(t time.Time) reading {
	y, m, d := t.Date()
	return reading{time.Date(y, m, d, 0, 0, 0, 0, time.UTC), t.Hour(), t.Minute(), t.Second()}
}

// oracle answers for one expression.
type oracle struct {
	texts                [6]string
	hours, minutes, secs [60]bool
	wildcard             bool
	lastDate             time.Time
	lastDay              bool
}

func newOracle(expr string) *oracle {
	texts := strings.Fields(strings.ToUpper(expr))
	if len(texts) == 5 {
		texts = append([]string{"0"}, texts...)
	}
	o := &oracle{texts: [6]string(texts)}
	for v := range 60 {
		o.secs[v] = names(texts[0], v, 0, 59, "")
		o.minutes[v] = names(texts[1], v, 0, 59, "")
		o.hours[v] = v < 24 && names(texts[2], v, 0, 23, "")
	}
	for _, text := range texts[:3] {
		o.wildcard = o.wildcard || text[0] == '*'
	}
	return o
}

// slots returns the slots in the window by R4 or R5.
func (o *oracle) slots(w window, dst cronexpr.DST) []int64 {
	var slots []int64
	fixed := !o.wildcard && dst != cronexpr.Literal
	for i := range w.ticks {
		t := &w.ticks[i]
		fires := o.matches(t.shows) && !(fixed && t.shown)
		if fixed && !fires {
			fires = slices.ContainsFunc(t.skipped, o.matches)
		}
		if fires {
			slots = append(slots, t.at)
		}
	}
	return slots
}

func (o *oracle) matches(r reading) bool {
	return o.secs[r.second] && o.minutes[r.minute] && o.hours[r.hour] && o.day(r.date)
}

func (o *oracle) day(date time.Time) bool {
	if !date.Equal(o.lastDate) {
		o.lastDate, o.lastDay = date, o.dayOf(date)
	}
	return o.lastDay
}

const (
	monthNames = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"
	dayNames   = "SUNMONTUEWEDTHUFRISAT"
)

func (o *oracle) dayOf(date time.Time) bool {
	dom, month, dow := o.texts[3], o.texts[4], o.texts[5]
	if !names(month, int(date.Month()), 1, 12, monthNames) {
		return false
	}
	inMonth, inWeek := false, false
	for _, item := range strings.Split(dom, ",") {
		inMonth = inMonth || namesDayOfMonth(item, date)
	}
	for _, item := range strings.Split(dow, ",") {
		inWeek = inWeek || namesDayOfWeek(item, date)
	}
	if strings.ContainsAny(dom[:1]+dow[:1], "*?") {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

func namesDayOfMonth(item string, date time.Time) bool {
	day := 24 * time.Hour
	last := date.Add(day).Month() != date.Month()
	working := func(d time.Time) bool { return d.Weekday() != time.Saturday && d.Weekday() != time.Sunday }
	switch {
	case item == "L":
		return last
	case item == "LW":
		for d := date.Add(day); d.Month() == date.Month(); d = d.Add(day) {
			if working(d) {
				return false
			}
		}
		return working(date)
	case strings.HasSuffix(item, "W"):
		n, _ := strconv.Atoi(strings.TrimSuffix(item, "W"))
		target := time.Date(date.Year(), date.Month(), n, 0, 0, 0, 0, time.UTC)
		if target.Month() != date.Month() {
			return false
		}
		for _, shift := range []int{0, -1, 1, -2, 2} {
			d := target.AddDate(0, 0, shift)
			if d.Month() == date.Month() && working(d) {
				return d.Equal(date)
			}
		}
	}
	return item == "?" || names(item, date.Day(), 1, 31, "")
}

func namesDayOfWeek(item string, date time.Time) bool {
	weekday := func(text string) bool { return names(text, int(date.Weekday()), 0, 6, dayNames) }
	if before, ok := strings.CutSuffix(item, "L"); ok {
		return weekday(before) && date.AddDate(0, 0, 7).Month() != date.Month()
	}
	if before, k, ok := strings.Cut(item, "#"); ok {
		return weekday(before) && strconv.Itoa((date.Day()+6)/7) == k
	}
	return item == "?" || weekday(item)
}

// names reports whether a field text names the value v. Weekday 0 answers to 7.
func names(text string, v, low, high int, words string) bool {
	for _, item := range strings.Split(text, ",") {
		base, every, _ := strings.Cut(item, "/")
		first, last, ranged := strings.Cut(base, "-")
		from, to := numeral(first, words), numeral(last, words)
		switch {
		case first == "*":
			from, to = low, high
		case ranged:
		case every != "":
			from, to = from%max(high+1, 8), high
			if words == dayNames && from == 7 {
				from = 0
			}
		default:
			to = from
		}
		step := max(numeral(every, ""), 1)
		for n := from; n <= to; n += step {
			if n == v || (words == dayNames && n == 7 && v == 0) {
				return true
			}
		}
	}
	return false
}

func numeral(text, words string) int {
	if i := strings.Index(words, text); len(text) == 3 && i >= 0 && text[0] > '9' {
		if words == monthNames {
			return i/3 + 1
		}
		return i / 3
	}
	n, _ := strconv.Atoi(text)
	return n
}

// firing collects the slots of a timeline in a window through Next.
func firing(tl *cronexpr.Timeline, w window) []int64 {
	var slots []int64
	at := time.Unix(w.from-1, 0)
	for {
		next, ok := tl.Next(at)
		if !ok || next.Unix() >= w.until {
			return slots
		}
		slots = append(slots, next.Unix())
		at = next
	}
}

func mustParse(t testing.TB, expr string) *cronexpr.Expr {
	t.Helper()
	e, err := cronexpr.Parse(expr)
	if err != nil {
		t.Fatalf("Parse(%q): %v", expr, err)
	}
	return e
}

func mustZone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := cronexpr.LoadLocation(name)
	if err != nil {
		t.Fatalf("LoadLocation(%q): %v", name, err)
	}
	return loc
}

// changes returns the instants at which the offset of loc changes, to the
// minute, found by sampling.
func changes(loc *time.Location, from, until time.Time) []int64 {
	offsetAt := func(at int64) int { _, offset := time.Unix(at, 0).In(loc).Zone(); return offset }
	var found []int64
	for at := from.Unix(); at < until.Unix(); at += 3600 {
		if offsetAt(at) == offsetAt(at+3600) {
			continue
		}
		for minute := at; minute < at+3600; minute += 60 {
			if offsetAt(minute) != offsetAt(minute+60) {
				found = append(found, minute+60)
			}
		}
	}
	return found
}

func show(loc *time.Location, slots []int64) string {
	var b strings.Builder
	for i, s := range slots {
		if i == 12 {
			b.WriteString(" ...")
			break
		}
		b.WriteString(" " + time.Unix(s, 0).In(loc).Format(time.RFC3339))
	}
	return b.String()
}
