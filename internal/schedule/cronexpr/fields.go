package cronexpr

import (
	"fmt"
	"strings"
)

// maxStep bounds n in */n. Anything above 59 already means "the first value
// only"; the limit catches a misplaced number.
const maxStep = 9999

const (
	secondField = iota
	minuteField
	hourField
	domField
	monthField
	dowField
)

// field describes what one of the six positions takes.
type field struct {
	name     string
	min, max int
	top      int      // where * and a/n end; differs from max only for 7 = Sunday
	names    []string // names[i] stands for min+i
	takes    string   // the accepted values, as messages say it
	// special consumes an item that only this field knows, such as L or 5#2.
	special func(f *field, item string, days *dayRule) (consumed bool, problem string)
}

var fields = [6]field{
	secondField: {name: "second", max: 59, top: 59, takes: "0-59"},
	minuteField: {name: "minute", max: 59, top: 59, takes: "0-59"},
	hourField:   {name: "hour", max: 23, top: 23, takes: "0-23"},
	domField: {
		name: "day of month", min: 1, max: 31, top: 31,
		takes: "1-31, L (last day), 1W-31W (nearest weekday) or LW", special: specialDom,
	},
	monthField: {
		name: "month", min: 1, max: 12, top: 12, takes: "1-12 or JAN-DEC",
		names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"},
	},
	dowField: {
		name: "day of week", max: 7, top: 6,
		takes: "0-7 or SUN-SAT, FRIL (last Friday) or FRI#2 (second Friday)",
		names: weekdays, special: specialDow,
	},
}

var weekdays = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

// parse returns the set of plain values of a field and adds its special items
// to days.
func (f *field) parse(text string, days *dayRule) (uint64, error) {
	var set uint64
	for item := range strings.SplitSeq(text, ",") {
		bits, problem := f.parseItem(strings.ToUpper(item), days)
		if problem != "" {
			if item == "" {
				item = text
			}
			return 0, &SyntaxError{Field: f.name, Value: item, Problem: problem}
		}
		set |= bits
	}
	return set, nil
}

func (f *field) parseItem(item string, days *dayRule) (set uint64, problem string) {
	if item == "" {
		return 0, "has an empty item; separate items by one comma and no space"
	}
	if f.special != nil {
		consumed, problem := f.special(f, item, days)
		if consumed || problem != "" {
			return 0, problem
		}
	}
	s, problem := f.span(item)
	if problem != "" {
		return 0, problem
	}
	for v := s.from; v <= s.to; v += s.step {
		set |= 1 << v
	}
	return set, ""
}

// span is one plain item: every step-th value of from..to.
type span struct{ from, to, step int }

func (f *field) span(item string) (span, string) {
	base, stepText, stepped := strings.Cut(item, "/")
	s := span{step: 1}
	if stepped {
		n, ok := number(stepText)
		if !ok || n < 1 || n > maxStep {
			return s, fmt.Sprintf("the step %q is not a number from 1 to %d", stepText, maxStep)
		}
		s.step = n
	}
	if base == "*" {
		s.from, s.to = f.min, f.top
		return s, ""
	}
	first, last, ranged := strings.Cut(base, "-")
	from, problem := f.value(first)
	if problem != "" {
		return s, problem
	}
	to := from
	switch {
	case ranged:
		if to, problem = f.value(last); problem != "" {
			return s, problem
		}
	case stepped && from > f.top: // 7/n starts on Sunday, as 0/n does
		from, to = f.min, f.top
	case stepped:
		to = f.top
	}
	if from > to {
		return s, "runs backwards and ranges do not wrap; write " + f.unwrapped(first, last, from, to)
	}
	s.from, s.to = from, to
	return s, ""
}

// value reads a number or a name of the field.
func (f *field) value(text string) (int, string) {
	if n, ok := number(text); ok {
		if n < f.min || n > f.max {
			return 0, fmt.Sprintf("%s is out of range; %s takes %s", text, f.name, f.takes)
		}
		return n, ""
	}
	for i, name := range f.names {
		if text == name {
			return f.min + i, ""
		}
	}
	switch {
	case text == "":
		return 0, fmt.Sprintf("a value is missing; %s takes %s", f.name, f.takes)
	case text[0] == '+' || text[0] == '-':
		return 0, fmt.Sprintf("a sign is not accepted; %s takes %s", f.name, f.takes)
	case text == "?":
		return 0, "? is accepted only alone in day of month or day of week; write *"
	}
	for _, name := range f.names {
		if len(text) > 3 && strings.HasPrefix(text, name) && isLetter(text[3]) {
			return 0, fmt.Sprintf("%s is not a value; write the name as %s", text, name)
		}
	}
	return 0, fmt.Sprintf("%s is not a value; %s takes %s", text, f.name, f.takes)
}

// unwrapped spells a backwards range as two forward ones, for the message.
func (f *field) unwrapped(first, last string, from, to int) string {
	if from > f.top { // 7-2 means Sunday to Tuesday
		return fmt.Sprintf("%d-%s", f.min, last)
	}
	spell := func(v int, like string) string {
		if isLetter(like[0]) {
			return f.names[v-f.min]
		}
		return fmt.Sprint(v)
	}
	upper, lower := first, last
	if from < f.top {
		upper = first + "-" + spell(f.top, first)
	}
	if to > f.min {
		lower = spell(f.min, last) + "-" + last
	}
	return upper + "," + lower
}

// specialDom consumes L, LW and nW.
func specialDom(_ *field, item string, days *dayRule) (bool, string) {
	before, weekday := strings.CutSuffix(item, "W")
	switch {
	case item == "L":
		days.last = true
	case item == "LW":
		days.lastWeekday = true
	case strings.HasPrefix(item, "L"):
		return false, "only L and LW may begin with L in day of month; count from the end is not accepted"
	case weekday:
		n, ok := number(before)
		if !ok || n < 1 || n > 31 {
			return false, "the weekday nearest to a day is written 1W to 31W"
		}
		days.nearest |= 1 << n
	default:
		return false, ""
	}
	return true, ""
}

// specialDow consumes dL and d#k.
func specialDow(f *field, item string, days *dayRule) (bool, string) {
	if item == "L" {
		return false, "L needs a weekday; write SATL or 6L for the last Saturday of the month"
	}
	if name, last := strings.CutSuffix(item, "L"); last {
		d, problem := f.value(name)
		if problem != "" {
			return false, problem
		}
		days.lastDow |= 1 << (d % 7)
		return true, ""
	}
	name, nth, counted := strings.Cut(item, "#")
	if !counted {
		return false, ""
	}
	d, problem := f.value(name)
	if problem != "" {
		return false, problem
	}
	k, ok := number(nth)
	if !ok || k < 1 || k > 5 {
		return false, fmt.Sprintf("a month has a first to a fifth %s at most; write #1 to #5", weekdays[d%7])
	}
	days.nthDow[k-1] |= 1 << (d % 7)
	return true, ""
}

// foldSunday returns the weekdays of a set in which Sunday is 0 or 7.
func foldSunday(set uint64) uint8 { return uint8(set&0x7f | set>>7) }

// number reads one to four decimal digits and nothing else.
func number(text string) (int, bool) {
	if len(text) == 0 || len(text) > 4 {
		return 0, false
	}
	n := 0
	for i := range len(text) {
		if !isDigit(text[i]) {
			return 0, false
		}
		n = n*10 + int(text[i]-'0')
	}
	return n, true
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' }
