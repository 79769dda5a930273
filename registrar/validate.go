package registrar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// resolve fills in the defaults.
func (r *Registrar) resolve(in UpsertInput) schedule.Definition {
	d := in.Definition
	d.Timezone = orDefault(d.Timezone, "UTC")
	d.DST = orDefault(d.DST, schedule.DSTVixie)
	d.Consume = d.Consume.Resolved()
	d.Consume.Filter = orderedFilter(d.Consume.Filter)
	if d.Consume.Any() {
		d.OverlapPolicy = orDefault(d.OverlapPolicy, schedule.OverlapQueue)
		if d.Retry == (schedule.RetryPolicy{}) {
			d.Retry = schedule.ConsumerRetry
		}
	}
	d.OverlapPolicy = orDefault(d.OverlapPolicy, r.cfg.DefaultOverlap)
	d.OverlapKey = orDefault(d.OverlapKey, d.ScheduleID)
	window := schedule.DefaultCatchupSpan
	if d.CatchupPolicy == "" && d.OverlapPolicy == schedule.OverlapCoalesce {
		// A slot that waits is never lost to a busy key, so none is lost to an outage either.
		d.CatchupPolicy, window = schedule.CatchupLatest, schedule.MaxCatchupWindow
	}
	d.CatchupPolicy = orDefault(d.CatchupPolicy, r.cfg.DefaultCatchup)
	d.JitterMS = value(in.JitterMS, r.cfg.DefaultJitterMS)
	d.MaxQueued = value(in.MaxQueued, schedule.DefaultMaxQueued)
	d.CatchupWindowMS = value(in.CatchupWindowMS, uint32(window.Milliseconds()))
	d.RunTimeoutMS = value(in.RunTimeoutMS, r.cfg.RunTimeoutMS)
	d.Priority = value(in.Priority, 0)
	d.OnceAt, d.StartAt, d.EndAt = utc(d.OnceAt), utc(d.StartAt), utc(d.EndAt)
	d.Expect = resolveExpect(d.Expect)
	d.Retry = d.Retry.Resolved()
	d.Limits = schedule.JoinLimits(d.Limits).Texts()
	return d
}

// validate lists everything that is wrong with a resolved definition.
func (r *Registrar) validate(d *schedule.Definition) error {
	var c schedule.Collect
	checkIDs(&c, d)
	checkSpec(&c, d)
	checkWindow(&c, d)
	r.checkPolicies(&c, d)
	checkNumbers(&c, d)
	checkInput(&c, d.Input)
	checkLabels(&c, d.Labels)
	r.checkExpect(&c, d)
	d.Retry.Check(&c)
	schedule.CheckMaxRun(&c, d.MaxRunMS)
	checkQueueUse(&c, d)
	checkConsumer(&c, d)
	return c.Err()
}

const idHint = schedule.IDHint

func checkIDs(c *schedule.Collect, d *schedule.Definition) {
	checkID(c, "schedule_id", d.ScheduleID)
	checkID(c, "workflow_id", d.WorkflowID)
	checkOwner(c, d.UserID)
	checkID(c, "overlap_key", d.OverlapKey)
	if d.ExecutionGrantID != "" {
		checkID(c, "execution_grant_id", d.ExecutionGrantID)
	}
	if d.ManagedBy != "" {
		// A deployment's managed_by is an id with a prefix.
		checkID(c, "managed_by", strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(d.ManagedBy, managedByWorkflow), managedBySet), schedule.ManagedByQueue))
	}
	if d.Version < 1 {
		c.Add("version", d.Version, "is below 1", "workflow versions start at 1")
	}
}

func checkID(c *schedule.Collect, field, id string) {
	switch {
	case id == "":
		c.Note(field, "is required", idHint)
	case !schedule.ValidID(id):
		c.Add(field, id, "is not a valid id", idHint)
	}
}

func checkOwner(c *schedule.Collect, userID string) {
	switch {
	case userID == "":
		c.Note("user_id", "is required", schedule.OwnerHint)
	case !schedule.ValidOwner(userID):
		c.Add("user_id", userID, "is not a valid owner id", schedule.OwnerHint)
	}
}

func checkSpec(c *schedule.Collect, d *schedule.Definition) {
	given := 0
	for _, set := range []bool{d.CronExpr != "", d.IntervalMS != 0, !d.OnceAt.IsZero()} {
		if set {
			given++
		}
	}
	if given > 1 {
		c.Note("cron_expr", "more than one of cron_expr, interval_ms and once_at is set", "keep one; none means a manual schedule")
	}
	if d.IntervalMS%1000 != 0 {
		c.Add("interval_ms", d.IntervalMS, "is not a multiple of "+schedule.Milliseconds(time.Second), "slots are whole seconds")
	}
	loc := checkZone(c, d.Timezone)
	if d.CronExpr != "" {
		checkCron(c, d, loc)
	}
	checkWord(c, "dst", d.DST, []schedule.DST{schedule.DSTVixie, schedule.DSTLiteral})
}

func checkZone(c *schedule.Collect, name string) *time.Location {
	loc, err := cronexpr.LoadLocation(name)
	if err != nil {
		var zone *cronexpr.ZoneError
		if errors.As(err, &zone) {
			c.Add("timezone", zone.Name, zone.Problem, "")
		} else {
			c.Note("timezone", err.Error(), "")
		}
		return nil
	}
	return loc
}

