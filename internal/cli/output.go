package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/rawjson"
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

// show answers with m as REST would write it, or with what people shows.
func (c *client) show(m proto.Message, people func(p *page)) error {
	if c.output.people() {
		p := c.page()
		people(p)
		return p.print(c.out)
	}
	text, err := rawjson.Marshal(m)
	if err != nil {
		return err
	}
	return c.document(text)
}

// document writes one JSON text in the form asked for.
func (c *client) document(text []byte) error {
	var out bytes.Buffer
	if c.output == outputYAML {
		converted, err := yamlFromJSON(text)
		if err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
		out.Write(converted)
	} else {
		if err := json.Indent(&out, text, "", "  "); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		out.WriteByte('\n')
	}
	_, err := c.out.Write(out.Bytes())
	return err
}

// page gathers what people read. Everything on it was made legible first.
type page struct {
	text  bytes.Buffer
	now   time.Time
	color bool
	wide  bool
}

func (c *client) page() *page {
	return &page{now: c.now(), color: c.color, wide: c.output == outputWide}
}

func (p *page) print(to io.Writer) error {
	_, err := to.Write(p.text.Bytes())
	return err
}

func (p *page) line(format string, args ...any) {
	p.text.WriteString(legible(fmt.Sprintf(format, args...)) + "\n")
}

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
