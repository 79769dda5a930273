package apply

import (
	"testing"
)

func TestAnIDBecomesAFileNameThatEverySystemTakes(t *testing.T) {
	taken := make(map[string]bool)
	for _, tt := range []struct{ id, want string }{
		{"nightly", "nightly.yaml"},
		{"Nightly", "Nightly-2.yaml"},
		{"a:b", "a_b.yaml"},
		{"a_b", "a_b-2.yaml"},
		{"a_b-2", "a_b-2-2.yaml"},
		{".hidden", "_hidden.yaml"},
		{"..", "_..yaml"},
	} {
		if got := fileName(tt.id, taken); got != tt.want {
			t.Errorf("%s is written to %s, want %s", tt.id, got, tt.want)
		}
	}
}
