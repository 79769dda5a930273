package render

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Object is a JSON object with its members in the order in which they were added.
type Object struct {
	text bytes.Buffer
	err  error
}

// Add adds a member. An error is returned by yaml.
func (o *Object) Add(name string, value any) {
	raw, err := json.Marshal(value)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("%s: %w", name, err)
	}
	o.Raw(name, raw)
}

// Raw adds a member whose value is JSON already.
func (o *Object) Raw(name string, value []byte) {
	before := byte(',')
	if o.text.Len() == 0 {
		before = '{'
	}
	fmt.Fprintf(&o.text, "%c%q:%s", before, name, value)
}

// YAML is the object as YAML. Nothing can be added after it.
func (o *Object) YAML() ([]byte, error) {
	o.text.WriteByte('}')
	if o.err != nil {
		return nil, o.err
	}
	return YAMLFromJSON(o.text.Bytes())
}
