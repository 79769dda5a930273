package dumps_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// feb28, mar1 and mar2 are times of those days.
func feb28(hour, minute int) time.Time { return time.Date(2026, 2, 28, hour, minute, 0, 0, time.UTC) }

func mar1(hour, minute int) time.Time { return time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC) }

func mar2(hour, minute int) time.Time { return time.Date(2026, 3, 2, hour, minute, 0, 0, time.UTC) }

// by is the context of a call that belongs into the audit trail.
func (w *world) by(subject, method, target string) context.Context {
	ctx := auth.NewContext(w.ctx, auth.Identity{Subject: subject, Via: "jwt", Roles: []auth.Role{auth.Operator}})
	ctx, call := auth.WithCall(ctx, "/carillon.v1.ScheduleService/"+method)
	call.Identity, call.Target, call.RequestID, call.Audited = auth.FromContext(ctx), target, method+"-"+target, true
	return ctx
}

// script plans what people do, and outages of the worker.
func (w *world) script() {
	w.workflows()
	w.schedules()
	w.at(mar1(2, 50), w.resign)
	w.at(mar1(2, 51), w.lead)
	w.at(mar1(3, 0), w.die)
	w.at(mar1(6, 40), w.lead)
	// A tick each few seconds where launches are tried again, or a cancel runs out.
	for _, slot := range []time.Time{feb28(0, 45), feb28(8, 45), feb28(0, 55), feb28(0, 57), mar1(0, 55), mar1(0, 57)} {
		for _, after := range []time.Duration{2, 8, 20, 60, 120, 300, 590, 599, 605, 640, 1300} {
			w.at(slot.Add(after*time.Second), w.tickIfLed)
		}
	}
	for _, slot := range []time.Time{feb28(0, 0), feb28(6, 0), mar1(0, 0), mar1(12, 0), mar2(6, 0), mar2(12, 0)} {
		w.at(slot.Add(31*time.Second), w.tickIfLed)
	}
	for _, slot := range []time.Time{mar2(8, 0), mar2(12, 0)} {
		w.at(slot, w.stamp)
	}
	w.edits()
	w.asked()
	w.filledIn()
	w.told()
}

// stamp sets judged_at of the due slots, as a worker without a free launch does.
func (w *world) stamp() {
	_, err := w.Claim(w.ctx, schedule.ClaimRequest{Term: w.term, Now: w.now(), Grace: time.Minute, Lease: time.Minute, RetryFor: time.Minute},
		func(schedule.OverlapGroup) []schedule.Verdict { return nil })
	w.ok(err, "stamp")
}

func (w *world) tickIfLed() {
	if w.steps != nil {
		w.tick()
	}
}

func (w *world) workflows() {
	dag := []byte(`{"nodes": [{"id": "load"}, {"id": "check", "after": ["load"]}]}`)
	for _, in := range []registrar.WorkflowInput{
		{WorkflowID: "etl", Version: 1, DAG: dag}, {WorkflowID: "etl", Version: 2, DAG: dag}, {WorkflowID: "backup", Version: 1, UserID: acme, DAG: dag},
	} {
		_, err := w.users.PutWorkflow(w.ctx, in)
		w.ok(err, "put workflow", in.WorkflowID)
	}
	for _, owner := range []string{acme, globex} {
		_, err := w.users.ShareWorkflow(w.ctx, registrar.ShareInput{WorkflowID: "etl", UserID: owner, Actor: "ops"})
		w.ok(err, "share with", owner)
	}
	_, err := w.users.ShareWorkflow(w.ctx, registrar.ShareInput{WorkflowID: "backup", AllOwners: true, Actor: "ops"})
	w.ok(err, "share with all")
}

