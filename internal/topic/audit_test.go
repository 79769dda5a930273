package topic_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

func TestAnAuditFindsWhatMustNotBe(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	kept := now.AddDate(0, 0, -30)
	key := schedule.ManualKey("c", "r")
	batch := []topic.Offered{{Event: topic.Event{Topic: "orders", EventID: "o-1"}, Round: 1}}
	row := func(state topic.State, edits ...func(*topic.AuditRow)) []topic.AuditRow {
		r := topic.AuditRow{
			Event: topic.Event{Seq: 7, Topic: "orders", EventID: "o-1", Fanout: 1, PublishedAt: now},
			Entry: topic.Entry{SID: 1, ScheduleID: "c", Seq: 7, Round: 1, State: state, Run: key, EndedAt: now}, RunOpen: true,
		}
		for _, edit := range edits {
			edit(&r)
		}
		return []topic.AuditRow{r}
	}
	consumed := row(topic.Consumed)
	good := topic.AuditRun{Key: key, Status: schedule.StatusSuccess, Known: true, Count: 1, Digest: topic.Digest(batch), Batch: batch}
	changed := func(edit func(*topic.AuditRun)) []topic.AuditRun {
		r := good
		edit(&r)
		return []topic.AuditRun{r}
	}
	for _, c := range []struct {
		name string
		rows []topic.AuditRow
		runs []topic.AuditRun
		want string // "": nothing is wrong
	}{
		{name: "a pending entry", rows: row(topic.Pending)},
		{name: "nothing looks at a pending entry", rows: row(topic.Pending, func(r *topic.AuditRow) { r.Lost = true }), want: "nothing would look at it"},
		{name: "a reserved entry", rows: row(topic.Reserved)},
		{name: "the run of a reserved entry is over", rows: row(topic.Reserved, func(r *topic.AuditRow) { r.RunOpen = false }), want: "by a run that is over"},
		{name: "a consumed entry", rows: consumed, runs: []topic.AuditRun{good}},
		{name: "its run is not kept", rows: consumed, runs: changed(func(r *topic.AuditRun) { r.Status = "" })},
		{name: "a consumed entry without a run", rows: row(topic.Consumed, func(r *topic.AuditRow) { r.Entry.Run = schedule.Key{} }), want: "names no run"},
		{name: "its run failed", rows: consumed, runs: changed(func(r *topic.AuditRun) { r.Status = schedule.StatusFailed }), want: "ended FAILED"},
		{name: "its run is not over", rows: consumed, runs: changed(func(r *topic.AuditRun) { r.Status, r.Open = "", true }), want: "is not over"},
		{name: "its run has no record", rows: consumed, runs: changed(func(r *topic.AuditRun) { r.Known = false }), want: "no record of its batch"},
		{name: "its run has taken more", rows: consumed, runs: changed(func(r *topic.AuditRun) { r.Count = 2 }), want: "has taken 2 events, and consumed 1"},
		{name: "its run has taken another event", rows: consumed, runs: changed(func(r *topic.AuditRun) { r.Digest = key }), want: "events_digest differs"},
		{name: "an entry is missing", rows: row(topic.Skipped, func(r *topic.AuditRow) { r.Event.Fanout = 2 }), want: "published to 2 consumers, and has 1 entries"},
		{name: "an event has no entry", rows: row(topic.Skipped, func(r *topic.AuditRow) { r.Entry = topic.Entry{} }), want: "and has 0 entries"},
		{name: "one entry too many", rows: row(topic.Dead, func(r *topic.AuditRow) { r.Event.Fanout = 0 }), want: "published to 0 consumers"},
		{name: "an old entry was deleted", rows: row(topic.Dead, func(r *topic.AuditRow) { r.Event.Fanout, r.Event.PublishedAt = 2, kept.Add(-1) })},
		{name: "a redriven entry does not count", rows: append(row(topic.Dead), row(topic.Pending, func(r *topic.AuditRow) { r.Entry.Round = 2 })...)},
		{name: "an event without consumers", rows: row(topic.Dead, func(r *topic.AuditRow) { r.Event.Fanout, r.Entry = 0, topic.Entry{} })},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := topic.NewAudit(kept)
			for i := range c.rows {
				a.Add(&c.rows[i])
			}
			if keys := a.End(); len(keys) != len(c.runs) {
				t.Errorf("it asks for %d runs, want %d", len(keys), len(c.runs))
			}
			a.CheckRuns(c.runs)
			switch {
			case c.want == "" && a.Broken > 0:
				t.Errorf("it finds %+v", a.Violations)
			case c.want != "" && (a.Broken != 1 || !strings.Contains(a.Violations[0].What, c.want)):
				t.Errorf("it finds %+v, want one: %s", a.Violations, c.want)
			}
		})
	}
}

func TestAnAuditCountsAllAndListsSome(t *testing.T) {
	a := topic.NewAudit(time.Time{})
	for i := range topic.MaxViolations + 5 {
		a.Stray("c", int64(i))
	}
	if a.Broken != topic.MaxViolations+5 || len(a.Violations) != topic.MaxViolations {
		t.Errorf("%d are counted, %d listed", a.Broken, len(a.Violations))
	}
}
