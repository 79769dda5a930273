package render

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Object is a JSON object that keeps the order of its members.
type Object struct {
	text bytes.Buffer
	err  error
}

// Add adds a member. YAML returns its error.
func (o *Object) Add(name string, value any) {
	raw, err := json.Marshal(value)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("%s: %w", name, err)
	}
	o.Raw(name, raw)
}

// Raw adds a member with a value that is JSON.
func (o *Object) Raw(name string, value []byte) {
	before := byte(',')
	if o.text.Len() == 0 {
		before = '{'
	}
	fmt.Fprintf(&o.text, "%c%q:%s", before, name, value)
}

// YAML ends the object and converts it.
func (o *Object) YAML() ([]byte, error) {
	o.text.WriteByte('}')
	if o.err != nil {
		return nil, o.err
	}
	return YAMLFromJSON(o.text.Bytes())
}
