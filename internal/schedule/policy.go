package schedule

// OverlapPolicy decides on a due slot while an earlier run of the same overlap key is in flight.
// It applies when the slot is claimed.
type OverlapPolicy string

// The overlap policies.
const (
	OverlapAllow    OverlapPolicy = "allow"    // always fire
	OverlapSkip     OverlapPolicy = "skip"     // SKIPPED(overlap); the default
	OverlapQueue    OverlapPolicy = "queue"    // wait, in order, at most MaxQueued
	OverlapReplace  OverlapPolicy = "replace"  // cancel the run in flight, then fire the newest slot
	OverlapCoalesce OverlapPolicy = "coalesce" // the newest slot of the schedule waits in place of older ones
)

// OverlapPolicies is the closed set, in the order of the documentation. The tables of runs have
// their numbers, and the view schedule_runs turns these into words: a policy goes to the end.
var OverlapPolicies = []OverlapPolicy{OverlapAllow, OverlapSkip, OverlapQueue, OverlapReplace, OverlapCoalesce}

// Exclusive reports whether at most one run under this policy may be in flight
// per overlap key. The stores back it with a partial unique index.
func (p OverlapPolicy) Exclusive() bool { return p != OverlapAllow }

// Waits reports whether a slot under this policy waits for runs in flight.
func (p OverlapPolicy) Waits() bool {
	return p == OverlapQueue || p == OverlapReplace || p == OverlapCoalesce
}

// CatchupPolicy decides on missed slots: first seen later than the misfire grace.
type CatchupPolicy string

// The catch-up policies.
const (
	CatchupNone            CatchupPolicy = "none"             // not fired, but recorded; the default
	CatchupFireImmediately CatchupPolicy = "fire_immediately" // all of them, oldest first, a portion per tick
	CatchupSpread          CatchupPolicy = "spread"           // all of them, evenly over lookahead windows
	CatchupLatest          CatchupPolicy = "latest"           // only the newest
)

// CatchupPolicies is the closed set, in the order of the documentation.
var CatchupPolicies = []CatchupPolicy{CatchupNone, CatchupFireImmediately, CatchupSpread, CatchupLatest}

// Trigger says why a run exists.
type Trigger string

// The triggers.
const (
	TriggerSchedule Trigger = "schedule" // a slot, planned in time
	TriggerCatchup  Trigger = "catchup"  // a missed slot that is caught up
	TriggerManual   Trigger = "manual"   // requested by a user or program
	TriggerBackfill Trigger = "backfill" // a slot of a past range
	TriggerRetry    Trigger = "retry"    // a new attempt of an ended run
	TriggerJob      Trigger = "job"      // put into a dispatch queue by a user or program
	TriggerEvent    Trigger = "event"    // events that a consumer has taken
)

// Triggers is the closed set.
var Triggers = []Trigger{TriggerSchedule, TriggerCatchup, TriggerManual, TriggerBackfill, TriggerRetry, TriggerJob, TriggerEvent}

// FromSpec reports whether the run is a slot of its schedule's rule. Only such runs can be missed.
func (t Trigger) FromSpec() bool { return t == TriggerSchedule || t == TriggerCatchup }

// ObeysPause reports whether a pause of the schedule holds its runs back.
func (t Trigger) ObeysPause() bool { return t.FromSpec() || t == TriggerEvent }

// MayHaveEvents reports whether its runs can have events: those of a consumer, and their next attempts.
func (t Trigger) MayHaveEvents() bool { return t == TriggerEvent || t == TriggerRetry }

// AfterOthers reports whether its runs give way to runs on time.
func (t Trigger) AfterOthers() bool { return t == TriggerCatchup || t == TriggerBackfill }

// DST names how local times are read across changes of the clock.
type DST string

// The DST rules; docs/semantics.md has the examples.
const (
	DSTVixie   DST = "vixie"   // fixed times run once at a fold and once after a gap; the default
	DSTLiteral DST = "literal" // gap skipped, fold twice, as Kubernetes and Temporal do
)
