package topic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
)

// Limits of a pattern.
const (
	MaxPatternBytes      = 4 << 10
	MaxPatternConditions = 64
)

// Pattern selects events by their members, in the style of AWS EventBridge: all members of an object
// must match, and one condition of an array.
type Pattern struct{ root node }

// node is what one member of an event must be: an object whose members match, or a value that one of
// the conditions holds for.
type node struct {
	members    []member // by name
	conditions []condition
	text       string // the conditions as JSON
}

type member struct {
	name string
	node node
}

// The operators of conditions.
const (
	opPrefix      = "prefix"
	opSuffix      = "suffix"
	opAnythingBut = "anything-but"
	opNumeric     = "numeric"
	opExists      = "exists"
)

// condition is one entry of an array: a value, or an operator with its operand.
type condition struct {
	op     string // empty: the value equals values[0]
	text   string // of prefix and suffix
	values []any  // scalars
	bounds []bound
	exists bool
}

// bound is a comparison of numeric.
type bound struct {
	op string
	n  decimal
}

var comparisons = []string{"<", "<=", "=", ">=", ">"}

// dataMember is the member of an event that can have members; textMembers are the others.
const dataMember = "data"

var textMembers = []string{"topic", "source", "type", "subject"}

// PatternProblem is why a text is not a pattern.
type PatternProblem struct{ Problem, Hint string }

// ParsePattern reads a pattern. Of an object with a member twice, the last one counts.
func ParsePattern(raw []byte) (*Pattern, *PatternProblem) {
	if len(raw) > MaxPatternBytes {
		return nil, &PatternProblem{fmt.Sprintf("has %d bytes, more than %d", len(raw), MaxPatternBytes), "use fewer conditions, or prefixes"}
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&value); err != nil || d.More() {
		return nil, &PatternProblem{"is not JSON", ""}
	}
	top, isObject := value.(map[string]any)
	if !isObject {
		return nil, &PatternProblem{"is not an object", `write {"data": {"status": ["FAILED"]}}`}
	}
	if len(top) == 0 {
		return nil, &PatternProblem{"names no member", "leave it out to get all events of the topics"}
	}
	var p parser
	p.top(top)
	root := p.object("", top)
	if p.conditions > MaxPatternConditions {
		p.refuse(fmt.Sprintf("has %d conditions, more than %d", p.conditions, MaxPatternConditions), "use prefix, numeric or anything-but")
	}
	if p.problem != nil {
		return nil, p.problem
	}
	return &Pattern{root}, nil
}

// parser notes the first problem, and goes on.
type parser struct {
	conditions int
	problem    *PatternProblem
}

func (p *parser) refuse(problem, hint string) {
	if p.problem == nil {
		p.problem = &PatternProblem{problem, hint}
	}
}

// top checks the members of the event that a pattern names.
func (p *parser) top(object map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch {
		case name == dataMember:
		case !slices.Contains(textMembers, name):
			p.refuse("has the unknown member "+schedule.Quote(name), "use topic, source, type, subject or data")
		default:
			p.text(name, object[name])
		}
	}
}

// text refuses conditions that never hold for a text.
func (p *parser) text(name string, value any) {
	list, isList := value.([]any)
	if !isList {
		p.refuse("has no array of conditions at "+schedule.Quote(name), `write ["a", {"prefix": "b"}]`)
	}
	for i, entry := range list {
		at := fmt.Sprintf("%s[%d]", name, i)
		switch v := entry.(type) {
		case string:
		case map[string]any:
			if _, numeric := v[opNumeric]; numeric {
				p.refuse("has numeric at "+schedule.Quote(at)+", which is a text", "use it for members of data")
			}
		default:
			p.refuse("has no text at "+schedule.Quote(at), "write the value in quotes")
		}
	}
}

