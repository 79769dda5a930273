package main

import "testing"

// TestEveryMutantStillFits: a bug whose place has moved proves nothing.
func TestEveryMutantStillFits(t *testing.T) {
	t.Chdir("../../../..")
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if _, err := m.overlay(t.TempDir()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
