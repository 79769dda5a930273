package main

import (
	"testing"

	"github.com/carillon/carillon/internal/test/mutant"
)

// TestEveryMutantStillFits: a bug whose place has moved proves nothing.
func TestEveryMutantStillFits(t *testing.T) {
	for _, m := range allBugs() {
		t.Run(m.name, func(t *testing.T) {
			if _, err := mutant.Overlay("../../../..", t.TempDir(), m.changes); err != nil {
				t.Fatal(err)
			}
		})
	}
}
