package schedule

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// retryFlags adds the flags of automatic retries.
func retryFlags(f *pflag.FlagSet, req *carillonv1.UpsertScheduleRequest) {
	p := func() *carillonv1.RetryPolicy {
		if req.Retry == nil {
			req.Retry = &carillonv1.RetryPolicy{}
		}
		return req.Retry
	}
	f.Func("retry-attempts", "`NUMBER` of attempts of a run, the first one included (default 1: no retry)", func(s string) error { return command.Uint32(&p().MaxAttempts)(s) })
	f.Func("retry-backoff", "`DURATION` before the first retry (default 10s)", func(s string) error { return command.Millis(&p().BackoffMs)(s) })
	f.Func("retry-factor", "each further wait in `PERCENT` of the one before (default 200)", func(s string) error { return command.Uint32(&p().FactorPercent)(s) })
	f.Func("retry-max-backoff", "longest wait, a `DURATION` (default 1h)", func(s string) error { return command.Millis(&p().MaxBackoffMs)(s) })
	f.Func("retry-on", "failure `CLASSES` to retry (default transient,timeout,lost,deadline)", func(s string) error {
		p().On = strings.Split(s, ",")
		return nil
	})
}

// retryText describes automatic retries.
func retryText(p *carillonv1.RetryPolicy) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%d attempts, backoff %s × %d %% up to %s, on %s", p.GetMaxAttempts(), render.Millis(p.GetBackoffMs()),
		p.GetFactorPercent(), render.Millis(p.GetMaxBackoffMs()), strings.Join(p.GetOn(), ", "))
}
