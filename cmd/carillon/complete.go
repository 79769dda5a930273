package main

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
	return found, cobra.ShellCompDirectiveNoFileComp
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
		resp, err := call(ctx, l, schedules(l).ListSchedules, &carillonv1.ListSchedulesRequest{PageSize: size, PageToken: token})
		all = append(all, resp.GetSchedules()...) // what came before the time was up counts
		return resp.GetSchedules(), resp.GetNextPageToken(), err
	})
	return all
}

func scheduleIDs(ctx context.Context, l *link, begun string) []cobra.Completion {
	var all []string
	for _, s := range allSchedules(ctx, l) {
		all = append(all, s.GetScheduleId())
	}
	return offered(begun, all)
}

// workflowIDs are those that schedules run: there is no list of the others.
func workflowIDs(ctx context.Context, l *link, begun string) []cobra.Completion {
	var all []string
	for _, s := range allSchedules(ctx, l) {
		all = append(all, s.GetWorkflowId())
	}
	return offered(begun, all)
}

func grantIDs(ctx context.Context, l *link, begun string) []cobra.Completion {
	var all []string
	_, _, _ = pages(completionMost, func(size uint32, token string) ([]*carillonv1.Grant, string, error) {
		resp, err := call(ctx, l, grants(l).ListGrants, &carillonv1.ListGrantsRequest{PageSize: size, PageToken: token})
		for _, g := range resp.GetGrants() {
			all = append(all, g.GetGrantId())
		}
		return resp.GetGrants(), resp.GetNextPageToken(), err
	})
	return offered(begun, all)
}

// runKeys are the newest runs, newest first, each with what it is.
func runKeys(ctx context.Context, l *link, begun string) (out []cobra.Completion) {
	resp, err := call(ctx, l, runs(l).ListRuns, &carillonv1.ListRunsRequest{PageSize: defaultLimit})
	if err != nil {
		return nil
	}
	for _, r := range resp.GetRuns() {
		key := r.GetIdempotencyKey()
		if len(begun) <= keyShown {
			key = short(key)
		}
		if strings.HasPrefix(key, begun) {
			out = append(out, cobra.CompletionWithDesc(key, r.GetScheduleId()+" "+stamp(r.GetRunAt().AsTime())+" "+r.GetStatus()))
		}
	}
	return out
}
