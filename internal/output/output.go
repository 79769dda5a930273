// Package output makes what a run wrote safe to keep and to show: plain text
// without control characters, secrets masked, and bounded. It is used wherever
// the output of a run enters Carillon, so that nothing behind it (database, API,
// CLI, console, notifications) sees the raw bytes.
package output

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escape matches the escape sequences of terminals: CSI (colours, cursor), OSC
// and other strings (titles, links), and two-byte escapes.
var escape = regexp.MustCompile("\x1b(?:" +
	`\[[0-?]*[ -/]*[@-~]` +
	"|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?" +
	`|[ -/]*[0-~])`)

// Clean returns raw as UTF-8 text of printable characters, tabs and line feeds.
// It removes terminal escape sequences, makes a line feed of each carriage return
// (progress bars), and shows bytes that are no text as U+FFFD. Characters that
// reorder or hide text (category Cf, such as right-to-left overrides) go too.
func Clean(raw []byte) string {
	if bytes.IndexByte(raw, 0x1b) >= 0 {
		raw = escape.ReplaceAll(raw, nil)
	}
	if plain(raw) {
		return string(raw)
	}
	var out strings.Builder
	out.Grow(len(raw))
	broken := false // one U+FFFD for a stretch of bytes that are no text
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		bad := r == utf8.RuneError && size == 1 || r != '\n' && r != '\t' && r != '\r' && unicode.IsControl(r)
		switch {
		case bad:
			if !broken {
				out.WriteRune(utf8.RuneError)
			}
		case r == '\r':
			if i+1 == len(raw) || raw[i+1] != '\n' {
				out.WriteByte('\n')
			}
		case unicode.Is(unicode.Cf, r):
		default:
			out.WriteRune(r)
		}
		broken = bad
		i += size
	}
	return out.String()
}

// plain reports whether raw is printable ASCII, tabs and line feeds: most output.
func plain(raw []byte) bool {
	for _, c := range raw {
		if c < ' ' && c != '\n' && c != '\t' || c > '~' {
			return false
		}
	}
	return true
}

// KeepEnd returns the last limit bytes of text, from the beginning of a line
// where one is near, and how many bytes it left out.
func KeepEnd(text string, limit int) (kept string, left int) {
	if len(text) <= limit {
		return text, 0
	}
	cut := len(text) - limit
	for !utf8.RuneStart(text[cut]) {
		cut++
	}
	if line := strings.IndexByte(text[cut:], '\n'); line >= 0 && line < limit/2 {
		cut += line + 1
	}
	return text[cut:], cut
}

// Tail returns the last lines of text, at most so many lines and bytes.
func Tail(text string, lines, limit int) string {
	text = strings.TrimRight(text, "\n\t ")
	at := len(text)
	for n := 0; n < lines && at >= 0; n++ {
		at = strings.LastIndexByte(text[:at], '\n')
	}
	kept, _ := KeepEnd(text[at+1:], limit)
	return kept
}

// CutNote says how much output is missing at this place.
func CutNote(bytes int64) string {
	return fmt.Sprintf("[%d bytes of output not kept]", bytes)
}
