package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/explain"
)

// created is when the schedules of these tests were made; now lies a week later.
var (
	created = at("2026-03-01T00:00:00Z")
	now     = at("2026-03-08T12:00:30Z")
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

// nightly is the facts of a schedule with one revision.
func nightly(edits ...func(*schedule.Schedule)) explain.Facts {
	s := &schedule.Schedule{
		Definition: schedule.Definition{
			ScheduleID: "nightly", WorkflowID: "report", Version: 3, UserID: "ada", CronExpr: "30 2 * * *", Timezone: "America/New_York",
			DST: schedule.DSTVixie, OverlapPolicy: schedule.OverlapSkip, OverlapKey: "nightly", CatchupPolicy: schedule.CatchupNone,
		},
		Revision: 1, RevisedAt: created, CreatedAt: created, NextRunAt: at("2026-03-09T06:30:00Z"),
	}
	for _, edit := range edits {
		edit(s)
	}
	return explain.Facts{Now: now, KeptSince: now.AddDate(0, 0, -90), SlotFacts: schedule.SlotFacts{
		Schedule:  s,
		Revisions: []schedule.Revision{{ScheduleID: "nightly", Revision: 1, Definition: s.Definition, ChangedBy: "ada", CreatedAt: created}},
		Events:    []schedule.Event{{Kind: schedule.EventCreated, Time: created, Actor: "ada"}},
	}}
}

// asked sets the instant and other facts.
func asked(f explain.Facts, instant string, edits ...func(*explain.Facts)) explain.Facts {
	f.Asked = at(instant)
	for _, edit := range edits {
		edit(&f)
	}
	return f
}

func event(kind schedule.EventKind, when string, edits ...func(*schedule.Event)) func(*explain.Facts) {
	return func(f *explain.Facts) {
		e := schedule.Event{Kind: kind, Time: at(when), Actor: "bob", Revision: 1}
		for _, edit := range edits {
			edit(&e)
		}
		f.Events = append(f.Events, e)
	}
}

func row(edits ...func(*schedule.Run)) func(*explain.Facts) {
	return func(f *explain.Facts) {
		r := schedule.Run{
			Key: schedule.SlotKey("nightly", f.Asked), ScheduleID: "nightly", Revision: 1, RunAt: f.Asked, FireAt: f.Asked,
			Trigger: schedule.TriggerSchedule, OverlapKey: "ada/nightly", OverlapPolicy: schedule.OverlapSkip, Status: schedule.StatusPlanned,
			CreatedAt: f.Asked.Add(-time.Minute),
		}
		for _, edit := range edits {
			edit(&r)
		}
		f.Runs = append(f.Runs, r)
	}
}

func ended(status schedule.Status, reason schedule.Reason) func(*schedule.Run) {
	return func(r *schedule.Run) {
		r.Status, r.Reason, r.CompletedAt = status, reason, r.FireAt.Add(5*time.Second)
		if status != schedule.StatusSkipped {
			r.ClaimedAt, r.LaunchedAt = r.FireAt, r.FireAt.Add(120*time.Millisecond)
		}
	}
}

// blocker was in flight when the slot of 02:30 on 7 March fell due.
var blocker = schedule.Run{
	Key: schedule.ManualKey("nightly", "x"), ScheduleID: "nightly", RunAt: at("2026-03-07T07:29:00Z"), Status: schedule.StatusSuccess,
	LaunchedAt: at("2026-03-07T07:29:00.1Z"), CompletedAt: at("2026-03-07T07:40:00Z"),
}

func blocked(f *explain.Facts) { f.Blocking = []schedule.Run{blocker} }

type expectation struct {
	name    string
	facts   explain.Facts
	sent    time.Time // first
	verdict explain.Verdict
	why     explain.Why
	says    []string // parts of its sentences
}

func (tt expectation) check(t *testing.T) {
	a := explain.Derive(tt.facts)
	a.FirstSentAt = tt.sent
	if a.Verdict != tt.verdict || a.Why != tt.why {
		t.Errorf("it is %s(%s), want %s(%s)", a.Verdict, a.Why, tt.verdict, tt.why)
	}
	for _, part := range tt.says {
		if !strings.Contains(a.String(), part) {
			t.Errorf("it does not say %q:\n%s", part, &a)
		}
	}
	if !slices.Contains(explain.Verdicts, a.Verdict) || a.Why != "" && !slices.Contains(explain.Whys, a.Why) && !slices.Contains(schedule.Reasons, schedule.Reason(a.Why)) {
		t.Errorf("%s(%s) is not in the closed sets", a.Verdict, a.Why)
	}
}

func TestSlotsWithARow(t *testing.T) {
	const slot = "2026-03-07T07:30:00Z"
	for _, tt := range []expectation{
		{
			name: "one that ran says when and how late", facts: asked(nightly(), slot, row(ended(schedule.StatusSuccess, ""))),
			verdict: explain.VerdictRan,
			says: []string{
				"The slot at 2026-03-07T02:30:00-05:00 EST ran and succeeded.", "at 02:30 every day, America/New_York time: revision 1",
				"Launched 120 milliseconds after its fire time", "The slot after is 2026-03-08T03:00:00-04:00 EDT (in place of 02:30: the clock goes from 02:00 to 03:00)",
			},
		},
		{
			name: "one that failed says what the executor said",
			facts: asked(nightly(), slot, row(ended(schedule.StatusFailed, schedule.ReasonWorkflowFailed), func(r *schedule.Run) {
				r.ErrorCode, r.ErrorMessage = "E42", "out of disk"
			})),
			verdict: explain.VerdictFailed, why: "workflow_failed", says: []string{"The executor reported a failure: out of disk (E42)."},
		},
		{
			name: "one that was skipped for an overlap names the blocking run", facts: asked(nightly(), slot, row(ended(schedule.StatusSkipped, schedule.ReasonOverlap)), blocked),
			verdict: explain.VerdictSkipped, why: "overlap",
			says: []string{"overlap_policy is skip", "Blocked by run " + blocker.Key.String(), "launched at 2026-03-07T07:29:00.1Z, ended at 2026-03-07T07:40:00Z"},
		},
		{
			name: "one that was skipped for a run that no executor takes names its error", facts: asked(nightly(), slot, row(ended(schedule.StatusSkipped, schedule.ReasonOverlap)), func(f *explain.Facts) {
				stuck := blocker
				stuck.Status, stuck.LaunchedAt, stuck.CompletedAt, stuck.ErrorCode, stuck.ErrorMessage = schedule.StatusLaunching, time.Time{}, time.Time{}, "executor_error", "the executor answered 500"
				f.Blocking = []schedule.Run{stuck}
			}),
			verdict: explain.VerdictSkipped, why: "overlap",
			says: []string{"LAUNCHING(executor_error): the executor answered 500."},
		},
		{
			name: "one that waits names what it waits for",
			facts: asked(nightly(), slot, row(func(r *schedule.Run) {
				r.WaitingSince, r.OverlapPolicy = r.FireAt, schedule.OverlapQueue
			}), blocked),
			verdict: explain.VerdictWaiting, why: "overlap", says: []string{"is queued since 2026-03-07T07:30:00Z", "Blocked by"},
		},
		{
			name: "one that was due at a pause names the user",
			facts: asked(nightly(), slot, row(ended(schedule.StatusSkipped, schedule.ReasonPaused)),
				event(schedule.EventPaused, "2026-03-07T07:30:01Z", func(e *schedule.Event) { e.Note = "moving" })),
			verdict: explain.VerdictSkipped, why: "paused",
		},
		{
			name: "one that is due and unclaimed says so", facts: asked(nightly(), slot, row()),
			verdict: explain.VerdictDue, why: explain.WhyUnclaimed, says: []string{"no worker has claimed it yet"},
		},
		{
			name:    "one that a grant forbade says which",
			facts:   asked(nightly(), slot, row(ended(schedule.StatusSkipped, schedule.ReasonGrantRevoked), func(r *schedule.Run) { r.ErrorMessage = "execution grant g was revoked" })),
			verdict: explain.VerdictSkipped, why: "grant_revoked", says: []string{"Its execution grant does not allow it: execution grant g was revoked."},
		},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestEveryEndOfARunHasWords(t *testing.T) {
	for _, reason := range schedule.Reasons {
		facts := asked(nightly(), "2026-03-07T07:30:00Z", row(ended(schedule.Ending(reason), reason)))
		a := explain.Derive(facts)
		if a.Why != explain.Why(reason) || len(a.Sentences()) < 3 || strings.Contains(a.String(), "..") || strings.Contains(a.String(), "\n.") {
			t.Errorf("%s: %s(%s):\n%s", reason, a.Verdict, a.Why, &a)
		}
	}
}

func TestSlotsWithoutARow(t *testing.T) {
	const slot = "2026-03-07T07:30:00Z"
	missed := event(schedule.EventMissed, "2026-03-08T01:00:00Z", func(e *schedule.Event) {
		e.From, e.To, e.Count, e.Reason, e.Note = at("2026-03-06T07:30:00Z"), at(slot), 2, schedule.ReasonMissed, "catchup_policy is none"
	})
	paused := event(schedule.EventPaused, "2026-03-05T09:00:00Z", func(e *schedule.Event) { e.Note = "moving house" })
	for _, tt := range []expectation{
		{
			name: "one in a missed range says which", facts: asked(nightly(), slot, missed),
			verdict: explain.VerdictNotFired, why: "missed",
			says: []string{"did not fire", "one of 2 slots from 2026-03-06T07:30:00Z to 2026-03-07T07:30:00Z, recorded at 2026-03-08T01:00:00Z, catchup_policy is none"},
		},
		{
			name: "one in a pause names its users and note",
			facts: asked(nightly(), slot, paused, event(schedule.EventResumed, "2026-03-08T08:00:00Z", func(e *schedule.Event) {
				e.Actor = "eve"
			})),
			verdict: explain.VerdictNotFired, why: "paused",
			says: []string{`The schedule was paused since 2026-03-05T09:00:00Z by bob, note "moving house", until 2026-03-08T08:00:00Z by eve`},
		},
		{
			name: "one in a pause that still lasts",
			facts: asked(nightly(func(s *schedule.Schedule) {
				s.Pause = schedule.Pause{Paused: true, By: "bob", Note: "moving house"}
			}), slot, paused),
			verdict: explain.VerdictNotFired, why: "paused", says: []string{"The schedule is paused since 2026-03-05T09:00:00Z by bob", "until it is resumed"},
		},
		{
			name: "one in a pause that began before anything is kept",
			facts: asked(nightly(), slot, event(schedule.EventResumed, "2026-03-08T08:00:00Z", func(e *schedule.Event) {
				e.Actor = "eve"
			}), func(f *explain.Facts) { f.Events = f.Events[1:] }),
			verdict: explain.VerdictNotFired, why: "paused", says: []string{"until 2026-03-08T08:00:00Z by eve"},
		},
		{
			name: "one at the end of a pause that ended by itself is a slot like any other",
			facts: asked(nightly(), slot, paused, event(schedule.EventPauseEnded, "2026-03-07T07:31:00Z", func(e *schedule.Event) {
				e.From = at(slot)
			}), missed),
			verdict: explain.VerdictNotFired, why: "missed",
		},
		{
			name:    "one that the planner has not come to",
			facts:   asked(nightly(func(s *schedule.Schedule) { s.NextRunAt = at(slot) }), slot),
			verdict: explain.VerdictDue, why: explain.WhyUnplanned, says: []string{"carillon doctor"},
		},
		{
			name: "one in a backlog",
			facts: asked(nightly(func(s *schedule.Schedule) {
				s.Backlog = schedule.Backlog{From: at("2026-03-06T07:30:00Z"), Until: at("2026-03-08T00:00:00Z"), Revision: 1}
			}), slot),
			verdict: explain.VerdictDue, why: explain.WhyBacklog, says: []string{"the backlog reaches from 2026-03-06T07:30:00Z to 2026-03-08T00:00:00Z"},
		},
		{
			name:    "one that is older than what is kept says from when on",
			facts:   asked(nightly(), slot, func(f *explain.Facts) { f.KeptSince = at("2026-03-08T00:00:00Z") }),
			verdict: explain.VerdictExpired, why: explain.WhyRetention, says: []string{"runs that ended before 2026-03-08T00:00:00Z may be deleted"},
		},
		{
			name: "one without any record is called a defect", facts: asked(nightly(), slot),
			verdict: explain.VerdictUnrecorded, says: []string{"report it"},
		},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestInstantsThatAreNoSlots(t *testing.T) {
	for _, tt := range []expectation{
		{
			name: "the field that does not match is named", facts: asked(nightly(), "2026-03-07T07:31:00Z"),
			verdict: explain.VerdictNotASlot, why: explain.WhyOffRule,
			says: []string{"minute 31 does not match 30", "The slot before is 2026-03-07T02:30:00-05:00 EST", "The slot after is 2026-03-08T03:00:00-04:00 EDT"},
		},
		{
			name: "slots are whole seconds", facts: asked(nightly(), "2026-03-07T07:30:00.5Z"),
			verdict: explain.VerdictNotASlot, why: explain.WhyFraction, says: []string{"The slot before is 2026-03-07T02:30:00-05:00 EST"},
		},
		{
			name:    "the second pass of a fold",
			facts:   asked(nightly(func(s *schedule.Schedule) { s.CronExpr = "30 1 * * *" }), "2026-11-01T06:30:00Z"),
			verdict: explain.VerdictNotASlot, why: explain.WhySecondPass,
			says: []string{"this time occurs again", "The slot before is 2026-11-01T01:30:00-04:00 EDT (first 01:30: the clock goes back from 02:00 to 01:00)"},
		},
		{
			name: "before start_at", facts: asked(nightly(func(s *schedule.Schedule) { s.StartAt = at("2026-04-01T00:00:00Z") }), "2026-03-10T06:30:00Z"),
			verdict: explain.VerdictNotASlot, why: explain.WhyBeforeStart, says: []string{"2026-04-01T00:00:00Z", "The slot after is 2026-04-01T02:30:00-04:00"},
		},
		{
			name: "after end_at", facts: asked(nightly(func(s *schedule.Schedule) { s.EndAt = at("2026-04-01T00:00:00Z") }), "2026-04-10T06:30:00Z"),
			verdict: explain.VerdictNotASlot, why: explain.WhyAfterEnd, says: []string{"There is no next slot."},
		},
		{
			name: "a schedule without a rule", facts: asked(nightly(func(s *schedule.Schedule) { s.CronExpr = "" }), "2026-03-07T07:30:00Z"),
			verdict: explain.VerdictNotASlot, why: explain.WhyByHand,
		},
		{
			name: "a consumer", facts: asked(nightly(func(s *schedule.Schedule) {
				s.CronExpr, s.Consume = "", schedule.Consume{Topics: []string{"orders", "bills.*"}}
			}), "2026-03-07T07:30:00Z"),
			verdict: explain.VerdictNotASlot, why: explain.WhyEventDriven, says: []string{"events of orders and bills.* start its runs"},
		},
		{
			name: "before the schedule was made", facts: asked(nightly(), "2026-02-07T07:30:00Z"),
			verdict: explain.VerdictNoSchedule, why: explain.WhyNotCreated, says: []string{"created at 2026-03-01T00:00:00Z by ada"},
		},
		{
			name: "after it was deleted",
			facts: asked(nightly(func(s *schedule.Schedule) { s.DeletedAt = at("2026-03-06T00:00:00Z") }), "2026-03-07T07:30:00Z",
				event(schedule.EventDeleted, "2026-03-06T00:00:00Z")),
			verdict: explain.VerdictNoSchedule, why: "deleted", says: []string{"deleted at 2026-03-06T00:00:00Z by bob"},
		},
		{
			name: "between a deletion and a new beginning",
			facts: asked(nightly(func(s *schedule.Schedule) { s.CreatedAt, s.Revision = at("2026-03-08T00:00:00Z"), 2 }), "2026-03-07T07:30:00Z",
				event(schedule.EventDeleted, "2026-03-06T00:00:00Z"), event(schedule.EventCreated, "2026-03-08T00:00:00Z")),
			verdict: explain.VerdictNoSchedule, why: "deleted", says: []string{"deleted at 2026-03-06T00:00:00Z by bob"},
		},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestInstantsAhead(t *testing.T) {
	const slot = "2026-03-09T06:30:00Z"
	running := func(f *explain.Facts) {
		f.Blocking = []schedule.Run{{Key: schedule.ManualKey("nightly", "x"), ScheduleID: "nightly", RunAt: now, Status: schedule.StatusStarted, LaunchedAt: now}}
	}
	granted := func(s *schedule.Schedule) { s.ExecutionGrantID = "g" }
	for _, tt := range []expectation{
		{
			name: "one that will fire says when, and what it may meet", facts: asked(nightly(), slot, running),
			verdict: explain.VerdictWillFire,
			says:    []string{"will fire at 2026-03-09T06:30:00Z", "In flight: run", "If it is still in flight then, this slot is skipped (overlap_policy skip)"},
		},
		{
			name: "one with jitter is exact", facts: asked(nightly(func(s *schedule.Schedule) { s.JitterMS = 60_000 }), slot),
			verdict: explain.VerdictWillFire, says: []string{"than its nominal time (jitter)"},
		},
		{
			name: "one in a pause that lasts until after it",
			facts: asked(nightly(func(s *schedule.Schedule) {
				s.Pause = schedule.Pause{Paused: true, By: "bob", Until: at("2026-03-10T00:00:00Z")}
			}), slot, event(schedule.EventPaused, "2026-03-08T00:00:00Z")),
			verdict: explain.VerdictWillNotFire, why: "paused", says: []string{"is paused since 2026-03-08T00:00:00Z by bob, until 2026-03-10T00:00:00Z"},
		},
		{
			name: "one after a pause that ends before it",
			facts: asked(nightly(func(s *schedule.Schedule) {
				s.Pause = schedule.Pause{Paused: true, By: "bob", Until: at("2026-03-09T00:00:00Z")}
			}), slot, event(schedule.EventPaused, "2026-03-08T00:00:00Z")),
			verdict: explain.VerdictWillFire,
		},
		{
			name: "one whose grant will have ended",
			facts: asked(nightly(granted), slot, func(f *explain.Facts) {
				f.Grant = &schedule.Grant{GrantID: "g", UserID: "ada", Scopes: []string{"graph:execute:report"}, ExpiresAt: at("2026-03-09T00:00:00Z")}
			}),
			verdict: explain.VerdictWillNotFire, why: "grant_expired", says: []string{`execution grant "g" expired at 2026-03-09T00:00:00Z`},
		},
		{
			name: "one whose grant holds",
			facts: asked(nightly(granted), slot, func(f *explain.Facts) {
				f.Grant = &schedule.Grant{GrantID: "g", UserID: "ada", Scopes: []string{"graph:execute:report"}, ExpiresAt: at("2026-03-10T00:00:00Z")}
			}),
			verdict: explain.VerdictWillFire,
		},
	} {
		t.Run(tt.name, tt.check)
	}
}

// An edit removes slots later than itself: the one at its second is the old revision's. Slots
// around it are searched on both sides.
func TestAnEditDividesTheRules(t *testing.T) {
	f := nightly()
	edited := f.Schedule.Definition
	edited.CronExpr = "0 4 * * *"
	f.Schedule.Definition, f.Schedule.Revision, f.Schedule.RevisedAt = edited, 2, at("2026-03-06T07:30:00Z")
	f.Revisions = slices.Insert(f.Revisions, 0, schedule.Revision{ScheduleID: "nightly", Revision: 2, Definition: edited, ChangedBy: "eve", CreatedAt: at("2026-03-06T07:30:00Z")})
	before := explain.Derive(asked(f, "2026-03-06T07:30:00Z", row(ended(schedule.StatusSuccess, ""))))
	if before.Rule.Revision != 1 || before.Next == nil || !before.Next.RunAt.Equal(at("2026-03-06T09:00:00Z")) || !before.Rule.ReplacedAt.Equal(at("2026-03-06T07:30:00Z")) {
		t.Errorf("at the edit it is %+v, next %+v", before.Rule, before.Next)
	}
	after := explain.Derive(asked(f, "2026-03-06T08:00:00Z"))
	if after.Rule.Revision != 2 || after.Previous == nil || !after.Previous.RunAt.Equal(at("2026-03-06T07:30:00Z")) {
		t.Errorf("after the edit it is %+v, previous %+v", after.Rule, after.Previous)
	}
}

func FuzzEveryInstantIsAnswered(f *testing.F) {
	f.Add(int64(0), int64(0), "30 2 * * *", "America/New_York", uint8(0))
	f.Add(int64(1_772_955_000), int64(500), "*/5 * * * *", "UTC", uint8(3))
	f.Add(int64(4_102_444_799), int64(0), "0 0 29 2 *", "Asia/Tokyo", uint8(255))
	f.Fuzz(func(t *testing.T, unix, micros int64, expr, zone string, paused uint8) {
		facts := nightly(func(s *schedule.Schedule) {
			s.CronExpr, s.Timezone = expr, zone
			if paused%2 == 1 {
				s.Pause = schedule.Pause{Paused: true, Until: created.Add(time.Duration(paused) * time.Hour)}
			}
		})
		facts.Asked = time.Unix(min(max(unix, 0), 4_102_444_799), min(max(micros, 0), 999_999)*1000).UTC()
		a := explain.Derive(facts)
		if !slices.Contains(explain.Verdicts, a.Verdict) || len(a.Sentences()) == 0 {
			t.Errorf("%s: %s(%s) %q", facts.Asked, a.Verdict, a.Why, a.Sentences())
		}
	})
}
