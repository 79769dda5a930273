package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var runLogs = []check{
	{"parts come back as they were written, in their order, by page and by step", logSurvives},
	{"a part that is written twice stays as it is", logRepeats},
	{"a part that was dropped shows as a gap, wherever a page begins", logGaps},
	{"parts are pruned by their age, in chunks", logPruned},
	{"a report's output replaces the one before, behind all other parts", reportedOutput},
	{"exit code, URL and progress of a report stay until another one names them, and progress ends with the run", reportedFacts},
	{"the first late report of a status brings its output, the next one does not", lateOutput},
	{"a report that moves nothing writes nothing", noOutput},
}

func (r *rig) part(seq int64, step, text string, from int64) schedule.LogPart {
	return schedule.LogPart{Seq: seq, Step: step, WrittenAt: odd(int(seq)), From: from, To: from + int64(len(text)), Text: text}
}

func (r *rig) appendLog(key schedule.Key, drop []int64, parts ...schedule.LogPart) {
	r.Helper()
	r.ok(r.AppendRunLog(r.ctx, schedule.RunLogAppend{Key: key, Parts: parts, Drop: drop}), "append to a log")
}

func (r *rig) log(q schedule.RunLogQuery) []schedule.LogPart {
	r.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	parts, err := r.ReadRunLog(r.ctx, q)
	r.ok(err, "read a log")
	return parts
}

func logSurvives(r *rig) {
	key := schedule.ManualKey("s", "log")
	a, b, c := r.part(1, "one", "größer\n", 0), r.part(2, "two", "x\ty\n", 0), r.part(3, "one", "last\n", 8)
	for _, p := range []*schedule.LogPart{&a, &b, &c} {
		p.WrittenAt = stored(p.WrittenAt)
	}
	r.appendLog(key, nil, a, b)
	r.appendLog(key, nil, c)
	equal(r, "all", r.log(schedule.RunLogQuery{Key: key}), []schedule.LogPart{a, b, c})
	equal(r, "of a step", r.log(schedule.RunLogQuery{Key: key, Step: "one"}), []schedule.LogPart{a, c})
	equal(r, "behind the first", r.log(schedule.RunLogQuery{Key: key, After: 1, Limit: 1}), []schedule.LogPart{b})
	equal(r, "the last two", r.log(schedule.RunLogQuery{Key: key, Last: true, Limit: 2}), []schedule.LogPart{b, c})
	equal(r, "of another run", r.log(schedule.RunLogQuery{Key: schedule.ManualKey("s", "other")}), nil)
	r.inUTC("LogPart", a)
}

func logRepeats(r *rig) {
	key := schedule.ManualKey("s", "twice")
	r.appendLog(key, nil, r.part(1, "one", "first\n", 0))
	r.appendLog(key, nil, r.part(1, "one", "again\n", 0), r.part(2, "one", "more\n", 6))
	parts := r.log(schedule.RunLogQuery{Key: key})
	r.hold(len(parts) == 2 && parts[0].Text == "first\n", "the first stays, got %+v", parts)
}

func logGaps(r *rig) {
	key := schedule.ManualKey("s", "gaps")
	r.appendLog(key, nil, r.part(1, "one", "12345\n", 0), r.part(2, "two", "abc\n", 0), r.part(3, "one", "67\n", 6), r.part(4, "one", "8\n", 9))
	r.appendLog(key, []int64{1}, r.part(5, "one", "9\n", 111))
	skipped := func(q schedule.RunLogQuery) (all []int64) {
		for _, p := range r.log(q) {
			all = append(all, p.Skipped)
		}
		return all
	}
	equal(r, "gaps", skipped(schedule.RunLogQuery{Key: key}), []int64{0, 6, 0, 100})
	equal(r, "gaps of a step", skipped(schedule.RunLogQuery{Key: key, Step: "one"}), []int64{6, 0, 100})
	equal(r, "gaps behind a part", skipped(schedule.RunLogQuery{Key: key, After: 4}), []int64{100})
	equal(r, "gaps of the last part", skipped(schedule.RunLogQuery{Key: key, Last: true, Limit: 1}), []int64{100})
}

func logPruned(r *rig) {
	key := schedule.ManualKey("s", "old")
	var parts []schedule.LogPart
	for i := range int64(5) {
		p := r.part(i+1, "one", "x", i)
		p.WrittenAt = r.at(time.Duration(i) * time.Hour)
		parts = append(parts, p)
	}
	r.appendLog(key, nil, parts...)
	total := 0
	for {
		n, err := r.PruneRunLogs(r.ctx, r.at(3*time.Hour), 2)
		r.ok(err, "prune logs")
		r.hold(n <= 2, "a chunk has two, got %d", n)
		if n == 0 {
			break
		}
		total += n
	}
	r.hold(total == 3, "three are older, got %d", total)
	equal(r, "what is left", len(r.log(schedule.RunLogQuery{Key: key})), 2)
}