// edits change schedules.
func (w *world) edits() {
	w.at(feb28(10, 0), func() { // queued runs keep their overlap key
		w.upsert(globex, "moved", "20 */8 * * *", overlapKey("after"), runTimeout(2*time.Hour))
		w.upsert(acme, "report", "0 */6 * * *", policy(schedule.OverlapAllow), func(in *registrar.UpsertInput) { in.Definition.Version = 2 })
	})
	w.at(mar1(7, 50), func() {
		w.upsert(globex, "moved", "20 */6 * * *", overlapKey("after"))
		_, err := w.users.Pause(w.by("ada", "PauseSchedule", "paused"), registrar.PauseInput{ScheduleID: "paused", Note: "disk is full", Actor: "ada"})
		w.ok(err, "pause")
		_, err = w.users.Pause(w.ctx, registrar.PauseInput{ScheduleID: "paused-for-a-while", Until: mar2(3, 0), Actor: "ada"})
		w.ok(err, "pause for a while")
		_, err = w.users.RevokeGrant(w.ctx, registrar.RevokeInput{Grant: schedule.GrantRef{UserID: globex, GrantID: "revoked"}, Note: "unpaid", Actor: "ops"})
		w.ok(err, "revoke")
	})
	w.at(mar1(9, 0), func() { w.narrow("billed-wide") })
	w.at(mar1(8, 30), func() { // a later retry keeps the max_queued of its run's revision
		seven := uint32(7)
		w.upsert(globex, "failing", "30 */6 * * *", expect(schedule.Expect{SuccessEveryMS: 86_400_000, AlertAfter: 1, OnFailure: schedule.OnFailureAlert}),
			func(in *registrar.UpsertInput) { in.MaxQueued = &seven })
	})
	w.at(mar1(15, 45), func() { w.ok(w.users.Delete(w.ctx, "revived", "ada"), "delete") })
	// Slots that are due and, for their jitter, not fired yet.
	w.at(mar1(18, 5).Add(time.Second), func() {
		_, err := w.users.Pause(w.ctx, registrar.PauseInput{ScheduleID: "jittered", Actor: "ada"})
		w.ok(err, "pause")
	})
	w.at(mar1(18, 20), func() {
		_, err := w.users.Resume(w.ctx, registrar.ResumeInput{ScheduleID: "jittered", Note: "go on", Actor: "ada"})
		w.ok(err, "resume")
	})
	w.at(mar1(16, 0).Add(time.Second), func() {
		w.ok(w.users.Delete(w.by("ada", "DeleteSchedule", "deleted"), "deleted", "ada"), "delete")
	})
	w.at(mar1(20, 0), func() { w.upsert(teamB, "revived", "0 */8 * * *", policy(schedule.OverlapAllow)) })
}

// narrow makes a schedule run a workflow that its grant does not allow. The
// registrar refuses that, so the row is written directly.
func (w *world) narrow(id string) {
	req := schedule.ChangeRequest{ScheduleIDs: []string{id}}
	w.ok(w.ChangeSchedules(w.ctx, req, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
		row := *found[0].Schedule
		row.WorkflowID, row.Revision, row.RevisedAt, row.UpdatedAt = "elsewhere", row.Revision+1, w.now(), w.now()
		return []schedule.Change{{ScheduleID: id, Row: &row, NewRevision: true, ChangedBy: "ops", Now: w.now()}}, nil
	}), "change", id)
}

