package render

import (
	"fmt"
	"strings"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Retry describes automatic retries; empty without a policy.
func Retry(p *carillonv1.RetryPolicy) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%d attempts, backoff %s × %d %% up to %s, on %s", p.GetMaxAttempts(), Millis(p.GetBackoffMs()),
		p.GetFactorPercent(), Millis(p.GetMaxBackoffMs()), strings.Join(p.GetOn(), ", "))
}