// reported applies a report of a run that was started.
func (r *rig) reported(key schedule.Key, status schedule.Status, report schedule.RunReport) schedule.Run {
	r.Helper()
	run, _ := r.changeRun(key, func(schedule.RunInput) schedule.RunChange {
		return schedule.RunChange{Settle: &schedule.Settlement{Key: key, To: status}, Report: &report}
	})
	return run
}

func (r *rig) begunRun(name string) schedule.Run {
	r.Helper()
	r.lead()
	return r.bring(r.slot(r.create(name), r.at(-time.Second)), schedule.StatusStarted)
}

func reportedOutput(r *rig) {
	run := r.begunRun("output")
	r.reported(run.Key, schedule.StatusStarted, schedule.RunReport{Output: "half\n"})
	first := r.log(schedule.RunLogQuery{Key: run.Key})
	r.hold(len(first) == 1 && first[0].Step == "" && first[0].Text == "half\n" && first[0].WrittenAt.Equal(r.now), "the output is a part without a step, got %+v", first)
	r.reported(run.Key, schedule.StatusFailed, schedule.RunReport{Output: "whole\n", OutputCut: 7})
	parts := r.log(schedule.RunLogQuery{Key: run.Key, After: first[0].Seq})
	r.hold(len(parts) == 1 && parts[0].Text == "whole\n" && parts[0].Skipped == 7, "a reader finds the new one behind the old, got %+v", parts)
	equal(r, "parts", len(r.log(schedule.RunLogQuery{Key: run.Key})), 1)
}

func reportedFacts(r *rig) {
	run := r.begunRun("facts")
	r.hold(run.ExitCode == nil && run.LogURL == "", "a run has neither before, got %+v", run)
	run = r.reported(run.Key, schedule.StatusStarted, schedule.RunReport{LogURL: "https://logs.example/ü"})
	r.hold(run.LogURL == "https://logs.example/ü" && run.ExitCode == nil, "the URL is kept, got %q", run.LogURL)
	far := schedule.ProgressOf(schedule.ProgressValues{Done: 3, Total: 4_294_967_295, Note: "größer"})
	r.reported(run.Key, schedule.StatusStarted, schedule.RunReport{Progress: schedule.ProgressOf(schedule.ProgressValues{Done: 1})})
	r.reported(run.Key, schedule.StatusStarted, schedule.RunReport{Progress: far})
	run = r.reported(run.Key, schedule.StatusStarted, schedule.RunReport{})
	r.hold(run.Progress == far, "the last progress stays, got %q", run.Progress)
	r.everyView(run.Key, func(view string, seen schedule.Run) { equal(r, view, seen, run) })
	run, _ = r.report(schedule.Settlement{Key: run.Key, To: schedule.StatusFailed, ExitCode: new(int32(0))})
	r.hold(run.Progress == "", "a run that is over has none, got %q", run.Progress)
	r.hold(run.LogURL != "" && run.ExitCode != nil && *run.ExitCode == 0, "an exit code of 0 is one, got %v", run.ExitCode)
	r.everyView(run.Key, func(view string, seen schedule.Run) { equal(r, view, seen, run) })
}

func lateOutput(r *rig) {
	run := r.begunRun("late")
	r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonTimeout, CompletedAt: r.now})
	late := func(output string) {
		r.changeRun(run.Key, func(schedule.RunInput) schedule.RunChange {
			return schedule.RunChange{LateReport: schedule.StatusFailed, Report: &schedule.RunReport{Output: output}}
		})
	}
	late("first")
	late("second")
	parts := r.log(schedule.RunLogQuery{Key: run.Key})
	r.hold(len(parts) == 1 && parts[0].Text == "first", "the first is kept, got %+v", parts)
}

func noOutput(r *rig) {
	run := r.begunRun("nothing")
	r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess, CompletedAt: r.now})
	after := r.reported(run.Key, schedule.StatusFailed, schedule.RunReport{Output: "no", ExitCode: new(int32(1)), LogURL: "https://x"})
	r.hold(after.ExitCode == nil && after.LogURL == "" && len(r.log(schedule.RunLogQuery{Key: run.Key})) == 0, "nothing is written, got %+v", after)
}
