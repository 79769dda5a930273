package storetest

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// uniques are unique keys of runs in queues.
var uniques = []check{
	{"a unique key is stored with its run, and read by it", uniqueStored},
	{"an entry is told of the run that holds its key, as it is", uniqueFacts},
	{"owners and queues have their own keys", uniqueApart},
	{"a replaced run has the input, priority and start of the entry, and its place", uniqueReplaced},
	{"a run that was admitted is not replaced", uniqueAdmitted},
	{"a retry, a snooze and an interruption hold the key of the run before them", uniqueHandedOver},
	{"with scope waiting nothing holds the key after the first attempt", uniqueWaiting},
	{"the end of the last attempt frees the key", uniqueFreed},
	{"a cancel frees the key at once, also one of scope period", uniqueCancelled},
	{"with scope period the key stays after the end, until it is over and pruned", uniquePeriod},
	{"a key that another run has taken is not freed by the end of the one before", uniqueTaken},
	{"the marks of an answer are kept with the request", uniqueMarks},
	{"an entry that is refused leaves no key and replaces nothing", uniqueRefused},
	{"of many entries under one key at the same time one makes a run", uniqueRace},
	{"entries that replace runs of a fair queue at the same time draw in one order", uniqueFairRace},
	{"entries, admissions, ends and cancels at the same time leave one open run per key", uniqueStorm},
}

// asks is a unique key of scope open.
func asks(key string, edits ...func(*schedule.Unique)) *schedule.Unique {
	u := schedule.Unique{Key: key}
	for _, edit := range edits {
		edit(&u)
	}
	return u.Resolved()
}

func ofScope(s schedule.UniqueScope) func(*schedule.Unique) {
	return func(u *schedule.Unique) { u.Scope = s }
}

func forPeriod(d time.Duration) func(*schedule.Unique) {
	return func(u *schedule.Unique) { u.Scope, u.PeriodMS = schedule.UniquePeriod, uint32(d.Milliseconds()) }
}

func replaces(u *schedule.Unique) { u.OnDuplicate = schedule.DuplicateReplace }

// only puts one run into the queue under a unique key, and returns the key of the answer.
func (j *jobs) only(asked *schedule.Unique, run schedule.Run) (schedule.Key, ledger.EntryVerdict) {
	j.Helper()
	key, verdict, err := j.tryOnly(schedule.EnqueueRequest{}, asked, run)
	j.ok(err, "enter")
	return key, verdict
}

func (j *jobs) tryOnly(req schedule.EnqueueRequest, asked *schedule.Unique, run schedule.Run) (key schedule.Key, verdict ledger.EntryVerdict, err error) {
	hash := schedule.UniqueHash(j.queue.QueueID, j.user, asked.Key)
	req.QueueID, req.UserID, req.Uniques = j.queue.QueueID, j.user, []schedule.Key{hash}
	err = j.Enqueue(j.ctx, req, func(f schedule.EnqueueFacts) (out schedule.Enqueue, err error) {
		out.BodyHash, out.Now = bodyHash, j.now
		u, row := ledger.NewUniques(f.Uniques, j.now), run
		if key, verdict, err = u.Enter(asked, hash, &row); err != nil {
			return out, err
		}
		if out.Keys = []schedule.Key{key}; verdict == ledger.EntryNew {
			out.Runs = []schedule.Run{row}
		} else {
			out.Marks = "d"
		}
		out.Uniques, out.Replaced = u.Changes()
		return out, nil
	})
	return key, verdict, err
}

// enters fails unless the run enters.
func (j *jobs) enters(asked *schedule.Unique, name string) schedule.Run {
	j.Helper()
	run := j.job(name, 0)
	key, verdict := j.only(asked, run)
	j.hold(verdict == ledger.EntryNew && key == run.Key, "%s enters, got %d and %s", name, verdict, j.names[key])
	return j.ledger(run.Key)
}

// finds fails unless an entry under the key is answered with a run.
func (j *jobs) finds(asked *schedule.Unique, run schedule.Run) {
	j.Helper()
	key, verdict := j.only(asked, j.job("other", 0))
	j.hold(verdict == ledger.EntryReturned && key == run.Key, "the entry finds %s, got %d and %s", run.Key, verdict, key)
}

