package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/carillon/carillon/internal/schedule"
)

// Problem is why raw is refused as a raw member; empty: valid. It must be one JSON value in UTF-8,
// nested at most depth levels, without NUL, which Postgres cannot store, and without duplicate names:
// readers disagree which one counts, and the canonical form of a DAG would keep only one.
func Problem(raw []byte, depth int) string {
	if err := valid(raw); err != nil {
		return err.Error()
	}
	c := checker{scanner: scanner{text: raw}, limit: depth}
	c.check(1)
	return c.problem
}

// checker stops at the first problem.
type checker struct {
	scanner
	limit   int
	problem string
}

// check checks the next value at the given nesting level.
func (c *checker) check(level int) {
	first := c.peek()
	switch {
	case c.problem != "":
		c.value()
	case first == '"':
		c.refuseNUL(unquote(c.token()))
	case first != '{' && first != '[':
		c.value()
	case level > c.limit:
		c.problem = fmt.Sprintf("is nested deeper than %d levels", c.limit)
		c.value()
	case first == '[':
		c.elements(func(int) { c.check(level + 1) })
	default:
		seen := make(map[string]bool)
		c.members(func(name string, _ []byte) {
			if seen[name] && c.problem == "" {
				c.problem = "has the member " + schedule.Quote(name) + " twice in one object"
			}
			seen[name] = true
			c.refuseNUL(name)
			c.check(level + 1)
		})
	}
}

func (c *checker) refuseNUL(s string) {
	if c.problem == "" && bytes.IndexByte([]byte(s), 0) >= 0 {
		c.problem = `holds the NUL character (\u0000)`
	}
}

// valid checks that text is one JSON value. The error has the position.
func valid(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("is not UTF-8")
	}
	if json.Valid(text) {
		return nil
	}
	var v json.RawMessage
	err := json.Unmarshal(text, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("is not JSON: %s (byte %d)", syntax.Error(), syntax.Offset)
	}
	return errors.New("is not JSON")
}
