package schedule

import (
	"fmt"
	"maps"
	"slices"
)

// Fairness says how the runs of a queue with the same priority are ordered.
type Fairness string

// The fairnesses.
const (
	FairNone Fairness = "none" // in the order in which they entered
	FairKey  Fairness = "key"  // keys take turns
)

// Bounds of fair queues.
const (
	MaxWeight  = 100
	MaxWeights = 1000
	// FairKeyHint says what a fair key is.
	FairKeyHint = "use 1 to 128 characters, no control characters; leave it out for the owner of the run"
)

// ValidFairKey reports whether a text can be a fair key. An owner is one.
func ValidFairKey(key string) bool { return ValidOwner(key) }

// CheckFairKey adds what is wrong with the fair key in a field; "" is the owner.
func CheckFairKey(c *Collect, field, key string) {
	if key != "" && !ValidFairKey(key) {
		c.Add(field, key, "is not a fair key", FairKeyHint)
	}
}

func (d *QueueDefinition) checkFair(c *Collect) {
	if d.Fair != FairNone && d.Fair != FairKey {
		c.Add("fair", d.Fair, "is not none or key", "")
	}
	if len(d.Weights) > 0 && d.Fair != FairKey {
		c.Note("weights", "is set without fair: key: the keys of the queue take no turns", "set fair to key, or leave weights out")
	}
	if len(d.Weights) > MaxWeights {
		c.Note("weights", fmt.Sprintf("has %d keys, more than %d", len(d.Weights), MaxWeights), "a key without an entry has the weight 1")
	}
	for _, key := range slices.Sorted(maps.Keys(d.Weights)) {
		CheckFairKey(c, "weights", key)
		if key == "" {
			c.Note("weights", "has an empty key", FairKeyHint)
		}
		if w := d.Weights[key]; w < 1 || w > MaxWeight {
			c.Add(fmt.Sprintf("weights[%q]", key), w, fmt.Sprintf("is not within 1 to %d", MaxWeight), "to stop a key, set max_in_flight of a keyed limit to 0 for it")
		}
	}
	if d.PromoteAfterMS > 0 && d.Fair == FairKey {
		c.Add("promote_after_ms", d.PromoteAfterMS, "is set together with fair: key: old runs of one key would pass the turns of the others", "keep one")
	}
}

// Weight is how many turns a key has for one of a key without a weight.
func (d *QueueDefinition) Weight(key string) uint32 {
	if w := d.Weights[key]; w > 0 {
		return w
	}
	return 1
}

// IsFair reports whether the keys of the queue take turns.
func (d *QueueDefinition) IsFair() bool { return d.Fair == FairKey }

// QueueShare is a key of a fair queue with runs that wait.
type QueueShare struct {
	Key     string
	Waiting int
	First   int // the place of its first run among those that wait, 1 = next
}
