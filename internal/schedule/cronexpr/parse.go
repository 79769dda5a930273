package cronexpr

import (
	"fmt"
	"strings"
)

// maxLength bounds the text of an expression. Sixty listed minutes take 169
// bytes, so no honest expression comes near it.
const maxLength = 256

// Expr is a parsed cron expression. It is immutable and safe for concurrent use.
type Expr struct {
	text                        string
	second, minute, hour, month uint64 // bit v is set when value v matches
	days                        dayRule
	wildcard                    bool
}

var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// Parse reads a cron expression by rule R1. Every error is a *SyntaxError.
func Parse(expr string) (*Expr, error) {
	if err := checkText(expr); err != nil {
		return nil, err
	}
	text := strings.Trim(expr, " \t")
	if strings.HasPrefix(text, "@") {
		expanded, ok := macros[strings.ToLower(text)]
		if !ok {
			return nil, wholeError(text, macroProblem(strings.ToLower(text)))
		}
		text = expanded
	}
	texts, err := splitFields(text)
	if err != nil {
		return nil, err
	}
	parsed, err := parseFields(texts)
	if err != nil {
		return nil, err
	}
	if !secondOpinion(parsed.text) {
		return nil, wholeError(text, "the second parser rejects it; write it in a simpler way")
	}
	return parsed, nil
}

// String returns the canonical text: macros expanded, names in upper case, no
// leading zeros, single spaces, * for ?. It parses to an equal Expr.
func (e *Expr) String() string { return e.text }

// Wildcard reports whether the expression is of the wildcard class of rule R3,
// which follows real time through gaps and folds.
func (e *Expr) Wildcard() bool { return e.wildcard }

// checkText refuses what no expression can contain, before anything is parsed.
func checkText(expr string) error {
	if len(expr) > maxLength {
		return wholeError(expr[:24]+"...", fmt.Sprintf("is %d bytes long; at most %d are accepted", len(expr), maxLength))
	}
	for _, r := range expr {
		if r != '\t' && (r < ' ' || r > '~') {
			return wholeError(expr, fmt.Sprintf("contains %q; write printable ASCII only, on one line", r))
		}
	}
	return nil
}

func macroProblem(macro string) string {
	switch {
	case strings.HasPrefix(macro, "@every"):
		return "is not a cron expression; use an interval schedule"
	case macro == "@reboot":
		return "is not accepted: a schedule runs at times, not at system start"
	}
	return "is not a macro; write @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly"
}

// splitFields returns the six field texts as written, with the implicit second
// of a five-field expression left empty.
func splitFields(text string) ([6]string, error) {
	var texts [6]string
	upper := strings.ToUpper(text)
	if strings.HasPrefix(upper, "TZ=") || strings.HasPrefix(upper, "CRON_TZ=") {
		return texts, wholeError(text, "the time zone is a separate field; remove the prefix")
	}
	found := strings.Fields(text)
	switch len(found) {
	case 5:
		copy(texts[1:], found)
	case 6:
		copy(texts[:], found)
		if looksLikeYear(found[5]) {
			return texts, wholeError(text, fmt.Sprintf("ends in the year %s; there is no year field, use start_at and end_at", found[5]))
		}
	case 0:
		return texts, wholeError(text, "is empty; write five fields such as 0 9 * * MON-FRI")
	case 7:
		return texts, wholeError(text, "has 7 fields; write 5 (minute hour day-of-month month day-of-week) or 6 with a leading second, there is no year field")
	default:
		return texts, wholeError(text, fmt.Sprintf(
			"has %d fields; write 5 (minute hour day-of-month month day-of-week) or 6 with a leading second, and no space inside a list", len(found)))
	}
	return texts, nil
}

// looksLikeYear recognises the dialect that puts a year in the last place.
func looksLikeYear(text string) bool {
	n, ok := number(text)
	return ok && len(text) == 4 && n >= 1970
}

func parseFields(texts [6]string) (*Expr, error) {
	var (
		e    = &Expr{second: 1}
		sets [6]uint64
	)
	for i := range fields {
		text := texts[i]
		if i == secondField && text == "" {
			sets[i] = 1
			continue
		}
		if text == "?" && (i == domField || i == dowField) {
			text, texts[i] = "*", "*"
		}
		set, err := fields[i].parse(text, &e.days)
		if err != nil {
			return nil, err
		}
		sets[i] = set
	}
	e.text = canonical(texts)
	e.second, e.minute, e.hour, e.month = sets[secondField], sets[minuteField], sets[hourField], sets[monthField]
	e.days.dom, e.days.dow = uint32(sets[domField]), foldSunday(sets[dowField])
	// Rules R2 and R3 look at the first character of the field and nothing else.
	e.days.both = strings.HasPrefix(texts[domField], "*") || strings.HasPrefix(texts[dowField], "*")
	for _, text := range texts[:domField] {
		e.wildcard = e.wildcard || strings.HasPrefix(text, "*")
	}
	return e, nil
}

// canonical joins the fields in upper case and drops leading zeros.
func canonical(texts [6]string) string {
	joined := strings.ToUpper(strings.TrimLeft(strings.Join(texts[:], " "), " "))
	var b strings.Builder
	inNumber := false
	for i := range len(joined) {
		c := joined[i]
		moreDigits := i+1 < len(joined) && isDigit(joined[i+1])
		if c == '0' && !inNumber && moreDigits {
			continue
		}
		inNumber = isDigit(c)
		b.WriteByte(c)
	}
	return b.String()
}

func wholeError(text, problem string) error {
	return &SyntaxError{Field: "expression", Value: text, Problem: problem}
}
