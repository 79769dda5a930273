package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var results = []check{
	{"a result comes back as the answer that ended its run brought it", resultOfAnswer},
	{"a result comes back as the report that ended its run brought it, with exit code and URL", resultOfReport},
	{"a run that is open has no result, and neither has one that ended without", resultMissing},
	{"why a result was refused is kept in its place", resultRefused},
	{"what is answered or reported after the end changes neither the run nor its result", resultFinal},
	{"of answers at the same time the one that ends the run brings its result", resultRace},
	{"a retry has a result of its own", resultOfRetry},
	{"results are pruned once they expire, in chunks", resultsPruned},
	{"the database refuses every change of a run that has ended", endedBySQL},
	{"the database takes that a dead run is retried by hand and that a report was late, once each", endedNotes},
}

// brought is a result with every field.
func (r *rig) brought(text string) *schedule.RunResult {
	return &schedule.RunResult{
		Result:    []byte(`{"` + text + `": [1.50, "ü"]}`),
		Artifacts: []schedule.Artifact{{Name: "größe " + text, URL: "s3://bucket/x", Bytes: schedule.MaxArtifactSize, SHA256: strings.Repeat("0a", 32)}, {Name: "second"}},
		Problem:   "result has 70000 bytes", ExpiresAt: odd(7),
	}
}

func (r *rig) result(key schedule.Key) *schedule.RunResult {
	r.Helper()
	got, err := r.RunResult(r.ctx, key)
	r.ok(err, "read a result")
	return got
}

func (r *rig) hasResult(key schedule.Key, want *schedule.RunResult) {
	r.Helper()
	got := r.result(key)
	r.hold(got != nil, "it has a result")
	equal(r, "result", *got, stored(*want))
	r.inUTC("RunResult", *got)
}

// answered ends a run by the executor's answer.
func (r *rig) answered(key schedule.Key, o schedule.Outcome) schedule.Finished {
	r.Helper()
	done, err := r.Finish(r.ctx, []schedule.FinishRequest{{Key: key, Outcome: o, LaunchedAt: r.now}}, r.now)
	r.ok(err, "finish")
	return done[0]
}

func resultOfAnswer(r *rig) {
	r.lead()
	run := r.bring(r.slot(r.create("answer"), r.at(-time.Second)), schedule.StatusLaunching)
	want := r.brought("answer")
	r.answered(run.Key, schedule.Outcome{Status: schedule.StatusSuccess, ExitCode: new(int32(0)), Result: want})
	r.hasResult(run.Key, want)
	got := r.ledger(run.Key)
	r.hold(got.Status == schedule.StatusSuccess && got.ExitCode != nil && *got.ExitCode == 0, "it succeeded with exit code 0, got %+v", got)
}

func resultOfReport(r *rig) {
	run := r.begunRun("report")
	r.reported(run.Key, schedule.StatusStarted, schedule.RunReport{ExitCode: new(int32(1)), LogURL: "https://logs.example/1"})
	want := r.brought("report")
	got, moved := r.report(schedule.Settlement{Key: run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, CompletedAt: r.now, ExitCode: new(int32(3)), Result: want})
	r.hold(moved && got.ExitCode != nil && *got.ExitCode == 3 && got.LogURL == "https://logs.example/1", "the end names the exit code, the URL stays, got %+v", got)
	r.hasResult(run.Key, want)
	r.everyView(run.Key, func(view string, seen schedule.Run) { equal(r, view, seen, got) })
}

func resultMissing(r *rig) {
	run := r.begunRun("missing")
	r.hold(r.result(run.Key) == nil, "an open run has none")
	r.report(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess, CompletedAt: r.now})
	r.hold(r.result(run.Key) == nil, "its end brought none")
	r.hold(r.result(schedule.ManualKey("s", "nobody")) == nil, "a run that does not exist has none")
}

func resultRefused(r *rig) {
	run := r.begunRun("refused")
	want := &schedule.RunResult{Problem: "result has 70000 bytes, more than 65536: it was not kept", ExpiresAt: odd(3)}
	r.report(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess, CompletedAt: r.now, Result: want})
	r.hasResult(run.Key, want)
	r.hold(r.ledger(run.Key).Status == schedule.StatusSuccess, "the end is kept")
}

func resultFinal(r *rig) {
	run := r.begunRun("final")
	want := r.brought("first")
	r.report(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess, CompletedAt: r.now, ExitCode: new(int32(0)), Result: want})
	before := r.ledger(run.Key)
	r.now = r.at(time.Second)
	_, moved := r.report(schedule.Settlement{Key: run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, CompletedAt: r.now, ExitCode: new(int32(1)), LogURL: "https://late", Result: r.brought("late")})
	r.hold(!moved, "a report does not move it")
	r.changeRun(run.Key, func(schedule.RunInput) schedule.RunChange {
		return schedule.RunChange{LateReport: schedule.StatusFailed, Report: &schedule.RunReport{ExitCode: new(int32(1)), LogURL: "https://late", Output: "late\n"}}
	})
	done := r.answered(run.Key, schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, ExitCode: new(int32(2)), Result: r.brought("answer")})
	r.hold(done.Outcome.Status == schedule.StatusSuccess && !done.Settled, "the end counts, got %+v", done)
	equal(r, "the run", r.ledger(run.Key), before)
	r.hasResult(run.Key, want)
	r.hold(len(r.log(schedule.RunLogQuery{Key: run.Key})) == 1, "the output of a late report is kept")
}

