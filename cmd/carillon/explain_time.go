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

// asked is the question that the argument asks: of an instant, or of what the
// clock of the schedule's zone shows, which the server knows best.
func (c *client) asked(ctx context.Context, l *link, scheduleID, argument string) (*carillonv1.ExplainSlotRequest, error) {
	req := &carillonv1.ExplainSlotRequest{ScheduleId: scheduleID}
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
	if argument != "last" && argument != "next" {
		return at, fmt.Errorf("the time %s is not understood; write 2026-03-08T14:00:00Z, or 2026-03-08T14:00 in the schedule's zone, a duration such as 2h (back) or +2h (ahead), now, last or next", quoted(argument))
	}
	found, err := call(ctx, l, schedules(l).GetSchedule, &carillonv1.GetScheduleRequest{ScheduleId: scheduleID})
	if err != nil {
		return at, err
	}
	return nearby(found, argument)
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
