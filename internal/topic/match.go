package topic

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Mismatch is why an event does not match a pattern: the first member for which no condition holds.
type Mismatch struct {
	Member    string // its path, such as data.amount
	Value     string // as JSON, shortened; empty: the event has no such member
	Condition string // the conditions as JSON
}

// WhyNot is why the event does not match; nil: it matches.
func (p *Pattern) WhyNot(e *Event) *Mismatch { return p.whyNot(&view{event: e}) }

func (p *Pattern) whyNot(v *view) *Mismatch {
	for i := range p.root.members {
		m := &p.root.members[i]
		value, there := v.member(m.name)
		if bad := m.node.whyNot(m.name, value, there); bad != nil {
			return bad
		}
	}
	return nil
}

// NotMatched is why an event does not match the filter of a consumer; nil: it matches. A filter that
// this release cannot read matches: the consumer gets too much, and nothing is lost.
func NotMatched(filter json.RawMessage, e *Event) *Mismatch {
	if p := filterOf(filter); p != nil {
		return p.WhyNot(e)
	}
	return nil
}

// filterOf is the pattern of a filter; nil: every event matches.
func filterOf(filter json.RawMessage) *Pattern {
	if len(filter) == 0 {
		return nil
	}
	p, bad := ParsePattern(filter)
	if bad != nil {
		return nil
	}
	return p
}

// view is an event whose data are read once, and only if a pattern names them.
type view struct {
	event *Event
	data  any
	read  bool
}

// member is a member of the event; an empty text is none.
func (v *view) member(name string) (value any, there bool) {
	text := ""
	switch name {
	case "topic":
		text = v.event.Topic
	case "source":
		text = v.event.Source
	case "type":
		text = v.event.Type
	case "subject":
		text = v.event.Subject
	case dataMember:
		return v.dataOf()
	}
	return text, text != ""
}

func (v *view) dataOf() (any, bool) {
	if !v.read {
		v.read = true
		d := json.NewDecoder(bytes.NewReader(v.event.Data))
		d.UseNumber()
		if d.Decode(&v.data) != nil {
			v.data = nil // a publish checks it
		}
	}
	return v.data, true
}

// whyNot is nil if the value matches. Of an array one element must match.
func (n *node) whyNot(path string, value any, there bool) *Mismatch {
	if n.conditions != nil {
		if slices.ContainsFunc(n.conditions, func(c condition) bool { return c.holds(value, there) }) {
			return nil
		}
		bad := &Mismatch{Member: path, Condition: n.text}
		if there {
			bad.Value = shown(jsonText(value))
		}
		return bad
	}
	if list, isList := value.([]any); isList && len(list) > 0 {
		return n.whyNone(path, list)
	}
	object, _ := value.(map[string]any)
	for i := range n.members {
		m := &n.members[i]
		inner, there := object[m.name]
		if bad := m.node.whyNot(path+"."+m.name, inner, there); bad != nil {
			return bad
		}
	}
	return nil
}

// shown is a text that explanations can show.
func shown(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// whyNone is why no element of an array matches: the reason of the last one.
func (n *node) whyNone(path string, list []any) (bad *Mismatch) {
	for _, element := range list {
		if bad = n.whyNot(path, element, true); bad == nil {
			return nil
		}
	}
	return bad
}

// holds reports whether a member meets the condition.
func (c *condition) holds(value any, there bool) bool {
	if c.op == opExists {
		return there == c.exists
	}
	if !there {
		return false
	}
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	if c.op == opAnythingBut {
		return !slices.ContainsFunc(list, c.excludes)
	}
	return slices.ContainsFunc(list, c.holdsFor)
}

func (c *condition) excludes(value any) bool {
	return slices.ContainsFunc(c.values, func(v any) bool { return same(v, value) })
}

func (c *condition) holdsFor(value any) bool {
	text, isText := value.(string)
	switch c.op {
	case opPrefix:
		return isText && strings.HasPrefix(text, c.text)
	case opSuffix:
		return isText && strings.HasSuffix(text, c.text)
	case opNumeric:
		n, isNumber := value.(json.Number)
		return isNumber && c.within(decimalOf(n))
	}
	return same(c.values[0], value)
}

func (c *condition) within(n decimal) bool {
	for _, b := range c.bounds {
		by := n.compare(b.n)
		ok := by == 0 && strings.HasSuffix(b.op, "=") || by < 0 && b.op[0] == '<' || by > 0 && b.op[0] == '>'
		if !ok {
			return false
		}
	}
	return true
}

// same reports whether two values are the same scalar; numbers are compared by their value.
func same(a, b any) bool {
	n, isNumber := a.(json.Number)
	if o, both := b.(json.Number); isNumber && both {
		return decimalOf(n).compare(decimalOf(o)) == 0
	}
	switch a.(type) {
	case nil, bool, string:
		switch b.(type) {
		case nil, bool, string:
			return a == b
		}
	}
	return false
}
