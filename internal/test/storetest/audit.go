package storetest

import (
	"reflect"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var audits = []check{
	{"an entry comes back as it was written, newest first, by every filter", auditSurvives},
	{"a change brings its entry, and one that is refused brings none", auditWithChange},
	{"a run's change brings its entry", auditWithRun},
	{"old entries are pruned, the others stay", auditPruned},
}

func (r *rig) entry(name string, at time.Time) schedule.AuditEntry {
	return schedule.AuditEntry{
		Time: at, Subject: r.id("subject-" + name), Via: "jwt", Method: "PauseSchedule", Target: r.id("target-" + name), UserID: r.id("owner"),
		RequestID: "r-1", Code: "OK", RevisionBefore: 3, RevisionAfter: 1 << 40, Count: 1 << 41, OtherTargets: true,
	}
}

// trail is what the filter finds, without the ids that the store gave.
func (r *rig) trail(f schedule.AuditFilter) []schedule.AuditEntry {
	r.Helper()
	f.Limit = 100
	found, err := r.ListAudit(r.ctx, f)
	r.ok(err, "list the audit trail")
	for i := range found {
		r.hold(found[i].ID > 0 && (i == 0 || found[i].ID < found[i-1].ID), "ids fall from newest to oldest: %v", found)
		found[i].ID = 0
	}
	return found
}

func auditSurvives(r *rig) {
	first, second := r.entry("a", odd(1)), r.entry("b", r.at(time.Hour))
	second.Method, second.Code = "UpsertSchedule", "PermissionDenied"
	whole := first
	whole.ID = 1 // the store's to give
	r.everyFieldSet(reflect.ValueOf(whole), "AuditEntry")
	r.ok(r.AppendAudit(r.ctx, []schedule.AuditEntry{first, second}), "append")
	first.Time = stored(first.Time)
	equal(r, "by target", r.trail(schedule.AuditFilter{Target: first.Target}), []schedule.AuditEntry{first})
	equal(r, "by subject", r.trail(schedule.AuditFilter{Subject: second.Subject}), []schedule.AuditEntry{second})
	equal(r, "by subject and method", r.trail(schedule.AuditFilter{Subject: second.Subject, Method: "PauseSchedule"}), nil)
	equal(r, "from", r.trail(schedule.AuditFilter{Target: second.Target, From: second.Time}), []schedule.AuditEntry{second})
	equal(r, "to is not included", r.trail(schedule.AuditFilter{Target: second.Target, To: second.Time}), nil)
	r.inUTC("AuditEntry", r.trail(schedule.AuditFilter{Target: first.Target})[0])

	newest, err := r.ListAudit(r.ctx, schedule.AuditFilter{Limit: 1})
	r.ok(err, "list one")
	r.hold(len(newest) == 1, "one was asked for, got %d", len(newest))
	older, err := r.ListAudit(r.ctx, schedule.AuditFilter{BeforeID: newest[0].ID, Limit: 100})
	r.ok(err, "list the next page")
	for _, e := range older {
		r.hold(e.ID < newest[0].ID, "a page begins behind the one before")
	}
}

func auditWithChange(r *rig) {
	s := r.create("audited")
	e := r.entry("change", r.now)
	r.change(schedule.Change{ScheduleID: s.ScheduleID, Audit: &e, Now: r.now})
	equal(r, "the entry", r.trail(schedule.AuditFilter{Target: e.Target}), []schedule.AuditEntry{e})

	refused := r.entry("refused", r.now)
	err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{{ScheduleID: s.ScheduleID, Audit: &refused, Now: r.now}}, schedule.ErrPrecondition
	})
	r.hold(err != nil, "the change is refused")
	equal(r, "of a refused change", r.trail(schedule.AuditFilter{Target: refused.Target}), nil)
}

func auditWithRun(r *rig) {
	r.lead()
	s := r.create("audited-run")
	run := r.bring(r.slot(s, r.at(-time.Second)), schedule.StatusStarted)
	e := r.entry("run", r.now)
	r.changeRun(run.Key, func(schedule.RunInput) schedule.RunChange {
		return schedule.RunChange{AskCancel: schedule.ReasonCancelled, Audit: &e, Now: r.now}
	})
	equal(r, "the entry", r.trail(schedule.AuditFilter{Target: e.Target}), []schedule.AuditEntry{e})
}

func auditPruned(r *rig) {
	r.lead()
	old, stays := r.entry("old", r.at(-48*time.Hour)), r.entry("stays", r.now)
	r.ok(r.AppendAudit(r.ctx, []schedule.AuditEntry{old, stays}), "append")
	r.pruneAll(r.at(-24 * time.Hour))
	equal(r, "the old one", r.trail(schedule.AuditFilter{Target: old.Target}), nil)
	equal(r, "the other", r.trail(schedule.AuditFilter{Target: stays.Target}), []schedule.AuditEntry{stays})
}
