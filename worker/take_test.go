package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	rules "github.com/carillon/carillon/internal/ledger" // ledger is the store of the rig
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/registrar"
)

// consumes makes a schedule a consumer of a topic.
func consumes(name string) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) {
		in.Definition.IntervalMS, in.Definition.Consume = 0, schedule.Consume{Topics: []string{name}}
	}
}

func (r *rig) publish(name, id string) {
	r.Helper()
	in := registrar.PublishInput{UserID: "u", Topic: name, Events: []topic.Event{{EventID: id, Data: []byte("{}")}}}
	if _, _, err := r.registrar.Publish(r.Context(), in); err != nil {
		r.Fatal(err)
	}
}

// claims counts claims, which take a millisecond each.
type claims struct {
	ledger
	n *atomic.Int64
}

func (c claims) Claim(ctx context.Context, req rules.ClaimRequest, claim *rules.Claim) (rules.Claimed, error) {
	c.n.Add(1)
	time.Sleep(time.Millisecond)
	return c.ledger.Claim(ctx, req, claim)
}

func TestTheLoopSleepsUntilAConsumerIsLookedAt(t *testing.T) {
	const resumed = 6 * time.Second
	var n atomic.Int64
	inBubble(t, func(r *rig) {
		r.every("c", 0, consumes("orders"))
		r.pause("c", r.at(resumed))
		r.publish("orders", "a")
		stop := r.start()
		defer stop()
		r.until(resumed - 2*time.Second)
		n.Store(0)
		r.until(resumed - time.Millisecond)
		if got := n.Load(); got > 10 {
			r.Errorf("%d claims in the two seconds before the pause ends, want about one a tick", got)
		}
		r.until(resumed + time.Second)
		calls := r.executor.calls("c")
		if len(calls) != 1 {
			r.Fatalf("%d calls after the pause, want 1", len(calls))
		}
		if late := calls[0].at.Sub(r.at(resumed)); late > 100*time.Millisecond {
			r.Errorf("the events were taken %s after the end of the pause", late)
		}
	}, func(r *rig) { r.over = func(s *sqlite.Store) ledger { return claims{s, &n} } })
}

func TestAConsumerWithoutEventsDoesNotHoldBackAnother(t *testing.T) {
	const resumed = 6500 * time.Millisecond
	inBubble(t, func(r *rig) {
		group := func(priority int32) func(*registrar.UpsertInput) {
			return func(in *registrar.UpsertInput) { in.Definition.OverlapKey, in.Definition.Priority = "group", priority }
		}
		r.every("high", 0, consumes("invoices"), group(5))
		r.every("low", 0, consumes("orders"), group(0))
		r.pause("high", r.at(resumed))
		r.pause("low", r.at(resumed))
		r.publish("orders", "a")
		stop := r.start()
		defer stop()
		r.until(resumed + 100*time.Millisecond)
		if n := len(r.executor.calls("low")); n != 1 {
			r.Errorf("100 ms after the end of the pause low has %d runs, want 1", n)
		}
	})
}
