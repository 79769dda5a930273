package worker

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/ledger"
)

const (
	// violationsEvery is how often the ends of the last minute are checked.
	violationsEvery = time.Minute
	// violationsDelay: an end that is recorded at an instant is committed within it.
	violationsDelay = 10 * time.Second
	// flightsMost is how many ends one check reads. After more than that, a check reads
	// only one of flightsParts groups of buckets, the next one each time.
	flightsMost  = 100_000
	flightsParts = 64
	// violationsLogged is how many violations of one check are logged.
	violationsLogged = 10
)

// violations checks in history whether exclusive runs of one overlap group were in flight
// together. Nothing else checks the leader's verdicts after the fact.
type violations struct {
	until  time.Time // recorded ends are checked until then
	parted bool      // the last check would have read too much
	part   int
}

// check checks the ends that were recorded since the last check, once a minute.
func (v *violations) check(ctx context.Context, t *term) {
	until := t.now().Add(-violationsDelay)
	if v.until.IsZero() {
		v.until = until.Add(-violationsEvery)
	}
	if until.Sub(v.until) < violationsEvery {
		return
	}
	req := ledger.FlightsRequest{From: v.until, Until: until, Limit: flightsMost}
	req.First, req.Last = t.Buckets()
	if v.parted {
		n := req.Last - req.First + 1
		req.First, req.Last = req.First+v.part*n/flightsParts, req.First+(v.part+1)*n/flightsParts-1
		v.part = (v.part + 1) % flightsParts
	}
	storeCtx, cancel := t.storeContext()
	flights, err := t.Fires.Flights(storeCtx, req)
	cancel()
	if err != nil {
		t.failed(ctx, "check overlaps", err) // the next tick tries again
		return
	}
	v.until = until
	v.parted = len(flights) == flightsMost || v.parted && len(flights) > flightsMost/flightsParts/2
	found := ledger.Overlapped(flights)
	t.Metrics.violations.Add(float64(len(found)))
	for _, v := range found[:min(len(found), violationsLogged)] {
		t.log.Error("a run was in flight together with another exclusive run of its overlap key",
			"key", v.Key.String(), "overlap_key", v.OverlapKey, "launched_at", v.Launched, "completed_at", v.Completed,
			"other_key", v.With.Key.String(), "other_launched_at", v.With.Launched, "other_completed_at", v.With.Completed)
	}
}
