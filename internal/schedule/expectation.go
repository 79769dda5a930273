package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// ExpectationKind names one expectation of a schedule; a closed set.
type ExpectationKind string

// The kinds of expectations; docs/alerts.md.
const (
	ExpectStart   ExpectationKind = "start"   // each slot starts within the limit after its run_at
	ExpectFinish  ExpectationKind = "finish"  // each slot succeeds within the limit after its run_at
	ExpectSuccess ExpectationKind = "success" // some run succeeds within every limit
	// ExpectNoFailure has no limit: an alert while the schedule fails. DEFAULT_EXPECT
	// gives it to every schedule.
	ExpectNoFailure ExpectationKind = "failure"
)

// ExpectationKinds is the closed set, in the order of the documentation.
var ExpectationKinds = []ExpectationKind{ExpectStart, ExpectFinish, ExpectSuccess, ExpectNoFailure}

// OfSlots reports whether each slot is checked separately.
func (k ExpectationKind) OfSlots() bool { return k == ExpectStart || k == ExpectFinish }

// OnFailure says whether a failing schedule opens an alert; empty: as DEFAULT_EXPECT.
type OnFailure string

// The values of OnFailure.
const (
	OnFailureAlert  OnFailure = "alert"
	OnFailureIgnore OnFailure = "ignore"
)

// Expect holds the expectations of a schedule. A zero limit is none.
type Expect struct {
	StartWithinMS  uint32    `json:"start_within_ms,omitempty"`
	FinishWithinMS uint32    `json:"finish_within_ms,omitempty"`
	SuccessEveryMS uint32    `json:"success_every_ms,omitempty"`
	AlertAfter     uint32    `json:"alert_after,omitempty"`     // in a row; at least 1 if anything is expected
	RemindEveryMS  uint32    `json:"remind_every_ms,omitempty"` // while an alert is open; 0: never
	OnFailure      OnFailure `json:"on_failure,omitempty"`
}

// Text is the stored form: JSON, or empty.
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

func ParseExpect(text string) (e Expect, err error) {
	if text == "" {
		return e, nil
	}
	err = json.Unmarshal([]byte(text), &e)
	return e, err
}

// Limit is the limit of a kind, zero for none.
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

// Kinds are the expected kinds.
func (e Expect) Kinds() []ExpectationKind {
	var kinds []ExpectationKind
	for _, kind := range ExpectationKinds {
		if e.Limit(kind) > 0 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// affects reports whether a change of the schedule may change the verdict of a kind. Without an
// explicit OnFailure only a success can.
func (e Expect) affects(kind ExpectationKind) bool {
	return e.Limit(kind) > 0 || kind == ExpectNoFailure && e.OnFailure != ""
}

// RemindEvery is how often an open alert is sent again; zero: never.
func (e Expect) RemindEvery() time.Duration { return millis(e.RemindEveryMS) }

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
	LimitMS      uint32 // limit of the last check
	Late         int64  // times missed in a row
	LateSince    time.Time
	WatchedSince time.Time
	JudgedUntil  time.Time // slots up to here have their verdict
	MetAt        time.Time // the last slot that met it; of success, when the last one ended
	AlertID      string    // the open one
	JudgeAt      time.Time // zero: no check until the schedule changes
	JudgedAt     time.Time
}

// ExpectationID names a row of expectations.
type ExpectationID struct {
	ScheduleID string
	Kind       ExpectationKind
}

// Cause says what happened to the slot of an alert: one of the words below, or the reason of the
// ended run.
type Cause string

// The causes besides reasons.
const (
	CauseNotPlanned   Cause = "not_planned"   // it has no run
	CauseNotClaimed   Cause = "not_claimed"   // planned, not claimed
	CauseNotAccepted  Cause = "not_accepted"  // no executor accepted it
	CauseStillRunning Cause = "still_running" // accepted, not ended
	CauseTooLate      Cause = "too_late"      // it happened after the limit
	CauseNoLeader     Cause = "no_leader"     // no worker led the shard
	CauseQueued       Cause = "queued"        // it waits in its dispatch queue
	CauseNoReport     Cause = "no_report"     // accepted (or blocked by an accepted run) without a report since
	CauseNoSuccess    Cause = "no_success"    // no run succeeded or failed since
)

// Resolution says why an alert was closed.
type Resolution string

// The resolutions.
const (
	ResolutionRecovered Resolution = "recovered" // a slot on time, or a success
	ResolutionHappened  Resolution = "happened"  // late, with no slot due since
	ResolutionRemoved   Resolution = "removed"   // the expectation was removed
	ResolutionDeleted   Resolution = "deleted"   // the schedule is gone
)

// Alert is one row of alerts: an expectation that was missed alert_after times in a row.
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
	FirstSlot  time.Time // the first late slot; of success: time of the last success
	LastSlot   time.Time // the newest late slot; of success as FirstSlot
	Deadline   time.Time // of LastSlot
	OpenedAt   time.Time
	ClosedAt   time.Time // zero: it is open
	Resolution Resolution
	NotifiedAt time.Time // when it was last sent
	Targets    string    // notified at open and close: ids separated by commas
	AckedAt    time.Time
	AckedBy    string
	AckNote    string
	RunKey     Key    // of kind failure: the newest failed run
	Detail     string // of kind failure: its error; of the other kinds: the cause as a sentence, if known; at most MaxAlertDetail bytes
}

