package storetest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// keys are what both the key of a run and a record of a key do.
var keys = []check{
	{"a new key is granted", beginNew},
	{"a key is busy while its lease runs, and granted again after", beginLease},
	{"a key whose lease was released may be sent again at once", beginAfterRelease},
	{"leases that are released together are released each by itself", releaseMany},
	{"only the lease that was granted can be released, not that of who came after", releaseOwn},
	{"a key that is done answers what was recorded first, for ever", beginRecorded},
	{"a key that nobody began is closed with the cancel", closeUnused},
	{"closing a key that was begun, or is done, changes nothing", closeUsed},
	{"of a hundred who begin one key at once exactly one is granted", beginRace},
	{"of one who begins and one who closes exactly one gets the key", closeRace},
	{"the calls of a key that may have reached the executor are counted", callsCounted},
}

// requests are the keys that the ledger does not have, and what batches do.
var requests = append(slices.Clone(keys), []check{
	{"a key that was used for another request is a conflict", beginConflict},
	{"every permission in one batch, in the order asked; twice one key is busy", beginBatch},
	{"a thousand keys begin in one call", beginThousand},
	{"every field of an outcome is kept", finishKeepsOutcome},
	{"many keys are finished in one call", finishMany},
	{"an end replaces an acceptance, and nothing else a first outcome", finishTwice},
}...)

// ofRuns are checks of strange keys with the keys of runs.
func ofRuns(checks []check) []check {
	out := make([]check, len(checks))
	for i, c := range checks {
		out[i] = check{c.name, func(r *rig) {
			r.keysOfRuns, r.keys = true, make(map[string]schedule.BeginRequest)
			c.run(r)
		}}
	}
	return out
}

// beginRequest asks for the key of a run, as the launcher does.
func (r *rig) beginRequest(run schedule.Run, edits ...func(*schedule.BeginRequest)) schedule.BeginRequest {
	req := schedule.BeginRequest{
		Key: run.Key, RequestHash: sha256.Sum256(run.Key[:]), ScheduleID: run.ScheduleID, ScheduledFor: run.RunAt, Trigger: run.Trigger,
		Version: run.Version, Input: run.Input, Grant: schedule.GrantUse{UserID: run.UserID, WorkflowID: run.WorkflowID}, FireAt: run.FireAt, Lease: lease,
	}
	for _, edit := range edits {
		edit(&req)
	}
	return req
}

// strange is the request for a key that is in no ledger, of no schedule; with keysOfRuns,
// for that of a run.
func (r *rig) strange(name string) schedule.BeginRequest {
	if r.keysOfRuns {
		req, there := r.keys[name]
		if !there {
			req = r.beginRequest(r.bring(r.manual(r.create(name), "1", r.now), schedule.StatusLaunching))
			r.keys[name] = req
		}
		return req
	}
	return r.beginRequest(schedule.Run{
		Key: schedule.ManualKey(r.id(name), "1"), ScheduleID: r.id(name), Trigger: schedule.TriggerManual, FireAt: r.now,
	})
}

func (r *rig) begin(reqs ...schedule.BeginRequest) []schedule.BeginResult {
	r.Helper()
	results, err := r.Begin(r.ctx, reqs, r.now)
	r.ok(err, "begin")
	r.hold(len(results) == len(reqs), "one answer per request, got %d for %d", len(results), len(reqs))
	return results
}

// permits fails unless a Begin of req answers so.
func (r *rig) permits(req schedule.BeginRequest, want schedule.Permission) schedule.BeginResult {
	r.Helper()
	got := r.begin(req)[0]
	r.hold(got.Permission == want, "the answer is %s, got %s (%+v)", word(want), word(got.Permission), got)
	return got
}

func (r *rig) granted(req schedule.BeginRequest) {
	r.Helper()
	got := r.permits(req, schedule.Granted)
	r.hold(!got.Sent, "nothing was sent before")
	until := r.now.Add(req.Lease).Truncate(time.Microsecond)
	r.hold(got.Request.Lease.Until.Equal(until), "the lease that is granted ends at %s, got %s", until, got.Request.Lease.Until)
}

