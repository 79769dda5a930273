package sqlite_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

// lists are filters with the index that each table is read by; empty: the table is
// not read. open_runs is small, and has no index by run_at.
var lists = []struct {
	name        string
	filter      schedule.RunFilter
	ended, open string
}{
	{"all", schedule.RunFilter{}, "ended_runs_slot", "open_runs_schedule"},
	{"all, oldest first", schedule.RunFilter{Ascending: true}, "ended_runs_slot", "open_runs_schedule"},
	{"the second page", schedule.RunFilter{AfterRunAt: listed, From: listed, To: listed}, "ended_runs_slot", "open_runs_schedule"},
	{"the second page, oldest first", schedule.RunFilter{Ascending: true, AfterRunAt: listed}, "ended_runs_slot", "open_runs_schedule"},
	{"of a schedule", schedule.RunFilter{ScheduleID: "s", From: listed, To: listed}, "ended_runs_schedule", "open_runs_schedule"},
	{"of a schedule, oldest first", schedule.RunFilter{ScheduleID: "s", Ascending: true, AfterRunAt: listed}, "ended_runs_schedule", "open_runs_schedule"},
	{"of a schedule with an owner", schedule.RunFilter{ScheduleID: "s", UserID: "u", WorkflowID: "w", AfterRunAt: listed}, "ended_runs_schedule", "open_runs_schedule"},
	{"by a reason", schedule.RunFilter{Reason: schedule.ReasonOverlap}, "ended_runs_not_success", ""},
	{"failed", schedule.RunFilter{Statuses: []schedule.Status{schedule.StatusFailed}, AfterRunAt: listed}, "ended_runs_not_success", ""},
	{"dead", schedule.RunFilter{Dead: true}, "ended_runs_dead", ""},
	{"dead of a schedule and a class, oldest first", schedule.RunFilter{Dead: true, Ascending: true, ScheduleID: "s", UserID: "u", WorkflowID: "w", ErrorCode: "E", Class: schedule.ClassLost, AnyOf: []schedule.Key{{1}}, AfterRunAt: listed}, "ended_runs_dead", ""},
	{"by an error code", schedule.RunFilter{ErrorCode: "E"}, "ended_runs_slot", "open_runs_schedule"},
	{"by a class", schedule.RunFilter{Class: schedule.ClassLost}, "ended_runs_not_success", ""},
	{"succeeded", schedule.RunFilter{Statuses: []schedule.Status{schedule.StatusSuccess}}, "ended_runs_slot", ""},
	{"by hand", schedule.RunFilter{Trigger: schedule.TriggerManual}, "ended_runs_unscheduled", "open_runs_schedule"},
	{"in flight", schedule.RunFilter{Statuses: schedule.InFlight}, "", "open_runs_due"},
	{"late", schedule.RunFilter{DueBefore: listed}, "", "open_runs_due"},
	{"by key", schedule.RunFilter{Keys: schedule.KeyRange{Last: schedule.Key{1}}}, "ended_runs_key", "sqlite_autoindex_open_runs_1"},
	{"by run_id", schedule.RunFilter{RunID: "r"}, "ended_runs_run_id", "open_runs_run_id"},
	{"by trace", schedule.RunFilter{TraceID: strings.Repeat("a", 32)}, "ended_runs_trace_id", "open_runs_trace_id"},
	{"what was updated", schedule.RunFilter{UpdatedAfter: listed}, "ended_runs_recorded", "open_runs_due"},
	{"what was updated of a schedule", schedule.RunFilter{UpdatedAfter: listed, ScheduleID: "s"}, "ended_runs_recorded", "open_runs_due"},
	{"of an owner", schedule.RunFilter{UserID: "u", AfterRunAt: listed}, "ended_runs_slot", "open_runs_schedule"},
	{"failed, of a workflow", schedule.RunFilter{WorkflowID: "w", Statuses: []schedule.Status{schedule.StatusFailed}}, "ended_runs_not_success", ""},
	{"planned", schedule.RunFilter{Statuses: []schedule.Status{schedule.StatusPlanned}, From: listed}, "", "SCAN"},
}

var listed = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestListsReadTheirIndexes(t *testing.T) {
	t.Parallel()
	db := migratedDB(t)
	for _, list := range lists {
		t.Run(list.name, func(t *testing.T) {
			t.Parallel()
			f := list.filter
			f.Now, f.Limit = listed, 50
			statements, args := sqlite.ListStatements(f)
			for i, statement := range statements {
				if n := strings.Count(statement, "?"); n != len(args[i]) {
					t.Errorf("%d arguments, want %d:\n%s", len(args[i]), n, statement)
				}
				explain(t, db, statement)
			}
			ended, open := sqlite.ListInputs(f)
			for _, input := range []struct{ statement, index string }{{ended, list.ended}, {open, list.open}} {
				if (input.index == "") != (input.statement == "") {
					t.Errorf("index %q for the input %q", input.index, input.statement)
				}
				if input.statement == "" {
					continue
				}
				steps := strings.Join(explain(t, db, input.statement), "\n")
				if !slices.Contains(strings.Fields(steps), input.index) {
					t.Errorf("%s is not read:\n%s", input.index, steps)
				}
			}
			// Runs of one run_at are sorted by their keys. The rows of few runs are sorted.
			few := list.ended == "ended_runs_key" || list.ended == "ended_runs_run_id" || list.ended == "ended_runs_trace_id"
			if ended == "" || few {
				return
			}
			for _, step := range explain(t, db, ended) {
				if strings.Contains(step, "TEMP B-TREE") && !strings.HasSuffix(step, "LAST TERM OF ORDER BY") {
					t.Errorf("%s:\n%s", step, ended)
				}
			}
		})
	}
}
