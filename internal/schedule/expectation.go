package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// ExpectationKind names one promise of a schedule; a closed set.
type ExpectationKind string

// The kinds of expectations; docs/alerts.md.
const (
	ExpectStart   ExpectationKind = "start"   // each slot starts within so long of its run_at
	ExpectFinish  ExpectationKind = "finish"  // each slot has succeeded within so long of its run_at
	ExpectSuccess ExpectationKind = "success" // some run has succeeded within every so long
	// ExpectNoFailure has no limit: an alert while the schedule fails. DEFAULT_EXPECT
	// gives it to every schedule.
	ExpectNoFailure ExpectationKind = "failure"
)

// ExpectationKinds is the closed set, in the order of the documentation.
var ExpectationKinds = []ExpectationKind{ExpectStart, ExpectFinish, ExpectSuccess, ExpectNoFailure}

// OfSlots reports whether each slot is judged by itself.
func (k ExpectationKind) OfSlots() bool { return k == ExpectStart || k == ExpectFinish }

// OnFailure says whether a failing schedule opens an alert; empty: as DEFAULT_EXPECT
// says.
type OnFailure string

// The words of OnFailure.
const (
	OnFailureAlert  OnFailure = "alert"
	OnFailureIgnore OnFailure = "ignore"
)

// Expect is what a schedule promises. A zero limit is no promise.
type Expect struct {
	StartWithinMS  uint32    `json:"start_within_ms,omitempty"`
	FinishWithinMS uint32    `json:"finish_within_ms,omitempty"`
	SuccessEveryMS uint32    `json:"success_every_ms,omitempty"`
	AlertAfter     uint32    `json:"alert_after,omitempty"`     // in a row; 1 at least once anything is promised
	RemindEveryMS  uint32    `json:"remind_every_ms,omitempty"` // while an alert is open; 0: never
	OnFailure      OnFailure `json:"on_failure,omitempty"`
}

// Text is how a schedule's row keeps it: JSON, or nothing.
func (e Expect) Text() string {
	if e == (Expect{}) {
		return ""
	}
	raw, err := json.Marshal(e)
	if err != nil {
		panic("numbers are not JSON: " + err.Error()) // they always are
	}
	return string(raw)
}

// ParseExpect reads what Text wrote.
func ParseExpect(text string) (e Expect, err error) {
	if text == "" {
		return e, nil
	}
	err = json.Unmarshal([]byte(text), &e)
	return e, err
}

// Limit is the promise of a kind, zero for none.
func (e Expect) Limit(kind ExpectationKind) time.Duration {
	switch kind {
	case ExpectStart:
		return millis(e.StartWithinMS)
	case ExpectFinish:
		return millis(e.FinishWithinMS)
	case ExpectSuccess:
		return millis(e.SuccessEveryMS)
	}
	return 0
}

