package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxConverted limits the size of the result: nested aliases grow exponentially.
const maxConverted = 2 << 20

// JSONFromYAML converts one YAML document.
func JSONFromYAML(text []byte) ([]byte, error) {
	documents, err := YAMLDocuments(text)
	switch {
	case err != nil:
		return nil, err
	case len(documents) == 0:
		return nil, errors.New("the file is empty")
	case len(documents) > 1:
		return nil, errors.New("the file has more than one document; give one per call")
	}
	return JSONFromNode(documents[0])
}

// YAMLDocuments are the documents of a stream, including empty ones.
func YAMLDocuments(text []byte) ([]*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var documents []*yaml.Node
	for {
		document := new(yaml.Node)
		if err := decoder.Decode(document); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
}

// JSONFromNode converts a YAML node. It does not decode values, so that members keep
// their order, numbers their digits and dates their text.
func JSONFromNode(n *yaml.Node) ([]byte, error) {
	var c yamlConverter
	if err := c.node(n, 0); err != nil {
		return nil, err
	}
	return c.out.Bytes(), nil
}

type yamlConverter struct{ out bytes.Buffer }

func (c *yamlConverter) node(n *yaml.Node, depth int) error {
	const deepest = 100
	if depth > deepest || c.out.Len() > maxConverted {
		return fmt.Errorf("line %d: more than %d levels or %d bytes", n.Line, deepest, maxConverted)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return c.node(n.Content[0], depth)
	case yaml.AliasNode:
		return c.node(n.Alias, depth+1)
	case yaml.MappingNode:
		return c.mapping(n, depth)
	case yaml.SequenceNode:
		c.out.WriteByte('[')
		for i, element := range n.Content {
			if i > 0 {
				c.out.WriteByte(',')
			}
			if err := c.node(element, depth+1); err != nil {
				return err
			}
		}
		c.out.WriteByte(']')
		return nil
	}
	return c.scalar(n)
}

func (c *yamlConverter) mapping(n *yaml.Node, depth int) error {
	c.out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if name.Kind != yaml.ScalarNode || name.Tag == "!!merge" {
			return fmt.Errorf("line %d: a name must be plain text; merge keys are not supported", name.Line)
		}
		if i > 0 {
			c.out.WriteByte(',')
		}
		c.text(name.Value)
		c.out.WriteByte(':')
		if err := c.node(n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	c.out.WriteByte('}')
	return nil
}

func (c *yamlConverter) scalar(n *yaml.Node) error {
	if n.Style == 0 && jsonNumber(n.Value) { // unquoted; YAML reads 1E400 as text
		c.out.WriteString(n.Value)
		return nil
	}
	switch n.ShortTag() {
	case "!!null":
		c.out.WriteString("null")
	case "!!bool":
		var value bool
		if err := n.Decode(&value); err != nil {
			return err
		}
		c.out.WriteString(strconv.FormatBool(value))
	case "!!int", "!!float":
		return c.number(n)
	default:
		c.text(n.Value)
	}
	return nil
}

func jsonNumber(s string) bool {
	return s != "" && strings.IndexByte("-0123456789", s[0]) >= 0 && json.Valid([]byte(s))
}

// number writes a number that is valid in YAML only: 0x1F, 1_000.
func (c *yamlConverter) number(n *yaml.Node) error {
	var value any
	if err := n.Decode(&value); err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("line %d: %s is not a number that JSON knows", n.Line, n.Value)
	}
	c.out.Write(text)
	return nil
}

func (c *yamlConverter) text(s string) {
	text, _ := json.Marshal(s) // a string always has a JSON form
	c.out.Write(text)
}

// YAMLFromJSON converts JSON to YAML. It reads tokens, to keep order and digits.
func YAMLFromJSON(text []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	document, err := yamlNode(decoder)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(document); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

func yamlNode(decoder *json.Decoder) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch value := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.MappingNode}
		if value == '[' {
			n.Kind = yaml.SequenceNode
		}
		for decoder.More() { // of an object: name, value, name, value
			below, err := yamlNode(decoder)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, below)
		}
		_, err := decoder.Token()
		return n, err
	case string:
		n := &yaml.Node{}
		n.SetString(value) // quotes text that would be read as another type
		if jsonNumber(value) || value == "<<" || strings.ContainsAny(value, "\n\r\u0085\u2028\u2029") {
			n.Style = yaml.DoubleQuotedStyle // a block changes some line ends; << as a name is a merge
		}
		return n, nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: value.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatBool(value)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}, nil
}
