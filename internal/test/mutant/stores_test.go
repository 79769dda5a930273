package mutant_test

import (
	"flag"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/mutant"
)

var build = flag.Bool("stores.mutants", false, "run TestSeededBugsOfTheStoresAreFound, which builds the tests of a store once for each")

const (
	root     = "../../.."
	postgres = "internal/store/postgres"
	sqlite   = "internal/store/sqlite"
	presence = "launcher/presence"
)

// suite is one of the tests of a package.
type suite struct{ pkg, run string }

func contract(pkg, topic string) suite {
	return suite{pkg, "^TestStoreKeepsTheContract$/^" + topic + "$"}
}

// storeMutants are bugs in the SQL of the stores, in what is around it, and in the rules
// that need two real processes: the simulator cannot have them, since it keeps the ledger
// in memory. Each of the suites has to find its bug.
var storeMutants = []struct {
	name   string
	suites []suite
	edits  []mutant.Edit
}{
	{"an entry does not note that it uses a template", []suite{contract(postgres, "templates"), contract(sqlite, "templates")}, []mutant.Edit{{
		"internal/store/tables/enqueue.go", "range req.Templates {", "range req.Templates[:0] {",
	}}},
	{"retention deletes a template that is in use", []suite{contract(postgres, "templates")}, []mutant.Edit{{
		postgres + "/sql_prune.go", "DELETE FROM schedules s WHERE s.schedule_id = ANY($1::text[]) AND ` + nothingOf + `", "DELETE FROM schedules s WHERE s.schedule_id = ANY($1::text[])",
	}, {
		postgres + "/sql_prune.go", "starts_with(s.managed_by, 'queue:') AND ` + nothingOf + `", "starts_with(s.managed_by, 'queue:')",
	}}},
	{"retention deletes a template that is in use, on SQLite", []suite{contract(sqlite, "templates")}, []mutant.Edit{{
		sqlite + "/sql_prune.go", "s.managed_by GLOB 'queue:*' AND ` + nothingOf + `", "s.managed_by GLOB 'queue:*'",
	}}},
	{"runs behind those that were read of a limit set are forgotten", []suite{contract(postgres, "queue_model"), contract(sqlite, "queue_model")}, []mutant.Edit{{
		"internal/store/tables/admit.go", "heads[i].More = len(heads[i].Runs) == n", "heads[i].More = false",
	}}},
	{"a blocked limit set is read to its end", []suite{contract(postgres, "limit_uses"), contract(sqlite, "limit_uses")}, []mutant.Edit{{
		"internal/ledger/heads.go", "			f.Blocked[string(set)] = *b\n			continue\n", "			f.Blocked[string(set)] = *b\n",
	}}},
	{"a position forgets transactions that are open", []suite{contract(postgres, "change_log"), {postgres, "^TestAChangeIsReadOnce"}}, []mutant.Edit{{
		postgres + "/sql_changes.go", "c.xid = ANY(ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot)))", "false",
	}}},
	{"a position is kept over a failover", []suite{{postgres, "^TestAPositionOfAnotherServerIsLost$"}}, []mutant.Edit{{
		postgres + "/changes.go", `if !strings.HasPrefix(string(r.position), generation+" ") {`, `if generation == "" {`,
	}}},
	{"a position is kept when the file is opened again", []suite{{sqlite, "^TestAReadPositionCounts"}}, []mutant.Edit{{
		sqlite + "/open.go", `opening != s.opening`, `opening == ""`,
	}}},
	{"changes are pruned by the start of their transaction", []suite{{postgres, "^TestChangesAreKeptAsLongAsAReaderMayNeedThem$"}}, []mutant.Edit{{
		postgres + "/sql_prunechanges.go", " AND pg_visible_in_snapshot(c.xid, s.snapshot)", "",
	}}},
	{"nobody notices that changes were pruned", []suite{{sqlite, "^TestAReadPositionCounts"}}, []mutant.Edit{{
		sqlite + "/changes.go", `if _, err := t.exec(ctx, sqlNotePruned, args...); err != nil {`, `if err := ctx.Err(); err != nil {`,
	}}},
	{"a run ends without its retry", []suite{contract(postgres, "retries"), contract(sqlite, "retries")}, []mutant.Edit{{
		postgres + "/end.go", "insertAttempts(ctx, tx, rows, attempts, now); err", "insertAttempts(ctx, tx, rows[:0], attempts, now); err",
	}, {
		sqlite + "/end.go", "insertAttempts(ctx, t, added, attempts, now); err", "insertAttempts(ctx, t, added[:0], attempts, now); err",
	}}},
	{"a run of a deleted schedule is retried", []suite{contract(postgres, "retries"), contract(sqlite, "retries")}, []mutant.Edit{{
		postgres + "/attempts.go", " AND s.deleted_at IS NULL", "",
	}, {
		sqlite + "/attempts.go", " AND s.deleted_at IS NULL", "",
	}}},
	{"a retry under replace does not see that a newer slot has run", []suite{contract(postgres, "retries"), contract(sqlite, "retries")}, []mutant.Edit{{
		postgres + "/changes.go", "l.claimed_at IS NOT NULL", "false",
	}, {
		sqlite + "/claim.go", "l.claimed_at IS NOT NULL", "0",
	}}},
	{"Begin does not read until when a retry may start", []suite{contract(postgres, "retries"), contract(sqlite, "retries")}, []mutant.Edit{{
		postgres + "/columns.go", `"trigger", "start_by", "retry_of", "input", "deliveries",`, `"trigger", "retry_of", "input", "deliveries",`,
	}, {
		sqlite + "/columns.go", `"trigger", "start_by", "retry_of", "input", "deliveries",`, `"trigger", "retry_of", "input", "deliveries",`,
	}}},
	{"a leader does not know which runs are automatic retries", []suite{contract(postgres, "retries"), contract(sqlite, "retries")}, []mutant.Edit{{
		postgres + "/open.go", `r.NoteRetry(schedule.Key(r.retryOf))`, `_ = r.retryOf`,
	}, {
		sqlite + "/open.go", `run.NoteRetry(schedule.Key(retryOf))`, `_ = retryOf`,
	}}},
	{"a run ends without a row in history", []suite{contract(postgres, "settle")}, []mutant.Edit{{
		postgres + "/end.go", "	for _, r := range rows {\n		columnsOfHistory.copied(c, r)\n	}\n", "",
	}}},
	{"a run ends without a row in history, on SQLite", []suite{contract(sqlite, "settle")}, []mutant.Edit{{
		sqlite + "/end.go", "inserted, err := t.exec(ctx, statement, args...)", "inserted, err := int64(n+0*len(statement)), ctx.Err()",
	}}},
	{"a run ends without a change", []suite{contract(postgres, "change_log")}, []mutant.Edit{{
		postgres + "/end.go", "return note(ctx, tx, changeEnd, rows)", "return note(ctx, tx, changeEnd, nil)",
	}}},
	{"a run ends without a change, on SQLite", []suite{contract(sqlite, "change_log")}, []mutant.Edit{{
		sqlite + "/end.go", "t.noteRun(runEnded, &r.Run)", "_ = r",
	}}},
	{"planned_until is ignored", []suite{contract(postgres, "plan")}, []mutant.Edit{{
		postgres + "/plan.go", "if !rows[i].RunAt.After(w.places[rows[i].ScheduleID].plannedUntil) {", "if false {",
	}}},
	{"planned_until is ignored, on SQLite", []suite{contract(sqlite, "plan")}, []mutant.Edit{{
		sqlite + "/plan.go", "return !r.RunAt.After(of[r.ScheduleID].plannedUntil)", "return false",
	}}},
	{"a plan does not raise planned_until", []suite{contract(postgres, "plan")}, []mutant.Edit{{
		postgres + "/plan.go", "planned_until = greatest(s.planned_until, u.planned_until)", "planned_until = coalesce(s.planned_until, now() - interval '100 years')",
	}}},
	{"a plan does not raise planned_until, on SQLite", []suite{contract(sqlite, "plan")}, []mutant.Edit{{
		sqlite + "/plan.go", "COALESCE(max(planned_until, ?7), planned_until, ?7)", "COALESCE(planned_until, min(?7, 0))",
	}}},
	{"a run under a slot's own key does not raise planned_until", []suite{contract(postgres, "plan")}, []mutant.Edit{{
		postgres + "/insert.go", "if len(own) > 0 {", "if len(own) < 0 {",
	}}},
	{"a run under a slot's own key does not raise planned_until, on SQLite", []suite{contract(sqlite, "plan")}, []mutant.Edit{{
		sqlite + "/insert.go", "if n := schedules[id]; n.plannedUntil.Before(until) {", "if n := schedules[id]; n.plannedUntil.After(until) {",
	}}},
	{"due_at is after fire_at", []suite{contract(postgres, "load")}, []mutant.Edit{{
		postgres + "/columns.go", "return timeOr(ledger.DueAt(&r.Run), pgtype.Infinity)", "return timeOr(ledger.DueAt(&r.Run).Add(time.Second), pgtype.Infinity)",
	}}},
	{"due_at is after fire_at, on SQLite", []suite{contract(sqlite, "load")}, []mutant.Edit{{
		sqlite + "/columns.go", "return dueAt(&r.Run)", "return min(dueAt(&r.Run), never-1_000_000) + 1_000_000",
	}}},
	{"a run that is accepted keeps its due_at", []suite{contract(postgres, "sweep")}, []mutant.Edit{{
		postgres + "/openrow.go", "due_at = least(o.due_at, u.due_at),", "due_at = coalesce(o.due_at, u.due_at),",
	}}},
	{"a run that is accepted keeps its due_at, on SQLite", []suite{contract(sqlite, "sweep")}, []mutant.Edit{{
		sqlite + "/end.go", "due_at = min(due_at, ?3),", "due_at = coalesce(due_at, ?3),",
	}}},
	{"the holder of a key is ignored", []suite{contract(postgres, "presence"), contract(sqlite, "presence")}, []mutant.Edit{{
		"internal/ledger/begin.go", "case f.held(known.Lease, now):", "case false:",
	}}},
	{"a holder that lives is overruled", []suite{contract(postgres, "presence"), contract(sqlite, "presence")}, []mutant.Edit{{
		"internal/ledger/begin.go", "return h != nil && h.LockFree && h.Generation", "return h != nil && h.Generation",
	}}},
	{"a lock that a restart has freed is a proof", []suite{contract(postgres, "presence"), contract(sqlite, "presence")}, []mutant.Edit{{
		"internal/ledger/begin.go", ` && h.Generation == h.ServerGeneration`, ``,
	}}},
	{"a lock that was not taken yet is a proof", []suite{contract(postgres, "presence")}, []mutant.Edit{{
		"internal/ledger/begin.go", ` && h.Generation != "" && h.Generation == h.ServerGeneration`, ` && (h.Generation == "" || h.Generation == h.ServerGeneration)`,
	}}},
	{"a process that registers again keeps its number", []suite{contract(postgres, "presence$/^a_process_that_registers_again.*")}, []mutant.Edit{{
		postgres + "/sql_instances.go", "SET instance_no = DEFAULT, server_generation", "SET server_generation",
	}}},
	{"a lost presence lock is not noticed by calls that are to begin", []suite{{presence, "^TestAKeyRecordedBeforeTheLoss"}}, []mutant.Edit{{
		"launcher/call.go", " || !s.presence.Holds(s.lease.holder.Load()) {", " {",
	}}},
	{"keys are recorded without a presence lock", []suite{{presence, "^TestAProcessWithoutItsLockBeginsNoCall$"}}, []mutant.Edit{{
		"launcher/begin.go", "holder, err := l.presence.Await(ctx)", "holder, err := int32(0), ctx.Err()",
	}, {
		"launcher/call.go", " || !s.presence.Holds(s.lease.holder.Load()) {", " {",
	}}},
	{"max_in_flight of a queue is counted before the lock", []suite{contract(postgres, "admit$/^of_eight_that_admit_at_one_instant.*")}, []mutant.Edit{{
		postgres + "/admit.go", `		if err := tx.QueryRow(ctx, sqlTryQueue, req.QueueNo).Scan(&visit); err != nil || !visit.Valid {
			return err
		}
		out.Alone = true
		facts, first, err := dialect.ReadAdmission(ctx, queries{tx}, &req, s.fronts.admission(req.QueueNo, visit.Int64))
`, `		facts, first, err := dialect.ReadAdmission(ctx, queries{tx}, &req, s.fronts.admission(req.QueueNo, visit.Int64))
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, sqlTryQueue, req.QueueNo).Scan(&visit); err != nil || !visit.Valid {
			return err
		}
		out.Alone = true
`,
	}}},
	{"the end of a reservation keeps its uses of limits", []suite{contract(postgres, "reservations"), contract(sqlite, "reservations")}, []mutant.Edit{{
		"internal/store/tables/reservations.go", `r.Granted() && r.Limits != "" {`, `r.Granted() && r.Limits == "" {`,
	}}},
	{"entries under one unique key are not kept apart", []suite{contract(postgres, "unique")}, []mutant.Edit{{
		postgres + "/tables.go", "LockUniques: sqlLockUniques, ", "",
	}}},
	{"an entry does not hold the run of its unique key", []suite{contract(postgres, "unique")}, []mutant.Edit{{
		postgres + "/queued.go", "	rows, err := lockKeys(ctx, tx, keys)\n", "	rows, err := lockOpen(ctx, tx, strings.ReplaceAll(sqlLockKeys, \"FOR UPDATE OF o\", \"\"), keyBytes(keys))\n",
	}, {
		postgres + "/queued.go", "	\"fmt\"\n", "	\"fmt\"\n	\"strings\"\n",
	}}},
	{"the end of a run gives its unique key away although another run has taken it", []suite{contract(postgres, "unique"), contract(sqlite, "unique")}, []mutant.Edit{{
		"internal/store/tables/uniques.go", "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)\nON CONFLICT (queue_no, hash) DO UPDATE SET run_key = excluded.run_key,", "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)\nON CONFLICT (queue_no, hash) DO UPDATE SET",
	}}},
	{"the retry of a run does not hold its unique key", []suite{contract(postgres, "unique"), contract(sqlite, "unique")}, []mutant.Edit{{
		"internal/store/tables/uniques.go", "case after.RunKey != h.RunKey:", "case false:",
	}}},
	{"a unique key that is held is pruned", []suite{contract(postgres, "unique"), contract(sqlite, "unique")}, []mutant.Edit{{
		"internal/store/tables/uniques.go", "WHERE until < $1 ORDER BY until LIMIT $2)", "WHERE until > $1 ORDER BY until LIMIT $2)",
	}}},
	{"an admission does not see the reservations of its queue", []suite{contract(postgres, "reservations"), contract(sqlite, "reservations")}, []mutant.Edit{{
		postgres + "/sql_queues.go", `EXISTS (SELECT 1 FROM reservations r WHERE r.queue_no = $1)`, `EXISTS (SELECT 1 FROM reservations r WHERE r.queue_no = -$1)`,
	}, {
		sqlite + "/sql_queues.go", `EXISTS (SELECT 1 FROM reservations r WHERE r.queue_no = ?1)`, `EXISTS (SELECT 1 FROM reservations r WHERE r.queue_no = -?1)`,
	}}},
	{"the runs of a process that is gone wait for their leases", []suite{contract(postgres, "sweep_of_queues")}, []mutant.Edit{{
		"internal/store/postgres/admit.go", "freeOfGone(ctx, tx, req.Now); err != nil {", "freeOfGone(ctx, tx, req.Now.Add(time.Hour)); err != nil {",
	}}},
	{"the runs of a process that is gone wait for their leases, on SQLite", []suite{contract(sqlite, "sweep_of_queues")}, []mutant.Edit{{
		"internal/store/sqlite/admit.go", "s.freeOfGone(ctx, t, req.Now); err != nil {", "s.freeOfGone(ctx, t, req.Now.Add(time.Hour)); err != nil {",
	}}},
	{"a sweep frees the keys of processes that live", []suite{contract(postgres, "sweep_of_queues")}, []mutant.Edit{{
		"internal/store/postgres/instances.go", "		if h.Gone() {\n			gone = append(gone, h.No)", "		if h.No != 0 {\n			gone = append(gone, h.No)",
	}}},
	{"a sweep ends reservations that are not over", []suite{contract(postgres, "reservations"), contract(sqlite, "reservations")}, []mutant.Edit{{
		"internal/store/tables/reservations.go", `if r := &found[i]; r.Over(req.Now) {`, `if r := &found[i]; !r.Over(req.Now) {`,
	}}},
	{"the positions of a queue are ignored", []suite{contract(postgres, "admit"), contract(sqlite, "admit")}, []mutant.Edit{{
		postgres + "/fronts.go", "o.position_key, o.idempotency_key LIMIT $2 FOR UPDATE", "o.idempotency_key LIMIT $2 FOR UPDATE",
	}, {
		sqlite + "/sql_queues.go", "o.position_key, o.idempotency_key LIMIT ?2`", "o.idempotency_key LIMIT ?2`",
	}}},
	{"a filter is read and not used", []suite{contract(sqlite, "events")}, []mutant.Edit{{
		"internal/topic/publish.go", "append(r.Fresh, i), f.matching(e, of)", "append(r.Fresh, i), of",
	}}},
	{"a publisher does not lock the wake row", []suite{contract(postgres, "events")}, []mutant.Edit{{
		postgres + "/sql_events.go", "ON CONFLICT (sid) DO UPDATE SET fire_at = least(wakes.fire_at, excluded.fire_at), bucket = excluded.bucket WHERE wakes.fire_at > excluded.fire_at OR wakes.bucket <> excluded.bucket RETURNING sid`", "ON CONFLICT (sid) DO NOTHING RETURNING sid`",
	}}},
	{"the end of a run does not wake its consumer", []suite{contract(postgres, "events"), contract(sqlite, "events")}, []mutant.Edit{{
		"internal/store/tables/take.go", "if t.At = end.WakeAt; !t.At.IsZero() {", "if t.At = end.WakeAt; t.At.Year() == 2 {",
	}}},
	{"the next attempt does not get the events", []suite{contract(postgres, "events"), contract(sqlite, "events")}, []mutant.Edit{{
		"internal/store/tables/take.go", "{sqlPassEvents, []any{key, end.Next, end.Failed}}", "{sqlPassEvents, []any{end.Next, end.Next, end.Failed}}",
	}}},
	{"a new schedule gets the events of a deleted one", []suite{contract(postgres, "events"), contract(sqlite, "events")}, []mutant.Edit{{
		"internal/store/tables/publish.go", "append(calls, of...); again {", "append(calls, of...); false {",
	}}},
	{"a run that fails commits its state and its events", []suite{contract(sqlite, "commits")}, []mutant.Edit{{
		"internal/ledger/end.go", "if r.Status != schedule.StatusSuccess {\n\t\treturn nil", "if r.Status == schedule.StatusPlanned {\n\t\treturn nil",
	}}},
	{"the events of a run do not wake their consumers", []suite{contract(postgres, "commits"), contract(sqlite, "commits")}, []mutant.Edit{{
		"internal/store/tables/take.go", "slices.Concat(published, freed)", "slices.Concat(published[:0], freed)",
	}}},
	{"the events of a run do not count the hops before it", []suite{contract(sqlite, "commits")}, []mutant.Edit{{
		"internal/topic/commit.go", "Hops: hops + 1", "Hops: min(hops+1, 1)",
	}}},
	{"a new schedule gets the state of a deleted one", []suite{contract(sqlite, "commits")}, []mutant.Edit{{
		"internal/store/tables/publish.go", "again := c.Created && existed(c.ScheduleID)\n\t\tif again {", "again := c.Created && existed(c.ScheduleID)\n\t\tif false {",
	}}},
	{"waiting slots go before a consumer", []suite{contract(postgres, "events"), contract(sqlite, "events")}, []mutant.Edit{{
		"internal/ledger/judge.go", "|| j.isLookedAtFirst(g) {", "|| false {",
	}}},
	{"an end keeps the uses of its run", []suite{contract(postgres, "limit_uses"), contract(sqlite, "limit_uses")}, []mutant.Edit{{
		postgres + "/end.go", "dialect.SettleUses(ctx, queries{tx}, passes, len(over), ", "dialect.SettleUses(ctx, queries{tx}, passes, 0, ",
	}, {
		sqlite + "/end.go", "dialect.SettleUses(ctx, queries{t}, passes, len(rows), ", "dialect.SettleUses(ctx, queries{t}, passes, 0, ",
	}}},
	{"a run that waits again keeps its uses", []suite{contract(postgres, "limit_uses"), contract(sqlite, "limit_uses")}, []mutant.Edit{{
		postgres + "/admit.go", "dialect.FreeUses(ctx, queries{tx}, len(moved), ", "dialect.FreeUses(ctx, queries{tx}, 0, ",
	}, {
		sqlite + "/admit.go", "dialect.FreeUses(ctx, queries{t}, len(freed), ", "dialect.FreeUses(ctx, queries{t}, 0, ",
	}}},
	{"the use of an ordered limit is not passed to the retry", []suite{contract(postgres, "ordered_limits"), contract(sqlite, "ordered_limits")}, []mutant.Edit{{
		"internal/store/tables/uses.go", "calls := make([]Call, len(passes))\n	for i, p := range passes {", "calls := make([]Call, 0)\n	for i, p := range passes[:0] {",
	}}},
	{"a run that keeps a limit is read among the others of its set", []suite{contract(postgres, "ordered_limits"), contract(sqlite, "ordered_limits")}, []mutant.Edit{{
		"internal/store/tables/admit.go", "		f.AddKeeping(keeping[i].run())\n", "		_ = i\n",
	}, {
		postgres + "/sql_limits.go", "o.limits <= s.limits AND o.kept_limits IS NULL", "o.limits <= s.limits",
	}, {
		sqlite + "/sql_limits.go", "i.limits = j.value ->> 0 AND i.kept_limits IS NULL", "i.limits = j.value ->> 0",
	}}},
	{"limits are not locked", []suite{contract(postgres, "limit_uses$/^of_eight.*")}, []mutant.Edit{{
		"internal/store/tables/limits.go", `		if lock && d.LockLimits != "" {`, `		if !lock && d.LockLimits != "" {`,
	}}},
	{"the rate of a limit is not written", []suite{contract(postgres, "rates"), contract(sqlite, "rates")}, []mutant.Edit{{
		"internal/store/tables/uses.go", "range out.Starts {", "range out.Starts[:0] {",
	}}},
	{"a run with limits that comes between two reads is admitted as a plain one", []suite{contract(postgres, "admit$/^a_run_with_limits.*")}, []mutant.Edit{{
		"internal/ledger/admission.go", `if r.Queue.Limits != "" {`, `if r.Queue.Limits == "/" {`,
	}}},
	{"a sweep that is repeated keeps what the first attempt has found", []suite{contract(postgres, "sweep_of_queues$/^a_sweep_that_is_repeated.*")}, []mutant.Edit{{
		postgres + "/admit.go", "		out = ledger.SweptQueues{}\n", "",
	}}},
	{"a visit forgets what is in flight longer", []suite{contract(postgres, "admit")}, []mutant.Edit{{
		postgres + "/admit.go", "if facts.InFlight == 0 {\n\t\t\tfirst", "if facts.InFlight >= 0 {\n\t\t\tfirst",
	}}},
	{"a run that is put before others is not noticed", []suite{{postgres, "^TestQueuesKeepTheContractWhereReadsFromTheirFrontsAreSlow$"}}, []mutant.Edit{{
		postgres + "/fronts.go", "if w.position > position || ", "if w.position > position && ",
	}}},
	{"a front moves behind a run that stays", []suite{{postgres, "^TestQueuesKeepTheContractWhereReadsFromTheirFrontsAreSlow$"}}, []mutant.Edit{{
		postgres + "/fronts.go", "stays[priority] || !left[r.Key]", "stays[priority] && !left[r.Key]",
	}}},
	{"fronts are never read again", []suite{{postgres, "^TestQueuesKeepTheContractWhereAnotherProcessReadsTheirFrontsAgain$"}}, []mutant.Edit{{
		postgres + "/fronts.go", "s.known() && time.Now().Before(s.fullAt)", "s.known()",
	}}},
	{"only known priorities are read", []suite{{postgres, "^TestQueuesKeepTheContractWhereReadsFromTheirFrontsAreSlow$"}}, []mutant.Edit{{
		postgres + "/fronts.go", "return rows, lock(sqlLockWaitingBetween, above, int32(math.MaxInt32))", "return rows, nil",
	}}},
	{"the pause of a queue is not read", []suite{contract(postgres, "admit"), contract(sqlite, "admit")}, []mutant.Edit{{
		"internal/store/tables/admit.go", "	f.Stall.QueueNo = queueNo\n", "	f.Stall.QueueNo = queueNo\n\tf.Queue.Pause = schedule.Pause{}\n",
	}}},
	{"a run that waits again loses its place", []suite{contract(postgres, "put_back"), contract(sqlite, "put_back")}, []mutant.Edit{{
		postgres + "/admit.go", "SET queue_state = u.queue_state, ", "SET queue_state = u.queue_state, position_key = nextval('queue_positions') * 65536, ",
	}, {
		sqlite + "/sql_queues.go", "SET queue_state = ?2, fire_at", "SET queue_state = ?2, position_key = position_key + 1048576, fire_at",
	}}},
	{"a cancel of many runs does not lock those that it has found", []suite{contract(postgres, "cancels$/^runs_that_are_admitted.*")}, []mutant.Edit{{
		postgres + "/cancel.go", "	rows, err := lockKeys(ctx, tx, keys)\n", "	rows, err := lockOpen(ctx, tx, strings.ReplaceAll(sqlLockKeys, \"FOR UPDATE OF o\", \"\"), keyBytes(keys))\n	_, _ = tx.Exec(ctx, `SELECT pg_sleep(0.05)`)\n",
	}, {
		postgres + "/cancel.go", "	\"fmt\"\n", "	\"fmt\"\n	\"strings\"\n",
	}}},
	{"a cancel of many runs reads those that have ended", []suite{contract(postgres, "cancels"), contract(sqlite, "cancels")}, []mutant.Edit{{
		postgres + "/cancel.go", "f.Statuses = schedule.OpenStatuses", "f.Statuses = append(schedule.OpenStatuses, schedule.StatusSuccess)",
	}, {
		sqlite + "/cancel.go", "f.Statuses = schedule.OpenStatuses", "f.Statuses = append(schedule.OpenStatuses, schedule.StatusSuccess)",
	}}},
	{"a cancel of many runs does not ask", []suite{contract(postgres, "cancels"), contract(sqlite, "cancels")}, []mutant.Edit{{
		postgres + "/cancel.go", "range change.Ask {", "range change.Ask[:0] {",
	}, {
		sqlite + "/cancel.go", "range change.Ask {", "range change.Ask[:0] {",
	}}},
	{"a cancel of many runs has no event", []suite{contract(postgres, "cancels"), contract(sqlite, "cancels")}, []mutant.Edit{{
		postgres + "/cancel.go", "insertEvents(ctx, tx, change.Events)", "insertEvents(ctx, tx, change.Events[:0])",
	}, {
		sqlite + "/cancel.go", `t.insertEvents(ctx, "", change.Events, change.Now)`, `t.insertEvents(ctx, "", change.Events[:0], change.Now)`,
	}}},
	{"a cancel replaces the first request of a run", []suite{contract(postgres, "cancels"), contract(sqlite, "cancels")}, []mutant.Edit{{
		postgres + "/sql_runs.go", "WHERE idempotency_key = $1 AND cancel_requested_at IS NULL AND", "WHERE idempotency_key = $1 AND",
	}, {
		sqlite + "/sql_runs.go", "WHERE idempotency_key = ?3 AND cancel_requested_at IS NULL AND", "WHERE idempotency_key = ?3 AND",
	}}},
	{"a cancel of many runs ends none", []suite{contract(postgres, "cancels"), contract(sqlite, "cancels")}, []mutant.Edit{{
		postgres + "/cancel.go", "settleAll(ctx, tx, change.Now, change.End)", "settleAll(ctx, tx, change.Now, change.End[:0])",
	}, {
		sqlite + "/cancel.go", "settle(ctx, t, change.End, change.Now)", "settle(ctx, t, change.End[:0], change.Now)",
	}}},
	{"the id of a request is ignored", []suite{contract(postgres, "enqueue$/^the_same_request.*"), contract(sqlite, "enqueue$/^the_same_request.*")}, []mutant.Edit{{
		"internal/store/tables/enqueue.go", `if facts.Queue != nil && req.RequestID != "" {`, `if facts.Queue != nil && req.RequestID == "/" {`,
	}}},
}

