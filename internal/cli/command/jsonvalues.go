package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// JSONValues are the JSON values of a file, such as JSON Lines; none without a file.
func (c *CLI) JSONValues(file string) (values [][]byte, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := c.ReadFile(file)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var value json.RawMessage
		switch err := decoder.Decode(&value); {
		case errors.Is(err, io.EOF):
			if len(values) == 0 {
				return nil, fmt.Errorf("%s: is empty", file)
			}
			return values, nil
		case err != nil:
			return nil, fmt.Errorf("%s: value %d is not JSON: %w", file, len(values)+1, err)
		}
		values = append(values, value)
	}
}
