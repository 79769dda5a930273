package storetest

import (
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// webhooks are the messages about the ends of runs of queues.
var webhooks = []check{
	{"each end of a run has one message of its type, whatever ends it", webhookTypes},
	{"a run that goes on has no message, and one that is retried only on request", webhookGoesOn},
	{"an end that is applied twice, or is refused, has no second message", webhookOnce},
	{"a message is written with the end and only with it", webhookWithTheEnd},
	{"no message where the queue has no webhook, and where its types leave the end out", webhookNone},
	{"the webhook of the queue is the one in force at the end", webhookInForce},
	{"a run's own target replaces that of its queue, also for its retries", webhookOwn},
	{"each end of a run outside of queues that names a target has one message", webhookOutside},
	{"a slot that was missed has no message, and one that was skipped has", webhookMissed},
	{"a message about a run is sent like any other", webhookSent},
	{"messages about runs and about alerts are listed apart", webhookLists},
	{"messages are found by the keys of their runs", webhookByRun},
	{"dead messages are sent again, oldest first, of one target and one owner", webhookDead},
}

// tells gives a queue a webhook.
func tells(target string, events ...schedule.WebhookEvent) func(*schedule.Queue) {
	return func(q *schedule.Queue) { q.Webhook, q.WebhookEvents = target, events }
}

// told is the message about a run; ok = false: there is none.
func (r *rig) told(key schedule.Key) (m schedule.AlertDelivery, ok bool) {
	r.Helper()
	found, err := r.ListDeliveries(r.ctx, schedule.DeliveryFilter{Runs: true, Limit: 200})
	r.ok(err, "list deliveries")
	for _, d := range found {
		if d.RunKey == key {
			r.hold(!ok, "there is one message about %s, got two", key)
			m, ok = d, true
		}
	}
	return m, ok
}

// isTold fails unless the message about a run has this type; "": there is none.
func (j *jobs) isTold(run schedule.Run, want schedule.WebhookEvent) {
	j.Helper()
	m, _ := j.told(run.Key)
	j.hold(m.Type == string(want), "the message about %s is %q, got %q", j.names[run.Key], want, m.Type)
}

func webhookTypes(r *rig) {
	j := r.jobs("q", maxInFlight(20), tells("billing"))
	put := func(name string, edits ...func(*schedule.Run)) schedule.Run {
		edits = append(edits, func(run *schedule.Run) { run.MaxAttempts = 1 })
		run := j.job(name, 0, edits...)
		j.enqueue(0, run)
		return run
	}
	// Ends of runs that wait.
	waits := put("cancelled")
	j.cancel(waits)
	j.isTold(waits, schedule.WebhookCancelled)
	late := put("delayed", delayed(r.at(time.Hour)))
	j.cancel(late)
	j.isTold(late, schedule.WebhookCancelled)
	refused := put("refused")
	out := j.admission(5, func(req *schedule.AdmitRequest) { req.RequireGrant = true })
	j.hold(len(out.Dispatches) == 0 && r.ledger(refused.Key).Status == schedule.StatusSkipped, "a run without a grant is skipped")
	j.isTold(refused, schedule.WebhookSkipped)
	// Ends by an answer, a report and a bound.
	for name, end := range map[string]struct {
		by   func(run schedule.Run)
		want schedule.WebhookEvent
	}{
		"answer": {func(run schedule.Run) { j.end(run, schedule.StatusSuccess) }, schedule.WebhookSucceeded},
		"failed": {func(run schedule.Run) { j.end(run, schedule.StatusFailed) }, schedule.WebhookFailed},
		"report": {func(run schedule.Run) {
			j.accept(run)
			j.moveRun(run.Key, schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusSuccess, CompletedAt: j.now}})
		}, schedule.WebhookSucceeded},
		"settlement": {func(run schedule.Run) {
			j.settleLaunched(schedule.Settlement{Key: run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, CompletedAt: j.now})
		}, schedule.WebhookFailed},
		"timeout": {func(run schedule.Run) {
			r.now = j.accept(run).TimeoutAt
			j.sweepQueues()
		}, schedule.WebhookFailed},
		"lost": {func(schedule.Run) {
			r.now = r.at(2*retryFor + time.Hour)
			j.sweepQueues()
		}, schedule.WebhookFailed},
	} {
		run := put(name)
		j.admits(5, name)
		end.by(run)
		over := j.ledger(run.Key)
		j.hold(over.Status.Terminal(), "%s ends the run, got %s", name, over.Status)
		j.isTold(run, end.want)
		m, _ := j.told(run.Key)
		want := schedule.AlertDelivery{
			DeliveryID: "run_" + run.Key.String(), RunKey: run.Key, UserID: r.user, Type: string(end.want), Target: "webhook:billing", TargetKind: "webhook",
			State: schedule.DeliveryPending, Round: 1, RoundAt: over.CompletedAt, NextAt: over.CompletedAt, CreatedAt: over.CompletedAt,
		}
		equal(r, "the message after "+name, m, want)
	}
}