// checkCron also checks an expression in an invalid zone (loc is nil), so that both are reported
// at once.
func checkCron(c *schedule.Collect, d *schedule.Definition, loc *time.Location) {
	expr, err := cronexpr.Parse(d.CronExpr)
	if err != nil {
		c.Add("cron_expr", d.CronExpr, "is invalid: "+err.Error(), "")
		return
	}
	if loc == nil {
		return
	}
	// From a fixed instant: the answer must not depend on the time of the call, and 50 years from
	// here contain every leap-day weekday.
	if err := expr.In(loc, cronexpr.DST(d.DST)).CheckFires(schedule.MinTime.AddDate(56, 0, 0)); err != nil {
		c.Add("cron_expr", d.CronExpr, "never fires: no match within 50 years", "check day and month")
	}
}

func checkWindow(c *schedule.Collect, d *schedule.Definition) {
	for _, t := range []struct {
		field string
		at    time.Time
	}{{"once_at", d.OnceAt}, {"start_at", d.StartAt}, {"end_at", d.EndAt}} {
		if t.at.IsZero() {
			continue
		}
		if t.at.Nanosecond() != 0 {
			c.Add(t.field, t.at.Format(time.RFC3339Nano), "is not a whole second", "remove the fraction")
		}
		if t.at.Before(schedule.MinTime) || !t.at.Before(schedule.MaxTime) {
			c.Add(t.field, t.at.Format(time.RFC3339), "is outside 1970 to 2099", "")
		}
	}
	if !d.StartAt.IsZero() && !d.EndAt.IsZero() && d.EndAt.Before(d.StartAt) {
		c.Add("end_at", d.EndAt.Format(time.RFC3339), "is before start_at "+d.StartAt.Format(time.RFC3339), "")
	}
}

func (r *Registrar) checkPolicies(c *schedule.Collect, d *schedule.Definition) {
	checkWord(c, "overlap_policy", d.OverlapPolicy, schedule.OverlapPolicies)
	checkWord(c, "catchup_policy", d.CatchupPolicy, schedule.CatchupPolicies)
	if d.OverlapPolicy == schedule.OverlapReplace && !r.cfg.CanCancel {
		c.Add("overlap_policy", d.OverlapPolicy, "needs an executor that can cancel", "set EXECUTOR_CANCEL_URL, or use skip, queue or coalesce")
	}
}

func checkWord[T ~string](c *schedule.Collect, field string, word T, set []T) {
	if !slices.Contains(set, word) {
		c.Add(field, string(word), fmt.Sprintf("is not one of %v", set), "")
	}
}

func checkNumbers(c *schedule.Collect, d *schedule.Definition) {
	atMost := func(field string, ms uint32, limit time.Duration) {
		if int64(ms) > limit.Milliseconds() {
			c.Add(field, ms, "is over "+schedule.Milliseconds(limit), "")
		}
	}
	atMost("jitter_ms", d.JitterMS, schedule.MaxJitter)
	atMost("catchup_window_ms", d.CatchupWindowMS, schedule.MaxCatchupWindow)
	atMost("run_timeout_ms", d.RunTimeoutMS, schedule.MaxRunTimeout)
	atMost("launch_timeout_ms", d.LaunchTimeoutMS, schedule.MaxLaunchTimeout)
	if d.LaunchTimeoutMS > 0 && d.LaunchTimeoutMS < 1000 {
		c.Add("launch_timeout_ms", d.LaunchTimeoutMS, "is below 1000", "give a second at least, or 0 for LAUNCH_RETRY_FOR_MS")
	}
	if d.RunTimeoutMS < 1000 {
		c.Add("run_timeout_ms", d.RunTimeoutMS, "is below "+schedule.Milliseconds(time.Second), "")
	}
	if d.MaxQueued < 1 || d.MaxQueued > schedule.MaxQueuedLimit {
		c.Add("max_queued", d.MaxQueued, fmt.Sprintf("is not within 1 to %d", schedule.MaxQueuedLimit), "")
	}
	if d.Priority < -schedule.MaxPriority || d.Priority > schedule.MaxPriority {
		c.Add("priority", d.Priority, fmt.Sprintf("is not within -%d to %d", schedule.MaxPriority, schedule.MaxPriority), "")
	}
}

func checkInput(c *schedule.Collect, input json.RawMessage) {
	if len(input) == 0 {
		return
	}
	if len(input) > schedule.MaxInputBytes {
		c.Note("input", fmt.Sprintf("has %d bytes, more than %d", len(input), schedule.MaxInputBytes), "pass a reference instead of the content")
		return
	}
	if problem := jsonProblem(input); problem != "" {
		c.Note("input", problem, "")
	}
}

// jsonProblem describes an error in a JSON document; "": none.
func jsonProblem(raw []byte) string { return rawjson.Problem(raw, schedule.MaxJSONDepth) }

func checkLabels(c *schedule.Collect, labels map[string]string) {
	if len(labels) > schedule.MaxLabels {
		c.Note("labels", fmt.Sprintf("has %d entries, more than %d", len(labels), schedule.MaxLabels), "")
	}
	for key, value := range labels {
		if !schedule.ValidID(key) {
			c.Add("labels", key, "is not a valid label name", idHint)
		}
		if len(value) > schedule.MaxIDLength || bytes.ContainsFunc([]byte(value), isControl) {
			c.Add("labels."+key, value, fmt.Sprintf("is over %d bytes or holds control characters", schedule.MaxIDLength), "")
		}
	}
}

// checkNote refuses a note that an event cannot hold.
func checkNote(note string) error {
	if len(note) > schedule.MaxNoteLength {
		return schedule.Invalid("note", note, fmt.Sprintf("is over %d bytes", schedule.MaxNoteLength), "")
	}
	if !utf8.ValidString(note) || strings.ContainsRune(note, 0) {
		return schedule.Invalid("note", note, "is not valid text", "remove NUL and invalid characters")
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func orDefault[T ~string](word, fallback T) T {
	if word == "" {
		return fallback
	}
	return word
}

func value[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}
