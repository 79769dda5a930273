package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// asked is the instant that the argument names, and what is to be said of it:
// a reading that the clock shows twice names the first.
func (c *client) asked(ctx context.Context, l *link, scheduleID, argument string) (at time.Time, aside string, err error) {
	if at, err := time.Parse(time.RFC3339Nano, argument); err == nil {
		return at, "", nil
	}
	if argument == "now" {
		return c.now().Truncate(time.Second), "", nil
	}
	if ahead, ok := strings.CutPrefix(argument, "+"); ok {
		if d, err := parseSpan(ahead); err == nil && d >= 0 {
			return c.now().Add(d).Truncate(time.Second), "", nil
		}
	} else if d, err := parseSpan(argument); err == nil && d >= 0 {
		return c.now().Add(-d).Truncate(time.Second), "", nil
	}
	reading, isReading := parseReading(argument)
	if !isReading && argument != "last" && argument != "next" {
		return at, "", fmt.Errorf("the time %s is not understood; write 2026-03-08T14:00:00Z, or 2026-03-08T14:00 in the schedule's zone, a duration such as 2h (back) or +2h (ahead), now, last or next", quoted(argument))
	}
	found, err := call(ctx, l, schedules(l).GetSchedule, &carillonv1.GetScheduleRequest{ScheduleId: scheduleID})
	if err != nil {
		return at, "", err
	}
	if isReading {
		return shownAt(reading, found.GetSchedule().GetTimezone())
	}
	at, err = nearby(found, argument)
	return at, "", err
}

func nearby(found *carillonv1.GetScheduleResponse, which string) (time.Time, error) {
	id := quoted(found.GetSchedule().GetScheduleId())
	switch {
	case which == "next" && len(found.GetPreview()) > 0:
		return found.GetPreview()[0].GetRunAt().AsTime(), nil
	case which == "next":
		return time.Time{}, fmt.Errorf("schedule %s has no slot ahead", id)
	case found.GetSchedule().GetLastRunAt() == nil:
		return time.Time{}, fmt.Errorf("no slot of schedule %s was launched yet", id)
	}
	return found.GetSchedule().GetLastRunAt().AsTime(), nil
}

func parseReading(s string) (reading time.Time, ok bool) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return reading, false
}

// shownAt is when the clock of a zone shows a reading: the first of two times.
// Readings are kept as if the clock showed UTC; the offset is one of those in
// force within a day.
func shownAt(reading time.Time, timezone string) (at time.Time, aside string, err error) {
	zone, err := cronexpr.LoadLocation(timezone)
	if err != nil {
		return at, "", err
	}
	var shown []time.Time
	for _, around := range []time.Duration{-day, day} {
		_, offset := reading.Add(around).In(zone).Zone()
		t := reading.Add(-time.Duration(offset) * time.Second)
		_, there := t.In(zone).Zone()
		if there == offset && (len(shown) == 0 || !shown[0].Equal(t)) {
			shown = append(shown, t)
		}
	}
	switch {
	case len(shown) == 0:
		return at, "", fmt.Errorf("the clock of %s never shows %s: it is set forward past it; write an instant with an offset", timezone, reading.Format("2006-01-02 15:04:05"))
	case len(shown) == 1:
		return shown[0], "", nil
	}
	first, second := shown[0], shown[1]
	if second.Before(first) {
		first, second = second, first
	}
	return first, fmt.Sprintf("The clock of %s shows this time twice; this is the first, the second is %s.", timezone, stamp(second)), nil
}