func webhookGoesOn(r *rig) {
	j := r.jobs("q", maxInFlight(20), tells("billing"))
	first := j.put("a")[0]
	j.admits(1, "a")
	j.finish(first.Key, aSnooze(0))
	j.isTold(first, "")
	second := r.next(j.ledger(first.Key))
	j.names[second.Key] = "a2"
	j.admits(1, "a2")
	j.end(second, schedule.StatusFailed)
	j.isTold(second, "")

	asked := r.jobs("asked", tells("billing", schedule.WebhookRetrying))
	run := asked.put("b")[0]
	for _, want := range []schedule.WebhookEvent{schedule.WebhookRetrying, schedule.WebhookRetrying, ""} {
		asked.hold(len(asked.admission(1).Dispatches) == 1, "it is admitted")
		failed := asked.end(run, schedule.StatusFailed)
		asked.isTold(run, want)
		if want == "" {
			asked.hold(failed.IsDead(), "the last attempt is dead")
			break
		}
		run = r.next(failed)
		r.now = run.FireAt
		asked.sweepQueues()
	}
}

func webhookOnce(r *rig) {
	j := r.jobs("q", tells("billing"))
	run := j.put("a")[0]
	j.admits(1, "a")
	j.end(run, schedule.StatusSuccess)
	before, _ := r.told(run.Key)
	r.now = r.at(time.Minute)
	j.finish(run.Key, schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed})
	r.settleLaunched(schedule.Settlement{Key: run.Key, To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, CompletedAt: r.now})
	after, _ := r.told(run.Key)
	equal(r, "the message", after, before)
}

func webhookWithTheEnd(r *rig) {
	j := r.jobs("q", tells("billing"))
	run := j.put("a")[0]
	j.isTold(run, "")
	j.admits(1, "a")
	j.accept(run)
	j.isTold(run, "")
	_, _, err := r.ChangeRun(r.ctx, run.Key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) {
		return schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusSuccess, CompletedAt: r.now}, Now: r.now}, errRefused
	})
	r.hold(err != nil, "the change fails")
	j.isTold(run, "")
	r.hold(!r.ledger(run.Key).Status.Terminal(), "and so does the end")
}

func webhookNone(r *rig) {
	quiet := r.jobs("quiet")
	run := quiet.put("a")[0]
	quiet.admits(1, "a")
	quiet.end(run, schedule.StatusSuccess)
	quiet.isTold(run, "")
	only := r.jobs("only", tells("billing", schedule.WebhookFailed))
	run = only.put("b")[0]
	only.admits(1, "b")
	only.end(run, schedule.StatusSuccess)
	only.isTold(run, "")
}

func webhookInForce(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	j.admits(1, "a")
	after := j.queue
	after.Webhook = "later"
	r.putQueue(after)
	j.end(run, schedule.StatusSuccess)
	m, _ := r.told(run.Key)
	r.hold(m.Target == schedule.WebhookTarget("later"), "the run is reported to the target of now, got %q", m.Target)
	after.Webhook = ""
	r.putQueue(after)
	run = j.put("b")[0]
	j.admits(1, "b")
	j.end(run, schedule.StatusSuccess)
	j.isTold(run, "")
}