// MaxAlertDetail bounds Alert.Detail, in bytes.
const MaxAlertDetail = 500

// AlertID derives an alert's id from the slot that opened it, so that a repeated check names the
// same alert.
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

// AlertAck acknowledges an alert: it is not sent again.
type AlertAck struct {
	AlertID string
	By      string
	Note    string
	Now     time.Time
}

// SlotRun is the part of a run that an expectation is checked against.
type SlotRun struct {
	RunAt       time.Time
	Status      Status
	Reason      Reason
	ClaimedAt   time.Time
	LaunchedAt  time.Time
	StartedAt   time.Time
	CompletedAt time.Time
}

// ExpectationCase is the input of one check, its row locked.
type ExpectationCase struct {
	State      ExpectationState
	Schedule   *Schedule // tombstones included; nil: pruned
	Unreadable error     // why the schedule's row or its revisions could not be read
	// Revisions are the newest of this schedule, newest first, if the one in force is younger than
	// State.JudgedUntil; else none.
	Revisions []Revision
	Pauses    []Event // the newest paused, resumed and pause_ended, oldest first
	// Runs are those of the slots after State.JudgedUntil and of Alert.LastSlot, ordered by
	// run_at, without manual runs. Kind success has none.
	Runs []SlotRun
	// RunsUntil, unless zero, says that runs from this instant on are not in Runs.
	RunsUntil time.Time
	// LastSuccess is when the last run succeeded from SuccessFrom on; only
	// for kind success; zero: none later than State.MetAt.
	LastSuccess time.Time
	// OnFailure is the value of DEFAULT_EXPECT; the caller sets it.
	OnFailure OnFailure
	// Failure is set if the schedule is failing; only for kinds failure and success.
	Failure *Failure
	Alert   *Alert // the open one
}

// Judgeable reports whether the schedule exists and can be read.
func (c *ExpectationCase) Judgeable() bool {
	return c.Schedule != nil && c.Schedule.Alive() && c.Unreadable == nil
}

// NeedsFailure reports whether Failure is read for the case. A schedule without a success is
// distinguished by how its runs end.
func (c *ExpectationCase) NeedsFailure() bool {
	return c.State.Kind == ExpectNoFailure || c.State.Kind == ExpectSuccess
}

// CasesBySchedule are the indices of the wanted cases by schedule, and the schedule ids in order.
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

// ReadCaseFailures sets Failure of the cases for which NeedsFailure holds. It does not call read
// if there are none.
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

// SuccessFrom is the earliest run_at of a run that may count as a success. A slot older than the
// limit plus the run timeout when the last success ended, as in a backfill of last month, does not
// show that the schedule works now.
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

// ExpectationVerdict is the result of a check.
type ExpectationVerdict struct {
	State      ExpectationState
	Drop       bool    // delete the row: the expectation was removed
	Alerts     []Alert // to write; all fields except the acknowledgement
	Deliveries []AlertDelivery
}

// EvaluateRequest selects expectations with a due judge_at.
type EvaluateRequest struct {
	Now   time.Time
	Limit int
	// MaxRuns bounds the runs of one case.
	MaxRuns int
	// MaxHistory bounds its revisions and pauses.
	MaxHistory int
}

// Decide calls decide and returns the expectations that its changes touch: those of each schedule
// before and after the change.
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
			if (old.affects(kind) || row.Expect.affects(kind)) && !seen[id] {
				seen[id] = true
				touched = append(touched, id)
			}
		}
	}
	return changes, touched, nil
}
