package launcher_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
)

// grant creates grant "g" of owner u for workflow w.
func (r *rig) grant(more ...func(*registrar.GrantInput)) {
	r.Helper()
	in := registrar.GrantInput{GrantID: "g", UserID: "u", BillingAccountID: "acme", Scopes: []string{"graph:execute:w"}}
	for _, change := range more {
		change(&in)
	}
	if _, err := r.registrar.CreateGrant(r.Context(), in); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) revoke() {
	r.Helper()
	if _, err := r.registrar.RevokeGrant(r.Context(), registrar.RevokeInput{Grant: schedule.GrantRef{GrantID: "g"}}); err != nil {
		r.Fatal(err)
	}
}

// granted is a request for a run on grant "g".
func (r *rig) granted() schedule.StartRequest {
	req := r.request()
	req.ExecutionGrantID = "g"
	return req
}

func TestNoRunReachesTheExecutorWithoutItsGrant(t *testing.T) {
	for _, tc := range []struct {
		name    string
		grant   func(*registrar.GrantInput) // nil: as it should be
		after   func(*rig)
		request func(*schedule.StartRequest)
		reason  schedule.Reason // "" = it is sent
	}{
		{name: "a grant that holds"},
		{name: "one that was revoked", after: (*rig).revoke, reason: schedule.ReasonGrantRevoked},
		{name: "one that has expired", grant: func(in *registrar.GrantInput) { in.ExpiresAt = time.Now().Add(time.Second) }, after: func(*rig) { time.Sleep(time.Second) }, reason: schedule.ReasonGrantExpired},
		{name: "one that expires a moment later", grant: func(in *registrar.GrantInput) { in.ExpiresAt = time.Now().Add(time.Second) }, after: func(*rig) { time.Sleep(999 * time.Millisecond) }},
		{name: "one of another tenant, forged", grant: func(in *registrar.GrantInput) { in.UserID = "v" }, reason: schedule.ReasonGrantDenied},
		{name: "one that does not exist", request: func(req *schedule.StartRequest) { req.ExecutionGrantID = "nowhere" }, reason: schedule.ReasonGrantDenied},
		{name: "one for another workflow", grant: func(in *registrar.GrantInput) { in.Scopes = []string{"graph:execute:x"} }, reason: schedule.ReasonGrantDenied},
		{name: "a run by hand on one that was revoked", after: (*rig).revoke, request: func(req *schedule.StartRequest) { req.Trigger = schedule.TriggerManual }, reason: schedule.ReasonGrantRevoked},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, reports, func(r *rig) {
				if tc.grant == nil {
					tc.grant = func(*registrar.GrantInput) {}
				}
				r.grant(tc.grant)
				if tc.after != nil {
					tc.after(r)
				}
				req := r.granted()
				if tc.request != nil {
					tc.request(&req)
				}
				reply := r.must(req)
				if tc.reason == "" {
					r.isOutcome(reply, schedule.StatusEnqueued, schedule.ReasonNone)
					r.wantCalls(1, 0)
					return
				}
				r.isOutcome(reply, schedule.StatusSkipped, tc.reason)
				r.wantCalls(0, 0)
				if reply.Outcome.ErrorMessage == "" {
					r.Error("no message says why")
				}
				if again := r.must(req); again.Outcome != reply.Outcome {
					r.Errorf("the same key is answered %+v, before %+v", again.Outcome, reply.Outcome)
				}
			})
		})
	}
}

func TestWhereAGrantIsRequiredNoneIsARefusal(t *testing.T) {
	required := reports
	required.RequireGrant = true
	inBubble(t, required, func(r *rig) {
		r.isOutcome(r.must(r.request()), schedule.StatusSkipped, schedule.ReasonGrantDenied)
		r.grant()
		req := r.granted()
		req.Key = schedule.ManualKey("s", "with")
		r.isOutcome(r.must(req), schedule.StatusEnqueued, schedule.ReasonNone)
		r.wantCalls(1, 0)
	})
}

func TestNothingIsSentLaterThanASecondAfterARevocation(t *testing.T) {
	for _, after := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second} {
		for _, ahead := range []time.Duration{0, 700 * time.Millisecond} { // armed
			t.Run(after.String()+" armed "+ahead.String(), func(t *testing.T) {
				inBubble(t, reports, func(r *rig) {
					r.grant()
					r.workflows.took = 1200 * time.Millisecond
					answered := make(chan time.Time, 1)
					time.AfterFunc(after, func() { r.revoke(); answered <- time.Now() })
					req := r.granted()
					req.FireAt = r.store.Now().Add(ahead)
					_, _ = r.start(req)
					time.Sleep(10 * time.Second)
					revoked := <-answered
					for _, call := range r.executor.runs() {
						if late := call.at.Sub(revoked); late > time.Second {
							r.Errorf("sent %s after the revocation was answered", late)
						}
					}
				})
			})
		}
	}
}

func TestAGrantThatEndsUntilFireAtSendsNothing(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		fireAt := r.store.Now().Add(2 * time.Second)
		r.grant(func(in *registrar.GrantInput) { in.ExpiresAt = fireAt })
		req := r.granted()
		req.FireAt = fireAt
		r.isOutcome(r.must(req), schedule.StatusSkipped, schedule.ReasonGrantExpired)
		r.wantCalls(0, 0)
		if now := r.store.Now(); now.Before(fireAt) {
			r.Errorf("it was final at %s, before fire_at %s", now, fireAt)
		}
	})
}

func TestAnUnknownOutcomeOfARevokedGrantIsAskedForAndNotSent(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.grant()
		r.executor.run = lost
		req := r.granted()
		_, _ = r.start(req)
		r.revoke()
		r.executor.run = accept
		if _, err := r.start(req); !errors.Is(err, launcher.ErrWithheld) {
			r.Errorf("got %v, want ErrWithheld: what may run already is not SKIPPED", err)
		}
		r.wantCalls(1, 1)
	})
}