func webhookOwn(r *rig) {
	j := r.jobs("q", tells("queue", schedule.WebhookRetrying, schedule.WebhookSucceeded))
	run := j.job("a", 0, func(run *schedule.Run) { run.Webhook = "own" })
	j.enqueue(0, run)
	j.admits(1, "a")
	failed := j.end(run, schedule.StatusFailed)
	m, _ := r.told(run.Key)
	r.hold(m.Type == string(schedule.WebhookRetrying) && m.Target == schedule.WebhookTarget("own"), "its own target gets the types of the queue, got %+v", m)
	r.hold(failed.Webhook == "own", "history keeps it, got %+v", failed)
	retry := r.next(failed)
	r.now = retry.FireAt
	j.sweepQueues()
	j.names[retry.Key] = "a2"
	j.admits(1, "a2")
	over := j.end(retry, schedule.StatusSuccess)
	m, _ = r.told(retry.Key)
	r.hold(m.Target == schedule.WebhookTarget("own"), "so does its retry, got %+v", m)
	_, moved := r.changeRun(over.Key, func(in schedule.RunInput) schedule.RunChange {
		byHand := ledger.RetryByHand(&in.Run, in.Definition, in.Queue, &schedule.RedriveOrder{RequestID: "hand"}, r.now)
		byHand.OverlapPolicy = in.Run.OverlapPolicy
		return schedule.RunChange{Insert: &byHand}
	})
	waiting := j.listed()
	r.hold(moved && len(waiting) == 1 && waiting[0].Webhook == "own", "so does a retry by hand, got %+v", waiting)

	silent := r.jobs("silent")
	run = silent.job("b", 0, func(run *schedule.Run) { run.Webhook = "own" })
	silent.enqueue(0, run)
	silent.admits(1, "b")
	silent.end(run, schedule.StatusSuccess)
	silent.isTold(run, schedule.WebhookSucceeded)
}

// names gives the run of a slot its target, as its plan does.
func names(run *schedule.Run) { run.Webhook = "own" }

func webhookOutside(r *rig) {
	r.lead()
	r.jobs("q", tells("billing"))
	is := func(run schedule.Run, want schedule.WebhookEvent, why string) {
		r.Helper()
		m, _ := r.told(run.Key)
		r.hold(m.Type == string(want) && (want == "" || m.Target == "webhook:own" && m.UserID == r.user), "%s: the message is %q, got %+v", why, want, m)
	}
	s := r.create("slots", withPolicy(schedule.OverlapAllow))
	plain := r.bring(r.slot(s, r.now), schedule.StatusSuccess)
	is(plain, "", "a run without a target")
	for status, want := range map[schedule.Status]schedule.WebhookEvent{
		schedule.StatusSuccess: schedule.WebhookSucceeded, schedule.StatusFailed: schedule.WebhookFailed, schedule.StatusCancelled: schedule.WebhookCancelled,
	} {
		r.now = r.at(time.Second)
		run := r.bring(r.slot(s, r.now, names), status)
		is(run, want, string(status))
		r.hold(r.ledger(run.Key).Webhook == "own", "history names the target")
	}
	r.now = r.at(time.Second)
	retried := r.retrying("retried", func(s *schedule.Schedule) { s.Retry.MaxAttempts = 2 })
	started := r.bring(r.slot(retried, r.now, names, func(run *schedule.Run) { run.MaxAttempts = 2 }), schedule.StatusStarted)
	r.settleOne(started, schedule.StatusFailed, because(schedule.ReasonWorkflowFailed))
	is(started, "", "a failure that is retried")
	next := r.next(r.ledger(started.Key))
	r.hold(next.Webhook == "own", "the retry has the target, got %+v", next)
	r.now = next.FireAt
	r.hold(len(r.claim().Launches) == 1, "it is claimed")
	r.settleOne(next, schedule.StatusFailed, because(schedule.ReasonTimeout))
	is(next, schedule.WebhookFailed, "the last failure")
}

