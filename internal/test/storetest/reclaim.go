package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

var reclaims = []check{
	{"our own rows are sent again once claimed_until has passed", reclaimOwn},
	{"rows of an older epoch are sent again at once, with their fire_at", reclaimOlder},
	{"a settlement to LAUNCHING puts the next send off", reclaimAfterRenewal},
	{"rows whose cancel was asked for are left out", reclaimNotCancelled},
	{"only LAUNCHING rows are sent again", reclaimOnlyLaunching},
	{"at most Limit rows are handed out, each once", reclaimLimit},
	{"owners get no more than their capacity, the first of each before the second of any", reclaimTurns},
	{"what was moved since it was chosen is not sent again, and is read again", reclaimMoved},
	{"a settlement to LAUNCHING reaches the leader as a change", reclaimChange},
}

func reclaimTurns(r *rig) {
	r.lead()
	a, b := r.owes(r.owned("a", "s-a"), 4, time.Minute), r.owes(r.owned("b", "s-b"), 2, 30*time.Second)
	r.claim()
	r.lead()
	equal(r, "with capacity for nobody", keysOfLaunches(r.reclaim(r.capacities(map[string]int{"a": 0, "b": -1}))), nil)
	for i, want := range [][]schedule.Run{{a[0], b[0]}, {a[1], b[1]}, {a[2], a[3]}, nil} {
		equal(r, fmt.Sprint("two at a time, time ", i+1), keysOfLaunches(r.reclaim(r.capacities(nil), limited(2))), keysOf(want))
	}
	r.lead()
	equal(r, "with capacity for one of a", keysOfLaunches(r.reclaim(r.capacities(map[string]int{"a": 1}))), keysOf([]schedule.Run{a[0], b[0], b[1]}))
}

func (r *rig) reclaim(edits ...func(*claimRequest)) []schedule.Launch {
	r.Helper()
	req := r.claimRequest()
	for _, edit := range edits {
		edit(&req)
	}
	sent, err := r.tryReclaim(req)
	r.ok(err, "reclaim")
	return sent.Launches
}

// tryReclaim sends again what a leader that has just taken over would choose.
func (r *rig) tryReclaim(req claimRequest) (ledger.Reclaimed, error) {
	m, err := r.loadFor(req.Term, req.Now)
	if err != nil {
		return ledger.Reclaimed{}, err
	}
	return r.Reclaim(r.ctx, req.reclaim(m.state.SendAgain(req.Now, req.Limit, req.Capacity)...))
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

// reclaimMoved has runs that a leader chose by what it knew, and that moved then.
func reclaimMoved(r *rig) {
	r.lead()
	s := r.create("moved-since")
	n := 0
	launching := func() schedule.Run {
		n++
		return r.bring(r.slot(s, r.at(-time.Duration(n)*time.Second)), schedule.StatusLaunching)
	}
	due, renewed, accepted, ended, cancelled := launching(), launching(), launching(), launching(), launching()
	r.lead()
	m := r.load()
	keys := m.state.SendAgain(r.now, 10, nil)
	equal(r, "chosen", slices.Sorted(hexOf(keys)), slices.Sorted(hexOf(keysOf([]schedule.Run{due, renewed, accepted, ended, cancelled}))))

	req := r.claimRequest()
	_, err := r.Reclaim(r.ctx, req.reclaim(renewed.Key)) // a pass of this term whose answer was lost
	r.ok(err, "reclaim")
	r.settle(schedule.Settlement{Key: accepted.Key, To: schedule.StatusEnqueued, LaunchedAt: r.now, TimeoutAt: r.at(time.Hour)})
	r.settle(schedule.Settlement{Key: ended.Key, To: schedule.StatusSuccess, LaunchedAt: r.now})
	r.askCancel(cancelled.Key, schedule.ReasonCancelled, r.now)
	nobody := schedule.ManualKey("no", "run")
	before := r.runsOf(s)

	sent, err := r.Reclaim(r.ctx, req.reclaim(append(keys, nobody)...))
	r.ok(err, "reclaim")
	equal(r, "sent again", keysOfLaunches(sent.Launches), []schedule.Key{due.Key})
	equal(r, "ended", slices.Sorted(hexOf(sent.Read.Ended)), slices.Sorted(hexOf([]schedule.Key{ended.Key, nobody})))
	read := make(map[schedule.Key]ledger.Run)
	for _, run := range sent.Read.Runs {
		read[run.Key] = run
	}
	r.hold(len(read) == 4, "four runs are read again, got %d", len(read))
	for _, key := range []schedule.Key{due.Key, renewed.Key, accepted.Key, cancelled.Key} {
		row := r.ledger(key)
		equal(r, "read again", read[key], ledger.RunOf(&row))
	}
	for _, run := range before {
		if run.Key != due.Key {
			equal(r, "a run that was moved", r.ledger(run.Key), run)
		}
	}
	m.state.SentAgain(r.now, keys, sent.Read)
	equal(r, "chosen at once once more", m.state.SendAgain(r.now, 10, nil), []schedule.Key{})
	r.now = r.at(time.Second)
	equal(r, "chosen a second later", m.state.SendAgain(r.now, 10, nil), []schedule.Key{})
	r.now = r.at(lease)
	chosen := m.state.SendAgain(r.now, 10, nil)
	equal(r, "chosen when the lease is over", slices.Sorted(hexOf(chosen)), slices.Sorted(hexOf([]schedule.Key{due.Key, renewed.Key})))
}

func hexOf(keys []schedule.Key) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, key := range keys {
			if !yield(key.String()) {
				return
			}
		}
	}
}

// reclaimChange has a backoff that another process writes: later than the lease, and
// then earlier, because the executor is back.
func reclaimChange(r *rig) {
	r.lead()
	s := r.create("backoff")
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	m := r.load()
	for _, until := range []time.Time{r.at(2 * lease), r.at(time.Second)} {
		moved, err := r.SettleLaunched(r.ctx, r.now, []schedule.Settlement{{Key: run.Key, To: schedule.StatusLaunching, ClaimedUntil: until}})
		r.ok(err, "settle")
		r.hold(moved[0].To == schedule.StatusLaunching, "claimed_until is moved")
		m.read()
		known, _ := m.state.Run(run.Key)
		equal(r, "next send that the leader knows", known.NextSend, until)
		equal(r, "next send of one that takes over", r.nextSend(run.Key), until)
		equal(r, "chosen just before", m.state.SendAgain(until.Add(-time.Microsecond), 10, nil), []schedule.Key{})
		equal(r, "chosen then", m.state.SendAgain(until, 10, nil), []schedule.Key{run.Key})
	}
}

func (r *rig) nextSend(key schedule.Key) time.Time {
	r.Helper()
	run, _ := r.load().state.Run(key)
	return run.NextSend
}
