package schedule

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func NewCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("schedule", "Create, show, pause, trigger and delete schedules")
	cmd.Aliases = []string{"schedules"}
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(
		newUpsertCommand(o), o.CompleteArg(newSetCommand(o), client.ScheduleIDs), o.CompleteArg(newEditCommand(o), client.ScheduleIDs),
		o.CompleteArg(o.WithWatch(newGetCommand(o)), client.ScheduleIDs), o.WithWatch(newListCommand(o)),
		o.CompleteArg(newPauseCommand(o), client.ScheduleIDs), o.CompleteArg(newResumeCommand(o), client.ScheduleIDs),
		o.CompleteArg(newTriggerCommand(o), client.ScheduleIDs), o.CompleteArg(newDeleteCommand(o), client.ScheduleIDs),
		o.CompleteArg(newStateCommand(o), client.ScheduleIDs),
		o.CompleteArg(o.WithWatch(newEventsCommand(o)), client.ScheduleIDs), o.CompleteArg(o.WithWatch(newRevisionsCommand(o)), client.ScheduleIDs),
	)
	return o.CompleteFlags(cmd)
}

// timing is the timing rule of a schedule or a definition.
type timing interface {
	GetCronExpr() string
	GetTimezone() string
	GetIntervalMs() uint32
	GetOnceAt() *timestamppb.Timestamp
}

// rule is a timing rule as text.
func rule(s timing) string {
	switch {
	case s.GetCronExpr() != "":
		return s.GetCronExpr() + " " + s.GetTimezone()
	case s.GetIntervalMs() > 0:
		return "every " + render.Millis(s.GetIntervalMs())
	case s.GetOnceAt() != nil:
		return "once at " + render.Stamp(s.GetOnceAt().AsTime())
	}
	if c, ok := s.(interface{ GetConsume() *carillonv1.Consume }); ok && c.GetConsume() != nil {
		return describe.OnEvents(c.GetConsume().GetTopics())
	}
	return "by hand"
}

// state is active, paused or exhausted, as in the filter of ListSchedules.
func state(s *carillonv1.Schedule) string {
	switch {
	case s.GetPaused():
		return "paused"
	case s.GetConsume() != nil:
		return "active"
	case s.GetNextRunAt() == nil:
		return "exhausted"
	}
	return "active"
}

// jitterText is a jitter as ±5s.
func jitterText(ms uint32) string {
	if ms == 0 {
		return ""
	}
	return "±" + render.Millis(ms)
}

// writeDefinition writes the definition of a schedule.
func writeDefinition(p *render.Page, s *carillonv1.Schedule) {
	overlap := s.GetOverlapPolicy()
	if s.GetOverlapKey() != s.GetScheduleId() && s.GetOverlapKey() != "" {
		overlap += ", key " + s.GetOverlapKey()
	}
	if overlap != "" && s.GetOverlapPolicy() == string(schedule.OverlapQueue) {
		overlap += fmt.Sprintf(", at most %d waiting", s.GetMaxQueued())
	}
	catchup := s.GetCatchupPolicy()
	if catchup != "" && catchup != string(schedule.CatchupNone) {
		catchup += ", back to " + render.Millis(s.GetCatchupWindowMs())
	}
	priority := ""
	if s.GetPriority() != 0 {
		priority = fmt.Sprint(s.GetPriority())
	}
	p.Fields(
		[2]string{"schedule", s.GetScheduleId()},
		[2]string{"workflow", fmt.Sprintf("%s version %d", s.GetWorkflowId(), s.GetVersion())},
		[2]string{"owner", s.GetUserId()},
		[2]string{"rule", rule(s)},
		[2]string{"start", p.When(s.GetStartAt())},
		[2]string{"end", p.When(s.GetEndAt())},
		[2]string{"jitter", jitterText(s.GetJitterMs())},
		[2]string{"dst", s.GetDst()},
		[2]string{"overlap", overlap},
		[2]string{"catch-up", catchup},
		[2]string{"run timeout", render.Millis(s.GetRunTimeoutMs())},
		[2]string{"max run", render.Bound(s.GetMaxRunMs())},
		[2]string{"expires", render.Bound(s.GetExpiresMs())},
		[2]string{"launch timeout", render.Bound(s.GetLaunchTimeoutMs())},
		[2]string{"priority", priority},
		[2]string{"input", string(s.GetInput())},
		[2]string{"grant", s.GetExecutionGrantId()},
		[2]string{"labels", render.Labels(s.GetLabels())},
		[2]string{"managed by", s.GetManagedBy()},
		[2]string{"expects", expectText(s.GetExpect())},
		[2]string{"retries", render.Retry(s.GetRetry())},
		[2]string{"queue", s.GetQueueId()},
		[2]string{"limits", strings.Join(s.GetLimits(), ", ")},
		[2]string{"webhook", s.GetWebhook()},
		[2]string{"fair key", s.GetFairKey()},
		[2]string{"group", s.GetGroup()},
		[2]string{"consumes", consumeText(s.GetConsume())},
	)
}

// writeState writes the state of a schedule: pause, next and last run, failures.
func writeState(p *render.Page, s *carillonv1.Schedule) {
	var backlog, failures string
	if s.GetBacklogFrom() != nil {
		backlog = render.Stamp(s.GetBacklogFrom().AsTime()) + " until " + render.Stamp(s.GetBacklogUntil().AsTime())
	}
	if s.GetPlanFailures() > 0 {
		failures = fmt.Sprintf("%d consecutive; see the events for the reason", s.GetPlanFailures())
	}
	p.Fields(
		[2]string{"state", state(s)},
		[2]string{"paused by", s.GetPausedBy()},
		[2]string{"paused until", p.When(s.GetPausedUntil())},
		[2]string{"pause note", s.GetPauseNote()},
		[2]string{"next run", p.When(s.GetNextRunAt())},
		[2]string{"last run", p.When(s.GetLastRunAt())},
		[2]string{"last outcome", lastOutcome(p, s)},
		[2]string{"error", s.GetFailure().GetErrorMessage()},
		[2]string{"outcomes", outcomeStrip(p, s.GetRecentOutcomes())},
		[2]string{"backlog", backlog},
		[2]string{"plan failures", failures},
		[2]string{"revision", fmt.Sprintf("%d of %s", s.GetRevision(), p.When(s.GetRevisedAt()))},
		[2]string{"created", p.When(s.GetCreatedAt())},
	)
}

func consumeText(c *carillonv1.Consume) string {
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("%s, at most %s in a run", strings.Join(c.GetTopics(), ", "), render.Count(int(c.GetMaxEvents()), "event"))
	if len(c.GetFilter()) > 0 {
		text += ", only " + string(c.GetFilter())
	}
	return text
}