// holdsUnique fails unless the run holds the key.
func (j *jobs) holdsUnique(run schedule.Run, key string) schedule.UniqueHold {
	j.Helper()
	h, err := j.UniqueOf(j.ctx, run.Key)
	j.ok(err, "unique key of a run")
	if key == "" {
		j.hold(h == nil, "the run holds no key, got %+v", h)
		return schedule.UniqueHold{}
	}
	j.hold(h != nil && h.Key == key && h.RunKey == run.Key, "the run holds %q, got %+v", key, h)
	return *h
}

func uniqueStored(r *rig) {
	j := r.jobs("q")
	run := j.enters(asks("k é"), "a")
	want := schedule.UniqueHold{
		QueueNo: j.queue.No, Hash: schedule.UniqueHash(j.queue.QueueID, j.user, "k é"), UserID: j.user, Key: "k é", RunKey: run.Key, Scope: schedule.UniqueOpen, FirstAt: r.now,
	}
	equal(r, "the key", j.holdsUnique(run, "k é"), want)
	debounced := asks("d", forPeriod(time.Hour), replaces, func(u *schedule.Unique) { u.Debounce = &schedule.Debounce{QuietMS: 2000, MaxMS: 5000} })
	later := j.enters(debounced, "b")
	j.hold(later.FireAt.Equal(r.at(2*time.Second)) && later.Queue.State == schedule.QueueDelayed, "it is delayed, got %+v", later)
	want = schedule.UniqueHold{
		QueueNo: j.queue.No, Hash: schedule.UniqueHash(j.queue.QueueID, j.user, "d"), UserID: j.user, Key: "d", RunKey: later.Key, Scope: schedule.UniquePeriod,
		FirstAt: r.now, Until: r.at(time.Hour), FireBy: r.at(5 * time.Second),
	}
	equal(r, "the debounced key", j.holdsUnique(later, "d"), want)
	j.put("c")
	j.holdsUnique(j.listed()[1], "")
}

func uniqueFacts(r *rig) {
	j := r.jobs("q")
	run := j.enters(asks("k"), "a")
	seen := func(hashes ...schedule.Key) (facts map[schedule.Key]schedule.UniqueFact) {
		err := j.Enqueue(r.ctx, schedule.EnqueueRequest{QueueID: j.queue.QueueID, UserID: r.user, Uniques: hashes}, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
			facts = f.Uniques
			return schedule.Enqueue{}, nil
		})
		r.ok(err, "read facts")
		return facts
	}
	hash := schedule.UniqueHash(j.queue.QueueID, j.user, "k")
	hashes := []schedule.Key{hash, schedule.UniqueHash(j.queue.QueueID, j.user, "unknown")}
	slices.SortFunc(hashes, func(a, b schedule.Key) int { return bytes.Compare(a[:], b[:]) })
	facts := seen(hashes...)
	fact := facts[hash]
	j.hold(len(facts) == 1 && fact.Run != nil && fact.RunKey == run.Key, "one key is there, got %+v", facts)
	got := *fact.Run
	j.hold(got.Key == run.Key && got.ScheduleID == run.ScheduleID && got.Queue.State == schedule.QueueWaiting && got.ClaimedAt.IsZero() && got.Queue.Position == run.Queue.Position, "the run is read, got %+v", got)
	j.admits(1, "a")
	got = *seen(hash)[hash].Run
	j.hold(got.Queue.State == schedule.QueueDispatching && !got.ClaimedAt.IsZero(), "its admission shows, got %+v", got)
	j.hold(seen() == nil || len(seen()) == 0, "nobody asks, nobody is told")
}

func uniqueApart(r *rig) {
	j, other := r.jobs("q"), r.jobs("other")
	a := j.enters(asks("k"), "a")
	other.enters(asks("k"), "b")
	j.hold(schedule.UniqueHash("q", "ada", "k") != schedule.UniqueHash("q", "bob", "k"), "owners have their own keys")
	j.hold(schedule.UniqueHash("q", "a", "b k") != schedule.UniqueHash("q", "a b", "k"), "owner and key are kept apart")
	j.finds(asks("k"), a)
	j.enters(asks("K"), "c")
}

