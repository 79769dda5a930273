package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var leases = []check{
	{"a lease that is extended keeps its key busy for longer", extendKeeps},
	{"only the lease that was granted or given last can be extended", extendOwn},
	{"a lease that has run out can be extended while nobody else has the key", extendRunOut},
	{"a key that was released or never began cannot be extended, nor the record of one that is done", extendOver},
	{"many leases are extended in one call, each by its own length", extendMany},
	{"what was extended last is what can be released", extendThenRelease},
}

// extend extends one lease at the rig's now.
func (r *rig) extend(key schedule.Key, held time.Time, d time.Duration) time.Time {
	r.Helper()
	until, err := r.Extend(r.ctx, []schedule.LeaseExtension{{Key: key, Held: held, Lease: d}}, r.now)
	r.ok(err, "extend")
	r.hold(len(until) == 1, "one answer per lease, got %d", len(until))
	return until[0]
}

// begun is a key whose call is open, and when its lease ends.
func (r *rig) begun(name string) (req schedule.BeginRequest, held time.Time) {
	r.Helper()
	req = r.strange(name)
	r.granted(req)
	return req, r.at(lease)
}

func extendKeeps(r *rig) {
	req, held := r.begun("open")
	r.now = r.at(lease - time.Second)
	until := r.extend(req.Key, held, lease+1500*time.Nanosecond)
	r.hold(until.Equal(r.at(lease+time.Microsecond)) && until.Location() == time.UTC, "it ends so long from now, to the microsecond, in UTC, got %s", until)
	r.now = until.Add(-time.Microsecond)
	got := r.permits(req, schedule.Busy)
	r.hold(got.Request.Lease.Until.Equal(until), "it is what the key shows, got %s", got.Request.Lease.Until)
	r.now = until
	r.permits(req, schedule.GrantedAgain)
}

func extendOwn(r *rig) {
	req, first := r.begun("passed on")
	r.hold(r.extend(req.Key, first.Add(time.Microsecond), lease).IsZero(), "not under another lease")
	r.now = r.at(2 * lease)
	again := r.permits(req, schedule.GrantedAgain)
	second := again.Request.Lease.Until
	r.hold(r.extend(req.Key, first, 9*lease).IsZero(), "not by the sender before")
	third := r.extend(req.Key, second, 2*lease)
	r.hold(third.Equal(r.at(2*lease)), "by the one that has it, got %s", third)
	r.hold(r.extend(req.Key, second, 9*lease).IsZero(), "not twice under the same lease")
	r.hold(r.extend(req.Key, third, 3*lease).Equal(r.at(3*lease)), "again and again")
}

func extendRunOut(r *rig) {
	req, held := r.begun("late")
	r.now = r.at(3 * lease)
	until := r.extend(req.Key, held, lease)
	r.hold(until.Equal(r.at(lease)), "nobody else has it, got %s", until)
	r.permits(req, schedule.Busy)
}

func extendOver(r *rig) {
	done, held := r.begun("done")
	r.finish(done.Key, schedule.Outcome{Status: schedule.StatusSuccess})
	r.hold(r.extend(done.Key, held, lease).IsZero() != r.keysOfRuns, "a record that is done has no lease, and a run that has ended needs none")
	r.permits(done, schedule.Recorded)
	released, held := r.begun("released")
	r.release(released.Key, true)
	r.hold(r.extend(released.Key, held, lease).IsZero(), "a key that was released has none")
	r.permits(released, schedule.GrantedAgain)
	strange := r.strange("never")
	r.hold(r.extend(strange.Key, held, lease).IsZero(), "a key that never began has none")
	r.hold(r.extend(strange.Key, time.Time{}, lease).IsZero(), "no lease is none")
	r.permits(strange, schedule.Granted)
	none, err := r.Extend(r.ctx, nil, r.now)
	r.ok(err, "extend nothing")
	r.hold(len(none) == 0, "nothing is answered with nothing")
}

