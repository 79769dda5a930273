package executor

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of an executor's texts: they must fit into a row, a log line and a page.
const (
	MaxRunID   = 128
	MaxMessage = 4096
)

// Text makes an executor's text safe to store and show: valid UTF-8, with single
// spaces for white space and control characters (Postgres refuses NUL), and at
// most limit bytes long.
func Text(s string, limit int) string {
	const scan = 8 // bytes looked at per byte kept: a megabyte of spaces costs nothing
	if len(s) > scan*limit {
		s = s[:scan*limit]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(s) <= limit {
		return s
	}
	const ellipsis = "…"
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}

// ValidRunID reports whether a run_id can be stored. It is never cut: a shortened
// id would not equal the one in a report.
func ValidRunID(s string) bool {
	if len(s) > MaxRunID || !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, unicode.IsControl)
}