func uniqueReplaced(r *rig) {
	j := r.jobs("q")
	a := j.enters(asks("k", replaces), "a")
	j.put("b")
	r.now = r.at(time.Second)
	next := j.job("n", 7, func(run *schedule.Run) {
		run.Input, run.MaxAttempts, run.Webhook = rawJSON, 9, "other"
		run.RunAt, run.FireAt, run.Queue.State = r.at(time.Minute), r.at(time.Minute), schedule.QueueDelayed
	})
	key, verdict := j.only(asks("k", replaces), next)
	j.hold(key == a.Key && verdict == ledger.EntryReplaced, "it is replaced, got %d", verdict)
	want := a
	want.Input, want.Priority, want.RunAt, want.FireAt, want.UpdatedAt = rawJSON, 7, r.at(time.Minute), r.at(time.Minute), r.now
	want.Queue.Priority, want.Queue.State = -7, schedule.QueueDelayed
	equal(r, "the run", j.ledger(a.Key), want)
	j.hold(j.holdsUnique(a, "k").Replaced == 1, "the replacement is counted")
	j.waits("b a")
	r.now = r.at(time.Minute)
	j.sweepQueues()
	j.admits(2, "a b")
}

func uniqueAdmitted(r *rig) {
	j := r.jobs("q")
	a := j.enters(asks("k", replaces), "a")
	run := j.admits(1, "a")[0]
	j.finds(asks("k", replaces), a)
	j.unsent(run)
	j.hold(j.putsBack(run), "it waits again")
	j.finds(asks("k", replaces), a)
	got := j.ledger(a.Key)
	j.hold(got.Input == nil && got.Priority == 0, "nothing of it has changed, got %+v", got)
	// A store writes no other input of such a run, whatever a rule says.
	hash := schedule.UniqueHash(j.queue.QueueID, j.user, "k")
	err := j.Enqueue(r.ctx, schedule.EnqueueRequest{QueueID: j.queue.QueueID, UserID: r.user, Uniques: []schedule.Key{hash}}, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
		after := *f.Uniques[hash].Run
		after.Input = rawJSON
		return schedule.Enqueue{Keys: []schedule.Key{after.Key}, Replaced: []schedule.Run{after}, Now: r.now}, nil
	})
	j.refusesChange(err)
}

func uniqueHandedOver(r *rig) {
	for _, scope := range []func(*schedule.Unique){ofScope(schedule.UniqueOpen), forPeriod(time.Hour)} {
		j := r.jobs("q" + string(asks("", scope).Scope))
		j.enters(asks("k", scope), "a")
		run := j.admits(1, "a")[0]
		for _, answer := range []schedule.Outcome{
			aSnooze(0),
			{Status: schedule.StatusFailed, Reason: schedule.ReasonInterrupted, ErrorCode: "interrupted"},
			{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed},
		} {
			j.finish(run.Key, answer)
			j.holdsUnique(run, "")
			next := r.next(r.ledger(run.Key))
			j.holdsUnique(next, "k")
			j.finds(asks("k", replaces), next)
			j.names[next.Key] = "a"
			r.now = schedule.Later(r.now, next.FireAt)
			j.sweepQueues()
			run = j.admits(1, "a")[0]
		}
	}
}

func uniqueWaiting(r *rig) {
	j := r.jobs("q", maxInFlight(10))
	waiting := asks("k", ofScope(schedule.UniqueWaiting))
	a := j.enters(waiting, "a")
	j.finds(waiting, a)
	run := j.admits(1, "a")[0]
	b := j.enters(waiting, "b")
	j.finds(waiting, b)
	failed := j.end(run, schedule.StatusFailed)
	j.holdsUnique(r.next(failed), "")
	j.finds(waiting, b)
	run = j.admits(1, "b")[0]
	j.end(run, schedule.StatusFailed)
	j.enters(waiting, "c")
}

func uniqueFreed(r *rig) {
	j := r.jobs("q")
	j.enters(asks("k"), "a")
	j.end(j.admits(1, "a")[0], schedule.StatusSuccess)
	b := j.enters(asks("k"), "b")
	j.finds(asks("k"), b)
	run := j.admits(1, "b")[0]
	for range 2 {
		next := r.next(j.end(run, schedule.StatusFailed))
		r.now = schedule.Later(r.now, next.FireAt)
		j.sweepQueues()
		j.names[next.Key] = "b"
		run = j.admits(1, "b")[0]
	}
	j.end(run, schedule.StatusFailed) // the last one
	j.holdsUnique(run, "")
	j.enters(asks("k"), "c")
}

