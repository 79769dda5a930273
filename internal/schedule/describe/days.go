package describe

import (
	"strconv"
	"strings"
	"time"
)

// dayWords is both day fields. Where either begins with * or ?, both must
// match; otherwise either (docs/semantics.md).
func dayWords(dom, dow string) string {
	anyDom, anyDow := dom == "*" || dom == "?", dow == "*" || dow == "?"
	switch {
	case anyDom && anyDow:
		return ""
	case anyDow:
		return "on " + domWords(dom) + " of the month"
	case anyDom:
		return "on " + dowWords(dow)
	case strings.HasPrefix(dom, "*") || strings.HasPrefix(dow, "*"):
		return "on " + domWords(dom) + " of the month if that is " + strings.TrimPrefix(dowWords(dow), "every ")
	}
	return "on " + domWords(dom) + " of the month and on " + dowWords(dow)
}

func domWords(field string) string {
	return list(each(strings.Split(field, ","), func(term string) string {
		span, step, stepped := strings.Cut(term, "/")
		from, to, ranged := strings.Cut(span, "-")
		switch {
		case span == "L":
			return "the last day"
		case span == "LW":
			return "the last weekday"
		case strings.HasSuffix(span, "W"):
			return "the weekday nearest to the " + ordinal(strings.TrimSuffix(span, "W"))
		case stepped && span == "*":
			return "every " + ordinal(step) + " day from the 1st"
		case stepped && ranged:
			return "every " + ordinal(step) + " day from the " + ordinal(from) + " to the " + ordinal(to)
		case stepped:
			return "every " + ordinal(step) + " day from the " + ordinal(span)
		case ranged:
			return "the " + ordinal(from) + " to the " + ordinal(to)
		}
		return "the " + ordinal(span)
	}), "and")
}

func dowWords(field string) string {
	return list(each(strings.Split(field, ","), func(term string) string {
		span, step, stepped := strings.Cut(term, "/")
		from, to, ranged := strings.Cut(span, "-")
		day, place, placed := strings.Cut(span, "#")
		switch {
		case placed:
			return "the " + ordinal(place) + " " + weekday(day) + " of the month"
		case len(span) > 1 && strings.HasSuffix(span, "L") && !ranged:
			return "the last " + weekday(strings.TrimSuffix(span, "L")) + " of the month"
		case stepped && span == "*":
			return "every " + ordinal(step) + " weekday from Sunday"
		case stepped && ranged:
			return "every " + ordinal(step) + " day from " + weekday(from) + " to " + weekday(to)
		case stepped:
			return "every " + ordinal(step) + " day from " + weekday(span) + " to Saturday"
		case ranged:
			return weekday(from) + " to " + weekday(to)
		}
		return "every " + weekday(span)
	}), "and")
}

func weekday(word string) string {
	if n, err := strconv.Atoi(word); err == nil {
		return time.Weekday(n % 7).String()
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(d.String()[:3], word) {
			return d.String()
		}
	}
	return word
}

func monthWords(field string) string {
	if field == "*" {
		return ""
	}
	return "in " + list(each(strings.Split(field, ","), func(term string) string {
		span, step, stepped := strings.Cut(term, "/")
		from, to, ranged := strings.Cut(span, "-")
		switch {
		case stepped && span == "*":
			return "every " + ordinal(step) + " month from January"
		case stepped && ranged:
			return "every " + ordinal(step) + " month from " + month(from) + " to " + month(to)
		case stepped:
			return "every " + ordinal(step) + " month from " + month(span)
		case ranged:
			return month(from) + " to " + month(to)
		}
		return month(span)
	}), "and")
}

func month(word string) string {
	if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= 12 {
		return time.Month(n).String()
	}
	for m := time.January; m <= time.December; m++ {
		if strings.EqualFold(m.String()[:3], word) {
			return m.String()
		}
	}
	return word
}