func extendMany(r *rig) {
	n := 1000
	if r.keysOfRuns {
		n = 20 // each is claimed alone
	}
	var reqs []schedule.BeginRequest
	for i := range n {
		reqs = append(reqs, r.strange(fmt.Sprint("many-", i)))
	}
	r.begin(reqs...)
	open := make([]schedule.LeaseExtension, n)
	for i, req := range reqs {
		open[i] = schedule.LeaseExtension{Key: req.Key, Held: r.at(lease), Lease: lease + time.Duration(i)*time.Millisecond}
	}
	open[7].Held = r.at(2 * lease)
	r.finish(open[8].Key, schedule.Outcome{Status: schedule.StatusSuccess})
	open = append(open, open[9]) // the same call, said twice
	until, err := r.Extend(r.ctx, open, r.now)
	r.ok(err, "extend")
	for i, x := range open {
		want := r.at(x.Lease)
		if i == 7 || i == 8 && !r.keysOfRuns {
			want = time.Time{}
		}
		r.hold(until[i].Equal(want), "lease %d ends at %s, got %s", i, want, until[i])
	}
}

func extendThenRelease(r *rig) {
	req, held := r.begun("given back")
	until := r.extend(req.Key, held, 2*lease)
	r.releaseHeld(req.Key, held, 0, "release under the lease before")
	r.permits(req, schedule.Busy)
	r.releaseHeld(req.Key, until, 0, "release")
	r.permits(req, schedule.Granted)
}

var settlesLaunched = []check{
	{"what a launcher has learned moves a run as far as its status allows", settleLaunched},
	{"it needs no leader, and the next one finds it done", settleLaunchedFenceless},
	{"it notes when a schedule ran last", settleLaunchedLastRun},
	{"a run in flight that a launcher settles wakes", func(r *rig) {
		r.wakesOnceInFlight(func(run schedule.Run) {
			r.hold(r.settleLaunched(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess})[0], "it ends")
		})
	}},
}

func (r *rig) settleLaunched(settlements ...schedule.Settlement) []bool {
	r.Helper()
	moved, err := r.SettleLaunched(r.ctx, r.now, settlements)
	r.ok(err, "settle launched")
	return whichMoved(moved)
}

// settleLaunched asks both ways of settling for the same, and compares.
func settleLaunched(r *rig) {
	r.lead()
	s := r.create("settled")
	for _, from := range schedule.Statuses {
		for _, to := range schedule.Statuses {
			pair := make([]schedule.Run, 2)
			for i := range pair {
				pair[i] = r.manual(s, fmt.Sprint(from, to, i), r.at(-time.Minute))
				if from == schedule.StatusPlanned {
					pair[i].FireAt = r.at(time.Hour)
				}
				r.bring(pair[i], from)
			}
			settlement := func(i int) schedule.Settlement {
				return schedule.Settlement{
					Key: pair[i].Key, To: to, Reason: schedule.ReasonAccepted, RunID: "run-1", TraceID: "trace-1", ErrorCode: "code", ErrorMessage: "why",
					LaunchedAt: r.at(-time.Second), StartedAt: r.at(-time.Second), TimeoutAt: r.at(time.Hour), ClaimedUntil: r.at(time.Minute),
				}
			}
			moved, under := r.settleLaunched(settlement(0))[0], r.settle(settlement(1))[0]
			r.hold(moved == under, "%s to %s: moved is %v, and %v under a term", from, to, moved, under)
			got, want := r.ledger(pair[0].Key), r.ledger(pair[1].Key)
			want.Key = got.Key
			equal(r, fmt.Sprintf("runs from %s to %s", from, to), got, want)
		}
	}
}

func settleLaunchedFenceless(r *rig) {
	r.lead()
	s := r.create("learned")
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	other := r.bring(r.slot(s, r.at(-time.Second)), schedule.StatusLaunching)
	r.lead() // somebody else has taken over
	moved := r.settleLaunched(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess}, schedule.Settlement{Key: schedule.ManualKey("no", "run"), To: schedule.StatusSuccess})
	r.hold(slices.Equal(moved, []bool{true, false}), "the first moves, and what is not there does not, got %v", moved)
	equal(r, "sent again by the next leader", keysOfLaunches(r.reclaim()), []schedule.Key{other.Key})
}

func settleLaunchedLastRun(r *rig) {
	r.lead()
	s := r.create("last")
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	r.settleLaunched(schedule.Settlement{Key: run.Key, To: schedule.StatusEnqueued, LaunchedAt: r.now})
	r.hold(r.row(s).LastRunAt.Equal(run.RunAt), "last_run_at is that of the run, got %s", r.row(s).LastRunAt)
}
