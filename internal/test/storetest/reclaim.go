package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var reclaims = []check{
	{"our own rows are sent again once claimed_until has passed", reclaimOwn},
	{"rows of an older epoch are sent again at once, with their fire_at", reclaimOlder},
	{"a settlement to LAUNCHING puts the next send off", reclaimAfterRenewal},
	{"rows whose cancel was asked for are left out", reclaimNotCancelled},
	{"but not if their outcome is recorded: it is to settle them", reclaimRecorded},
	{"only LAUNCHING rows are sent again", reclaimOnlyLaunching},
	{"at most Limit rows are handed out, each once", reclaimLimit},
	{"owners get no more than their room, the first of each before the second of any", reclaimTurns},
}

func reclaimTurns(r *rig) {
	r.lead()
	a, b := r.owes(r.owned("a", "s-a"), 4, time.Minute), r.owes(r.owned("b", "s-b"), 2, 30*time.Second)
	r.claim()
	r.lead()
	equal(r, "with room for nobody", keysOfLaunches(r.reclaim(r.rooms(map[string]int{"a": 0, "b": -1}))), nil)
	for i, want := range [][]schedule.Run{{a[0], b[0]}, {a[1], b[1]}, {a[2], a[3]}, nil} {
		equal(r, fmt.Sprint("two at a time, time ", i+1), keysOfLaunches(r.reclaim(r.rooms(nil), limited(2))), keysOf(want))
	}
	r.lead()
	equal(r, "with room for one of a", keysOfLaunches(r.reclaim(r.rooms(map[string]int{"a": 1}))), keysOf([]schedule.Run{a[0], b[0], b[1]}))
}

func (r *rig) reclaim(edits ...func(*claimRequest)) []schedule.Launch {
	r.Helper()
	req := r.claimRequest()
	for _, edit := range edits {
		edit(&req)
	}
	launches, err := r.Reclaim(r.ctx, req.reclaim())
	r.ok(err, "reclaim")
	return launches
}

func keysOfLaunches(launches []schedule.Launch) []schedule.Key {
	keys := make([]schedule.Key, len(launches))
	for i := range launches {
		keys[i] = launches[i].Run.Key
	}
	return keys
}

func reclaimOwn(r *rig) {
	r.lead()
	s := r.create("own")
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	claimed := r.now
	equal(r, "sent again at once", keysOfLaunches(r.reclaim()), nil)
	r.now = claimed.Add(lease - time.Microsecond)
	equal(r, "sent again before claimed_until", keysOfLaunches(r.reclaim()), nil)
	r.now = claimed.Add(lease + time.Microsecond)
	equal(r, "sent again after claimed_until", keysOfLaunches(r.reclaim()), []schedule.Key{run.Key})
	equal(r, "sent again twice", keysOfLaunches(r.reclaim()), nil)

	want := run
	want.ClaimedUntil, want.UpdatedAt = r.at(lease), r.now
	equal(r, "runs", r.ledger(run.Key), want)
}

func reclaimOlder(r *rig) {
	r.lead()
	s := r.create("older")
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	r.lead()
	r.now = r.at(time.Second)
	launches := r.reclaim()
	equal(r, "handed over", keysOfLaunches(launches), []schedule.Key{run.Key})
	want := run
	want.Epoch, want.ClaimedUntil, want.UpdatedAt = r.term.Epoch, r.at(lease), r.now
	equal(r, "runs", r.ledger(run.Key), want)
	equal(r, "launches", launches[0].Run, want)
	r.hold(launches[0].Again, "it was handed out before")
	equal(r, "handed over again", keysOfLaunches(r.reclaim()), nil)
}

func reclaimAfterRenewal(r *rig) {
	r.lead()
	s := r.create("renewed")
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	until := r.at(2 * lease)
	r.hold(r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusLaunching, ClaimedUntil: until})[0], "claimed_until is renewed")
	r.now = r.at(lease + time.Second)
	equal(r, "sent again after the first claimed_until", keysOfLaunches(r.reclaim()), nil)
	r.now = until.Add(time.Microsecond)
	equal(r, "sent again after the second", keysOfLaunches(r.reclaim()), []schedule.Key{run.Key})
}

func reclaimNotCancelled(r *rig) {
	r.lead()
	s := r.create("cancelled")
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	r.askCancel(run.Key, schedule.ReasonCancelled, r.now)
	r.now = r.at(2 * lease)
	equal(r, "sent again by its own epoch", keysOfLaunches(r.reclaim()), nil)
	r.lead()
	equal(r, "sent again by a newer epoch", keysOfLaunches(r.reclaim()), nil)
}

// reclaimRecorded has a worker that died between the executor's answer and the
// settlement, and an owner who then asks for a cancel.
func reclaimRecorded(r *rig) {
	r.lead()
	s := r.create("recorded")
	done := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	open := r.bring(r.slot(s, r.at(-time.Second)), schedule.StatusLaunching)
	r.begin(r.beginRequest(done), r.beginRequest(open))
	r.finish(done.Key, schedule.Outcome{Status: schedule.StatusSuccess, RunID: "run-1"})
	for _, run := range []schedule.Run{done, open} {
		r.askCancel(run.Key, schedule.ReasonCancelled, r.now)
	}
	equal(r, "sent again by its own epoch before claimed_until", keysOfLaunches(r.reclaim()), nil)
	r.lead()
	launches := r.reclaim()
	equal(r, "sent again by a newer epoch", keysOfLaunches(launches), []schedule.Key{done.Key})
	got := launches[0].Run
	r.hold(got.CancelReason == schedule.ReasonCancelled && !got.CancelRequestedAt.IsZero(), "it says that its cancel was asked for, got %+v", got)
	r.now = r.at(lease + time.Microsecond)
	equal(r, "sent again once claimed_until has passed", keysOfLaunches(r.reclaim()), []schedule.Key{done.Key})
	r.permits(r.beginRequest(done), schedule.Recorded)
}

func reclaimOnlyLaunching(r *rig) {
	r.lead()
	s := r.create("moved")
	for i, status := range schedule.Statuses[2:] {
		r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), status)
	}
	r.add(r.slot(s, r.at(-time.Minute)))
	r.lead()
	r.now = r.at(2 * lease)
	equal(r, "sent again", keysOfLaunches(r.reclaim()), nil)
}

func reclaimLimit(r *rig) {
	r.lead()
	s := r.create("many")
	var want []schedule.Key
	for i := range 5 {
		want = append(want, r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), schedule.StatusLaunching).Key)
	}
	r.lead()
	var got []schedule.Key
	for range 3 {
		launches := r.reclaim(func(req *claimRequest) { req.Limit = 2 })
		r.hold(len(launches) <= 2, "at most two are handed out, got %d", len(launches))
		got = append(got, keysOfLaunches(launches)...)
	}
	slices.SortFunc(got, compareKeys)
	slices.SortFunc(want, compareKeys)
	equal(r, "handed out in three calls", got, want)
}

func compareKeys(a, b schedule.Key) int { return slices.Compare(a[:], b[:]) }