// asked triggers, cancels and retries runs by hand.
func (w *world) asked() {
	trigger := func(id, request string, p schedule.OverlapPolicy) {
		_, err := w.users.Trigger(w.by("bob", "TriggerSchedule", id), registrar.TriggerInput{
			ScheduleID: id, RequestID: request, OverlapPolicy: p, Input: []byte(fmt.Sprintf(`{"request": %q}`, request)), Actor: "bob",
		})
		w.ok(err, "trigger", id)
	}
	for i := range 3 { // one runs, two wait
		w.at(feb28(13, 1).Add(time.Duration(i)*time.Second), func() { trigger("by-hand", fmt.Sprintf("early-%d", i), "") })
	}
	w.at(feb28(13, 2), func() { w.cancel(schedule.ManualKey("by-hand", "early-2")) })
	w.at(mar2(11, 59).Add(30*time.Second), func() {
		trigger("by-hand", "late-0", "")
		trigger("paused", "despite", schedule.OverlapAllow)
	})
	w.at(mar2(11, 59).Add(40*time.Second), func() { trigger("by-hand", "late-1", "") })
	w.at(mar2(11, 59).Add(50*time.Second), func() { trigger("by-hand", "late-2", "") })

	// A cancel that is confirmed, one that nobody confirms, one that is open.
	w.at(mar1(12, 20), func() { w.cancel(schedule.SlotKey("sync", mar1(9, 0))) })
	w.at(mar1(12, 0).Add(20*time.Second), func() { w.cancel(schedule.SlotKey("stubborn-mirror", mar1(12, 0))) })
	w.at(mar2(11, 59).Add(55*time.Second), func() { w.cancel(schedule.SlotKey("stubborn-mirror", mar2(6, 0))) })

	retry := func(key schedule.Key, request string) {
		_, err := w.users.RetryRun(w.ctx, registrar.RetryInput{Key: key, RequestID: request, Actor: "bob"})
		w.ok(err, "retry", request)
	}
	w.at(mar1(9, 0), func() {
		retry(schedule.SlotKey("failing", feb28(6, 30)), "r1")
		retry(schedule.SlotKey("refused", feb28(0, 50)), "r2")
		retry(schedule.SlotKey("failing-too", feb28(0, 40)), "r3")
	})
	w.at(mar1(10, 0), func() { retry(schedule.RetryKey(schedule.SlotKey("failing", feb28(6, 30)), "r1"), "r4") })
	w.at(mar1(11, 0), w.lateReports)
}

func (w *world) cancel(key schedule.Key) {
	_, err := w.users.CancelRun(w.ctx, registrar.CancelInput{Key: key, Note: "wrong input", Actor: "bob"})
	w.ok(err, "cancel", key)
}

// lateReports come for runs that have ended: one that timed out, and one that
// succeeded; the second report of a status leaves nothing.
func (w *world) lateReports() {
	code := int32(0)
	for _, in := range []registrar.ReportInput{
		{Key: schedule.SlotKey("silent", mar1(0, 35)), Status: schedule.StatusStarted},
		{Key: schedule.SlotKey("silent", mar1(0, 35)), Status: schedule.StatusSuccess, ExitCode: &code, Output: "late, and done\n"},
		{Key: schedule.SlotKey("silent", mar1(0, 35)), Status: schedule.StatusSuccess},
		{Key: schedule.SlotKey("report", feb28(6, 0)), Status: schedule.StatusFailed, ErrorCode: "odd"},
	} {
		_, _, err := w.users.Report(w.ctx, in)
		w.ok(err, "report late", in.Key)
	}
	key := schedule.SlotKey("nightly", feb28(1, 30))
	w.ok(w.AppendRunLog(w.ctx, schedule.RunLogAppend{Key: key, Parts: []schedule.LogPart{
		{Seq: 1, Step: "load", WrittenAt: feb28(1, 31), From: 0, To: 8, Text: "line 1\n\n"},
		{Seq: 2, Step: "load", WrittenAt: feb28(1, 32), From: 20, To: 27, Text: "line 3\n"},
		{Seq: 3, Step: "check", WrittenAt: feb28(1, 40), From: 0, To: 5, Text: "fine\n"},
	}}), "append to a log")
}

