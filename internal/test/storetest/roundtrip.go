package storetest

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var roundtrips = []check{
	{"a schedule with every field set comes back as it was", fullScheduleSurvives},
	{"a schedule with nothing optional comes back with nothing", bareScheduleSurvives},
	{"a schedule that loses its optional fields has lost them", fieldsCanBeCleared},
	{"a revision is the whole definition as it stood", revisionSurvives},
	{"raw JSON is kept byte for byte wherever it is kept", rawJSONSurvives},
	{"an event with every field set comes back as it was", fullEventSurvives},
	{"a planned run with every field set comes back as it was", plannedRunSurvives},
	{"a run that has lived comes back with every mark of its life", livedRunSurvives},
	{"times are cut to the microsecond and come back in UTC", timesAreCutAndUTC},
	{"what Claim hands out is the run as the ledger has it, with its definition", launchIsTheLedgersRun},
}

// awkward is text that breaks whatever is pasted together instead of bound.
const awkward = "naïve ⏰ \"quoted\" 'single' \\ $1 ?1 :a %s \t\r\n\u2028 <b>&amp;</b> '; DROP TABLE schedules; -- 日本"

// rawJSON has what a decoder would lose: white space, order, a repeated member,
// a number that no float holds, letters that an encoder would escape.
var rawJSON = json.RawMessage("{ \"b\": 1,\n\t\"a\": [1.0, 12345678901234567890, 1E400], \"a\": \"<&>\u2028é\\u00e9\", \"n\": null }")

// odd is the i-th of many instants that are neither UTC nor whole microseconds.
func odd(i int) time.Time {
	return time.Date(2026, 2, 28, 23, i, 59, 123_456_789, time.FixedZone("odd", 5*3600+1800))
}

// whole is odd, on a whole second.
func whole(i int) time.Time { return odd(i).Truncate(time.Second) }

func (r *rig) fullSchedule(name string) schedule.Schedule {
	s := schedule.Schedule{
		Definition: schedule.Definition{
			ScheduleID: r.id(name), WorkflowID: r.id("work_flow-1:x"), Version: 1<<31 - 1, UserID: r.user + "/ü@example.com",
			CronExpr: "0 9 * * MON#2", IntervalMS: 1<<32 - 1000, OnceAt: whole(1),
			Timezone: "America/Argentina/ComodRivadavia", StartAt: whole(2), EndAt: whole(3), DST: schedule.DSTLiteral, JitterMS: 3_600_000,
			OverlapPolicy: schedule.OverlapReplace, OverlapKey: "shared:" + r.name, MaxQueued: 1000,
			CatchupPolicy: schedule.CatchupSpread, CatchupWindowMS: 2_592_000_000, RunTimeoutMS: 2_592_000_000, LaunchTimeoutMS: 86_400_000, Priority: -1000,
			Input: rawJSON, ExecutionGrantID: "grant-1",
			Expect:    schedule.Expect{StartWithinMS: 1<<32 - 1, FinishWithinMS: 2, SuccessEveryMS: 3, AlertAfter: 4, RemindEveryMS: 5, OnFailure: schedule.OnFailureIgnore},
			Retry:     schedule.RetryPolicy{MaxAttempts: 25, BackoffMS: 1000, FactorPercent: 1000, MaxBackoffMS: 86_400_000, On: schedule.RetryOnOf(schedule.ClassLogic, schedule.ClassLost)},
			Labels:    map[string]string{"team": "réseau", "empty": "", awkward: awkward, "a.b/c": "1"},
			ManagedBy: "deploy:" + awkward,
			QueueID:   r.id("queue"), Limits: []string{"customer=a@b/c+d", "gpu"}, Webhook: "billing", MaxRunMS: 2_592_000_000, ExpiresMS: 1<<32 - 1, FairKey: "a customer", Group: "nightly",
			Consume: schedule.Consume{Topics: []string{"orders.*", "bills"}, MaxEvents: 1000, Filter: json.RawMessage(`{"type":[{"prefix":"<&>é"}],"data":{"n":[{"numeric":[">",1.50]}]}}`)},
		},
		Revision: 1 << 40, RevisedAt: odd(4), NextRunAt: odd(5), PlanAt: odd(6),
		Backlog:      schedule.Backlog{From: odd(7), Until: odd(8), Revision: 1<<40 - 1, At: odd(9)},
		PlanFailures: 7,
		Pause:        schedule.Pause{Paused: true, Note: awkward, By: "somebody-ü", Until: odd(10)},
		LastRunAt:    odd(11), CreatedAt: odd(12), UpdatedAt: odd(13), DeletedAt: odd(14),
	}
	stored := s
	stored.Planned = []time.Time{odd(15)} // is the ledger's
	r.everyFieldSet(reflect.ValueOf(stored), "Schedule")
	return s
}