// release ends the lease of a key that was granted at the rig's now.
func (r *rig) release(key schedule.Key, sent bool) {
	r.Helper()
	calls := int32(0)
	if sent {
		calls = 1
	}
	r.releaseHeld(key, r.at(lease), calls, "release")
}

func (r *rig) releaseHeld(key schedule.Key, held time.Time, calls int32, doing string) {
	r.Helper()
	r.ok(r.Release(r.ctx, []schedule.KeyRelease{{Key: key, Held: held, Calls: calls}}, r.now), doing)
}

func (r *rig) finish(key schedule.Key, outcome schedule.Outcome) {
	r.Helper()
	_, err := r.Finish(r.ctx, []schedule.FinishRequest{{Key: key, Outcome: outcome, RunTimeout: time.Minute}}, r.now)
	r.ok(err, "finish")
}

// word is a permission as a reader calls it.
func word(p schedule.Permission) string {
	words := map[schedule.Permission]string{
		schedule.Granted: "granted", schedule.GrantedAgain: "granted again", schedule.Recorded: "recorded", schedule.Busy: "busy",
		schedule.Conflict: "conflict", schedule.Refused: "refused", schedule.Withheld: "withheld",
	}
	if w, known := words[p]; known {
		return w
	}
	return fmt.Sprintf("permission %d", p)
}

var accepted = schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "run-1"}

func beginNew(r *rig) {
	r.granted(r.strange("new"))
}

func beginLease(r *rig) {
	req := r.strange("leased")
	r.granted(req)
	until := r.at(lease)
	busy := r.permits(req, schedule.Busy)
	r.hold(busy.Request.Key == req.Key && busy.Request.Lease.Until.Equal(until) && !busy.Request.Done,
		"a busy answer shows the row, got %+v", busy.Request)
	r.now = until.Add(-time.Microsecond)
	r.permits(req, schedule.Busy)
	r.now = until.Add(time.Microsecond)
	again := r.permits(req, schedule.GrantedAgain)
	r.hold(again.Sent, "whoever held the lease may have sent it before he died")
	r.permits(req, schedule.Busy)
}

func beginAfterRelease(r *rig) {
	sent, unsent := r.strange("sent"), r.strange("unsent")
	r.granted(sent)
	r.granted(unsent)
	r.release(sent.Key, true)
	r.release(unsent.Key, false)
	again := r.permits(sent, schedule.GrantedAgain)
	r.hold(again.Sent, "it may have reached the executor")
	r.permits(sent, schedule.Busy)

	fresh := r.begin(unsent)[0]
	r.hold(fresh.Permission == schedule.Granted || fresh.Permission == schedule.GrantedAgain, "it may be sent, got %s", word(fresh.Permission))
	r.hold(!fresh.Sent, "nothing of it was ever sent")
	r.permits(unsent, schedule.Busy)
}

func releaseMany(r *rig) {
	unsent, sent, passedOn, done := r.strange("unsent"), r.strange("sent"), r.strange("passed on"), r.strange("done")
	for _, req := range []schedule.BeginRequest{unsent, sent, passedOn, done} {
		r.granted(req)
	}
	held := r.at(lease)
	r.finish(done.Key, accepted)
	r.ok(r.Release(r.ctx, []schedule.KeyRelease{
		{Key: unsent.Key, Held: held},
		{Key: r.strange("never begun").Key, Held: held},
		{Key: passedOn.Key, Held: held.Add(time.Microsecond)},
		{Key: done.Key, Held: held},
		{Key: sent.Key, Held: held, Calls: 1},
	}, r.now), "release")
	again := r.permits(sent, schedule.GrantedAgain)
	r.hold(again.Sent, "it may have reached the executor")
	r.permits(passedOn, schedule.Busy)
	r.permits(done, schedule.Recorded)
	fresh := r.begin(unsent)[0]
	r.hold(fresh.Permission == schedule.Granted || fresh.Permission == schedule.GrantedAgain, "it may be sent, got %s", word(fresh.Permission))
	r.hold(!fresh.Sent, "nothing of it was ever sent")
	r.ok(r.Release(r.ctx, nil, r.now), "release nothing")
}

