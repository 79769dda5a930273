package schedule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Consume makes a schedule a consumer: events of its owner's topics start its runs. The zero value:
// the schedule consumes nothing.
type Consume struct {
	// Topics are ids, or end in ".*": then all topics that begin with the text before the star.
	Topics []string `json:"topics,omitempty"`
	// MaxEvents is the most events that one run gets.
	MaxEvents uint32 `json:"max_events,omitempty"`
	// Filter is a pattern of events, as topic.Pattern has it; empty: all events of the topics.
	Filter json.RawMessage `json:"filter,omitempty"`
}

// Limits of consumers.
const (
	MaxConsumedTopics = 16
	MaxBatchEvents    = 1000
	DefaultMaxEvents  = 100
)

// ConsumerRetry is the policy of a consumer that has none: a failure that may pass is tried again.
// Whether a run took effect that timed out or was lost is not known.
var ConsumerRetry = RetryPolicy{MaxAttempts: 3, BackoffMS: 10_000, FactorPercent: 200, MaxBackoffMS: 3_600_000, On: RetryOnOf(ClassTransient)}

// Any reports whether anything is consumed.
func (c *Consume) Any() bool { return len(c.Topics) > 0 }

// Equal reports whether two consumers consume the same.
func (c *Consume) Equal(o *Consume) bool {
	return c.MaxEvents == o.MaxEvents && slices.Equal(c.Topics, o.Topics) && bytes.Equal(c.Filter, o.Filter)
}

// Resolved has the defaults.
func (c Consume) Resolved() Consume {
	if c.Any() && c.MaxEvents == 0 {
		c.MaxEvents = DefaultMaxEvents
	}
	return c
}

// Text is the stored form: JSON, or empty.
func (c *Consume) Text() string {
	if !c.Any() {
		return ""
	}
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // a filter stays as it was sent
	if err := e.Encode(c); err != nil {
		panic("a consumer is not JSON: " + err.Error()) // its filter was read before
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// ConsumeOf reads a stored form.
func ConsumeOf(text string) (c Consume, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &c)
	}
	return c, err
}

// Check adds what is wrong with a resolved block, with its fields under consume.
func (c *Consume) Check(to *Collect) {
	if !c.Any() {
		if c.MaxEvents != 0 || len(c.Filter) > 0 {
			to.Note("consume.topics", "is required", "name the topics that start a run, such as orders or orders.*")
		}
		return
	}
	if n := len(c.Topics); n > MaxConsumedTopics {
		to.Note("consume.topics", fmt.Sprintf("has %d entries, more than %d", n, MaxConsumedTopics), "use a prefix such as orders.*")
	}
	seen := make(map[string]bool, len(c.Topics))
	for i, topic := range c.Topics {
		field := fmt.Sprintf("consume.topics[%d]", i)
		switch {
		case seen[topic]:
			to.Add(field, topic, "is there twice", "")
		case !ValidSubscription(topic):
			to.Add(field, topic, "is not a topic", "use 1 to 128 of A–Z a–z 0–9 . _ : -, or such a beginning with .* after it")
		}
		seen[topic] = true
	}
	if c.MaxEvents < 1 || c.MaxEvents > MaxBatchEvents {
		to.Add("consume.max_events", c.MaxEvents, fmt.Sprintf("is not within 1 to %d", MaxBatchEvents), "")
	}
}

// topicWildcard ends a subscription to all topics with a beginning.
const topicWildcard = ".*"

// ValidSubscription reports whether a consumer may name a topic so.
func ValidSubscription(text string) bool { return ValidID(strings.TrimSuffix(text, topicWildcard)) }

// Subscription returns what a consumer's topic matches: the topic itself, or all that begin with it.
func Subscription(text string) (topic string, prefix bool) {
	if before, ok := strings.CutSuffix(text, topicWildcard); ok {
		return before + ".", true
	}
	return text, false
}
