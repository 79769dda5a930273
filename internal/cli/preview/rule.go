package preview

import (
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// fire is a slot with its local time and a note on daylight saving time.
type fire struct {
	slot  plan.Slot
	local string
	note  string
}

// offline lists the next fires of a rule, like PreviewSchedule of the API.
func offline(req *carillonv1.PreviewScheduleRequest, now time.Time, count int) ([]fire, error) {
	d, err := definitionOf(req)
	if err != nil {
		return nil, err
	}
	after, until, err := window(req, now)
	if err != nil {
		return nil, err
	}
	// A schedule has no slots before its creation. Assume an old one, so that a window
	// in the past is complete. An interval without a start counts from its creation.
	created := schedule.MinTime
	if d.IntervalMS > 0 {
		created = now
	}
	timetable, err := plan.NewTimetable(d, created, created)
	if err != nil {
		return nil, err
	}
	zone, err := cronexpr.LoadLocation(d.Timezone)
	if err != nil {
		return nil, invalidField("timezone", err)
	}
	clock, err := describe.NewClock(d, zone)
	if err != nil {
		return nil, err
	}
	slots := timetable.Preview(after, until, count)
	if len(slots) == 0 && until.IsZero() && d.CronExpr != "" && d.EndAt.IsZero() {
		return nil, invalidField("cron_expr", cronexpr.ErrNeverFires)
	}
	fires := make([]fire, len(slots))
	before := after
	for i, slot := range slots {
		fires[i] = fire{slot: slot, local: slot.RunAt.In(zone).Format(describe.LocalFormat), note: clock.Note(before, slot.RunAt)}
		before = slot.RunAt
	}
	return fires, nil
}

// definitionOf is the rule as a definition, with the checks that a preview needs.
func definitionOf(req *carillonv1.PreviewScheduleRequest) (*schedule.Definition, error) {
	var c schedule.Collect
	d := &schedule.Definition{
		ScheduleID: "preview", Timezone: "UTC", DST: schedule.DSTVixie,
		CronExpr: req.GetCronExpr(), IntervalMS: req.GetIntervalMs(), JitterMS: req.GetJitterMs(),
	}
	if id := req.GetScheduleId(); id != "" {
		d.ScheduleID = id
	}
	if req.Timezone != nil {
		d.Timezone = req.GetTimezone()
	}
	if req.Dst != nil {
		d.DST = schedule.DST(req.GetDst())
	}
	if d.DST != schedule.DSTVixie && d.DST != schedule.DSTLiteral {
		c.Add("dst", string(d.DST), "is not a policy", "write vixie or literal")
	}
	if req.CronExpr != nil {
		if _, err := cronexpr.Parse(d.CronExpr); err != nil {
			c.Note("cron_expr", err.Error(), "")
		}
	}
	if _, err := cronexpr.LoadLocation(d.Timezone); err != nil {
		c.Note("timezone", err.Error(), "")
	}
	if req.IntervalMs != nil && (d.IntervalMS == 0 || d.IntervalMS%1000 != 0) {
		c.Add("interval_ms", d.IntervalMS, "is not a multiple of "+schedule.Milliseconds(time.Second), "write whole seconds, at least one")
	}
	if d.Jitter() > schedule.MaxJitter {
		c.Add("jitter_ms", d.JitterMS, "is over "+schedule.Milliseconds(schedule.MaxJitter), "")
	}
	if !schedule.ValidID(d.ScheduleID) {
		c.Add("schedule_id", d.ScheduleID, "is not an id", "write 1 to 128 of A–Z a–z 0–9 . _ : -")
	}
	if req.GetOnceAt() != nil {
		d.OnceAt = req.GetOnceAt().AsTime()
	}
	if req.GetStartAt() != nil {
		d.StartAt = req.GetStartAt().AsTime()
	}
	if req.GetEndAt() != nil {
		d.EndAt = req.GetEndAt().AsTime()
	}
	return d, c.Err()
}