func webhookMissed(r *rig) {
	r.lead()
	s := r.create("slots", withPolicy(schedule.OverlapSkip))
	first := r.add(r.slot(s, r.now, names))[0]
	r.claim()
	r.now = r.at(time.Second)
	second := r.add(r.slot(s, r.now, names))[0]
	r.claim()
	r.stand([]schedule.Run{first, second}, "LAUNCHING", "SKIPPED(overlap)")
	m, _ := r.told(second.Key)
	r.hold(m.Type == string(schedule.WebhookSkipped), "the one that was skipped, got %+v", m)
	for i, reason := range []schedule.Reason{schedule.ReasonMissed, schedule.ReasonCoalesced, schedule.ReasonPaused} {
		missed := r.slot(s, r.at(time.Duration(i+1)*time.Second), names)
		missed.Status, missed.Reason = schedule.StatusSkipped, reason
		m, told := ledger.MessageOf(&missed, schedule.QueueWebhook{})
		r.hold(told == (reason == schedule.ReasonPaused), "SKIPPED(%s), got %+v", reason, m)
	}
}

func webhookSent(r *rig) {
	j := r.jobs("q", tells("billing"))
	run := j.put("a")[0]
	j.admits(1, "a")
	j.end(run, schedule.StatusSuccess)
	claim := schedule.DeliveryClaim{Now: r.now, Lease: time.Minute, Limit: 100, Target: schedule.WebhookTarget("billing")}
	claimed, err := r.ClaimDeliveries(r.ctx, claim)
	r.ok(err, "claim deliveries")
	r.hold(len(claimed) == 1 && claimed[0].RunKey == run.Key && claimed[0].Attempts == 1 && !strings.Contains(claimed[0].Payload, "{"), "it is claimed by its target, got %+v", claimed)
	r.hold(r.settled(claimed[0], func(s *schedule.DeliverySettlement) { s.State, s.Arrived, s.Status = schedule.DeliveryDead, false, 503 }), "it is settled")
	m, _ := r.told(run.Key)
	r.hold(m.State == schedule.DeliveryDead && m.LastStatus == 503, "it is given up, got %+v", m)
}

func webhookByRun(r *rig) {
	j := r.jobs("q", tells("billing"))
	runs := j.put("a", "b")
	j.admits(1, "a")
	j.end(runs[0], schedule.StatusSuccess)
	found, err := r.WebhookMessages(r.ctx, []schedule.Key{runs[0].Key, runs[1].Key})
	r.ok(err, "read messages")
	want, _ := r.told(runs[0].Key)
	equal(r, "the messages", found, map[schedule.Key]schedule.AlertDelivery{runs[0].Key: want})
	found, err = r.WebhookMessages(r.ctx, nil)
	r.ok(err, "read no messages")
	r.hold(len(found) == 0, "no key has no message")
}

