package client

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// What a shell completes from the server: it waits for the answer with the
// user's finger on the key, so that it is given up early, and then there is
// nothing to offer.
const (
	completionTimeout = 800 * time.Millisecond
	maxCompletions    = 1000
)

// IDs lists the ids that begin with what was typed.
type IDs func(ctx context.Context, l *Link, begun string) []cobra.Completion

// CompleteArg offers ids for the first argument.
func (c *Client) CompleteArg(cmd *cobra.Command, list IDs) *cobra.Command {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.complete(cmd, list, begun)
	}
	return cmd
}

// CompleteFlag offers ids for a flag.
func (c *Client) CompleteFlag(cmd *cobra.Command, flag string, list IDs) {
	// It fails only for a flag that does not exist or is completed twice.
	if err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.complete(cmd, list, begun)
	}); err != nil {
		panic(err)
	}
}

// flagIDs are the flags that take an id, and what they are completed from.
var flagIDs = map[string]IDs{
	"schedule": ScheduleIDs, "workflow": WorkflowIDs, "user": userIDs, "managed-by": managers, "set": sets, "grant": GrantIDs,
}

// CompleteFlags offers ids for the flags of a command and of those below it.
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

func (c *Client) complete(cmd *cobra.Command, list IDs, begun string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
	c.timeout = completionTimeout
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTimeout)
	defer cancel()
	_ = c.Ask(func(_ context.Context, l *Link, _ []string) error { // without an answer there is nothing to offer
		found = list(ctx, l, begun)
		return nil
	})(cmd, nil)
	// Runs stand newest first, and are to be offered so.
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// withPrefix keeps what begins so, each once.
func withPrefix(begun string, all []string) (out []cobra.Completion) {
	slices.Sort(all)
	for _, id := range slices.Compact(all) {
		if strings.HasPrefix(id, begun) {
			out = append(out, id)
		}
	}
	return out
}

// allSchedules reads as many schedules as a completion has time for.
func allSchedules(ctx context.Context, l *Link) []*carillonv1.Schedule {
	var all []*carillonv1.Schedule
	_, _, _ = Pages(maxCompletions, func(size uint32, token string) ([]*carillonv1.Schedule, string, error) {
		resp, err := Call(ctx, l, l.Schedules().ListSchedules, &carillonv1.ListSchedulesRequest{PageSize: size, PageToken: token})
		all = append(all, resp.GetSchedules()...) // what came before the time was up counts
		return resp.GetSchedules(), resp.GetNextPageToken(), err
	})
	return all
}

// What is read off the schedules: there is no list of workflows that none
// runs, or of owners who have none.
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
	return func(ctx context.Context, l *Link, begun string) []cobra.Completion {
		var all []string
		for _, s := range allSchedules(ctx, l) {
			if value := field(s); value != "" {
				all = append(all, value)
			}
		}
		return withPrefix(begun, all)
	}
}

// Described adds an id that begins so, with what it is.
func Described(out []cobra.Completion, begun, id, what string) []cobra.Completion {
	if !strings.HasPrefix(id, begun) {
		return out
	}
	return append(out, cobra.CompletionWithDesc(id, what))
}

func GrantIDs(ctx context.Context, l *Link, begun string) []cobra.Completion {
	var all []string
	_, _, _ = Pages(maxCompletions, func(size uint32, token string) ([]*carillonv1.Grant, string, error) {
		resp, err := Call(ctx, l, l.Grants().ListGrants, &carillonv1.ListGrantsRequest{PageSize: size, PageToken: token})
		for _, g := range resp.GetGrants() {
			all = append(all, g.GetGrantId())
		}
		return resp.GetGrants(), resp.GetNextPageToken(), err
	})
	return withPrefix(begun, all)
}
