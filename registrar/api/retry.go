package api

import (
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// retryIn fills in the defaults: an empty policy has one attempt.
func retryIn(p *carillonv1.RetryPolicy) schedule.RetryPolicy {
	if p == nil {
		return schedule.RetryPolicy{}
	}
	classes := make([]schedule.FailureClass, len(p.GetOn()))
	for i, class := range p.GetOn() {
		classes[i] = schedule.FailureClass(class)
	}
	return schedule.RetryPolicy{
		MaxAttempts: max(p.GetMaxAttempts(), 1), BackoffMS: p.GetBackoffMs(), FactorPercent: p.GetFactorPercent(), MaxBackoffMS: p.GetMaxBackoffMs(),
		On: schedule.RetryOnOf(classes...),
	}.Resolved()
}

// queueRetryIn is retryIn for a queue, which has a default of its own for max_attempts: 0.
func queueRetryIn(p *carillonv1.RetryPolicy) schedule.RetryPolicy {
	policy := retryIn(p)
	if p != nil && p.MaxAttempts == nil {
		policy.MaxAttempts = 0
	}
	return policy
}

// retryOut is nil without a policy.
func retryOut(p schedule.RetryPolicy) *carillonv1.RetryPolicy {
	if p == (schedule.RetryPolicy{}) {
		return nil
	}
	out := &carillonv1.RetryPolicy{MaxAttempts: &p.MaxAttempts, BackoffMs: &p.BackoffMS, FactorPercent: &p.FactorPercent, MaxBackoffMs: &p.MaxBackoffMS}
	for _, class := range p.On.Classes() {
		out.On = append(out.On, string(class))
	}
	return out
}
