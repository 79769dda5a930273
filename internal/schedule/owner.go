package schedule

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const OwnerHint = "use 1 to 128 printable characters, without a space at the beginning or end"

// ValidOwner reports whether s can be a user_id: 1 to 128 printable characters
// (letters, marks, numbers, punctuation, symbols and spaces inside). Identity
// providers choose these ids: auth0|abc, ada@example.com. Control, format and
// bidirectional characters are refused, because they make one id look like
// another. Ids are compared byte by byte: nothing is normalized, so that an id
// stays what the provider issued.
func ValidOwner(s string) bool { return s != AllOwners && Printable(s, MaxIDLength) }

// Printable reports whether s is 1 to most characters that all show: no control,
// format or private character, no space other than ' ' and none at the ends.
func Printable(s string, most int) bool {
	if s == "" || !utf8.ValidString(s) || utf8.RuneCountInString(s) > most {
		return false
	}
	if strings.HasPrefix(s, " ") || strings.HasSuffix(s, " ") {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