func uniqueCancelled(r *rig) {
	j := r.jobs("q")
	for _, asked := range []*schedule.Unique{asks("k"), asks("p", forPeriod(time.Hour)), asks("w", ofScope(schedule.UniqueWaiting))} {
		a := j.enters(asked, asked.Key+"a")
		j.cancel(a)
		j.holdsUnique(a, "")
		b := j.enters(asked, asked.Key+"b")
		j.cancel(b)
	}
	j.enters(asks("retried"), "r")
	next := r.next(j.end(j.admits(1, "r")[0], schedule.StatusFailed))
	j.cancel(next)
	j.enters(asks("retried"), "s")
}

func uniquePeriod(r *rig) {
	j := r.jobs("q")
	r.lead()
	asked := asks("k", forPeriod(time.Minute))
	a := j.enters(asked, "a")
	j.end(j.admits(1, "a")[0], schedule.StatusSuccess)
	r.now = r.at(59 * time.Second)
	j.finds(asked, a)
	key, verdict := j.only(asks("k", forPeriod(time.Minute), replaces), j.job("x", 0))
	j.hold(key == a.Key && verdict == ledger.EntryReturned, "a run that is over is not replaced, got %d", verdict)
	r.now = r.at(time.Second)
	b := j.enters(asked, "b")
	j.holdsUnique(a, "")
	j.holdsUnique(b, "k")
	c := j.enters(asks("far", forPeriod(schedule.MaxUniquePeriod)), "c")
	open := j.enters(asks("open"), "d")
	far := asks("lasting", forPeriod(time.Hour))
	r.now = time.Now().UTC().Truncate(time.Microsecond)
	e := j.enters(far, "e")
	r.pruneAll(noon.Add(-time.Hour))
	j.holdsUnique(b, "")
	j.holdsUnique(c, "")
	j.holdsUnique(open, "open")
	j.holdsUnique(e, "lasting")
	j.end(j.admits(1, "b")[0], schedule.StatusSuccess)
}

func uniqueTaken(r *rig) {
	j := r.jobs("q", maxInFlight(10))
	short := asks("k", forPeriod(time.Second))
	j.enters(short, "a")
	run := j.admits(1, "a")[0]
	r.now = r.at(time.Second)
	b := j.enters(short, "b")
	j.end(run, schedule.StatusSuccess)
	j.finds(short, b)
}

func uniqueMarks(r *rig) {
	j := r.jobs("q")
	a := j.enters(asks("k"), "a")
	_, verdict, err := j.tryOnly(schedule.EnqueueRequest{RequestID: "r"}, asks("k"), j.job("b", 0))
	r.ok(err, "enter")
	j.hold(verdict == ledger.EntryReturned, "it is a duplicate")
	got := j.asked(r.user, "r")
	j.hold(got != nil && got.Marks == "d" && slices.Equal(got.Keys, []schedule.Key{a.Key}) && got.BodyHash == bodyHash, "the answer is kept, got %+v", got)
	r.ok(j.tryEnqueue(schedule.EnqueueRequest{RequestID: "plain"}, j.job("c", 0)), "enqueue")
	j.hold(j.asked(r.user, "plain").Marks == "", "a request of new runs has no marks")
	j.waits("a c")
}

func uniqueRefused(r *rig) {
	j := r.jobs("q")
	a := j.enters(asks("k"), "a")
	_, _, err := j.tryOnly(schedule.EnqueueRequest{RequestID: "r"}, asks("k", func(u *schedule.Unique) { u.OnDuplicate = schedule.DuplicateRefuse }), j.job("b", 0))
	j.hold(errors.Is(err, schedule.ErrExists), "it is refused, got %v", err)
	j.hold(j.asked(r.user, "r") == nil, "the request is not noted")
	other := r.jobs("other")
	_, _, err = j.tryOnly(schedule.EnqueueRequest{}, asks("k", replaces), j.job("c", 9, func(run *schedule.Run) { run.ScheduleID = other.of.ScheduleID }))
	j.hold(errors.Is(err, schedule.ErrExists), "another schedule cannot replace it, got %v", err)
	stray := j.job("d", 0, func(run *schedule.Run) { run.ScheduleID = r.id("nobody") })
	_, _, err = j.tryOnly(schedule.EnqueueRequest{}, asks("stray"), stray)
	j.hold(err != nil, "a run without a schedule is refused")
	j.enters(asks("stray"), "e")
	equal(r, "the run", j.ledger(a.Key), a)
}
