package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/registrar/explain"
)

func TestARunIsExplained(t *testing.T) {
	key := schedule.JobKey(now.Add(-time.Minute), "gpu", "ada", "r1", 0)
	other := schedule.JobKey(now.Add(-time.Hour), "gpu", "ada", "r0", 0)
	queue := func(edits ...func(*ledger.QueueFacts)) *ledger.QueueFacts {
		q := &ledger.QueueFacts{Queue: &schedule.Queue{QueueDefinition: schedule.QueueDefinition{QueueID: "gpu", MaxInFlight: 2}}}
		for _, edit := range edits {
			edit(q)
		}
		return q
	}
	waiting := func(f *explain.RunFacts) {
		f.Queue, f.Position, f.Launchers = queue(), 1, 1
	}
	paused := func(q *ledger.QueueFacts) {
		q.Queue.Pause = schedule.Pause{Paused: true, By: "bob", Note: "repair", Until: now.Add(time.Hour)}
	}
	inState := func(state schedule.QueueState, stage schedule.Status) func(*schedule.Run) {
		return func(r *schedule.Run) {
			r.Queue.State, r.ClaimedAt = state, now.Add(-30*time.Second)
			r.Enter(stage)
			if stage == schedule.StatusStarted {
				r.LaunchedAt, r.StartedAt = now.Add(-29*time.Second), now.Add(-29*time.Second)
			}
		}
	}
	failed := func(r *schedule.Run) {
		inState(schedule.QueueRunning, schedule.StatusStarted)(r)
		r.Status, r.Reason, r.FailureClass, r.CompletedAt = schedule.StatusFailed, schedule.ReasonWorkflowFailed, schedule.ClassTransient, now.Add(-time.Second)
		r.ErrorCode, r.ErrorMessage, r.MaxAttempts = "EXIT", "exit status 1", 3
	}
	dead := true
	eventDriven := func(r *schedule.Run) { r.Queue, r.Trigger = schedule.QueuePlace{}, schedule.TriggerEvent }
	taken := func(f *explain.RunFacts) {
		f.Batch = &topic.Batch{Count: 2, Events: []topic.Offered{{Event: topic.Event{Topic: "orders", PublishedAt: now.Add(-time.Minute)}}, {}}}
	}
	for _, c := range []struct {
		name  string
		edit  func(*schedule.Run)
		facts func(*explain.RunFacts)
		want  []string // sentences, in parts
		not   string
		block []ledger.BlockedBy
	}{
		{
			name: "it is the next of a ready queue", facts: waiting,
			want: []string{"in queue gpu, waits since 2026-03-08T11:59:30Z, for 1 minute: it is the next of priority 5.", "Nothing blocks it: a launcher"},
		},
		{
			name: "others come first", facts: func(f *explain.RunFacts) { waiting(f); f.Position = 3 },
			want: []string{"position 3 of priority 5"}, not: "Nothing blocks", block: []ledger.BlockedBy{ledger.BlockedByBefore},
		},
		{
			name: "others of a higher priority come first", facts: func(f *explain.RunFacts) { waiting(f); f.Before = 1 },
			want: []string{"the next of priority 5; 1 run of higher priority starts first"}, not: "Nothing blocks", block: []ledger.BlockedBy{ledger.BlockedByBefore},
		},
		{
			name: "its place is far behind", facts: func(f *explain.RunFacts) { waiting(f); f.Position = 0 },
			want: []string{"more than 10000 runs of its priority start first"}, block: []ledger.BlockedBy{ledger.BlockedByBefore},
		},
		{
			name: "keys take turns, and it is the next", edit: func(r *schedule.Run) { r.Queue.FairKey = "ada" },
			facts: func(f *explain.RunFacts) {
				waiting(f)
				f.Queue, f.Turns = queue(func(q *ledger.QueueFacts) { q.Queue.Weights = map[string]uint32{"ada": 5} }), new(ledger.FairBefore)
			}, want: []string{`The queue is fair: its key "ada" has the weight 5.`, "Nothing blocks it"},
		},
		{
			name: "its key has had its turns", edit: func(r *schedule.Run) { r.Queue.FairKey = "ada" },
			facts: func(f *explain.RunFacts) {
				waiting(f)
				f.Position, f.Turns = 7, &ledger.FairBefore{All: 6, Own: 2, Later: 3}
			},
			want:  []string{`The queue is fair: its key "ada" has the weight 1, and 2 runs of the key and 4 runs of other keys start first; 3 of them entered later, as the key has had its turns before.`},
			block: []ledger.BlockedBy{ledger.BlockedByBefore},
		},
		{
			name: "the queue is paused", facts: func(f *explain.RunFacts) { waiting(f); f.Queue = queue(paused) },
			want: []string{`The queue is paused by bob, note "repair", until 2026-03-08T13:00:30Z.`}, not: "Nothing blocks", block: []ledger.BlockedBy{ledger.BlockedByPause},
		},
		{name: "its pause has ended", facts: func(f *explain.RunFacts) {
			waiting(f)
			f.Queue = queue(paused, func(q *ledger.QueueFacts) { q.Queue.Pause.Until = now.Add(-time.Second) })
		}, want: []string{"Nothing blocks it"}, not: "paused"},
		{name: "the queue's definition is damaged", facts: func(f *explain.RunFacts) {
			waiting(f)
			f.Queue = queue(func(q *ledger.QueueFacts) { q.Queue.Unreadable = true })
		}, want: []string{"until it is registered again"}, block: []ledger.BlockedBy{ledger.BlockedByPause}},
		{name: "the executor is away", facts: func(f *explain.RunFacts) {
			waiting(f)
			f.Queue = queue(func(q *ledger.QueueFacts) {
				q.Stall = schedule.QueueStall{Until: now.Add(2 * time.Second), Level: 3, Reason: "connection refused"}
			})
		}, want: []string{"The executor cannot take work now: connection refused. The queue tries again at 2026-03-08T12:00:32Z."}, block: []ledger.BlockedBy{ledger.BlockedByStall}},
		{name: "the queue is full", facts: func(f *explain.RunFacts) {
			waiting(f)
			f.Queue, f.Position, f.InFlight = queue(func(q *ledger.QueueFacts) { q.InFlight = 2 }), 2, []schedule.Key{other}
		}, want: []string{"The queue is full: 2 of 2 runs are in flight (max_in_flight): " + other.String() + "."}, block: []ledger.BlockedBy{ledger.BlockedByFull, ledger.BlockedByBefore}},
		{
			name: "no launcher is there", facts: func(f *explain.RunFacts) { waiting(f); f.Launchers = 0 },
			want: []string{"No process with the role launcher was seen in the last minute"}, not: "Nothing blocks", block: []ledger.BlockedBy{ledger.BlockedByCalls},
		},
		{
			name: "its start is later", edit: func(r *schedule.Run) { r.Queue.State, r.FireAt = schedule.QueueDelayed, now.Add(90*time.Second) },
			facts: func(f *explain.RunFacts) { waiting(f); f.Position = 0 },
			want:  []string{"starts at 2026-03-08T12:02:00Z at the earliest, in 1 minute 30 seconds."}, not: "Nothing blocks", block: []ledger.BlockedBy{"run_at"},
		},
		{name: "it is a retry in its backoff", edit: func(r *schedule.Run) {
			r.Queue.State, r.FireAt, r.Attempt, r.MaxAttempts, r.RetryOf = schedule.QueueDelayed, now.Add(90*time.Second), 2, 3, other
		}, want: []string{"attempt 2, starts at", "It is attempt 2 of 3 and waits for the backoff of its retry policy", "It retries run " + other.String()}, block: []ledger.BlockedBy{"run_at"}},
		{
			name: "it is on its way", edit: inState(schedule.QueueDispatching, schedule.StatusLaunching),
			want: []string{"was admitted at 2026-03-08T12:00:00Z and is being sent to the executor", "It waited 30 seconds in the queue"},
		},
		{
			name: "it was put back", edit: func(r *schedule.Run) { r.ClaimedAt = now.Add(-20 * time.Second) }, facts: waiting,
			want: []string{"It waited 40 seconds in the queue until it was admitted first, and was put back since."},
		},
		{name: "its launch fails", edit: func(r *schedule.Run) {
			inState(schedule.QueueDispatching, schedule.StatusLaunching)(r)
			r.FailedAttempts, r.ErrorCode, r.ErrorMessage, r.TimeoutAt = 2, "EXECUTOR_ERROR", "HTTP 500", now.Add(time.Minute)
		}, want: []string{"is retrying: no launch attempt has succeeded yet", "2 launch attempts failed. The last error is EXECUTOR_ERROR: HTTP 500"}},
		{name: "it runs", edit: func(r *schedule.Run) {
			inState(schedule.QueueRunning, schedule.StatusStarted)(r)
			r.TimeoutAt = now.Add(time.Minute)
		}, want: []string{"is in progress: the executor reports that it runs; it fails at 2026-03-08T12:01:30Z"}},
		{name: "somebody asked for it, and it was old", edit: func(r *schedule.Run) {
			inState(schedule.QueueRunning, schedule.StatusStarted)(r)
			r.RequestedBy, r.Queue.AdmittedAs = "carl", schedule.AdmittedAged
		}, want: []string{`It was requested by "carl".`, "It was admitted ahead of its order: it had waited for promote_after_ms of its queue."}},
		{name: "it has failed and is tried again", edit: failed, facts: func(f *explain.RunFacts) {
			f.Next = &schedule.Run{Key: schedule.AttemptKey(key), FireAt: now.Add(10 * time.Second), Queue: schedule.QueuePlace{No: 3, State: schedule.QueueDelayed}, Status: schedule.StatusEnqueued}
		}, want: []string{"ran and failed", "The executor reported a failure: exit status 1 (EXIT)", "It was attempt 1 of 3. The next attempt is due at 2026-03-08T12:00:40Z"}, not: "dead"},
		{
			name: "it has failed for good", edit: func(r *schedule.Run) { failed(r); r.Attempt, r.Dead = 3, &dead },
			want: []string{"attempt 3 of 3 was the last one", "It is dead: `carillon run retry " + key.String() + "` runs it again"},
		},
		{name: "its queue was deleted", edit: func(r *schedule.Run) {
			r.Status, r.Reason, r.CompletedAt, r.Queue.State = schedule.StatusCancelled, schedule.ReasonDeleted, now, ""
		}, want: []string{"was cancelled", "Its queue was deleted"}},
		{name: "outside queues, it waits for its overlap key", edit: func(r *schedule.Run) {
			r.Queue, r.Status, r.Trigger, r.WaitingSince, r.OverlapPolicy = schedule.QueuePlace{}, schedule.StatusPlanned, schedule.TriggerManual, now.Add(-time.Minute), schedule.OverlapQueue
		}, want: []string{"started by a manual trigger, waits for its overlap key since 2026-03-08T11:59:30Z (overlap_policy queue)"}, block: []ledger.BlockedBy{"overlap"}},
		{name: "outside queues, nobody has claimed it", edit: func(r *schedule.Run) {
			r.Queue, r.Status, r.Trigger = schedule.QueuePlace{}, schedule.StatusPlanned, schedule.TriggerRetry
		}, want: []string{"started by a retry, is due since", "no worker has claimed it yet"}, block: []ledger.BlockedBy{"unclaimed"}},
		{name: "events have started it, and it waits for its overlap key", edit: func(r *schedule.Run) {
			eventDriven(r)
			r.Status, r.WaitingSince, r.OverlapPolicy = schedule.StatusPlanned, now.Add(-time.Minute), schedule.OverlapQueue
		}, facts: taken, want: []string{
			"started by events, waits for its overlap key since", "It has 2 events, the oldest of topic orders, published at 2026-03-08T11:59:30Z.",
		}, block: []ledger.BlockedBy{"overlap"}},
		{name: "a run of a consumer has succeeded", edit: func(r *schedule.Run) {
			eventDriven(r)
			r.Status = schedule.StatusSuccess
		}, facts: taken, want: []string{"It had 2 events: they are consumed."}},
		{name: "an attempt of a consumer follows", edit: func(r *schedule.Run) {
			failed(r)
			eventDriven(r)
		}, facts: func(f *explain.RunFacts) {
			taken(f)
			f.Next = &schedule.Run{Key: schedule.AttemptKey(key), Attempt: 2, Status: schedule.StatusPlanned, FireAt: now}
		}, want: []string{"It had 2 events: the next attempt has them."}},
		{name: "the last attempt of a consumer has failed", edit: func(r *schedule.Run) {
			failed(r)
			eventDriven(r)
			r.Dead = &dead
		}, facts: taken, want: []string{"It had 2 events: they are dead"}, not: "run retry"},
		{name: "a run of a consumer was not permitted", edit: func(r *schedule.Run) {
			eventDriven(r)
			r.Status, r.Reason = schedule.StatusSkipped, schedule.ReasonGrantExpired
		}, facts: taken, want: []string{"It had 2 events: they wait for another run."}},
		{name: "the consumer of a run was deleted", edit: func(r *schedule.Run) {
			eventDriven(r)
			r.Status, r.Reason = schedule.StatusCancelled, schedule.ReasonDeleted
		}, facts: taken, want: []string{"It had 2 events: they are skipped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := &schedule.Run{
				Key: key, ScheduleID: "nightly", Revision: 1, RunAt: now.Add(-time.Minute), FireAt: now.Add(-time.Minute), CreatedAt: now.Add(-time.Minute), Trigger: schedule.TriggerJob,
				Status: schedule.StatusEnqueued, Attempt: 1, MaxAttempts: 1, Priority: 5,
				Queue: schedule.QueuePlace{No: 3, ID: "gpu", State: schedule.QueueWaiting, Priority: -5, EnqueuedAt: now.Add(-time.Minute)},
			}
			if c.edit != nil {
				c.edit(run)
			}
			f := explain.RunFacts{Run: run, Now: now, Launchers: -1, Definition: &schedule.Definition{ScheduleID: "nightly"}}
			if c.facts != nil {
				c.facts(&f)
			}
			a := explain.DeriveRun(f)
			text := strings.Join(a.Lines, "\n")
			if !strings.HasPrefix(text, "Run "+key.String()+" of nightly,") {
				t.Errorf("it begins with %q", a.Lines[0])
			}
			for _, part := range c.want {
				if !strings.Contains(text, part) {
					t.Errorf("%q is missing in:\n%s", part, text)
				}
			}
			if c.not != "" && strings.Contains(text, c.not) {
				t.Errorf("%q is in:\n%s", c.not, text)
			}
			var block []ledger.BlockedBy
			for _, b := range a.BlockedBy {
				block = append(block, b.What)
			}
			if !slices.Equal(block, c.block) {
				t.Errorf("blocked by %v, want %v", block, c.block)
			}
		})
	}
}

func TestTheRunOfASlotIsExplainedAsItsSlot(t *testing.T) {
	blocker := schedule.SlotKey("nightly", now.Add(-time.Hour))
	f := asked(nightly(func(s *schedule.Schedule) { s.CronExpr, s.Timezone = "0 * * * *", "UTC" }), "2026-03-08T12:00:00Z", row(func(r *schedule.Run) {
		r.OverlapPolicy, r.WaitingSince = schedule.OverlapQueue, now.Add(-20*time.Second)
	}))
	f.Blocking = []schedule.Run{{Key: blocker, ScheduleID: "nightly", Status: schedule.StatusStarted}}
	a := explain.Derive(f)
	got := a.OfRun(a.Run)
	if !slices.Equal(got.Lines, a.Sentences()) || got.Run != a.Run || len(got.BlockedBy) != 1 || got.BlockedBy[0].What != "overlap" || !slices.Equal(got.BlockedBy[0].UsedBy, []schedule.Key{blocker}) {
		t.Errorf("got %+v", got)
	}
}
