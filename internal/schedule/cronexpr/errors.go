package cronexpr

import (
	"errors"
	"fmt"
)

// ErrNeverFires reports an expression without a slot in the next 50 years.
var ErrNeverFires = errors.New("the cron expression never matches within 50 years")

// SyntaxError reports text that the grammar refuses.
type SyntaxError struct {
	Field   string // second, minute, hour, day of month, month, day of week or expression
	Value   string // the offending text as it was written
	Problem string // what is wrong, the limit, and what to write instead
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("cron %s %q: %s", e.Field, e.Value, e.Problem)
}

// ZoneError reports a name that is not a time zone of the embedded data.
type ZoneError struct {
	Name    string
	Problem string
}

func (e *ZoneError) Error() string {
	return fmt.Sprintf("time zone %q: %s", e.Name, e.Problem)
}
