package describe

import (
	"fmt"
	"maps"
	"slices"
)

// Turns says how the keys of a fair queue take turns.
func Turns(weights map[string]uint32) string {
	text := "keys take turns"
	for i, key := range slices.Sorted(maps.Keys(weights)) {
		if text += ", "; i == 0 {
			text += "weights "
		}
		text += fmt.Sprintf("%s=%d", key, weights[key])
	}
	return text
}
