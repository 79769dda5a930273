package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// gap separates columns. There are no borders, so that grep, cut and narrow screens
// work.
const gap = "  "

// Table adds rows below a heading. The columns status and state are coloured.
func (p *Page) Table(head []string, rows [][]string) {
	upper := make([]string, len(head))
	for i, name := range head {
		upper[i] = strings.ToUpper(name)
	}
	p.columns(append([][]string{upper}, rows...), func(line, column int) bool {
		return p.Color && line > 0 && column < len(head) && (head[column] == "status" || head[column] == "state")
	})
}

// Fields adds a line with name and value for each pair that has a value.
func (p *Page) Fields(pairs ...[2]string) {
	var rows [][]string
	for _, pair := range pairs {
		if pair[1] != "" {
			rows = append(rows, pair[:])
		}
	}
	p.columns(rows, func(int, int) bool { return false })
}

// columns adds lines of cells. Each column is as wide as its widest cell.
func (p *Page) columns(lines [][]string, isColoured func(line, column int) bool) {
	var widths []int
	clean := make([][]string, len(lines))
	for i, cells := range lines {
		for j, cell := range cells {
			clean[i] = append(clean[i], strings.ReplaceAll(Legible(cell), "\n", " "))
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], width(clean[i][j]))
		}
	}
	for i, cells := range clean {
		var out strings.Builder
		for j, cell := range cells {
			padding := strings.Repeat(" ", widths[j]-width(cell)) + gap
			if isColoured(i, j) {
				cell = PaintState(cell)
			}
			out.WriteString(cell + padding)
		}
		p.text.WriteString(strings.TrimRight(out.String(), " ") + "\n")
	}
	if len(lines) == 0 {
		p.text.WriteString("\n")
	}
}

// width is the number of terminal columns of a text: two for each East Asian
// character and emoji, none for combining marks.
func width(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, doubleWidth):
			n += 2
		default:
			n++
		}
	}
	return n
}

// doubleWidth lists characters of width two outside the East Asian scripts.
var doubleWidth = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x3000, Hi: 0x303e, Stride: 1}, {Lo: 0xff01, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1}, {Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, {Lo: 0x1f900, Hi: 0x1faff, Stride: 1}},
}

// Color is the terminal code of a colour; "" is no colour.
type Color string

// Colours of text.
const (
	Red    Color = "31"
	Green  Color = "32"
	Yellow Color = "33"
	Cyan   Color = "36"
)

func (c Color) Paint(s string) string {
	if c == "" || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// Legible escapes control characters: text of other people must not control the
// terminal.
func Legible(s string) string {
	clean := func(r rune) bool { return r == '\n' || unicode.IsPrint(r) }
	if !strings.ContainsFunc(s, func(r rune) bool { return !clean(r) }) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if clean(r) {
			out.WriteRune(r)
		} else {
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return out.String()
}

// PaintState colours a status or state.
func PaintState(word string) string {
	name, _, _ := strings.Cut(word, " ")
	switch {
	case name == string(schedule.StatusSuccess), name == string(schedule.DeliveryDelivered), name == "active", name == "finished", name == "recovered", name == string(schedule.ExpectationOK):
		return Green.Paint(word)
	case name == string(schedule.StatusFailed), name == string(schedule.DeliveryDead), name == "open", name == string(schedule.ExpectationAlerting):
		return Red.Paint(word)
	case name == "running":
		return Cyan.Paint(word)
	case name == "paused", name == string(schedule.ExpectationLate), name == "cancelled", name == "revoked", name == "expired", schedule.Status(name).Terminal():
		return Yellow.Paint(word)
	case schedule.Status(name).InFlight():
		return Cyan.Paint(word)
	}
	return word
}

// Day is 24 hours.
const Day = 24 * time.Hour

// scales are the units of a distance in time. The fine unit is at most a tenth of
// the distance, so that rounding changes it by at most 5 %: 89 minutes are 1h29m,
// not 1h.
var scales = []struct {
	below        time.Duration
	unit, fine   time.Duration
	name, finely string
}{
	{below: time.Minute, unit: time.Second, fine: time.Second, name: "s"},
	{below: 10 * time.Minute, unit: time.Minute, fine: time.Second, name: "m", finely: "s"},
	{below: time.Hour, unit: time.Minute, fine: time.Minute, name: "m"},
	{below: 2 * Day, unit: time.Hour, fine: time.Minute, name: "h", finely: "m"},
	{below: 14 * Day, unit: Day, fine: time.Hour, name: "d", finely: "h"},
	{below: 700 * Day, unit: Day, fine: Day, name: "d"},
	{below: 1 << 62, unit: 365 * Day, fine: Day, name: "y", finely: "d"},
}

// Ago is "in 3m20s", "2h ago" or "now".
func (p *Page) Ago(t time.Time) string {
	d := t.Sub(p.Now)
	switch {
	case d.Abs() < time.Second:
		return "now"
	case d > 0:
		return "in " + Distance(d)
	}
	return Distance(-d) + " ago"
}

// Distance is d rounded: a time two hours ahead stays "2h" a moment later.
func Distance(d time.Duration) string {
	for _, s := range scales {
		if rounded := d.Round(s.fine); rounded < s.below {
			words := fmt.Sprintf("%d%s", rounded/s.unit, s.name)
			if rest := rounded % s.unit / s.fine; rest > 0 {
				words += fmt.Sprintf("%d%s", rest, s.finely)
			}
			return words
		}
	}
	return "never"
}

// When is a time with its distance from now; "" without a time.
func (p *Page) When(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return Stamp(at.AsTime()) + " (" + p.Ago(at.AsTime()) + ")"
}

// Stamp is RFC 3339 in UTC, with milliseconds if they are not zero.
func Stamp(t time.Time) string {
	if t.Truncate(time.Millisecond).Equal(t.Truncate(time.Second)) {
		return t.UTC().Format(time.RFC3339)
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// Millis is a duration in milliseconds as text, without units that are zero: 1h.
func Millis(milliseconds uint32) string {
	return schedule.ShortDuration(time.Duration(milliseconds) * time.Millisecond)
}

// Bound is a bound in milliseconds as text; "": there is none.
func Bound(milliseconds uint32) string {
	if milliseconds == 0 {
		return ""
	}
	return Millis(milliseconds)
}

// Rate is a number of starts per time: 10/1s, burst 2.
func Rate(r *carillonv1.Rate) string {
	if r.GetStarts() == 0 {
		return ""
	}
	text := fmt.Sprintf("%d/%s", r.GetStarts(), Millis(r.GetPerMs()))
	if r.GetBurst() > 1 {
		text += fmt.Sprintf(", burst %d", r.GetBurst())
	}
	return text
}

// Labels is a set of labels as "k=v k=v", sorted.
func Labels(labels map[string]string) string {
	out := make([]string, 0, len(labels))
	for name, value := range labels {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// Count is "1 schedule", "2 schedules".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Duration is a measured duration, rounded to three digits or less.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return schedule.ShortDuration(d.Round(time.Second))
}

// List adds a table, "nothing found" without rows, and a note if next is a token of
// more.
func (p *Page) List(head []string, rows [][]string, next string) {
	if len(rows) == 0 {
		p.Line("nothing found")
		return
	}
	p.Table(head, rows)
	if next != "" {
		p.Line("… and more; --limit 0 shows all")
	}
}

// KeyDigits is the number of digits of a key in tables: enough to identify a run.
const KeyDigits = 12

func ShortKey(key string) string { return key[:min(len(key), KeyDigits)] }
