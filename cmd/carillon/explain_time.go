package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/explain"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// asked turns the TIME argument into a request. The server resolves local times
// and the newest slot: it knows the schedule's zone and history.
func (c *client) asked(ctx context.Context, l *link, scheduleID, argument string) (*carillonv1.ExplainSlotRequest, error) {
	req := &carillonv1.ExplainSlotRequest{ScheduleId: scheduleID}
	if argument == "" || argument == "last" {
		return req, nil // the newest slot that is due
	}
	if _, isReading := explain.ParseReading(argument); isReading {
		req.Local = argument
		return req, nil
	}
	at, err := c.instant(ctx, l, scheduleID, argument)
	req.Time = timestamppb.New(at)
	return req, err
}

func (c *client) instant(ctx context.Context, l *link, scheduleID, argument string) (at time.Time, err error) {
	if at, err := time.Parse(time.RFC3339Nano, argument); err == nil {
		return at, nil
	}
	if argument == "now" {
		return c.now().Truncate(time.Second), nil
	}
	if ahead, ok := strings.CutPrefix(argument, "+"); ok {
		if d, err := parseSpan(ahead); err == nil && d >= 0 {
			return c.now().Add(d).Truncate(time.Second), nil
		}
	} else if d, err := parseSpan(argument); err == nil && d >= 0 {
		return c.now().Add(-d).Truncate(time.Second), nil
	}
	if argument != "next" {
		return at, fmt.Errorf("invalid time %s: write 2026-03-08T14:00:00Z, or 2026-03-08T14:00 in the schedule's zone, a duration such as 2h (back) or +2h (ahead), now, last or next", quoted(argument))
	}
	found, err := call(ctx, l, schedules(l).GetSchedule, &carillonv1.GetScheduleRequest{ScheduleId: scheduleID})
	if err != nil {
		return at, err
	}
	if len(found.GetPreview()) == 0 {
		return at, fmt.Errorf("schedule %s has no next slot", quoted(scheduleID))
	}
	return found.GetPreview()[0].GetRunAt().AsTime(), nil
}