func webhookDead(r *rig) {
	j, other := r.jobs("q", tells("billing")), r.jobs("other", tells("audit"))
	var runs []schedule.Run
	for i, of := range []*jobs{j, j, other, j} {
		r.now = r.at(time.Second)
		name := string(rune('a' + i))
		run := of.put(name)[0]
		of.admits(1, name)
		of.end(run, schedule.StatusSuccess)
		runs = append(runs, run)
		if i == 3 {
			break // it stays pending
		}
		m, _ := r.told(run.Key)
		claimed, err := r.ClaimDeliveries(r.ctx, schedule.DeliveryClaim{Now: r.now, Lease: time.Minute, Limit: 100, Target: m.Target})
		r.ok(err, "claim deliveries")
		for _, d := range claimed {
			r.settled(d, func(s *schedule.DeliverySettlement) { s.State, s.Arrived = schedule.DeliveryDead, false })
		}
	}
	alert := r.message("alert", r.now)
	r.ok(r.InsertDeliveries(r.ctx, []schedule.AlertDelivery{alert}), "insert")
	for _, d := range r.claimMessages(r.at(-time.Millisecond)) {
		r.hold(false, "nothing else is due, got %+v", d)
	}
	states := func() (all string) {
		for _, run := range runs {
			m, _ := r.told(run.Key)
			all += string(m.State[:2])
		}
		return all
	}
	r.hold(states() == "DEDEDEPE", "three are dead, got %s", states())
	again := func(edit func(*schedule.DeadRedelivery)) int {
		req := schedule.DeadRedelivery{Limit: 10, Now: r.now}
		edit(&req)
		n, err := r.RedeliverDead(r.ctx, req)
		r.ok(err, "redeliver")
		return n
	}
	r.now = r.at(time.Hour)
	r.hold(again(func(d *schedule.DeadRedelivery) { d.Target = "webhook:none" }) == 0, "to a target without messages there are none")
	r.hold(again(func(d *schedule.DeadRedelivery) { d.UserID = "another" }) == 0, "another owner has none")
	r.hold(again(func(d *schedule.DeadRedelivery) { d.Target, d.UserID, d.Limit = "webhook:billing", r.user, 1 }) == 1, "one of two is sent again")
	r.hold(states() == "PEDEDEPE", "it is the oldest, got %s", states())
	m, _ := r.told(runs[0].Key)
	r.hold(m.Round == 2 && m.Attempts == 0 && m.RoundAt.Equal(r.now) && m.NextAt.Equal(r.now) && m.EndedAt.IsZero() && m.DeliveryID == schedule.WebhookID(runs[0].Key),
		"it has its id and all its attempts again, got %+v", m)
	r.hold(again(func(*schedule.DeadRedelivery) {}) == 2 && states() == "PEPEPEPE", "then the others, got %s", states())
}

func webhookLists(r *rig) {
	j := r.jobs("q", tells("billing"))
	var want []string
	for i, name := range []string{"a", "b", "c"} {
		r.now = r.at(time.Second)
		run := j.put(name)[0]
		j.admits(1, name)
		j.end(run, schedule.StatusSuccess)
		m, _ := r.told(run.Key)
		want = append([]string{m.DeliveryID}, want...)
		if i == 1 {
			claimed, err := r.ClaimDeliveries(r.ctx, schedule.DeliveryClaim{Now: r.now, Lease: time.Minute, Limit: 1, Target: m.Target})
			r.ok(err, "claim deliveries")
			r.settled(claimed[0], func(s *schedule.DeliverySettlement) { s.State, s.Arrived = schedule.DeliveryDead, false })
		}
	}
	alert := r.message("alert", r.now)
	r.ok(r.InsertDeliveries(r.ctx, []schedule.AlertDelivery{alert}), "insert")
	ids := func(f schedule.DeliveryFilter) (found []string) {
		list, err := r.ListDeliveries(r.ctx, f)
		r.ok(err, "list deliveries")
		for _, d := range list {
			found = append(found, d.DeliveryID)
		}
		return found
	}
	equal(r, "about runs", ids(schedule.DeliveryFilter{Runs: true, Limit: 10}), want)
	equal(r, "about alerts", ids(schedule.DeliveryFilter{Limit: 10}), []string{alert.DeliveryID})
	equal(r, "dead", ids(schedule.DeliveryFilter{Runs: true, State: schedule.DeliveryDead, Limit: 10}), want[2:])
	equal(r, "pending", ids(schedule.DeliveryFilter{Runs: true, State: schedule.DeliveryPending, Limit: 10}), want[:2])
	first, err := r.ListDeliveries(r.ctx, schedule.DeliveryFilter{Runs: true, Limit: 1})
	r.ok(err, "list deliveries")
	next := schedule.DeliveryFilter{Runs: true, AfterCreated: first[0].CreatedAt, AfterID: first[0].DeliveryID, Limit: 10}
	equal(r, "the next page", ids(next), want[1:])
	next.State = schedule.DeliveryDead
	equal(r, "the next page of dead ones", ids(next), want[2:])
}
