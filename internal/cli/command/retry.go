package command

import (
	"strings"

	"github.com/spf13/pflag"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// RetryDefaults are what the help says of the defaults of RetryFlags.
type RetryDefaults struct{ Attempts, Backoff, MaxBackoff string }

// OfSchedules are the defaults of the policy of a schedule.
var OfSchedules = RetryDefaults{Attempts: "1: no retry", Backoff: "10s", MaxBackoff: "1h"}

// RetryFlags adds the flags of automatic retries.
func RetryFlags(f *pflag.FlagSet, to **carillonv1.RetryPolicy, defaults RetryDefaults) {
	p := func() *carillonv1.RetryPolicy {
		if *to == nil {
			*to = &carillonv1.RetryPolicy{}
		}
		return *to
	}
	f.Func("retry-attempts", "`NUMBER` of attempts of a run, the first one included (default "+defaults.Attempts+")", func(s string) error { return Uint32(&p().MaxAttempts)(s) })
	f.Func("retry-backoff", "`DURATION` before the first retry (default "+defaults.Backoff+")", func(s string) error { return Millis(&p().BackoffMs)(s) })
	f.Func("retry-factor", "each further wait in `PERCENT` of the one before (default 200)", func(s string) error { return Uint32(&p().FactorPercent)(s) })
	f.Func("retry-max-backoff", "longest wait, a `DURATION` (default "+defaults.MaxBackoff+")", func(s string) error { return Millis(&p().MaxBackoffMs)(s) })
	f.Func("retry-on", "failure `CLASSES` to retry (default transient,timeout,lost,deadline)", func(s string) error {
		p().On = strings.Split(s, ",")
		return nil
	})
}