func resultRace(r *rig) {
	r.lead()
	s := r.create("race")
	for n := range 20 {
		run := r.bring(r.slot(s, r.at(-time.Duration(n+1)*time.Second)), schedule.StatusLaunching)
		settled := make([]bool, 4)
		r.crowd(len(settled), func(i int) {
			done, err := r.Finish(r.ctx, []schedule.FinishRequest{{Key: run.Key, LaunchedAt: r.now, Outcome: schedule.Outcome{
				Status: schedule.StatusSuccess, ExitCode: new(int32(i)), Result: &schedule.RunResult{Result: fmt.Appendf(nil, "%d", i), ExpiresAt: odd(1)},
			}}}, r.now)
			if err != nil {
				r.Errorf("finish: %v", err)
				return
			}
			settled[i] = done[0].Settled
		})
		ended := -1
		for i, so := range settled {
			r.hold(!so || ended < 0, "one answer ends it, got %v", settled)
			if so {
				ended = i
			}
		}
		got := r.ledger(run.Key)
		r.hold(ended >= 0 && got.ExitCode != nil && int(*got.ExitCode) == ended, "answer %d ended it, and its exit code is %v", ended, got.ExitCode)
		r.hold(string(r.result(run.Key).Result) == fmt.Sprint(ended), "its result is that of answer %d", ended)
	}
}

func resultOfRetry(r *rig) {
	r.lead()
	s := r.retrying("again")
	want := r.brought("first")
	run := r.failed(s, func(e *schedule.Settlement) { e.ExitCode, e.LogURL, e.Result = new(int32(1)), "https://one", want })
	next := r.next(run)
	r.hold(next.ExitCode == nil && next.LogURL == "" && r.result(next.Key) == nil, "the retry begins without, got %+v", next)
	r.hasResult(run.Key, want)
}

func resultsPruned(r *rig) {
	r.lead()
	s := r.create("prune")
	var keys []schedule.Key
	for n := range 5 {
		run := r.bring(r.slot(s, r.at(-time.Duration(n+1)*time.Second)), schedule.StatusStarted)
		r.report(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess, CompletedAt: r.now, Result: r.brought("x").Until(r.at(time.Duration(n) * time.Hour))})
		keys = append(keys, run.Key)
	}
	total := 0
	for {
		n, err := r.PruneRunResults(r.ctx, r.at(3*time.Hour), 2)
		r.ok(err, "prune results")
		r.hold(n <= 2, "a chunk has two, got %d", n)
		if n == 0 {
			break
		}
		total += n
	}
	r.hold(total == 3, "three have expired, got %d", total)
	for n, key := range keys {
		r.hold((r.result(key) == nil) == (n < 3), "the result of run %d is kept: %t", n, r.result(key) != nil)
		r.hold(r.ledger(key).Status == schedule.StatusSuccess, "its run is kept")
	}
}

// endedColumns are the columns of ended_runs, and some instant for those that hold one.
func (r *rig) endedColumns() (names []string, instant string) {
	instant = "now()"
	rows, err := r.probe(`SELECT column_name FROM information_schema.columns WHERE table_name = 'ended_runs'`)
	if err != nil {
		rows, err = r.probe(`SELECT name FROM pragma_table_info('ended_runs')`)
		instant = "1"
	}
	r.ok(err, "read the columns")
	for _, row := range rows {
		names = append(names, row[0])
	}
	return names, instant
}

// endedRun is a run in history that is dead, and sets its columns by SQL.
func (r *rig) endedRun() (run schedule.Run, set func(column, value string) error) {
	r.lead()
	run = r.bring(r.slot(r.create("sql"), r.at(-time.Second)), schedule.StatusStarted)
	run, _ = r.report(schedule.Settlement{Key: run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, CompletedAt: r.now})
	r.hold(run.IsDead(), "it is dead")
	return run, func(column, value string) error {
		_, err := r.probe(fmt.Sprintf("UPDATE ended_runs SET %s = %s WHERE run_id IS NULL", column, value))
		return err
	}
}

func endedBySQL(r *rig) {
	run, set := r.endedRun()
	before := r.ledger(run.Key)
	columns, instant := r.endedColumns()
	r.hold(len(columns) > 40, "ended_runs has many columns, got %d", len(columns))
	for _, c := range columns {
		rows, err := r.probe(fmt.Sprintf("SELECT CASE WHEN %s IS NULL THEN 'none' ELSE 'some' END FROM ended_runs", c))
		r.ok(err, "read "+c)
		value := "NULL"
		switch {
		case c == "late_reports":
			r.ok(set(c, "3"), "two late reports")
			value = "1"
		case rows[0][0] == "none" && strings.HasSuffix(c, "_at"):
			value = instant
		case rows[0][0] == "none" && c == "retry_of":
			value = "idempotency_key"
		case rows[0][0] == "none":
			value = "'1'"
		}
		err = set(c, value)
		r.hold(err != nil && strings.Contains(err.Error(), "ended_runs: "), "%s = %s is refused, got %v", c, value, err)
	}
	equal(r, "the run", r.ledger(run.Key), before)
}

func endedNotes(r *rig) {
	run, set := r.endedRun()
	r.ok(set("late_reports", "2"), "a late report")
	r.ok(set("late_reports", "6"), "another one")
	r.hold(set("late_reports", "2") != nil, "a report that was noted stays")
	r.ok(set("dead", "(1 = 0)"), "it is retried by hand")
	after := r.ledger(run.Key)
	r.hold(!after.IsDead(), "it is no longer dead")
	for _, value := range []string{"(1 = 1)", "NULL"} {
		err := set("dead", value)
		r.hold(err != nil && strings.Contains(err.Error(), "ended_runs: dead"), "dead = %s is refused, got %v", value, err)
	}
}
