package dumps_test

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// The owners. The last one has a slash, as owner ids of identity providers may.
const (
	acme   = "acme"
	globex = "globex"
	teamB  = "team/b"
)

// upsert registers a schedule under a rule, as the owner would.
func (w *world) upsert(owner, id, cron string, edits ...func(*registrar.UpsertInput)) {
	w.Helper()
	in := registrar.UpsertInput{Actor: owner + "-user", Definition: schedule.Definition{
		ScheduleID: id, WorkflowID: "etl", Version: 1, UserID: owner, CronExpr: cron,
	}}
	for _, edit := range edits {
		edit(&in)
	}
	_, err := w.users.Upsert(w.ctx, in)
	w.ok(err, "upsert", id)
}

func policy(p schedule.OverlapPolicy) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) { in.Definition.OverlapPolicy = p }
}

func overlapKey(key string) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) { in.Definition.OverlapKey = key }
}

func catchup(p schedule.CatchupPolicy) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) { in.Definition.CatchupPolicy = p }
}

func runTimeout(d time.Duration) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) { ms := uint32(d.Milliseconds()); in.RunTimeoutMS = &ms }
}

func expect(e schedule.Expect) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) { in.Definition.Expect = e }
}

func withGrant(id string) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) { in.Definition.ExecutionGrantID = id }
}

// schedules registers all schedules, and how the executor answers their runs.
func (w *world) schedules() {
	w.regular()
	w.overlapping()
	w.granted()
	w.troubled()
	w.outlasting()
}

func (w *world) behaves(id string, b behaviour) { w.runs.behaviour[id] = b }

func (w *world) regular() {
	w.upsert(acme, "report", "0 */6 * * *", policy(schedule.OverlapAllow), func(in *registrar.UpsertInput) {
		in.Definition.Input = []byte(`{"tables": ["orders", "it's"], "full": false}`)
		in.Definition.Labels = map[string]string{"team": "data", "tier": "1"}
		in.Definition.Expect = schedule.Expect{StartWithinMS: 60_000, FinishWithinMS: 600_000, AlertAfter: 1}
		priority := int32(5)
		in.Priority = &priority
	})
	w.upsert(acme, "nightly", "30 2 * * *", func(in *registrar.UpsertInput) {
		in.Definition.Timezone, in.Definition.WorkflowID = "Europe/Berlin", "backup"
		in.Definition.ManagedBy = "infra"
	})
	w.behaves("nightly", takes(41*time.Minute))
	jitter := uint32(600_000)
	w.upsert(teamB, "jittered", "5 */6 * * *", func(in *registrar.UpsertInput) { in.JitterMS = &jitter })
	w.behaves("jittered", takes(90*time.Second))
	w.upsert(teamB, "once", "", func(in *registrar.UpsertInput) { in.Definition.OnceAt = time.Date(2026, 2, 28, 9, 0, 0, 0, time.UTC) })
	w.upsert(acme, "by-hand", "", policy(schedule.OverlapQueue))
	w.behaves("by-hand", takes(3*time.Minute))
	w.upsert(globex, "moved", "20 */8 * * *", overlapKey("before"))
	w.behaves("moved", takes(17*time.Hour))
}

func (w *world) overlapping() {
	one := uint32(1)
	for _, id := range []string{"ingest", "compact"} { // two schedules and one overlap key
		cron := map[string]string{"ingest": "15 */4 * * *", "compact": "20 */6 * * *"}[id]
		w.upsert(acme, id, cron, policy(schedule.OverlapQueue), overlapKey("warehouse"), runTimeout(10*time.Hour), func(in *registrar.UpsertInput) { in.MaxQueued = &one })
		w.behaves(id, takes(5*time.Hour+7*time.Minute))
	}
	w.upsert(acme, "mirror", "0 */5 * * *", policy(schedule.OverlapReplace), runTimeout(20*time.Hour))
	w.behaves("mirror", takes(9*time.Hour))
	w.upsert(teamB, "stubborn-mirror", "0 */6 * * *", policy(schedule.OverlapReplace), runTimeout(20*time.Hour))
	w.behaves("stubborn-mirror", takes(7*time.Hour))
	w.upsert(teamB, "slow-to-cancel", "0 */4 * * *", policy(schedule.OverlapReplace), runTimeout(20*time.Hour))
	w.behaves("slow-to-cancel", takes(4*time.Hour+10*time.Second))
	w.upsert(globex, "sync", "0 */3 * * *", policy(schedule.OverlapSkip), runTimeout(10*time.Hour))
	w.behaves("sync", takes(4*time.Hour+time.Minute))
}

