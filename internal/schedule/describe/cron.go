package describe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// Cron is an expression in words: "at 02:30 on Monday to Friday". An invalid expression
// is returned unchanged: package cronexpr says what is wrong with it.
func Cron(expr string) string {
	fields := split(expr)
	if fields == nil {
		return expr
	}
	when, often := clockWords(fields[0], fields[1], fields[2])
	days := dayWords(fields[3], fields[5])
	months := monthWords(fields[4])
	if days == "" && months == "" {
		if often {
			return when
		}
		return when + " every day"
	}
	if days == "" && !often {
		days = "every day"
	}
	return strings.Join(slices.DeleteFunc([]string{when, days, months}, func(s string) bool { return s == "" }), " ")
}

// split is the six fields of an expression, or nil.
func split(expr string) []string {
	if macro, ok := macros[strings.ToLower(strings.TrimSpace(expr))]; ok {
		expr = macro
	}
	fields := strings.Fields(expr)
	switch len(fields) {
	case 5:
		return append([]string{"0"}, fields...)
	case 6:
		return fields
	}
	return nil
}

// clockWords is the time of day. often says that it comes many times a day, so
// that "every day" would sound odd.
func clockWords(second, minute, hour string) (words string, often bool) {
	if times, ok := timesOfDay(second, minute, hour); ok {
		return "at " + list(times, "and"), false
	}
	if second == "0" && minute == "0" && hour == "*" {
		return "every hour on the hour", true
	}
	var parts []string
	switch {
	case second != "0":
		parts = append(parts, unitWords(second, "second", 60))
		if minute != "*" {
			parts = append(parts, "of", strings.TrimPrefix(unitWords(minute, "minute", 60), "at "))
		} else if !strings.HasPrefix(parts[0], "every") {
			parts = append(parts, "of every minute")
		}
	default:
		parts = append(parts, unitWords(minute, "minute", 60))
	}
	switch {
	case hour != "*":
		parts = append(parts, hourWords(hour))
	case minute != "*" && !strings.HasPrefix(parts[len(parts)-1], "every"):
		parts = append(parts, "of every hour")
	}
	return strings.Join(parts, " "), true
}

// timesOfDay are the readings of plain numbers, as long as a person would list
// them.
func timesOfDay(second, minute, hour string) (times []string, ok bool) {
	s, ok1 := numbers(second)
	m, ok2 := numbers(minute)
	h, ok3 := numbers(hour)
	const most = 6
	if !ok1 || !ok2 || !ok3 || len(s)*len(m)*len(h) > most {
		return nil, false
	}
	for _, hh := range h {
		for _, mm := range m {
			for _, ss := range s {
				if slices.Equal(s, []int{0}) {
					times = append(times, fmt.Sprintf("%02d:%02d", hh, mm))
				} else {
					times = append(times, fmt.Sprintf("%02d:%02d:%02d", hh, mm, ss))
				}
			}
		}
	}
	slices.Sort(times)
	return slices.Compact(times), true
}

// numbers are the values of a list of plain numbers.
func numbers(field string) ([]int, bool) {
	var out []int
	for term := range strings.SplitSeq(field, ",") {
		n, err := strconv.Atoi(term)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return slices.Compact(out), true
}

// unitWords is the second or minute field: "every 5 minutes", "at minutes 0 and
// 30".
func unitWords(field, unit string, size int) string {
	if step, ok := strings.CutPrefix(field, "*/"); ok {
		n, _ := strconv.Atoi(step)
		switch {
		case n == 1:
			return "every " + unit
		case n > 0 && n < size && size%n == 0:
			return "every " + Count(n, unit)
		}
	}
	if field == "*" {
		return "every " + unit
	}
	terms := strings.Split(field, ",")
	if len(terms) == 1 && !strings.ContainsAny(field, "-/") {
		return "at " + unit + " " + field
	}
	return "at " + unit + "s " + list(each(terms, plainTerm), "and")
}

// hourWords is an hour field that is not *.
func hourWords(field string) string {
	terms := strings.Split(field, ",")
	if step, ok := strings.CutPrefix(field, "*/"); ok {
		return "of every " + ordinal(step) + " hour, from 00:00 on"
	}
	if len(terms) == 1 && !strings.ContainsAny(field, "-/") {
		return "from " + pad(field) + ":00 to " + pad(field) + ":59"
	}
	if from, to, ok := strings.Cut(field, "-"); ok && len(terms) == 1 && !strings.Contains(to, "/") {
		return "from " + pad(from) + ":00 to " + pad(to) + ":59"
	}
	return "of the hours " + list(each(terms, plainTerm), "and")
}

func pad(n string) string {
	if len(n) == 1 {
		return "0" + n
	}
	return n
}

// plainTerm is one term of numbers: 5, 1-5, */7, 1-20/5, 3/10.
func plainTerm(term string) string {
	span, step, stepped := strings.Cut(term, "/")
	words := span
	if from, to, ok := strings.Cut(span, "-"); ok {
		words = from + " to " + to
	}
	switch {
	case !stepped:
		return words
	case span == "*":
		return "0 and every " + ordinal(step) + " after"
	case strings.Contains(span, "-"):
		return words + " in steps of " + step
	}
	return span + " and every " + ordinal(step) + " after"
}

func each(terms []string, words func(string) string) []string {
	out := make([]string, len(terms))
	for i, term := range terms {
		out[i] = words(term)
	}
	return out
}

// ordinal is 1st, 2nd, 3rd, 11th.
func ordinal(number string) string {
	n, err := strconv.Atoi(number)
	if err != nil {
		return number
	}
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
