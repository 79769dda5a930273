package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// queuedChanges are what may change of a run while it waits in a queue.
var queuedChanges = []check{
	{"a run that waits can be changed, and moves by its priority", changeWaiting},
	{"a run that was admitted cannot be changed, nor its input once it waits again", changeAdmitted},
	{"the database refuses another input for a run that was admitted", changeBySQL},
	{"a change that is refused, or that changes nothing, writes nothing", changeRefused},
}

func changeWaiting(r *rig) {
	j := r.jobs("q")
	runs := j.put("a", "b", "c")
	before := r.ledger(runs[2].Key)
	r.now = r.at(time.Second)
	after, err := j.ChangeQueued(r.ctx, runs[2].Key, func(run *schedule.Run) (schedule.QueuedChange, error) {
		equal(r, "the run to change", *run, before)
		run.Input, run.Priority, run.Queue.Priority = rawJSON, 5, schedule.QueuePriority(5)
		return schedule.QueuedChange{Run: run, Now: r.now, Audit: &schedule.AuditEntry{Time: r.now, Subject: "ada", Method: "UpdateRun", Target: run.Key.String(), Code: "OK"}}, nil
	})
	r.ok(err, "change")
	want := before
	want.Input, want.Priority, want.Queue.Priority, want.UpdatedAt = rawJSON, 5, -5, r.now
	equal(r, "the run after it", r.ledger(before.Key), want)
	equal(r, "what the change returns", bodily(stored(*after)), bodily(want))
	trail := r.trail(schedule.AuditFilter{Target: before.Key.String()})
	j.hold(len(trail) == 1 && trail[0].Subject == "ada", "it is in the audit trail, got %+v", trail)
	j.waits("c a b")
	r.ok(j.changes(runs[0].Key, func(run *schedule.Run) {
		run.RunAt, run.FireAt, run.Queue.State = r.at(time.Hour), r.at(time.Hour), schedule.QueueDelayed
	}), "delay")
	j.waits("c b a")
	out := j.admission(1)
	equal(r, "input to send", string(out.Dispatches[0].EffectiveInput()), string(rawJSON))
	r.ok(j.changes(runs[0].Key, func(run *schedule.Run) { run.FireAt, run.Queue.State = r.now, schedule.QueueWaiting }), "no delay")
	j.waits("a b")
}

func changeAdmitted(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	j.put("b")
	j.admits(1, "a")
	before := r.ledger(run.Key)
	other := func(run *schedule.Run) { run.Input = []byte(`{"other":1}`) }
	j.refusesChange(j.changes(run.Key, other))
	j.refusesChange(j.changes(run.Key, func(run *schedule.Run) { run.Priority, run.Queue.Priority = 9, -9 }))
	equal(r, "the run", r.ledger(run.Key), before)
	j.unsent(run)
	j.hold(j.putsBack(run), "it waits again")
	j.refusesChange(j.changes(run.Key, other))
	r.ok(j.changes(run.Key, func(run *schedule.Run) { run.Priority, run.Queue.Priority = -9, 9 }), "another priority")
	j.waits("b a")
	for _, admitted := range j.admits(2, "b a") {
		j.accept(admitted)
	}
	j.refusesChange(j.changes(run.Key, other))
	j.end(run, schedule.StatusSuccess)
	err := j.changes(run.Key, other)
	j.hold(errors.Is(err, schedule.ErrNotFound), "nothing is open, got %v", err)
}

func changeBySQL(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	set := func(column, value string) error {
		_, err := r.probe(fmt.Sprintf("UPDATE open_runs SET %s = %s WHERE queue_no = %d", column, value, j.queue.No))
		return err
	}
	r.ok(set("input", `'{"n":1}'`), "before its admission")
	j.admits(1, "a")
	for _, c := range [][2]string{{"input", `'{"n":2}'`}, {"revision", "7"}, {"attempt", "2"}, {"retry_of", "idempotency_key"}, {"input", "NULL"}} {
		err := set(c[0], c[1])
		j.hold(err != nil && strings.Contains(err.Error(), "Cannot modify params after dispatch"), "another %s is refused, got %v", c[0], err)
	}
	r.ok(set("input", "input"), "the same input")
	r.ok(set("error_message", "'x'"), "another column")
	equal(r, "input", string(r.ledger(run.Key).Input), `{"n":1}`)
}

func changeRefused(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	before := r.ledger(run.Key)
	_, err := j.ChangeQueued(r.ctx, run.Key, func(*schedule.Run) (schedule.QueuedChange, error) { return schedule.QueuedChange{}, errRefused })
	j.hold(errors.Is(err, errRefused), "the refusal comes back: %v", err)
	after, err := j.ChangeQueued(r.ctx, run.Key, func(*schedule.Run) (schedule.QueuedChange, error) { return schedule.QueuedChange{}, nil })
	r.ok(err, "change nothing")
	equal(r, "what nothing returns", *after, before)
	equal(r, "the run", r.ledger(run.Key), before)
	_, err = j.ChangeQueued(r.ctx, schedule.JobKey(r.now, "q", "u", "nobody", 0), func(*schedule.Run) (schedule.QueuedChange, error) {
		r.Errorf("decide is called without a run")
		return schedule.QueuedChange{}, nil
	})
	j.hold(errors.Is(err, schedule.ErrNotFound), "there is none: %v", err)
}