// releaseOwn has a sender whose lease ran out before it could give it back: the
// next one has called the executor by then, and that must stay known.
func releaseOwn(r *rig) {
	req := r.strange("passed on")
	r.now = r.at(1234567 * time.Nanosecond) // leases are compared as they are kept
	r.granted(req)
	first := r.at(lease)
	r.now = first.Add(time.Second)
	second := r.permits(req, schedule.GrantedAgain).Request.Lease.Until
	r.hold(second.Equal(r.at(lease).Truncate(time.Microsecond)), "a lease that is taken over is shown, got %s", second)

	r.releaseHeld(req.Key, first, 0, "release a lease that is over")
	busy := r.permits(req, schedule.Busy)
	r.hold(busy.Sent && busy.Request.Lease.Until.Equal(second), "the second call stands, got %+v", busy.Request)
	closed, _ := r.closeKey(req.Key)
	r.hold(!closed, "a key that may have been sent is not closed")

	r.releaseHeld(req.Key, second, 1, "release one's own")
	r.releaseHeld(req.Key, second, 0, "release it twice")
	r.releaseHeld(req.Key, time.Time{}, 0, "release no lease")
	again := r.permits(req, schedule.GrantedAgain)
	r.hold(again.Sent, "the second call is remembered")
}

func beginRecorded(r *rig) {
	req := r.strange("done")
	r.granted(req)
	r.finish(req.Key, accepted)
	r.finish(req.Key, schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, ErrorCode: "later"})
	r.release(req.Key, true)
	for range 3 {
		got := r.permits(req, schedule.Recorded)
		r.hold(got.Request.Done, "the row is done")
		equal(r, "outcomes", got.Request.Outcome, accepted)
		r.now = r.at(24 * time.Hour)
	}
}

func beginConflict(r *rig) {
	req := r.strange("used")
	r.granted(req)
	other := req
	other.RequestHash[31] ^= 1
	r.permits(other, schedule.Conflict)
	r.now = r.at(2 * lease)
	r.permits(other, schedule.Conflict)
	r.permits(req, schedule.GrantedAgain)
	r.finish(req.Key, accepted)
	got := r.permits(other, schedule.Conflict)
	r.hold(got.Request.Key == req.Key, "a conflict shows the row, got %+v", got.Request)
	r.permits(req, schedule.Recorded)
}

func beginBatch(r *rig) {
	paused := r.create("paused", func(s *schedule.Schedule) { s.Pause.Paused = true })
	done, used, old, busy := r.strange("done"), r.strange("used"), r.strange("old"), r.strange("busy")
	r.begin(done, used)
	r.finish(done.Key, accepted)
	used.RequestHash[0] ^= 1
	r.now = r.at(-2 * lease)
	r.begin(old)
	r.now = noon
	r.begin(busy)
	ahead := r.slot(paused, r.at(time.Second))
	reqs := []schedule.BeginRequest{
		r.beginRequest(r.slot(paused, r.now)), done, r.strange("new"), used, busy, r.strange("twice"), old, r.beginRequest(ahead), r.strange("twice"), r.strange("last"),
	}
	var got []string
	for _, result := range r.begin(reqs...) {
		got = append(got, word(result.Permission))
	}
	equal(r, "answers", got, []string{
		"refused", "recorded", "granted", "conflict", "busy", "granted", "granted again", "withheld", "busy", "granted",
	})
	equal(r, "answers to nothing", r.begin(), nil)
}

func beginThousand(r *rig) {
	var reqs []schedule.BeginRequest
	var finishes []schedule.FinishRequest
	for i := range 1000 {
		req := r.strange(fmt.Sprint("n", i))
		reqs = append(reqs, req)
		finishes = append(finishes, schedule.FinishRequest{Key: req.Key, Outcome: schedule.Outcome{Status: schedule.StatusEnqueued, RunID: req.ScheduleID}})
	}
	for i, got := range r.begin(reqs...) {
		r.hold(got.Permission == schedule.Granted, "all are granted, the %d. is %s", i, word(got.Permission))
	}
	_, err := r.Finish(r.ctx, finishes, r.now)
	r.ok(err, "finish a thousand")
	for i, got := range r.begin(reqs...) {
		r.hold(got.Permission == schedule.Recorded && got.Request.Outcome.RunID == reqs[i].ScheduleID, "each has its own outcome, the %d. is %+v", i, got)
	}
}
