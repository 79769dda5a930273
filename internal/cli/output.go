package cli

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// output is the form in which a command answers.
type output string

const (
	outputTable output = "table"
	outputWide  output = "wide" // a table with all columns
	outputJSON  output = "json"
	outputYAML  output = "yaml"
)

var outputs = []output{outputTable, outputWide, outputJSON, outputYAML}

// Set, String and Type make it a flag.
func (o *output) Set(s string) error {
	for _, known := range outputs {
		if s == string(known) {
			*o = known
			return nil
		}
	}
	return fmt.Errorf("write table, wide, json or yaml")
}

func (o *output) String() string { return string(*o) }

// Type is the word for the value in help texts.
func (o *output) Type() string { return "FORMAT" }

// people reports whether the answer is for people, and not for programs.
func (o *output) people() bool { return *o == outputTable || *o == outputWide }

// page gathers what people read. Everything on it was made legible first.
type page struct {
	text  bytes.Buffer
	now   time.Time
	color bool
	wide  bool
}

func (p *page) print(to io.Writer) error {
	_, err := to.Write(p.text.Bytes())
	return err
}

func (p *page) line(format string, args ...any) {
	p.text.WriteString(legible(fmt.Sprintf(format, args...)) + "\n")
}

// raw writes text that is legible already, with its colour codes.
func (p *page) raw(text string) { p.text.WriteString(text) }

// wider adds the columns, or their names, that only a wide table has.
func (p *page) wider(cells []string, more ...string) []string {
	if !p.wide {
		return cells
	}
	return append(cells, more...)
}

// key is as many digits of a key as there is room for.
func (p *page) key(key string) string {
	if p.wide {
		return key
	}
	return short(key)
}