func (p *parser) node(path string, value any) node {
	switch v := value.(type) {
	case map[string]any:
		return p.object(path, v)
	case []any:
		return p.list(path, v)
	}
	p.refuse("has neither an object nor an array of conditions at "+schedule.Quote(path), `write the value in an array, such as ["FAILED"]`)
	return node{}
}

func (p *parser) object(path string, object map[string]any) (n node) {
	if len(object) == 0 {
		p.refuse("has an empty object at "+schedule.Quote(path), "leave it out, or name a member")
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		inner := name
		if path != "" {
			inner = path + "." + name
		}
		n.members = append(n.members, member{name, p.node(inner, object[name])})
	}
	return n
}

func (p *parser) list(path string, list []any) node {
	if len(list) == 0 {
		p.refuse("has an empty array at "+schedule.Quote(path), "give a condition")
	}
	n := node{text: jsonText(list)}
	for i, entry := range list {
		n.conditions = append(n.conditions, p.condition(fmt.Sprintf("%s[%d]", path, i), entry))
	}
	return n
}

func (p *parser) condition(path string, value any) condition {
	p.conditions++
	switch v := value.(type) {
	case []any:
		p.refuse("has an array in an array at "+schedule.Quote(path), "write its values without the inner array")
	case map[string]any:
		for op, operand := range v {
			if len(v) == 1 {
				return p.operator(path, op, operand)
			}
		}
		p.refuse(fmt.Sprintf("has %d operators in one object at %s", len(v), schedule.Quote(path)), "write an object for each")
	}
	return condition{values: []any{value}}
}

func (p *parser) operator(path, op string, operand any) condition {
	c := condition{op: op}
	ok := false
	switch op {
	case opPrefix, opSuffix:
		if c.text, ok = operand.(string); !ok || c.text == "" {
			p.refuse(fmt.Sprintf("has no text for %s at %s", op, schedule.Quote(path)), `write {"`+op+`": "text"}`)
		}
	case opExists:
		if c.exists, ok = operand.(bool); !ok {
			p.refuse("has neither true nor false for exists at "+schedule.Quote(path), "")
		}
	case opAnythingBut:
		c.values = p.excluded(path, operand)
	case opNumeric:
		c.bounds = p.numeric(path, operand)
	default:
		p.refuse("has the unknown operator "+schedule.Quote(op)+" at "+schedule.Quote(path), "use prefix, suffix, anything-but, numeric or exists")
	}
	return c
}

// excluded are the values of anything-but, which count as conditions from the second on.
func (p *parser) excluded(path string, operand any) []any {
	list, isList := operand.([]any)
	if !isList {
		list = []any{operand}
	}
	p.conditions += max(len(list)-1, 0)
	for _, value := range list {
		switch value.(type) {
		case []any, map[string]any:
			list = nil
		}
	}
	if len(list) == 0 {
		p.refuse("has no values for anything-but at "+schedule.Quote(path), `write a value or an array of values`)
	}
	return list
}

// numeric are the one or two comparisons of numeric.
func (p *parser) numeric(path string, operand any) (bounds []bound) {
	const hint = `write {"numeric": [">", 0, "<=", 100]}`
	list, _ := operand.([]any)
	if len(list) != 2 && len(list) != 4 {
		p.refuse("has no comparison for numeric at "+schedule.Quote(path), hint)
		return nil
	}
	for i := 0; i < len(list); i += 2 {
		op, _ := list[i].(string)
		n, isNumber := list[i+1].(json.Number)
		switch {
		case !slices.Contains(comparisons, op):
			p.refuse("has an unknown comparison at "+schedule.Quote(path), "use <, <=, =, >= or >")
		case !isNumber:
			p.refuse("compares with something that is not a number at "+schedule.Quote(path), hint)
		default:
			bounds = append(bounds, bound{op, decimalOf(n)})
		}
	}
	return bounds
}

// jsonText is a value as JSON.
func jsonText(value any) string {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return fmt.Sprint(value) // what was read from JSON can be written
	}
	return strings.TrimSuffix(out.String(), "\n")
}
