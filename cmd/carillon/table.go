package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
)

// plainStyle is columns and nothing else, so that grep, cut and narrow screens
// get along with it.
var plainStyle = table.Style{
	Name:    "plain",
	Box:     table.BoxStyle{PaddingRight: "  "},
	Format:  table.FormatOptions{Header: text.FormatUpper},
	Options: table.OptionsNoBordersAndSeparators,
}

// table writes rows under a head. A column named status or state is coloured.
func (p *page) table(head []string, rows [][]string) {
	t := p.blank()
	t.AppendHeader(row(head))
	for _, cells := range rows {
		t.AppendRow(row(cells))
	}
	if p.color {
		var columns []table.ColumnConfig
		for i, name := range head {
			if name == "status" || name == "state" {
				columns = append(columns, table.ColumnConfig{Number: i + 1, Transformer: coloured})
			}
		}
		t.SetColumnConfigs(columns)
	}
	p.text.WriteString(t.Render() + "\n")
}

// fields writes name and value, a line for each that has a value.
func (p *page) fields(pairs ...[2]string) {
	t := p.blank()
	for _, pair := range pairs {
		if pair[1] != "" {
			t.AppendRow(row(pair[:]))
		}
	}
	p.text.WriteString(t.Render() + "\n")
}

func (p *page) blank() table.Writer {
	t := table.NewWriter()
	t.SetStyle(plainStyle)
	t.SuppressTrailingSpaces()
	return t
}

func row(cells []string) table.Row {
	out := make(table.Row, len(cells))
	for i, cell := range cells {
		out[i] = strings.ReplaceAll(legible(cell), "\n", " ")
	}
	return out
}

// legible keeps what others wrote from steering the terminal: control
// characters are shown, not sent.
func legible(s string) string {
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

// coloured shows a status or state in its colour.
func coloured(value any) string {
	word := fmt.Sprint(value)
	name, _, _ := strings.Cut(word, " ")
	switch {
	case name == string(schedule.StatusSuccess), name == string(schedule.DeliveryDelivered), name == "active", name == "finished", name == "recovered", name == string(schedule.ExpectationOK):
		return text.FgGreen.Sprint(word)
	case name == string(schedule.StatusFailed), name == string(schedule.DeliveryDead), name == "open", name == string(schedule.ExpectationAlerting):
		return text.FgRed.Sprint(word)
	case name == "running":
		return text.FgCyan.Sprint(word)
	case name == "paused", name == string(schedule.ExpectationLate), name == "cancelled", name == "revoked", name == "expired", schedule.Status(name).Terminal():
		return text.FgYellow.Sprint(word)
	case schedule.Status(name).InFlight():
		return text.FgCyan.Sprint(word)
	}
	return word
}

const day = 24 * time.Hour

// scales are how far away is said: to the second at first, then to a fine unit
// that is at most a tenth of it, so that rounding moves it by a twentieth. "in
// 1h" for 89 minutes would send somebody to lunch. (go-humanize has one unit.)
var scales = []struct {
	below        time.Duration
	unit, fine   time.Duration
	name, finely string
}{
	{below: time.Minute, unit: time.Second, fine: time.Second, name: "s"},
	{below: 10 * time.Minute, unit: time.Minute, fine: time.Second, name: "m", finely: "s"},
	{below: time.Hour, unit: time.Minute, fine: time.Minute, name: "m"},
	{below: 2 * day, unit: time.Hour, fine: time.Minute, name: "h", finely: "m"},
	{below: 14 * day, unit: day, fine: time.Hour, name: "d", finely: "h"},
	{below: 700 * day, unit: day, fine: day, name: "d"},
	{below: 1 << 62, unit: 365 * day, fine: day, name: "y", finely: "d"},
}

// ago is "in 3m20s", "2h ago" or "now".
func (p *page) ago(t time.Time) string {
	d := t.Sub(p.now)
	switch {
	case d.Abs() < time.Second:
		return "now"
	case d > 0:
		return "in " + distance(d)
	}
	return distance(-d) + " ago"
}

// distance is d rounded: an end two hours ahead is in 2h, also when it is asked for
// a moment later.
func distance(d time.Duration) string {
	for _, s := range scales {
		if rounded := d.Round(s.fine); rounded < s.below {
			words := fmt.Sprintf("%d%s", rounded/s.unit, s.name)
			if rest := rounded % s.unit / s.fine; rest > 0 {
				words += fmt.Sprintf("%d%s", rest, s.finely)
			}
			return words
		}
	}
	return "for ever"
}

// when is an instant with its distance from now; empty without one.
func (p *page) when(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return stamp(at.AsTime()) + " (" + p.ago(at.AsTime()) + ")"
}

// stamp is RFC 3339 in UTC, with milliseconds where there are any.
func stamp(t time.Time) string {
	if t.Truncate(time.Millisecond).Equal(t.Truncate(time.Second)) {
		return t.UTC().Format(time.RFC3339)
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// span is a duration without its idle units: 1h, not 1h0m0s.
func span(milliseconds uint32) string {
	s := (time.Duration(milliseconds) * time.Millisecond).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// pairs is a set of labels as k=v, sorted.
func pairs(labels map[string]string) string {
	out := make([]string, 0, len(labels))
	for name, value := range labels {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// brief is a measured duration, rounded to what matters.
func brief(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