// everyFieldSet fails when a fixture has forgotten a field, such as a new one.
func (r *rig) everyFieldSet(v reflect.Value, name string) {
	r.Helper()
	for i := range v.NumField() {
		f, field := v.Field(i), name+"."+v.Type().Field(i).Name
		if f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[time.Time]() {
			r.everyFieldSet(f, field)
			continue
		}
		r.hold(!f.IsZero(), "the suite's fixture sets %s", field)
	}
}

// inUTC fails when a time in v is in any other location.
func (r *rig) inUTC(what string, v any) {
	r.Helper()
	everyTime(reflect.ValueOf(v), what, func(name string, t time.Time) {
		r.hold(t.Location() == time.UTC, "%s is in UTC, it is in %s", name, t.Location())
	})
}

func fullScheduleSurvives(r *rig) {
	s := r.fullSchedule("full")
	r.change(schedule.Change{Row: &s, NewRevision: true, ChangedBy: "x"})
	equal(r, "schedules", r.row(s), stored(s))
	r.inUTC("Schedule", r.row(s))

	s.DeletedAt = time.Time{} // so that it is listed
	s.Revision++
	r.change(schedule.Change{Row: &s, NewRevision: true, ChangedBy: "x"})
	listed, err := r.ListSchedules(r.ctx, schedule.ScheduleFilter{UserID: s.UserID, Now: r.now, Limit: 10})
	r.ok(err, "list schedules")
	equal(r, "listed schedules", listed, []schedule.Schedule{stored(s)})

	err = r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}}, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
		equal(r, "schedules as a change finds them", *in[0].Schedule, stored(s))
		return nil, nil
	})
	r.ok(err, "change nothing")
}

func bareScheduleSurvives(r *rig) {
	s := schedule.Schedule{
		Definition: schedule.Definition{
			ScheduleID: r.id("bare"), WorkflowID: r.id("workflow"), Version: 1, UserID: r.user, Timezone: "UTC",
			DST: schedule.DSTVixie, OverlapPolicy: schedule.OverlapSkip, OverlapKey: "k", CatchupPolicy: schedule.CatchupNone,
		},
		Revision: 1, RevisedAt: r.now, CreatedAt: r.now, UpdatedAt: r.now,
	}
	r.change(schedule.Change{Row: &s, NewRevision: true})
	got := r.row(s)
	equal(r, "schedules", got, s)
	r.hold(got.Input == nil, "no input is nil, it is %q", got.Input)
	r.inUTC("Schedule", got)
	revisions, err := r.ListRevisions(r.ctx, s.ScheduleID, 0, 10)
	r.ok(err, "list revisions")
	equal(r, "revisions", revisions, []schedule.Revision{{ScheduleID: s.ScheduleID, Revision: 1, Definition: s.Definition, CreatedAt: r.now}})
}

func fieldsCanBeCleared(r *rig) {
	s := r.fullSchedule("cleared")
	r.change(schedule.Change{Row: &s, NewRevision: true})
	bare := r.schedule("cleared", func(b *schedule.Schedule) {
		b.Revision = s.Revision + 1
		b.CronExpr, b.NextRunAt, b.PlanAt = "", time.Time{}, time.Time{}
	})
	r.change(schedule.Change{Row: &bare, NewRevision: true})
	equal(r, "schedules", r.row(bare), bare)
}