// filledIn creates backfills: two finish, one is paused, one is cancelled with its
// runs, one is running at the end.
func (w *world) filledIn() {
	fill := func(request string, from, to time.Time, edit func(*registrar.BackfillInput)) string {
		in := registrar.BackfillInput{
			ScheduleID: "filled", RequestID: request, From: from, To: to, Reprocess: schedule.ReprocessAll, Order: schedule.OldestFirst, Concurrency: 2, Note: "lost disk", Actor: "ada",
		}
		edit(&in)
		made, err := w.users.Backfill(w.by("ada", "CreateBackfill", request), in)
		w.ok(err, "backfill", request)
		return made.Backfill.BackfillID
	}
	day := 24 * time.Hour
	w.at(feb28(12, 0), func() {
		fill("done", feb28(0, 0).Add(-3*day), feb28(0, 0).Add(-2*day), func(*registrar.BackfillInput) {})
	})
	w.at(mar1(11, 0), func() {
		fill("nothing", feb28(0, 0), mar1(0, 0), func(in *registrar.BackfillInput) { in.Reprocess = schedule.ReprocessMissed })
	})
	w.at(mar1(12, 0), func() {
		id := fill("paused", feb28(0, 0).Add(-5*day), feb28(0, 0).Add(-4*day), func(in *registrar.BackfillInput) { in.Concurrency, in.Order = 1, schedule.NewestFirst })
		w.at(mar1(12, 0).Add(time.Second), func() {
			_, err := w.users.PauseBackfill(w.ctx, registrar.BackfillChangeInput{BackfillID: id, Note: "too much", Actor: "ada"})
			w.ok(err, "pause a backfill")
		})
	})
	w.at(mar2(11, 58), func() {
		fill("running", feb28(0, 0).Add(-7*day), feb28(0, 0).Add(-5*day), func(in *registrar.BackfillInput) {
			in.RatePerMinute = 1
		})
		id := fill("cancelled", feb28(0, 0), feb28(0, 0).Add(2*day), func(in *registrar.BackfillInput) {
			in.Reprocess, in.OverlapPolicy, in.Concurrency = schedule.ReprocessFailed, schedule.OverlapQueue, 1
		})
		w.at(mar2(11, 59).Add(5*time.Second), func() {
			_, err := w.users.CancelBackfill(w.ctx, registrar.BackfillChangeInput{BackfillID: id, Note: "wrong range", CancelRuns: true, Actor: "ada"})
			w.ok(err, "cancel a backfill")
		})
	})
}

// told settles messages: one is delivered, two fail and one of these is sent again.
// One alert is acknowledged.
func (w *world) told() {
	w.at(mar1(18, 0), func() {
		sent, err := w.ClaimDeliveries(w.ctx, schedule.DeliveryClaim{Now: w.now(), Lease: time.Minute, Limit: 3})
		w.ok(err, "claim messages")
		for i, d := range sent {
			s := schedule.DeliverySettlement{DeliveryID: d.DeliveryID, Attempts: d.Attempts, Round: d.Round, State: schedule.DeliveryDelivered, Status: 204, Now: w.now()}
			if i > 0 {
				s.State, s.Status, s.Error, s.Gone = schedule.DeliveryDead, 410, "gone", i == 1
			}
			_, err := w.SettleDelivery(w.ctx, s)
			w.ok(err, "settle a message")
		}
		if len(sent) > 2 {
			_, err := w.Redeliver(w.ctx, schedule.Redelivery{DeliveryID: sent[2].DeliveryID, Now: w.now(), Lease: time.Minute})
			w.ok(err, "send again")
		}
		open := true
		alerts, err := w.ListAlerts(w.ctx, schedule.AlertFilter{Open: &open, Limit: 10})
		w.ok(err, "list alerts")
		if len(alerts) > 0 {
			w.ok(w.AckAlert(w.ctx, schedule.AlertAck{AlertID: alerts[0].AlertID, By: "ada", Note: "on it", Now: w.now()}), "acknowledge")
		}
	})
}

func refusals() []schedule.AuditEntry {
	return []schedule.AuditEntry{
		{Time: mar2(11, 0), Subject: "mallory", Via: "jwt", Method: "PauseSchedule", Target: "report", UserID: acme, RequestID: "x-1", Code: "PERMISSION_DENIED", Count: 7, OtherTargets: true},
		{Time: mar2(11, 1), Subject: "", Via: "none", Method: "TriggerSchedule", Target: "nobody", RequestID: "x-2", Code: "NOT_FOUND"},
	}
}

