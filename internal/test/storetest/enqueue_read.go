package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func enqueueCounts(r *rig) {
	j := r.jobs("q", func(q *schedule.Queue) { q.MaxInFlight = 10 })
	count := func(limit int) schedule.QueueCounts {
		c, err := j.CountQueue(r.ctx, j.queue.No, limit)
		r.ok(err, "count")
		return c
	}
	equal(r, "of an empty queue", count(10), schedule.QueueCounts{})
	j.put("a", "b", "c")
	first := r.now
	r.now = r.at(time.Second)
	j.put("d", "e", "f")
	j.enqueue(0, j.job("later", 0, delayed(r.at(time.Hour))))
	equal(r, "before an admission", count(10), schedule.QueueCounts{Delayed: 1, Waiting: 6, WaitingSince: first})
	runs := j.admits(4, "a b c d")
	j.accept(runs[0])
	equal(r, "of each kind", count(10), schedule.QueueCounts{Delayed: 1, Waiting: 2, InFlight: 4, WaitingSince: r.now})
	equal(r, "up to a limit", count(1), schedule.QueueCounts{Delayed: 1, Waiting: 1, InFlight: 1, WaitingSince: r.now})
	j.end(runs[0], schedule.StatusSuccess)
	equal(r, "after an end", count(10), schedule.QueueCounts{Delayed: 1, Waiting: 2, InFlight: 3, WaitingSince: r.now})
}

func enqueueOldest(r *rig) {
	j := r.jobs("q", func(q *schedule.Queue) { q.MaxInFlight = 10 })
	oldest := func(what string, want time.Time) {
		c, err := j.CountQueue(r.ctx, j.queue.No, 1)
		r.ok(err, "count")
		j.hold(c.WaitingSince.Equal(want), "%s: waits since %s, got %s", what, want, c.WaitingSince)
	}
	first := r.now
	low := j.job("low", -5)
	j.enqueue(0, low)
	r.now = r.at(time.Second)
	second := r.now
	j.enqueue(0, j.job("high", 7))
	oldest("the lowest priority entered first", first)
	r.now = r.at(time.Second)
	j.enqueue(1, j.job("next", 7))
	oldest("another is put before it", first)
	j.waits("next high low")
	j.cancel(j.ledger(low.Key))
	oldest("the second is behind a later one", second)
}

func enqueueOldestDelayed(r *rig) {
	j := r.jobs("q")
	j.enqueue(0, j.job("later", 0, delayed(r.at(time.Hour))))
	r.now = r.at(time.Hour)
	j.sweepQueues()
	r.now = r.at(time.Minute)
	c, err := j.CountQueue(r.ctx, j.queue.No, 1)
	r.ok(err, "count")
	j.hold(c.Waiting == 1 && c.WaitingSince.Equal(r.at(-time.Minute)), "it waits since its start, got %+v", c)
}

func enqueueDead(r *rig) {
	promised := func(q *schedule.Queue) {
		q.MaxInFlight, q.Expect.DeadAtMost = 10, new(uint32)
	}
	j, other := r.jobs("q", promised), r.jobs("z")
	last := func(run *schedule.Run) { run.MaxAttempts = 1 }
	runs := []schedule.Run{j.job("a", 0, last), j.job("b", 0, last), j.job("retried", 0), j.job("good", 0, last)}
	foreign := other.job("foreign", 0, last)
	j.enqueue(0, runs...)
	other.enqueue(0, foreign)
	j.admission(10)
	other.admission(10)
	for i := range runs[:3] {
		j.end(runs[i], schedule.StatusFailed)
	}
	j.end(runs[3], schedule.StatusSuccess)
	other.end(foreign, schedule.StatusFailed)
	dead := func(limit, want int) {
		n, err := j.CountQueueDead(r.ctx, j.queue.No, limit)
		r.ok(err, "count")
		j.hold(n == want, "%d are dead, got %d", want, n)
	}
	dead(10, 2)
	dead(1, 1)
	measures, err := r.MeasureQueues(r.ctx, 10, 100, r.now)
	r.ok(err, "measure")
	j.hold(len(measures) == 2 && measures[0].Dead == 2 && measures[1].Dead == 0, "only a queue with a promise counts its dead runs, got %+v", measures)
}

func enqueuePlace(r *rig) {
	j := r.jobs("q", func(q *schedule.Queue) { q.MaxInFlight = 2 })
	j.put("a", "b", "c")
	j.enqueue(0, j.job("high", 3), j.job("higher", 4))
	low := j.job("low", -1)
	j.enqueue(0, low)
	place := func(of schedule.Run, counted, flights int) ledger.WaitingPlace {
		run := r.ledger(of.Key)
		p, err := j.ReadWaitingPlace(r.ctx, &run, counted, flights, r.now)
		r.ok(err, "read")
		return p
	}
	p := place(low, 100, 5)
	j.hold(p.Queue.QueueID == j.queue.QueueID && p.InFlight == 0 && len(p.Flights) == 0 && p.Before == 5, "nothing runs, five are before it, got %+v", p)
	equal(r, "counted up to", place(low, 2, 5).Before, 2)
	j.admits(1, "higher")
	r.now = r.at(time.Second)
	j.admits(1, "high")
	_, err := j.PutBack(r.ctx, nil, []schedule.StallChange{{QueueStall: schedule.QueueStall{QueueNo: j.queue.No, Until: r.at(time.Minute), Level: 1, Reason: "away"}}}, r.now)
	r.ok(err, "stall")
	p = place(low, 100, 5)
	j.hold(p.Before == 3 && p.InFlight == 2 && p.Stall.Reason == "away" && p.Stall.Until.Equal(r.at(time.Minute)), "two run, got %+v", p)
	first := place(low, 100, 1).Flights
	j.hold(len(p.Flights) == 2 && len(first) == 1 && first[0] == p.Flights[0] && j.names[first[0]] == "higher", "the one that was admitted first, got %v", p.Flights)
}

func enqueuePages(r *rig) {
	j, other := r.jobs("q"), r.jobs("other")
	other.put("x")
	j.put("a", "b", "c")
	j.enqueue(0, j.job("d", 0, delayed(r.at(time.Minute))))
	j.enqueue(0, j.job("e", 0, delayed(r.at(time.Hour))))
	var pages []string
	for offset := 0; offset < 8; offset += 2 {
		runs, err := j.ListWaiting(r.ctx, schedule.WaitingFilter{QueueNo: j.queue.No, Offset: offset, Limit: 2})
		r.ok(err, "list")
		pages = append(pages, j.named(runs))
	}
	equal(r, "pages", pages, []string{"a b", "c d", "e", ""})
}
