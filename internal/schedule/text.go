package schedule

import (
	"strings"
	"unicode/utf8"
)

// Limits on what is kept of an error that somebody else worded.
const (
	MaxErrorCode    = 128
	MaxErrorMessage = 4096
)

// Storable is text as every store and every API takes it: UTF-8 without NUL,
// at most limit bytes of it, cut between characters. What an executor says must
// not make the write fail that records it.
func Storable(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
