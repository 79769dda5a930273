package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

var flightChecks = []check{
	{"flights are those of exclusive runs that were launched and delivered once", flightsOfExclusiveRuns},
	{"flights are read by when their ends were recorded, of some buckets, up to a limit", flightsInARange},
}

// flown brings a run of s to its end at the rig's now.
func (r *rig) flown(s schedule.Schedule, seconds int, deliveries int32, edits ...func(*schedule.Settlement)) ledger.Flight {
	r.Helper()
	run := r.bring(r.due(s, seconds), schedule.StatusSuccess, append(edits, func(st *schedule.Settlement) {
		st.Deliveries, st.CompletedAt = deliveries, r.now
		if deliveries > 0 {
			st.LaunchedAt = r.at(-time.Duration(seconds) * time.Second)
		}
	})...)
	return ledger.Flight{Key: run.Key, OverlapKey: run.OverlapKey, Launched: run.LaunchedAt, Completed: run.CompletedAt}
}

func (r *rig) flights(req ledger.FlightsRequest) []ledger.Flight {
	r.Helper()
	flights, err := r.Flights(r.ctx, req)
	r.ok(err, "read flights")
	return flights
}

func flightsOfExclusiveRuns(r *rig) {
	r.lead()
	skip, allow := r.create("skip", withPolicy(schedule.OverlapSkip)), r.create("allow", withPolicy(schedule.OverlapAllow))
	want := r.flown(skip, 5, 1)
	r.flown(skip, 4, 2)
	r.flown(allow, 3, 1)
	r.bring(r.due(skip, 2), schedule.StatusSkipped, func(st *schedule.Settlement) { st.Reason = schedule.ReasonOverlap })
	r.bring(r.due(skip, 1), schedule.StatusStarted, func(st *schedule.Settlement) { st.Deliveries, st.LaunchedAt = 1, r.now })
	got := r.flights(ledger.FlightsRequest{From: r.now, Until: r.at(time.Second), Last: schedule.Buckets - 1, Limit: 100})
	equal(r, "flights", got, []ledger.Flight{want})
}

func flightsInARange(r *rig) {
	r.lead()
	s := r.create("s", withPolicy(schedule.OverlapQueue))
	first := r.now
	var all []ledger.Flight
	for range 4 {
		all = append(all, r.flown(s, 1, 1))
		r.now = r.at(time.Minute)
	}
	bucket := schedule.Bucket(s.QualifiedOverlapKey())
	for _, c := range []struct {
		name               string
		from, until        time.Duration
		first, last, limit int
		want               []ledger.Flight
	}{
		{"from inclusive, until exclusive", time.Minute, 3 * time.Minute, bucket, bucket, 100, all[1:3]},
		{"the oldest ones", 0, time.Hour, 0, schedule.Buckets - 1, 3, all[:3]},
		{"of greater buckets", 0, time.Hour, bucket + 1, schedule.Buckets, 100, nil},
		{"of lesser buckets", 0, time.Hour, -1, bucket - 1, 100, nil},
	} {
		got := r.flights(ledger.FlightsRequest{From: first.Add(c.from), Until: first.Add(c.until), First: c.first, Last: c.last, Limit: c.limit})
		equal(r, "flights "+c.name, got, c.want)
	}
}