// Kinds are those that something is promised of.
func (e Expect) Kinds() []ExpectationKind {
	var kinds []ExpectationKind
	for _, kind := range ExpectationKinds {
		if e.Limit(kind) > 0 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// judges reports whether a change of the schedule may change the verdict of a kind.
// Of a schedule that says nothing of failures a success alone does.
func (e Expect) judges(kind ExpectationKind) bool {
	return e.Limit(kind) > 0 || kind == ExpectNoFailure && e.OnFailure != ""
}

// RemindEvery is how often an open alert is told again; zero: never.
func (e Expect) RemindEvery() time.Duration { return millis(e.RemindEveryMS) }

// ExpectationStatus says how a promise stands.
type ExpectationStatus string

// The statuses of an expectation.
const (
	ExpectationOK       ExpectationStatus = "ok"
	ExpectationLate     ExpectationStatus = "late"     // broken, not yet alert_after times in a row
	ExpectationAlerting ExpectationStatus = "alerting" // an alert is open
)

// ExpectationState is one row of expectations.
type ExpectationState struct {
	ScheduleID   string
	Kind         ExpectationKind
	Status       ExpectationStatus
	LimitMS      uint32 // under which it was judged last
	Late         int64  // broken so often in a row
	LateSince    time.Time
	WatchedSince time.Time
	JudgedUntil  time.Time // slots up to here have their verdict
	MetAt        time.Time // the last slot in time; of success, when the last one ended
	AlertID      string    // the open one
	JudgeAt      time.Time // zero: nothing to judge until the schedule changes
	JudgedAt     time.Time
}

// ExpectationID names a row of expectations.
type ExpectationID struct {
	ScheduleID string
	Kind       ExpectationKind
}

// Cause says what became of the slot that an alert is about: a word of its own,
// or the reason of the run that ended.
type Cause string

// The causes besides reasons.
const (
	CauseNotPlanned   Cause = "not_planned"   // there is no run of it
	CauseNotClaimed   Cause = "not_claimed"   // planned, and not begun
	CauseNotAccepted  Cause = "not_accepted"  // no executor has said yes
	CauseStillRunning Cause = "still_running" // accepted, and not ended
	CauseTooLate      Cause = "too_late"      // it happened, behind the limit
	CauseNoLeader     Cause = "no_leader"     // no worker led the shard
	CauseNoReport     Cause = "no_report"     // accepted, or blocked by a run that was, and nothing was reported since
	CauseNoSuccess    Cause = "no_success"    // no run succeeded or failed since
)

// Resolution says why an alert was closed.
type Resolution string

// The resolutions.
const (
	ResolutionRecovered Resolution = "recovered" // a slot in time, or a success
	ResolutionHappened  Resolution = "happened"  // late, with no slot due since
	ResolutionRemoved   Resolution = "removed"   // the schedule promises it no more
	ResolutionDeleted   Resolution = "deleted"   // the schedule is gone
)

// Alert is one row of alerts: a promise that was broken alert_after times in a row.
type Alert struct {
	AlertID    string
	ScheduleID string
	WorkflowID string
	UserID     string
	Kind       ExpectationKind
	Revision   int64 // in force when it was opened
	LimitMS    uint32
	Cause      Cause     // of the newest late slot
	Late       int64     // in a row, so far
	FirstSlot  time.Time // the first late slot; of success, since when there was none
	LastSlot   time.Time // the newest late slot; of success as FirstSlot
	Deadline   time.Time // of LastSlot
	OpenedAt   time.Time
	ClosedAt   time.Time // zero: it is open
	Resolution Resolution
	NotifiedAt time.Time // when it was last told
	Targets    string    // who was told of it, and is told of its end: ids between commas
	AckedAt    time.Time
	AckedBy    string
	AckNote    string
	RunKey     Key    // of kind failure: the newest failed run
	Detail     string // of kind failure: its error; of the others: the cause in a sentence, if known; at most MaxAlertDetail bytes
}

// MaxAlertDetail bounds Alert.Detail, in bytes.
const MaxAlertDetail = 500

// AlertID names an alert by what it is about, the slot that opened it, so that
// whoever judges it first and whoever judges it again name the same.
func AlertID(scheduleID string, kind ExpectationKind, slot time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", scheduleID, kind, slot.UnixMicro()))
	return "al-" + hex.EncodeToString(sum[:12])
}

// AlertFilter narrows a list of alerts, newest opened first. Zero fields do not
// filter.
type AlertFilter struct {
	UserID      string
	ScheduleID  string
	Kind        ExpectationKind
	Open        *bool
	AfterOpened time.Time // of the last row of the page before
	AfterID     string
	Limit       int
}

// AlertAck says that somebody has seen to an alert: it is not told again.
type AlertAck struct {
	AlertID string
	By      string
	Note    string
	Now     time.Time
}

// SlotRun is what an expectation is judged on of one run.
type SlotRun struct {
	RunAt       time.Time
	Status      Status
	Reason      Reason
	ClaimedAt   time.Time
	LaunchedAt  time.Time
	StartedAt   time.Time
	CompletedAt time.Time
}

// ExpectationCase is all that one expectation is judged on, its row locked.
type ExpectationCase struct {
	State      ExpectationState
	Schedule   *Schedule // tombstones included; nil: pruned
	Unreadable error     // why the schedule's row or its revisions could not be read
	// Revisions are the newest of this schedule, newest first, where the one in
	// force is younger than State.JudgedUntil; else none.
	Revisions []Revision
	Pauses    []Event // of the kinds paused, resumed and pause_ended, oldest first; the newest ones
	// Runs are those of the slots behind State.JudgedUntil and of Alert.LastSlot,
	// ordered by run_at; none by hand. Kind success has none.
	Runs []SlotRun
	// RunsUntil, unless zero, says that there are more runs than Runs, from this
	// instant on.
	RunsUntil time.Time
	// LastSuccess is when the last run succeeded from SuccessFrom on; only
	// for kind success; zero: none later than State.MetAt.
	LastSuccess time.Time
	// OnFailure is DEFAULT_EXPECT's word; the judge sets it.
	OnFailure OnFailure
	// Failure is how the schedule fails; only for the kinds failure and success;
	// nil: it does not.
	Failure *Failure
	Alert   *Alert // the open one
}

// Judgeable says whether there is a schedule to judge, and it can be read.
func (c *ExpectationCase) Judgeable() bool {
	return c.Schedule != nil && c.Schedule.Alive() && c.Unreadable == nil
}

// NeedsFailure says whether Failure is read for the case. A schedule without a
// success is told apart by what its runs end with.
func (c *ExpectationCase) NeedsFailure() bool {
	return c.State.Kind == ExpectNoFailure || c.State.Kind == ExpectSuccess
}

// CasesBySchedule are where the wanted cases of each schedule stand, and the
// schedules' ids in order.
func CasesBySchedule(cases []ExpectationCase, wanted func(*ExpectationCase) bool) (at map[string][]int, ids []string) {
	at = make(map[string][]int)
	for i := range cases {
		if id := cases[i].State.ScheduleID; wanted(&cases[i]) {
			if at[id] == nil {
				ids = append(ids, id)
			}
			at[id] = append(at[id], i)
		}
	}
	slices.Sort(ids)
	return at, ids
}

// ReadCaseFailures adds how the schedules fail that have a case for which
// NeedsFailure holds. It does not call read if there is no such case.
func ReadCaseFailures(cases []ExpectationCase, read func(scheduleIDs []string) (map[string]*Failure, error)) error {
	at, ids := CasesBySchedule(cases, (*ExpectationCase).NeedsFailure)
	if len(ids) == 0 {
		return nil
	}
	failures, err := read(ids)
	if err != nil {
		return err
	}
	for id, f := range failures {
		for _, i := range at[id] {
			cases[i].Failure = f
		}
	}
	return nil
}

// SuccessFrom is the earliest run_at of a run that may count as a success: one
// whose slot was older than the limit and the run timeout together when the last
// success ended says nothing of now, as a backfill of last month does.
func (c *ExpectationCase) SuccessFrom() time.Time {
	from := c.State.WatchedSince
	if c.State.MetAt.After(from) {
		from = c.State.MetAt
	}
	if c.Schedule != nil {
		from = from.Add(-c.Schedule.Expect.Limit(ExpectSuccess) - c.Schedule.RunTimeout())
	}
	return from
}

// ExpectationVerdict is what a judge makes of a case.
type ExpectationVerdict struct {
	State      ExpectationState
	Drop       bool    // the row goes: there is nothing promised any more
	Alerts     []Alert // to write, whole but for the acknowledgement
	Deliveries []AlertDelivery
}

// JudgeRequest asks for expectations whose judge_at has come.
type JudgeRequest struct {
	Now   time.Time
	Limit int
	// MaxRuns bounds the runs of one case.
	MaxRuns int
	// MaxHistory bounds its revisions and pauses.
	MaxHistory int
}

// Decide asks decide for its changes, and says which expectations they touch:
// those of each schedule as it was, and as it will be. Most schedules have none,
// and cost nothing.
func Decide(inputs []ChangeInput, decide func([]ChangeInput) ([]Change, error)) (changes []Change, touched []ExpectationID, err error) {
	var was map[string]Expect
	for _, in := range inputs { // before decide, which may write into them
		if in.Schedule != nil && in.Schedule.Expect != (Expect{}) {
			if was == nil {
				was = make(map[string]Expect)
			}
			was[in.Schedule.ScheduleID] = in.Schedule.Expect
		}
	}
	if changes, err = decide(inputs); err != nil {
		return nil, nil, err
	}
	seen := make(map[ExpectationID]bool)
	for i := range changes {
		row := changes[i].Row
		if row == nil {
			continue
		}
		old := was[row.ScheduleID]
		for _, kind := range ExpectationKinds {
			id := ExpectationID{row.ScheduleID, kind}
			if (old.judges(kind) || row.Expect.judges(kind)) && !seen[id] {
				seen[id] = true
				touched = append(touched, id)
			}
		}
	}
	return changes, touched, nil
}
