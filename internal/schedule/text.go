package schedule

import (
	"strings"
	"unicode/utf8"
)

// Limits of stored error texts from elsewhere.
const (
	MaxErrorCode    = 128
	MaxErrorMessage = 4096
)

// Storable is text as every store and API accepts it: UTF-8 without NUL, at most limit bytes, cut
// between characters. An executor's text must not make the write that records it fail.
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
