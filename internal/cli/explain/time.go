package explain

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/explain"
)

// runKeyDigits matches the key of a run or its first digits.
var runKeyDigits = regexp.MustCompile(`^[0-9a-f]{4,64}$`)

// requestByKey is the request for the slot of a run, or for a run that is not that of a slot. err
// is the error of the lookup as a schedule id; it is returned if the argument cannot be a key.
func requestByKey(ctx context.Context, l *client.Link, digits string, err error) (*carillonv1.ExplainSlotRequest, *carillonv1.ExplainRunRequest, error) {
	if command.ExitCode(err) != command.ExitNotFound || !runKeyDigits.MatchString(digits) {
		return nil, nil, err
	}
	found, runErr := client.Call(ctx, l, l.Runs().GetRun, &carillonv1.GetRunRequest{IdempotencyKey: digits})
	if command.ExitCode(runErr) == command.ExitNotFound {
		return nil, nil, &client.CallError{Code: codes.NotFound, Err: fmt.Errorf("not found: there is no schedule and no run %s", schedule.Quote(digits))}
	}
	if runErr != nil {
		return nil, nil, runErr
	}
	run := found.GetRun()
	if schedule.SlotKey(run.GetScheduleId(), run.GetRunAt().AsTime()).String() != run.GetIdempotencyKey() {
		return nil, &carillonv1.ExplainRunRequest{IdempotencyKey: run.GetIdempotencyKey()}, nil
	}
	return &carillonv1.ExplainSlotRequest{ScheduleId: run.GetScheduleId(), Time: run.GetRunAt()}, nil, nil
}

// explainRequest turns the TIME argument into a request. The server resolves local times
// and the newest slot: it knows the schedule's zone and history.
func explainRequest(ctx context.Context, c *client.Client, l *client.Link, scheduleID, argument string) (*carillonv1.ExplainSlotRequest, error) {
	req := &carillonv1.ExplainSlotRequest{ScheduleId: scheduleID}
	if argument == "" || argument == "last" {
		return req, nil // the newest slot that is due
	}
	if _, isReading := explain.ParseReading(argument); isReading {
		req.Local = argument
		return req, nil
	}
	at, err := explainedTime(ctx, c, l, scheduleID, argument)
	req.Time = timestamppb.New(at)
	return req, err
}

func explainedTime(ctx context.Context, c *client.Client, l *client.Link, scheduleID, argument string) (at time.Time, err error) {
	if at, err := time.Parse(time.RFC3339Nano, argument); err == nil {
		return at, nil
	}
	if argument == "now" {
		return c.Now().Truncate(time.Second), nil
	}
	if ahead, ok := strings.CutPrefix(argument, "+"); ok {
		if d, err := command.ParseDuration(ahead); err == nil && d >= 0 {
			return c.Now().Add(d).Truncate(time.Second), nil
		}
	} else if d, err := command.ParseDuration(argument); err == nil && d >= 0 {
		return c.Now().Add(-d).Truncate(time.Second), nil
	}
	if argument != "next" {
		return at, fmt.Errorf("invalid time %s: write 2026-03-08T14:00:00Z, or 2026-03-08T14:00 in the schedule's zone, a duration such as 2h (back) or +2h (ahead), now, last or next", schedule.Quote(argument))
	}
	found, err := client.Call(ctx, l, l.Schedules().GetSchedule, &carillonv1.GetScheduleRequest{ScheduleId: scheduleID})
	if err != nil {
		return at, err
	}
	if len(found.GetPreview()) == 0 {
		return at, fmt.Errorf("schedule %s has no next slot", schedule.Quote(scheduleID))
	}
	return found.GetPreview()[0].GetRunAt().AsTime(), nil
}
