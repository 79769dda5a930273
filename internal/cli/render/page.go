package render

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// Format is the value of --output.
type Format string

// Formats of an answer.
const (
	FormatTable Format = "table"
	FormatWide  Format = "wide" // a table with all columns
	FormatJSON  Format = "json"
	FormatYAML  Format = "yaml"
)

// Formats lists them all.
var Formats = []Format{FormatTable, FormatWide, FormatJSON, FormatYAML}

// Set implements pflag.Value.
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

// Type is the placeholder in help texts.
func (o *Format) Type() string { return "FORMAT" }

// ForPeople reports whether the format is for people: not JSON and not YAML.
func (o *Format) ForPeople() bool { return *o == FormatTable || *o == FormatWide }

// Page collects the text that people read. Control characters are escaped.
type Page struct {
	text  bytes.Buffer
	Now   time.Time
	Color bool
	Wide  bool // tables have all columns
}

// Print writes the page.
func (p *Page) Print(to io.Writer) error {
	_, err := to.Write(p.text.Bytes())
	return err
}

// Line adds a line.
func (p *Page) Line(format string, args ...any) {
	p.text.WriteString(Legible(fmt.Sprintf(format, args...)) + "\n")
}

// Raw adds text as it is, with colour codes. The caller escapes control characters.
func (p *Page) Raw(text string) { p.text.WriteString(text) }

// WideCells appends the cells of columns that only a wide table has.
func (p *Page) WideCells(cells []string, more ...string) []string {
	if !p.Wide {
		return cells
	}
	return append(cells, more...)
}

// Key is the key of a run: whole in a wide table, else shortened.
func (p *Page) Key(key string) string {
	if p.Wide {
		return key
	}
	return ShortKey(key)
}

// jobKeyDigits is the number of digits of the key of a job in tables: the first 12 are its time.
const jobKeyDigits = 20

// RunKey is Key of a run that may be one of a dispatch queue.
func (p *Page) RunKey(key, queueID string) string {
	if p.Wide || queueID == "" {
		return p.Key(key)
	}
	return key[:min(len(key), jobKeyDigits)]
}
