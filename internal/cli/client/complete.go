package client

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Limits of a completion. The user waits for it: after the timeout nothing is
// offered.
const (
	completionTimeout = 800 * time.Millisecond
	maxCompletions    = 1000
)

// IDs lists the ids that begin with the typed text.
type IDs func(ctx context.Context, l *Link, typed string) []cobra.Completion

// CompleteArg completes the first argument with ids.
func (c *Client) CompleteArg(cmd *cobra.Command, list IDs) *cobra.Command {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.complete(cmd, list, typed)
	}
	return cmd
}

// CompleteFlag completes a flag with ids.
func (c *Client) CompleteFlag(cmd *cobra.Command, flag string, list IDs) {
	// An error means that the flag does not exist or is completed twice.
	if err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.complete(cmd, list, typed)
	}); err != nil {
		panic(err)
	}
}

// flagIDs are the flags that take an id, with the source of their completion.
var flagIDs = map[string]IDs{
	"schedule": ScheduleIDs, "workflow": WorkflowIDs, "user": userIDs, "managed-by": managers, "set": sets, "grant": GrantIDs, "queue": QueueIDs,
}

// CompleteFlags completes the flags of flagIDs in a command and its subcommands.
func (c *Client) CompleteFlags(cmd *cobra.Command) *cobra.Command {
	for name, list := range flagIDs {
		_, done := cmd.GetFlagCompletionFunc(name)
		if cmd.Flags().Lookup(name) != nil && !done {
			c.CompleteFlag(cmd, name, list)
		}
	}
	for _, sub := range cmd.Commands() {
		c.CompleteFlags(sub)
	}
	return cmd
}

func (c *Client) complete(cmd *cobra.Command, list IDs, typed string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
	c.timeout = completionTimeout
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTimeout)
	defer cancel()
	_ = c.Ask(func(_ context.Context, l *Link, _ []string) error { // without an answer nothing is offered
		found = list(ctx, l, typed)
		return nil
	})(cmd, nil)
	// KeepOrder: runs are offered newest first.
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// withPrefix keeps the ids that begin with the typed text, each once.
func withPrefix(typed string, all []string) (out []cobra.Completion) {
	slices.Sort(all)
	for _, id := range slices.Compact(all) {
		if strings.HasPrefix(id, typed) {
			out = append(out, id)
		}
	}
	return out
}

// allSchedules reads schedules until the completion's time is over.
func allSchedules(ctx context.Context, l *Link) []*carillonv1.Schedule {
	var all []*carillonv1.Schedule
	_, _, _ = Pages(maxCompletions, func(size uint32, token string) ([]*carillonv1.Schedule, string, error) {
		resp, err := Call(ctx, l, l.Schedules().ListSchedules, &carillonv1.ListSchedulesRequest{PageSize: size, PageToken: token})
		all = append(all, resp.GetSchedules()...) // pages before the timeout count
		return resp.GetSchedules(), resp.GetNextPageToken(), err
	})
	return all
}

// Ids that are read from the schedules: the API has no list of all workflows or all
// owners.
var (
	ScheduleIDs = ofSchedules((*carillonv1.Schedule).GetScheduleId)
	WorkflowIDs = ofSchedules((*carillonv1.Schedule).GetWorkflowId)
	userIDs     = ofSchedules((*carillonv1.Schedule).GetUserId)
	managers    = ofSchedules((*carillonv1.Schedule).GetManagedBy)
	sets        = ofSchedules(func(s *carillonv1.Schedule) string {
		set, _ := strings.CutPrefix(s.GetManagedBy(), "set:")
		if set == s.GetManagedBy() {
			return ""
		}
		return set
	})
)

func ofSchedules(field func(*carillonv1.Schedule) string) IDs {
	return func(ctx context.Context, l *Link, typed string) []cobra.Completion {
		var all []string
		for _, s := range allSchedules(ctx, l) {
			if value := field(s); value != "" {
				all = append(all, value)
			}
		}
		return withPrefix(typed, all)
	}
}

// Described adds an id with a description if it begins with the typed text.
func Described(out []cobra.Completion, typed, id, what string) []cobra.Completion {
	if !strings.HasPrefix(id, typed) {
		return out
	}
	return append(out, cobra.CompletionWithDesc(id, what))
}

func GrantIDs(ctx context.Context, l *Link, typed string) []cobra.Completion {
	var all []string
	_, _, _ = Pages(maxCompletions, func(size uint32, token string) ([]*carillonv1.Grant, string, error) {
		resp, err := Call(ctx, l, l.Grants().ListGrants, &carillonv1.ListGrantsRequest{PageSize: size, PageToken: token})
		for _, g := range resp.GetGrants() {
			all = append(all, g.GetGrantId())
		}
		return resp.GetGrants(), resp.GetNextPageToken(), err
	})
	return withPrefix(typed, all)
}

// QueueIDs lists the ids of dispatch queues.
func QueueIDs(ctx context.Context, l *Link, typed string) []cobra.Completion {
	var all []string
	_, _, _ = Pages(maxCompletions, func(size uint32, token string) ([]*carillonv1.Queue, string, error) {
		resp, err := Call(ctx, l, l.Queues().ListQueues, &carillonv1.ListQueuesRequest{PageSize: size, PageToken: token})
		for _, q := range resp.GetQueues() {
			all = append(all, q.GetQueueId())
		}
		return resp.GetQueues(), resp.GetNextPageToken(), err
	})
	return withPrefix(typed, all)
}

// GroupIDs lists the ids of the newest groups of runs.
func GroupIDs(ctx context.Context, l *Link, typed string) []cobra.Completion {
	var all []string
	_, _, _ = Pages(maxCompletions, func(size uint32, token string) ([]*carillonv1.Group, string, error) {
		resp, err := Call(ctx, l, l.Groups().ListGroups, &carillonv1.ListGroupsRequest{PageSize: size, PageToken: token})
		for _, g := range resp.GetGroups() {
			all = append(all, g.GetGroupId())
		}
		return resp.GetGroups(), resp.GetNextPageToken(), err
	})
	return withPrefix(typed, all)
}

// LimitIDs lists the ids of limits.
func LimitIDs(ctx context.Context, l *Link, typed string) []cobra.Completion {
	var all []string
	_, _, _ = Pages(maxCompletions, func(size uint32, token string) ([]*carillonv1.Limit, string, error) {
		resp, err := Call(ctx, l, l.Limits().ListLimits, &carillonv1.ListLimitsRequest{PageSize: size, PageToken: token})
		for _, limit := range resp.GetLimits() {
			all = append(all, limit.GetLimitId())
		}
		return resp.GetLimits(), resp.GetNextPageToken(), err
	})
	return withPrefix(typed, all)
}

// OverlapKeys lists the overlap keys of groups with a schedule of overlap_policy coalesce.
func OverlapKeys(ctx context.Context, l *Link, typed string) []cobra.Completion {
	var all []string
	_, _, _ = Pages(maxCompletions, func(size uint32, token string) ([]*carillonv1.OverlapGroup, string, error) {
		resp, err := Call(ctx, l, l.Overlaps().ListOverlapGroups, &carillonv1.ListOverlapGroupsRequest{PageSize: size, PageToken: token})
		for _, g := range resp.GetGroups() {
			all = append(all, g.GetOverlapKey())
		}
		return resp.GetGroups(), resp.GetNextPageToken(), err
	})
	return withPrefix(typed, all)
}
