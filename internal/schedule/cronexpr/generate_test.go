package cronexpr_test

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// shape describes what the generator may write in one field.
type shape struct {
	low, high int
	likely    []int // values near the usual changes of the clock
	words     string
	special   func(t *rapid.T) string
}

var shapes = [6]shape{
	{high: 59, likely: []int{0, 30}},
	{high: 59, likely: []int{0, 1, 15, 30, 45, 59}},
	{high: 23, likely: []int{0, 1, 2, 3, 22, 23}},
	{low: 1, high: 31, likely: []int{1, 15, 28, 29, 30, 31}, special: func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"L", "LW", "1W", "15W", "30W", "31W"}).Draw(t, "special day")
	}},
	{low: 1, high: 12, likely: []int{2, 3, 10, 11}, words: monthNames},
	{high: 6, likely: []int{0, 6, 7}, words: dayNames, special: func(t *rapid.T) string {
		d := rapid.SampledFrom([]string{"0", "5", "7", "SUN", "sat", "WED"}).Draw(t, "day")
		return d + rapid.SampledFrom([]string{"L", "#1", "#2", "#4", "#5"}).Draw(t, "which")
	}},
}

// anyExpr draws a valid expression of five or six fields.
func anyExpr() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		begin := rapid.SampledFrom([]int{1, 1, 1, 0}).Draw(t, "leading second")
		var texts []string
		for i := begin; i < 6; i++ {
			texts = append(texts, drawField(t, shapes[i], i))
		}
		return strings.Join(texts, " ")
	})
}

// minuteExpr draws a valid expression of five fields.
func minuteExpr() *rapid.Generator[string] {
	return rapid.Map(anyExpr(), func(expr string) string {
		if texts := strings.Fields(expr); len(texts) == 6 {
			return strings.Join(texts[1:], " ")
		}
		return expr
	})
}

func drawField(t *rapid.T, s shape, position int) string {
	dayOrMonth := position >= 3
	switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
	case kind < 2 || dayOrMonth && kind < 6:
		return "*"
	case kind == 9 && (position == 3 || position == 5):
		return "?"
	}
	items := make([]string, rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "items"))
	for i := range items {
		items[i] = drawItem(t, s)
	}
	return strings.Join(items, ",")
}

func drawItem(t *rapid.T, s shape) string {
	step := rapid.OneOf(rapid.IntRange(1, 20), rapid.Just(99)).Draw(t, "step")
	value := rapid.OneOf(rapid.IntRange(s.low, s.high), rapid.SampledFrom(s.likely)).Draw(t, "value")
	to := rapid.IntRange(min(value, s.high), s.high).Draw(t, "to")
	if s.special != nil && rapid.IntRange(0, 3).Draw(t, "is special") == 0 {
		return s.special(t)
	}
	switch rapid.IntRange(0, 5).Draw(t, "item") {
	case 0:
		return fmt.Sprintf("*/%d", step)
	case 1:
		return fmt.Sprintf("%d/%d", value, step)
	case 2:
		return fmt.Sprintf("%d-%d", min(value, s.high), to)
	case 3:
		return fmt.Sprintf("%d-%d/%d", min(value, s.high), to, step)
	case 4:
		if i := 3 * (value - s.low); s.words != "" && i < len(s.words) {
			return s.words[i : i+3]
		}
	}
	return fmt.Sprintf("%02d", value)
}