func revisionSurvives(r *rig) {
	s := r.fullSchedule("revised")
	r.change(schedule.Change{Row: &s, NewRevision: true, ChangedBy: awkward, Now: odd(20)})
	revisions, err := r.ListRevisions(r.ctx, s.ScheduleID, 0, 10)
	r.ok(err, "list revisions")
	r.hold(len(revisions) == 1, "there is one revision, not %d", len(revisions))
	got := revisions[0]
	equal(r, "definitions", got.Definition, stored(s).Definition)
	r.inUTC("Definition", got.Definition)
	r.hold(got.ChangedBy == awkward, "who changed it is kept, got %q", got.ChangedBy)
	r.hold(got.Revision == s.Revision && got.ScheduleID == s.ScheduleID, "its name is kept, got %s@%d", got.ScheduleID, got.Revision)
	r.hold(!got.CreatedAt.IsZero(), "when it was made is kept")
	r.inUTC("Revision", got)
}

func rawJSONSurvives(r *rig) {
	r.lead()
	for name, raw := range map[string]json.RawMessage{
		"awkward": rawJSON, "null": json.RawMessage("null"), "spaced": json.RawMessage(" [ ] \n"), "text": json.RawMessage(`"a"`),
	} {
		s := r.create("json-"+name, func(s *schedule.Schedule) { s.Input = raw })
		own := r.slot(s, r.now, func(run *schedule.Run) { run.Input = raw })
		r.add(own, r.slot(s, r.at(-time.Second)))

		r.same(name+": input of the schedule", r.row(s).Input, raw)
		revisions, err := r.ListRevisions(r.ctx, s.ScheduleID, 0, 1)
		r.ok(err, "list revisions")
		r.same(name+": input of the revision", revisions[0].Definition.Input, raw)
		r.same(name+": input of the run", r.ledger(own.Key).Input, raw)
		launches := r.claim().Launches
		r.hold(len(launches) == 2, "both runs are claimed, got %d", len(launches))
		for _, l := range launches {
			r.same(name+": input that a launch sends", l.EffectiveInput(), raw)
		}
		w := schedule.WorkflowVersion{WorkflowID: r.id(name), Version: 1, DAG: raw, CreatedAt: r.now}
		r.ok(r.PutWorkflow(r.ctx, &w), "put workflow")
		dag, err := r.LoadDAG(r.ctx, "", w.WorkflowID, 1)
		r.ok(err, "load DAG")
		r.same(name+": DAG", dag, raw)
	}
}

func (r *rig) same(what string, got, want []byte) {
	r.Helper()
	r.hold(string(got) == string(want), "%s is kept byte for byte:\n got %q\nwant %q", what, got, want)
}

func fullEventSurvives(r *rig) {
	s := r.create("events")
	full := schedule.Event{
		ScheduleID: s.ScheduleID, Time: odd(1), Kind: schedule.EventMissed, From: odd(2), To: odd(3), Count: 1 << 40,
		Reason: schedule.ReasonMissed, Actor: "ü", Note: awkward, Revision: 1 << 41,
	}
	bare := schedule.Event{ScheduleID: s.ScheduleID, Time: r.now, Kind: schedule.EventChanged}
	r.change(schedule.Change{ScheduleID: s.ScheduleID, Events: []schedule.Event{full, bare}})

	got := r.eventsOf(s)
	r.hold(len(got) == 2, "both events are kept, got %d", len(got))
	r.hold(got[0].ID > 0 && got[1].ID > got[0].ID, "ids grow, got %d and %d", got[0].ID, got[1].ID)
	full.ID, bare.ID = got[0].ID, got[1].ID
	r.everyFieldSet(reflect.ValueOf(full), "Event")
	equal(r, "events", got, []schedule.Event{stored(full), bare})
	r.inUTC("Event", got[0])
}

func timesAreCutAndUTC(r *rig) {
	s := r.create("cut")
	for i, nanos := range []int{0, 1, 999, 1000, 999_999_999} {
		at := time.Date(2099, 12, 31, 18, 59, 59, nanos, time.FixedZone("west", -5*3600))
		run := r.manual(s, string(rune('a'+i)), at, func(run *schedule.Run) { run.FireAt = at })
		r.add(run)
		got := r.ledger(run.Key)
		want := at.UTC().Truncate(time.Microsecond)
		r.hold(got.RunAt.Equal(want), "%d ns: run_at is %s, got %s", nanos, want, got.RunAt)
		r.inUTC("Run", got)
	}
	epoch := time.Unix(0, 0).UTC()
	run := r.manual(s, "epoch", epoch)
	r.add(run)
	r.hold(r.ledger(run.Key).RunAt.Equal(epoch), "1970 is a time, not none")
}
