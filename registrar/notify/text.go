package notify

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of one message, in characters and lines. The strictest receivers are ntfy (4,096 bytes a
// message) and Teams (28 KiB a card).
const (
	maxTitle      = 200
	maxSentence   = 1000
	maxFact       = 200
	maxOutputLine = 300
)

// clip cuts text to at most n characters.
func clip(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// clipBytes cuts text to at most n bytes, between two characters.
func clipBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:n-len(mark)], "") + mark
}

// ansi are the escape sequences by which programs colour their output.
var ansi = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]`)

// printable drops what a receiver would act on instead of showing it: control
// characters, and those that reverse the direction of text.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == utf8.RuneError {
			return -1
		}
		return r
	}, ansi.ReplaceAllString(text, ""))
}

// oneLine is text without line ends, at most n characters of it.
func oneLine(text string, n int) string {
	return clip(printable(strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ").Replace(text)), n)
}

// sentence is the text of the message.
func (m *Message) sentence() string { return oneLine(m.Data.Text, maxSentence) }

// output are the last lines of the run's output, oldest first.
func (m *Message) output() []string {
	text := strings.TrimRight(strings.ReplaceAll(m.Data.OutputTail, "\r\n", "\n"), "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	left := MaxTailBytes
	first := len(lines)
	for first > 0 && len(lines)-first < MaxTailLines {
		line := strings.ReplaceAll(lines[first-1], "\t", "    ")
		line = clip(printable(line), maxOutputLine)
		if left -= len(line) + 1; left < 0 {
			break
		}
		first--
		lines[first] = line
	}
	return lines[first:]
}

// mention is a word that chat systems turn into a message to everyone.
var mention = regexp.MustCompile(`(?i)@(all|channel|here|everyone)\b`)

// noMention parts such a word with a space of no width: ids of owners are free
// text, and must not wake a whole channel.
func noMention(text string) string { return mention.ReplaceAllString(text, "@\u200b$1") }
