package sim

import "fmt"

// Sum adds up worlds.
type Sum struct {
	Seeds, Broken, Violations              int
	Slots, Effects, Redelivered, Takeovers int
}

// Add counts one world.
func (s *Sum) Add(r *Result) {
	s.Seeds++
	if len(r.Violations) > 0 {
		s.Broken++
	}
	s.Violations += len(r.Violations)
	s.Slots += r.Slots
	s.Effects += r.Effects
	s.Redelivered += r.Again
	s.Takeovers += r.Takeovers
}

func (s *Sum) String() string {
	return fmt.Sprintf("%d seeds, %d slots, %d effects, %d redeliveries, %d takeovers, %d violations in %d seeds",
		s.Seeds, s.Slots, s.Effects, s.Redelivered, s.Takeovers, s.Violations, s.Broken)
}