// TestSeededBugsOfTheStoresAreFound: with each of these bugs in the source, a test fails
// that otherwise passes.
func TestSeededBugsOfTheStoresAreFound(t *testing.T) {
	if !*build {
		t.Skip("make store-mutants")
	}
	var sound []suite
	for _, m := range storeMutants {
		for _, s := range m.suites {
			if !slices.Contains(sound, s) {
				sound = append(sound, s)
			}
		}
	}
	t.Run("none", func(t *testing.T) {
		for _, s := range sound {
			if out, err := s.test(t, nil); err != nil {
				t.Errorf("%s of %s fails without a bug: %v\n%s", s.run, s.pkg, err, out)
			}
		}
	})
	for _, m := range storeMutants {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			for _, s := range m.suites {
				began := time.Now()
				out, err := s.test(t, m.edits)
				if err == nil {
					t.Errorf("not found by %s of %s", s.run, s.pkg)
					continue
				}
				t.Logf("found by %s after %.1f s", firstFailure(out), time.Since(began).Seconds())
			}
		})
	}
}

// TestSeededBugsOfTheStoresFit: each bug has its place in the source as it is now.
func TestSeededBugsOfTheStoresFit(t *testing.T) {
	for _, m := range storeMutants {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			if _, err := mutant.Overlay(root, t.TempDir(), m.edits); err != nil {
				t.Error(err)
			}
		})
	}
}

// test builds the tests of the package with a bug and runs the suite.
func (s suite) test(t *testing.T, edits []mutant.Edit) (out string, failed error) {
	t.Helper()
	dir := t.TempDir()
	overlay, err := mutant.Overlay(root, dir, edits)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "store.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-buildvcs=false", "-overlay", overlay, "-o", binary, "./"+s.pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd = exec.CommandContext(t.Context(), binary, "-test.run", s.run, "-test.v", "-test.failfast", "-test.timeout", "5m")
	cmd.Dir = filepath.Join(root, s.pkg)
	text, err := cmd.CombinedOutput()
	if ran := strings.Contains(string(text), "--- PASS") || strings.Contains(string(text), "--- FAIL"); err == nil && !ran {
		t.Fatalf("%s ran no test of %s:\n%s", s.run, s.pkg, text)
	}
	return string(text), err
}

var failure = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// firstFailure is the innermost of the tests that failed first.
func firstFailure(out string) string {
	all := failure.FindAllStringSubmatch(out, -1)
	if len(all) == 0 {
		return "a crash: " + out[max(0, len(out)-500):]
	}
	found := all[0][1]
	for _, m := range all {
		if strings.HasPrefix(m[1], found+"/") {
			found = m[1]
		}
	}
	return found
}
