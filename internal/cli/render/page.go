package render

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// Format is the form in which a command answers.
type Format string

const (
	FormatTable Format = "table"
	FormatWide  Format = "wide" // a table with all columns
	FormatJSON  Format = "json"
	FormatYAML  Format = "yaml"
)

var Formats = []Format{FormatTable, FormatWide, FormatJSON, FormatYAML}

// Set, String and Type make it a flag.
func (o *Format) Set(s string) error {
	for _, known := range Formats {
		if s == string(known) {
			*o = known
			return nil
		}
	}
	return fmt.Errorf("write table, wide, json or yaml")
}

func (o *Format) String() string { return string(*o) }

// Type is the word for the value in help texts.
func (o *Format) Type() string { return "FORMAT" }

// ForPeople reports whether the answer is for people, and not for programs.
func (o *Format) ForPeople() bool { return *o == FormatTable || *o == FormatWide }

// Page gathers what people read. Everything on it was made legible first.
type Page struct {
	text  bytes.Buffer
	Now   time.Time
	Color bool
	Wide  bool
}

func (p *Page) Print(to io.Writer) error {
	_, err := to.Write(p.text.Bytes())
	return err
}

func (p *Page) Line(format string, args ...any) {
	p.text.WriteString(Legible(fmt.Sprintf(format, args...)) + "\n")
}

// Raw writes text that is legible already, with its colour codes.
func (p *Page) Raw(text string) { p.text.WriteString(text) }

// WideCells adds the columns, or their names, that only a wide table has.
func (p *Page) WideCells(cells []string, more ...string) []string {
	if !p.Wide {
		return cells
	}
	return append(cells, more...)
}

// Key is as many digits of a key as there is room for.
func (p *Page) Key(key string) string {
	if p.Wide {
		return key
	}
	return ShortKey(key)
}
