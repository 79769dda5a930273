package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// object is a JSON object with its members in the order in which they were added.
type object struct {
	text bytes.Buffer
	err  error
}

// add adds a member. An error is returned by yaml.
func (o *object) add(name string, value any) {
	raw, err := json.Marshal(value)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("%s: %w", name, err)
	}
	o.raw(name, raw)
}

// raw adds a member whose value is JSON already.
func (o *object) raw(name string, value []byte) {
	before := byte(',')
	if o.text.Len() == 0 {
		before = '{'
	}
	fmt.Fprintf(&o.text, "%c%q:%s", before, name, value)
}

// yaml is the object as YAML. Nothing can be added after it.
func (o *object) yaml() ([]byte, error) {
	o.text.WriteByte('}')
	if o.err != nil {
		return nil, o.err
	}
	return yamlFromJSON(o.text.Bytes())
}
