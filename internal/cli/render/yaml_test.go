package render

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// What -o yaml writes, -f reads back as the same JSON.
func TestYAMLIsJSONInAnotherForm(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(
			rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "text") }),
			rapid.Custom(func(t *rapid.T) any {
				return rapid.SampledFrom([]string{"yes", "null", "~", "1e3", "0x1F", "12:30:00", "2026-03-08", "- a", "a: b", "#", "", " ", "\n", "<<", "!!str", "&a", "*a", "\u0085", "\ufeff"}).Draw(t, "trap")
			}),
			rapid.Custom(func(t *rapid.T) any { return rapid.Int64().Draw(t, "number") }),
			rapid.SampledFrom([]any{nil, true, false, json.Number("12345678901234567890123"), json.Number("1.50"), json.Number("-0"), json.Number("1E400")}),
		)
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(
			leaf,
			rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "list") }),
			rapid.Custom(func(t *rapid.T) any {
				return rapid.MapOfN(rapid.String(), value(depth-1), 0, 4).Draw(t, "object")
			}),
		)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text, err := json.Marshal(value(3).Draw(rt, "value"))
		if err != nil {
			rt.Fatal(err)
		}
		converted, err := YAMLFromJSON(text)
		if err != nil {
			rt.Fatalf("%s: %v", text, err)
		}
		back, err := JSONFromYAML(converted)
		if err != nil {
			rt.Fatalf("%s\n%s: %v", text, converted, err)
		}
		if !bytes.Equal(text, back) {
			rt.Fatalf("JSON %s\nYAML %s\nback %s", text, converted, back)
		}
	})
}
