package cli

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
	completionMost    = 1000
)

// ids lists the ids that begin with what was typed.
type ids func(ctx context.Context, l *link, begun string) []cobra.Completion

// completes offers ids for the first argument.
func (c *client) completes(cmd *cobra.Command, list ids) *cobra.Command {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.offer(cmd, list, begun)
	}
	return cmd
}

// completesFlag offers ids for a flag.
func (c *client) completesFlag(cmd *cobra.Command, flag string, list ids) {
	// It fails only for a flag that does not exist or is completed twice.
	if err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.offer(cmd, list, begun)
	}); err != nil {
		panic(err)
	}
}

// flagIDs are the flags that take an id, and what they are completed from.
var flagIDs = map[string]ids{
	"schedule": scheduleIDs, "workflow": workflowIDs, "user": userIDs, "managed-by": managers, "set": sets, "grant": grantIDs,
}

// completesFlags offers ids for the flags of a command and of those below it.
func (c *client) completesFlags(cmd *cobra.Command) *cobra.Command {
	for name, list := range flagIDs {
		_, done := cmd.GetFlagCompletionFunc(name)
		if cmd.Flags().Lookup(name) != nil && !done {
			c.completesFlag(cmd, name, list)
		}
	}
	for _, sub := range cmd.Commands() {
		c.completesFlags(sub)
	}
	return cmd
}

func (c *client) offer(cmd *cobra.Command, list ids, begun string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
	c.timeout = completionTimeout
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTimeout)
	defer cancel()
	_ = c.ask(func(_ context.Context, l *link, _ []string) error { // without an answer there is nothing to offer
		found = list(ctx, l, begun)
		return nil
	})(cmd, nil)
	// Runs stand newest first, and are to be offered so.
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// offered keeps what begins so, each once.
func offered(begun string, all []string) (out []cobra.Completion) {
	slices.Sort(all)
	for _, id := range slices.Compact(all) {
		if strings.HasPrefix(id, begun) {
			out = append(out, id)
		}
	}
	return out
}

// allSchedules reads as many schedules as a completion has time for.
func allSchedules(ctx context.Context, l *link) []*carillonv1.Schedule {
	var all []*carillonv1.Schedule
	_, _, _ = pages(completionMost, func(size uint32, token string) ([]*carillonv1.Schedule, string, error) {
		resp, err := call(ctx, l, l.schedules().ListSchedules, &carillonv1.ListSchedulesRequest{PageSize: size, PageToken: token})
		all = append(all, resp.GetSchedules()...) // what came before the time was up counts
		return resp.GetSchedules(), resp.GetNextPageToken(), err
	})
	return all
}

// What is read off the schedules: there is no list of workflows that none
// runs, or of owners who have none.
var (
	scheduleIDs = ofSchedules((*carillonv1.Schedule).GetScheduleId)
	workflowIDs = ofSchedules((*carillonv1.Schedule).GetWorkflowId)
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

func ofSchedules(field func(*carillonv1.Schedule) string) ids {
	return func(ctx context.Context, l *link, begun string) []cobra.Completion {
		var all []string
		for _, s := range allSchedules(ctx, l) {
			if value := field(s); value != "" {
				all = append(all, value)
			}
		}
		return offered(begun, all)
	}
}

// described adds an id that begins so, with what it is.
func described(out []cobra.Completion, begun, id, what string) []cobra.Completion {
	if !strings.HasPrefix(id, begun) {
		return out
	}
	return append(out, cobra.CompletionWithDesc(id, what))
}

func grantIDs(ctx context.Context, l *link, begun string) []cobra.Completion {
	var all []string
	_, _, _ = pages(completionMost, func(size uint32, token string) ([]*carillonv1.Grant, string, error) {
		resp, err := call(ctx, l, l.grants().ListGrants, &carillonv1.ListGrantsRequest{PageSize: size, PageToken: token})
		for _, g := range resp.GetGrants() {
			all = append(all, g.GetGrantId())
		}
		return resp.GetGrants(), resp.GetNextPageToken(), err
	})
	return offered(begun, all)
}
