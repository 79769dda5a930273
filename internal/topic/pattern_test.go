package topic_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/topic"
)

func parse(t testing.TB, text string) *topic.Pattern {
	t.Helper()
	p, bad := topic.ParsePattern([]byte(text))
	if bad != nil {
		t.Fatalf("%s is refused: %s", text, bad.Problem)
	}
	return p
}

func TestAPatternMatches(t *testing.T) {
	order := topic.Event{
		Topic: "orders.eu", Source: "shop", Type: "order.paid", EventID: "o-1",
		Data: json.RawMessage(`{"status": "PAID", "amount": 99.50, "id": 9007199254740993, "tags": ["new", "gift"], "none": null, "ok": true,
			"customer": {"country": "DE"}, "items": [{"sku": "a", "n": 1}, {"sku": "b", "n": 5}], "empty": []}`),
	}
	for _, tt := range []struct {
		name, pattern string
		member        string // that does not match; empty: the event matches
		value         string // of it
	}{
		{"a text is equal", `{"data": {"status": ["PAID"]}}`, "", ""},
		{"a text is another", `{"data": {"status": ["paid"]}}`, "data.status", `"PAID"`},
		{"one value of an array is enough", `{"data": {"status": ["NEW", "PAID"]}}`, "", ""},
		{"all members must match", `{"data": {"status": ["PAID"], "ok": [false]}}`, "data.ok", `true`},
		{"a topic is equal", `{"topic": ["orders.eu"]}`, "", ""},
		{"a type has a prefix", `{"type": [{"prefix": "order."}]}`, "", ""},
		{"a type has another prefix", `{"type": [{"prefix": "bill."}]}`, "type", `"order.paid"`},
		{"a source has a suffix", `{"source": [{"suffix": "op"}]}`, "", ""},
		{"a source has another suffix", `{"source": [{"suffix": "sh"}]}`, "source", `"shop"`},
		{"a subject that is not set is no text", `{"subject": ["", {"prefix": "a"}, {"anything-but": "b"}]}`, "subject", ""},
		{"a subject that is not set does not exist", `{"subject": [{"exists": false}]}`, "", ""},
		{"a source that is set exists", `{"source": [{"exists": true}]}`, "", ""},
		{"null is a value", `{"data": {"none": [null]}}`, "", ""},
		{"null exists", `{"data": {"none": [{"exists": true}]}}`, "", ""},
		{"null is not a member that is missing", `{"data": {"missing": [null]}}`, "data.missing", ""},
		{"a truth value is equal", `{"data": {"ok": [true]}}`, "", ""},
		{"a text is not a truth value", `{"data": {"ok": ["true"]}}`, "data.ok", "true"},
		{"a number is equal in another notation", `{"data": {"amount": [9.95e1]}}`, "", ""},
		{"a large number differs in its last digit", `{"data": {"id": [9007199254740992]}}`, "data.id", "9007199254740993"},
		{"a large number is equal", `{"data": {"id": [9007199254740993]}}`, "", ""},
		{"a number is above", `{"data": {"amount": [{"numeric": [">", 99]}]}}`, "", ""},
		{"a number is not above itself", `{"data": {"amount": [{"numeric": [">", 99.5]}]}}`, "data.amount", "99.50"},
		{"a number is at least itself", `{"data": {"amount": [{"numeric": [">=", 99.5]}]}}`, "", ""},
		{"a number is the same", `{"data": {"amount": [{"numeric": ["=", 99.5]}]}}`, "", ""},
		{"a number is within bounds", `{"data": {"amount": [{"numeric": [">", 0, "<=", 100]}]}}`, "", ""},
		{"a number is outside bounds", `{"data": {"amount": [{"numeric": [">", 0, "<", 99.5]}]}}`, "data.amount", "99.50"},
		{"a text is no number", `{"data": {"status": [{"numeric": ["<", 9]}]}}`, "data.status", `"PAID"`},
		{"a number has no prefix", `{"data": {"amount": [{"prefix": "9"}]}}`, "data.amount", "99.50"},
		{"a value is another than one", `{"data": {"status": [{"anything-but": "FAILED"}]}}`, "", ""},
		{"a value is one of those that are excluded", `{"data": {"status": [{"anything-but": ["FAILED", "PAID"]}]}}`, "data.status", `"PAID"`},
		{"a member that is missing is not anything", `{"data": {"missing": [{"anything-but": 1}]}}`, "data.missing", ""},
		{"an element of an array is equal", `{"data": {"tags": ["gift"]}}`, "", ""},
		{"no element of an array is equal", `{"data": {"tags": ["old"]}}`, "data.tags", `["new","gift"]`},
		{"an element of an array is excluded", `{"data": {"tags": [{"anything-but": "gift"}]}}`, "data.tags", `["new","gift"]`},
		{"no element of an array is excluded", `{"data": {"tags": [{"anything-but": "old"}]}}`, "", ""},
		{"an empty array has no element", `{"data": {"empty": ["a"]}}`, "data.empty", "[]"},
		{"an empty array exists", `{"data": {"empty": [{"exists": true}]}}`, "", ""},
		{"a member of a member", `{"data": {"customer": {"country": ["DE"]}}}`, "", ""},
		{"a member of a member that is missing", `{"data": {"seller": {"country": ["DE"]}}}`, "data.seller.country", ""},
		{"a member of a text", `{"data": {"status": {"a": [1]}}}`, "data.status.a", ""},
		{"a member of a text does not exist", `{"data": {"status": {"a": [{"exists": false}]}}}`, "", ""},
		{"one object of an array matches", `{"data": {"items": {"sku": ["b"], "n": [{"numeric": [">", 4]}]}}}`, "", ""},
		{"members of two objects do not match together", `{"data": {"items": {"sku": ["a"], "n": [{"numeric": [">", 4]}]}}}`, "data.items.sku", `"b"`},
		{"an object exists", `{"data": {"customer": [{"exists": true}]}}`, "", ""},
		{"an object is no value", `{"data": {"customer": ["DE"]}}`, "data.customer", `{"country":"DE"}`},
		{"the data as a whole exist", `{"data": [{"exists": true}]}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bad := parse(t, tt.pattern).WhyNot(&order)
			if tt.member == "" {
				if bad != nil {
					t.Fatalf("%s does not match: %+v", tt.pattern, bad)
				}
				return
			}
			if bad == nil || bad.Member != tt.member || bad.Value != tt.value {
				t.Fatalf("%s: got %+v, want %s with %s", tt.pattern, bad, tt.member, tt.value)
			}
		})
	}
}

func TestDataThatAreAScalarMatch(t *testing.T) {
	for data, want := range map[string]bool{`7`: true, `"x"`: true, `8`: false, `null`: false} {
		e := topic.Event{Data: json.RawMessage(data)}
		if got := parse(t, `{"data": [7, "x"]}`).WhyNot(&e) == nil; got != want {
			t.Errorf("%s matches: %v", data, got)
		}
	}
}

func TestAMismatchNamesTheCondition(t *testing.T) {
	e := topic.Event{Data: json.RawMessage(`{"amount": 50, "note": "` + strings.Repeat("é", 300) + `"}`)}
	bad := topic.NotMatched(json.RawMessage(`{"data": {"amount": [{"numeric": [">", 100]}, "<a>"]}}`), &e)
	if bad == nil || *bad != (topic.Mismatch{Member: "data.amount", Value: "50", Condition: `[{"numeric":[">",100]},"<a>"]`}) {
		t.Errorf("got %+v", bad)
	}
	bad = topic.NotMatched(json.RawMessage(`{"data": {"note": ["a"]}}`), &e)
	if bad == nil || len(bad.Value) > 204 || !strings.HasSuffix(bad.Value, "é…") {
		t.Errorf("a long value is shortened, got %+v", bad)
	}
}

func TestWithoutAReadableFilterEveryEventMatches(t *testing.T) {
	for _, filter := range []string{"", `{"colour": ["red"]}`, `{`} {
		if bad := topic.NotMatched(json.RawMessage(filter), &topic.Event{Data: json.RawMessage(`{}`)}); bad != nil {
			t.Errorf("%q: %+v", filter, bad)
		}
	}
}

func conditions(n int) string { return strings.TrimSuffix(strings.Repeat(`1,`, n), ",") }

func TestPatternsThatAreRefused(t *testing.T) {
	sized := func(n int) string {
		const frame = `{"data": {"a": [""]}}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", n-len(frame))+`"`, 1)
	}
	for _, tt := range []struct{ name, pattern, want string }{
		{"4096 bytes", sized(4096), ""},
		{"4097 bytes", sized(4097), "has 4097 bytes, more than 4096"},
		{"64 conditions", `{"data": {"a": [` + conditions(60) + `], "b": {"c": [` + conditions(4) + `]}}}`, ""},
		{"65 conditions", `{"data": {"a": [` + conditions(60) + `], "b": {"c": [` + conditions(5) + `]}}}`, "has 65 conditions, more than 64"},
		{"64 excluded values", `{"data": {"a": [{"anything-but": [` + conditions(64) + `]}]}}`, ""},
		{"65 excluded values", `{"data": {"a": [{"anything-but": [` + conditions(65) + `]}]}}`, "has 65 conditions, more than 64"},
		{"no object", `["a"]`, "is not an object"},
		{"no JSON", `{"data"`, "is not JSON"},
		{"two values", `{"topic": ["a"]} {}`, "is not JSON"},
		{"nothing", `{}`, "names no member"},
		{"an empty object", `{"data": {"a": {}}}`, `has an empty object at "data.a"`},
		{"an empty array", `{"data": {"a": []}}`, `has an empty array at "data.a"`},
		{"an unknown member", `{"data": {"a": [1]}, "user_id": ["a"]}`, `has the unknown member "user_id"`},
		{"a value without an array", `{"data": {"status": "FAILED"}}`, `has neither an object nor an array of conditions at "data.status"`},
		{"a text without an array", `{"type": "a"}`, `has no array of conditions at "type"`},
		{"members of a text", `{"type": {"a": ["b"]}}`, `has no array of conditions at "type"`},
		{"a number for a text", `{"type": ["a", 5]}`, `has no text at "type[1]"`},
		{"numeric for a text", `{"type": [{"numeric": [">", 1]}]}`, `has numeric at "type[0]", which is a text`},
		{"numeric with a text", `{"data": {"a": [{"numeric": [">", "1"]}]}}`, `compares with something that is not a number at "data.a[0]"`},
		{"numeric with an unknown comparison", `{"data": {"a": [{"numeric": ["!=", 1]}]}}`, `has an unknown comparison at "data.a[0]"`},
		{"numeric without a number", `{"data": {"a": [{"numeric": [">"]}]}}`, `has no comparison for numeric at "data.a[0]"`},
		{"numeric with three comparisons", `{"data": {"a": [{"numeric": [">", 1, "<", 2, "<", 3]}]}}`, `has no comparison for numeric at "data.a[0]"`},
		{"an unknown operator", `{"data": {"a": [1, {"regex": ".*"}]}}`, `has the unknown operator "regex" at "data.a[1]"`},
		{"two operators in one object", `{"data": {"a": [{"prefix": "a", "suffix": "b"}]}}`, `has 2 operators in one object at "data.a[0]"`},
		{"no operator", `{"data": {"a": [{}]}}`, `has 0 operators in one object at "data.a[0]"`},
		{"an array in an array", `{"data": {"a": [[1]]}}`, `has an array in an array at "data.a[0]"`},
		{"a prefix that is no text", `{"data": {"a": [{"prefix": 1}]}}`, `has no text for prefix at "data.a[0]"`},
		{"an empty suffix", `{"data": {"a": [{"suffix": ""}]}}`, `has no text for suffix at "data.a[0]"`},
		{"exists with a text", `{"data": {"a": [{"exists": "yes"}]}}`, `has neither true nor false for exists at "data.a[0]"`},
		{"anything-but nothing", `{"data": {"a": [{"anything-but": []}]}}`, `has no values for anything-but at "data.a[0]"`},
		{"anything-but an object", `{"data": {"a": [{"anything-but": {"prefix": "a"}}]}}`, `has no values for anything-but at "data.a[0]"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, bad := topic.ParsePattern([]byte(tt.pattern))
			got := ""
			if bad != nil {
				got = bad.Problem
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// oracle decides over plain values, with rational numbers, what the pattern says.
func oracle(pattern, value any, there bool) bool {
	switch p := pattern.(type) {
	case map[string]any:
		if list, isList := value.([]any); isList && len(list) > 0 {
			for _, element := range list {
				if oracle(p, element, true) {
					return true
				}
			}
			return false
		}
		object, _ := value.(map[string]any)
		for name, inner := range p {
			member, has := object[name]
			if !oracle(inner, member, has) {
				return false
			}
		}
		return true
	case []any:
		for _, c := range p {
			if oracleHolds(c, value, there) {
				return true
			}
		}
	}
	return false
}

func oracleHolds(c, value any, there bool) bool {
	op, _ := c.(map[string]any)
	if exists, is := op["exists"]; is {
		return there == exists.(bool)
	}
	elements := []any{value}
	if list, isList := value.([]any); isList {
		elements = list
	}
	if excluded, is := op["anything-but"]; is {
		for _, e := range elements {
			for _, x := range excluded.([]any) {
				there = there && !oracleSame(x, e)
			}
		}
		return there
	}
	for _, e := range elements {
		if there && oracleElement(c, op, e) {
			return true
		}
	}
	return false
}

func oracleElement(c any, op map[string]any, e any) bool {
	text, _ := e.(string)
	if prefix, is := op["prefix"]; is {
		return len(text) >= len(prefix.(string)) && text[:len(prefix.(string))] == prefix
	}
	if suffix, is := op["suffix"]; is {
		return len(text) >= len(suffix.(string)) && text[len(text)-len(suffix.(string)):] == suffix
	}
	if numeric, is := op["numeric"]; is {
		n, isNumber := e.(json.Number)
		if !isNumber {
			return false
		}
		by := rational(n).Cmp(rational(numeric.([]any)[1].(json.Number)))
		return map[string]bool{"<": by < 0, "<=": by <= 0, "=": by == 0, ">=": by >= 0, ">": by > 0}[numeric.([]any)[0].(string)]
	}
	return oracleSame(c, e)
}

func oracleSame(a, b any) bool {
	n, one := a.(json.Number)
	m, two := b.(json.Number)
	if one && two {
		return rational(n).Cmp(rational(m)) == 0
	}
	return !one && !two && fmt.Sprintf("%T %v", a, a) == fmt.Sprintf("%T %v", b, b)
}

func rational(n json.Number) *big.Rat {
	r, _ := new(big.Rat).SetString(string(n))
	return r
}

var (
	names   = rapid.SampledFrom([]string{"a", "b", "c"})
	numbers = rapid.Map(rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?`), func(s string) any { return json.Number(s) })
	scalars = rapid.OneOf(rapid.SampledFrom([]any{"", "x", "xy", "yx", "1", nil, true, false, json.Number("1"), json.Number("0"), json.Number("-0.0"), json.Number("10e-1")}), numbers)
)

func values(depth int) *rapid.Generator[any] {
	if depth == 0 {
		return scalars
	}
	return rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return rapid.SliceOfN(values(depth-1), 0, 3).Draw(t, "list")
		case 1:
			return rapid.MapOfN(names, values(depth-1), 0, 3).Draw(t, "object")
		}
		return scalars.Draw(t, "scalar")
	})
}

var condition = rapid.Custom(func(t *rapid.T) any {
	texts := rapid.SampledFrom([]any{"x", "y", "xy"})
	switch rapid.IntRange(0, 6).Draw(t, "operator") {
	case 0:
		return map[string]any{"prefix": texts.Draw(t, "prefix")}
	case 1:
		return map[string]any{"suffix": texts.Draw(t, "suffix")}
	case 2:
		return map[string]any{"exists": rapid.Bool().Draw(t, "exists")}
	case 3:
		return map[string]any{"anything-but": rapid.SliceOfN(scalars, 1, 3).Draw(t, "excluded")}
	case 4:
		return map[string]any{"numeric": []any{rapid.SampledFrom([]any{"<", "<=", "=", ">=", ">"}).Draw(t, "comparison"), numbers.Draw(t, "number")}}
	}
	return scalars.Draw(t, "value")
})

func patterns(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if depth > 0 && rapid.Bool().Draw(t, "object?") {
			return rapid.MapOfN(names, patterns(depth-1), 1, 3).Draw(t, "members")
		}
		return rapid.SliceOfN(condition, 1, 3).Draw(t, "conditions")
	})
}

func TestPatternsMatchAsTheOracleSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern, data := patterns(2).Draw(t, "pattern"), values(3).Draw(t, "data")
		text, err := json.Marshal(map[string]any{"data": pattern})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		p, bad := topic.ParsePattern(text)
		if bad != nil {
			if strings.Contains(bad.Problem, "conditions, more than") {
				t.Skip("too many conditions")
			}
			t.Fatalf("%s is refused: %s", text, bad.Problem)
		}
		why := p.WhyNot(&topic.Event{Data: raw})
		if want := oracle(pattern, data, true); want != (why == nil) {
			t.Fatalf("%s on %s: got %+v, want match %v", text, raw, why, want)
		}
	})
}

// FuzzPattern: no text crashes the parser, and what it accepts can be asked about any event.
func FuzzPattern(f *testing.F) {
	f.Add(`{"data": {"a": [{"numeric": [">", 1e999999999999999999999]}]}}`, `{"a": -1E-99999999999999999999}`)
	f.Add(`{"type": [{"anything-but": ["a", null]}], "data": {"a": {"b": [{"exists": false}]}}}`, `{"a": [[{"b": 1}], 2]}`)
	f.Fuzz(func(t *testing.T, pattern, data string) {
		p, bad := topic.ParsePattern([]byte(pattern))
		if bad != nil {
			if bad.Problem == "" {
				t.Error("refused without a word")
			}
			return
		}
		if why := p.WhyNot(&topic.Event{Data: json.RawMessage(data)}); why != nil && (why.Member == "" || why.Condition == "") {
			t.Errorf("does not match without a reason: %+v", why)
		}
	})
}
