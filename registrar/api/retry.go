package api

import (
	"cmp"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// retryIn fills in the defaults: an empty policy has one attempt.
func retryIn(p *carillonv1.RetryPolicy) schedule.RetryPolicy {
	if p == nil {
		return schedule.RetryPolicy{}
	}
	policy := retryAsked(p)
	policy.MaxAttempts = max(policy.MaxAttempts, 1)
	return policy.Resolved()
}

// retryAsked is a policy as it was given.
func retryAsked(p *carillonv1.RetryPolicy) schedule.RetryPolicy {
	classes := make([]schedule.FailureClass, len(p.GetOn()))
	for i, class := range p.GetOn() {
		classes[i] = schedule.FailureClass(class)
	}
	return schedule.RetryPolicy{
		MaxAttempts: p.GetMaxAttempts(), BackoffMS: p.GetBackoffMs(), FactorPercent: p.GetFactorPercent(), MaxBackoffMS: p.GetMaxBackoffMs(),
		On: schedule.RetryOnOf(classes...),
	}
}

// queueRetryIn is the policy of a queue, without the defaults: the settings have them. An empty
// policy is one too.
func queueRetryIn(p *carillonv1.RetryPolicy) schedule.RetryPolicy {
	if p == nil {
		return schedule.RetryPolicy{}
	}
	policy := retryAsked(p)
	policy.On = cmp.Or(policy.On, schedule.DefaultRetry.On)
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
