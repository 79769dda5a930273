package storetest

import (
	"github.com/carillon/carillon/internal/schedule"
)

func minuteRepeated(r *rig) {
	j := r.jobs("q", maxInFlight(20), keepsFailures)
	run := j.job("a", 0)
	r.ok(j.tryEnqueue(schedule.EnqueueRequest{RequestID: "once"}, run), "enqueue")
	j.admits(1, "a")
	j.finish(run.Key, success)
	j.isCounted(run, 1)
	earlier := j.asked(j.user, "once")
	j.hold(earlier != nil && len(earlier.Keys) == 1 && earlier.Keys[0] == run.Key, "the same key, got %+v", earlier)
}

func minuteUnique(r *rig) {
	j := r.jobs("q", maxInFlight(20), keepsFailures)
	run := j.enters(asks("k"), "a")
	j.admits(1, "a")
	j.finish(run.Key, success)
	j.isCounted(run, 1)
	j.enters(asks("k"), "b")
}

// minuteSentAgain has a second start of a key wait for the first one, or come late.
func minuteSentAgain(r *rig) {
	j := r.jobs("q", maxInFlight(10), keepsFailures)
	j.put("a")
	run := j.admits(10, "a")[0]
	req := r.beginRequest(run, func(q *schedule.BeginRequest) { q.Queued = true })
	j.finish(run.Key, success)
	j.isCounted(run, 1)
	got := r.permits(req, schedule.Recorded)
	j.hold(got.Request.Outcome.Status == schedule.StatusSuccess, "the outcome is SUCCESS, got %+v", got.Request.Outcome)
	j.finish(run.Key, got.Request.Outcome)
	j.isCounted(run, 1)
}