func (w *world) granted() {
	for _, g := range []registrar.GrantInput{
		{GrantID: "good", Scopes: []string{"graph:execute:etl"}},
		{GrantID: "short", Scopes: []string{"graph:execute:etl"}, ExpiresAt: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)},
		{GrantID: "revoked", Scopes: []string{"graph:execute:*"}, AllowAllWorkflows: true},
		{GrantID: "wide", Scopes: []string{"graph:execute:etl", "graph:execute:other"}},
	} {
		g.UserID, g.BillingAccountID, g.Actor = globex, "account-1", "ops"
		_, err := w.users.CreateGrant(w.ctx, g)
		w.ok(err, "create grant", g.GrantID)
		w.upsert(globex, "billed-"+g.GrantID, "0 */8 * * *", withGrant(g.GrantID), policy(schedule.OverlapAllow))
		w.behaves("billed-"+g.GrantID, ends)
	}
}

func (w *world) troubled() {
	w.upsert(globex, "failing", "30 */6 * * *", expect(schedule.Expect{SuccessEveryMS: 86_400_000, AlertAfter: 1, OnFailure: schedule.OnFailureAlert}))
	w.behaves("failing", fails)
	w.upsert(acme, "failing-too", "40 */8 * * *", expect(schedule.Expect{FinishWithinMS: 1_800_000, AlertAfter: 2, RemindEveryMS: 3_600_000, OnFailure: schedule.OnFailureAlert}))
	w.behaves("failing-too", ends)
	w.upsert(teamB, "refused", "50 */12 * * *")
	w.behaves("refused", refuses)
	w.upsert(acme, "flaky", "45 */8 * * *", expect(schedule.Expect{StartWithinMS: 10_000, AlertAfter: 1}))
	w.behaves("flaky", flaky)
	w.upsert(teamB, "unreachable", "55 */24 * * *")
	w.behaves("unreachable", unreachable)
	w.upsert(teamB, "deaf", "57 */24 * * *")
	w.behaves("deaf", deaf)
	w.upsert(teamB, "silent", "35 */12 * * *", runTimeout(50*time.Minute))
	w.behaves("silent", silent)
	w.upsert(acme, "accepted", "*/15 11 2 3 *", policy(schedule.OverlapAllow))
	w.behaves("accepted", silent)
}

// outlasting registers schedules that miss slots, are paused, deleted or backfilled.
func (w *world) outlasting() {
	for _, p := range schedule.CatchupPolicies {
		w.upsert(teamB, "catchup-"+string(p), "10 * * * *", catchup(p), policy(schedule.OverlapAllow), func(in *registrar.UpsertInput) {
			in.Definition.StartAt = time.Date(2026, 3, 1, 1, 0, 0, 0, time.UTC)
			in.Definition.EndAt = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
		})
	}
	w.upsert(globex, "paused", "0 */8 * * *")
	w.upsert(globex, "paused-for-a-while", "0 */8 * * *", catchup(schedule.CatchupLatest))
	jitter := uint32(600_000)
	w.upsert(teamB, "deleted", "0 */8 * * *", func(in *registrar.UpsertInput) { in.JitterMS = &jitter })
	w.upsert(teamB, "revived", "0 */8 * * *")
	w.upsert(globex, "filled", "0 */8 * * *", policy(schedule.OverlapAllow), func(in *registrar.UpsertInput) {
		in.Definition.StartAt = time.Date(2026, 2, 20, 0, 0, 0, 0, time.UTC)
	})
	w.behaves("filled", ends)
}