// leaveOpen leaves keys in every state. A launcher records some of the last claimed
// runs, and the worker stops before it settles them.
func (w *world) leaveOpen() {
	ask := func(request string) {
		_, err := w.users.Trigger(w.ctx, registrar.TriggerInput{ScheduleID: "report", RequestID: request, Actor: "bob"})
		w.ok(err, "trigger")
	}
	for i := range 8 {
		ask(fmt.Sprintf("open-%d", i))
	}
	w.fire() // nobody makes the calls
	ask("due")
	launching, err := w.ListRuns(w.ctx, schedule.RunFilter{ScheduleID: "report", Statuses: []schedule.Status{schedule.StatusLaunching}, Now: w.now(), Ascending: true, Limit: 100})
	w.ok(err, "list launching runs")
	if len(launching) != 8 {
		w.Fatalf("%d runs are launching, want 8", len(launching))
	}
	for i, calls := range []int32{-1, 0, 1} { // the call is open, was never sent, may have arrived
		run := &launching[i]
		lease := w.begin(schedule.BeginRequest{Key: run.Key, ScheduleID: run.ScheduleID, Trigger: run.Trigger, FireAt: run.FireAt})
		if calls >= 0 {
			w.ok(w.Release(w.ctx, run.Key, lease, calls, w.now()), "release")
			_, err := w.Settle(w.ctx, w.term, w.now(), []schedule.Settlement{{
				Key: run.Key, To: schedule.StatusLaunching, ErrorCode: "executor_timeout", ErrorMessage: "no complete answer within 10s", Deliveries: calls,
				ClaimedUntil: w.now().Add(time.Second), Attempt: &schedule.LaunchAttempt{
					At: w.now(), Took: 10 * time.Millisecond, Result: schedule.LaunchUnknown, ErrorCode: "executor_timeout", NextAt: w.now().Add(time.Second),
				},
			}})
			w.ok(err, "settle a failed attempt")
		}
	}
	definition := func(id string) *schedule.Definition {
		s, err := w.GetSchedule(w.ctx, id)
		w.ok(err, "get schedule")
		return &s.Definition
	}
	for i, answer := range []behaviour{silent, done, refuses} { // recorded, and not settled
		w.behaves("report", answer)
		l := schedule.Launch{Run: launching[3+i], Definition: definition("report")}
		_, err := w.launch.Start(w.ctx, l.StartRequest())
		w.ok(err, "start")
	}
	w.strangeKeys()
	w.supersede()
}

// begin records a key, and answers with the end of its lease.
func (w *world) begin(req schedule.BeginRequest) time.Time {
	req.RequestHash, req.Lease = sha256.Sum256(req.Key[:]), 3*time.Second
	answers, err := w.Begin(w.ctx, []schedule.BeginRequest{req}, w.now())
	w.ok(err, "begin", req.Key)
	if answers[0].Permission != schedule.Granted {
		w.Fatalf("begin %s: permission %d, %s", req.Key, answers[0].Permission, answers[0].Reason)
	}
	return answers[0].Request.LeaseUntil
}

// strangeKeys are in no ledger, as those of graph runs: one is done, of one the
// call is open, one was closed before any call.
func (w *world) strangeKeys() {
	for _, request := range []string{"1", "2"} {
		w.begin(schedule.BeginRequest{Key: schedule.ManualKey("graph", request), Trigger: schedule.TriggerManual, FireAt: w.now()})
	}
	outcome := schedule.Outcome{Status: schedule.StatusSuccess, RunID: "graph-1", TraceID: "0123456789abcdef0123456789abcdef"}
	_, err := w.Finish(w.ctx, []schedule.FinishRequest{{Key: schedule.ManualKey("graph", "1"), Outcome: outcome, LaunchedAt: w.now()}}, w.now())
	w.ok(err, "finish a graph run")
	_, _, err = w.CloseKey(w.ctx, schedule.ManualKey("graph", "3"), schedule.ReasonCancelled, w.now())
	w.ok(err, "close a key")
}

// supersede has a second launcher record the end of a run that was accepted: the
// outcome of its key is replaced, and the run ends.
func (w *world) supersede() {
	accepted, err := w.ListRuns(w.ctx, schedule.RunFilter{ScheduleID: "accepted", Statuses: []schedule.Status{schedule.StatusEnqueued}, Now: w.now(), Limit: 1})
	w.ok(err, "list accepted runs")
	if len(accepted) == 0 {
		w.Fatal("no accepted run is left")
	}
	_, err = w.Finish(w.ctx, []schedule.FinishRequest{{Key: accepted[0].Key, Outcome: schedule.Outcome{Status: schedule.StatusSuccess, RunID: accepted[0].RunID}}}, w.now())
	w.ok(err, "supersede", accepted[0].ScheduleID)
}
