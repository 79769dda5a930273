package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func NewWorkerCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("worker", "Show workers and leaders, hand over a shard")
	cmd.Aliases = []string{"workers"}
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(o.WithWatch(newWorkerListCommand(o)), o.WithWatch(newWorkerProcessesCommand(o)), o.WithWatch(newWorkerTermsCommand(o)), newWorkerResignCommand(o))
	return cmd
}

func newWorkerListCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the workers of the last minute and the shards they lead",
		Long: "Lists every worker seen in the last minute, with its host and process id, and the shards that it leads with\n" +
			"their epochs. Server processes without the worker role are listed too. Below the table: processes of\n" +
			"different versions, unhealthy workers, which could not launch runs, and shards without a leader.",
		Example: "  carillon worker list",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			resp, err := client.Call(ctx, l, l.Workers().ListWorkers, &carillonv1.ListWorkersRequest{})
			if err != nil {
				return err
			}
			processes, err := client.Call(ctx, l, l.Workers().ListProcesses, &carillonv1.ListProcessesRequest{})
			if err != nil && status.Code(err) != codes.Unimplemented { // an older server
				return err
			}
			return o.Show(resp, func(p *render.Page) { writeWorkers(p, resp, processes.GetProcesses()) })
		}),
	}
}

// writeWorkers writes the workers and the processes of other roles. Below the table it
// writes unhealthy workers and shards without a leader.
func writeWorkers(p *render.Page, resp *carillonv1.ListWorkersResponse, processes []*carillonv1.Process) {
	rows := make([][]string, len(resp.GetWorkers()))
	listed := make(map[string]bool)
	led := make(map[uint32]bool)
	for i, w := range resp.GetWorkers() {
		leads := make([]string, len(w.GetLeads()))
		for j, l := range w.GetLeads() {
			leads[j] = leadership(l)
			led[l.GetShard()] = true
		}
		listed[w.GetWorkerId()] = true
		rows[i] = p.WideCells([]string{w.GetWorkerId(), w.GetHost(), w.GetVersion(), w.GetRoles(), p.When(w.GetStartedAt()), p.When(w.GetSeenAt()), strings.Join(leads, ", ")},
			locks(w.GetLeads()), w.GetUnhealthy())
	}
	for _, o := range processes {
		if !listed[o.GetProcessId()] {
			rows = append(rows, p.WideCells([]string{o.GetProcessId(), o.GetHost(), o.GetVersion(), o.GetRoles(), p.When(o.GetStartedAt()), p.When(o.GetSeenAt()), ""}, "", o.GetUnhealthy()))
		}
	}
	p.Table(p.WideCells([]string{"worker", "host", "version", "roles", "started", "last seen", "leader of"}, "lock", "unhealthy"), rows)
	if versions := versionsOf(processes); len(versions) > 1 {
		p.Line("%d versions are running: %s", len(versions), strings.Join(versions, ", "))
	}
	for _, w := range resp.GetWorkers() {
		if w.GetUnhealthy() != "" {
			p.Line("worker %s (%s) is unhealthy: %s", w.GetWorkerId(), w.GetHost(), render.Legible(w.GetUnhealthy()))
		}
	}
	for _, o := range processes {
		if o.GetUnhealthy() != "" && !listed[o.GetProcessId()] {
			p.Line("launcher %s (%s) is unhealthy: %s", o.GetProcessId(), o.GetHost(), render.Legible(o.GetUnhealthy()))
		}
	}
	known := make(map[uint32]*carillonv1.Leadership)
	for _, l := range resp.GetLeaderships() {
		known[l.GetShard()] = l
	}
	for shard := range max(resp.GetShards(), 1) {
		switch l := known[shard]; {
		case led[shard]:
		case l == nil || l.GetWorkerId() == "" || l.GetExpired():
			p.Line("no worker leads shard %d", shard)
		default:
			p.Line("the leader of shard %d, %s, was not seen in the last minute; its term ends %s", shard, l.GetWorkerId(), p.When(l.GetExpiresAt()))
		}
	}
}

// versionsOf counts processes by version.
func versionsOf(processes []*carillonv1.Process) []string {
	count := make(map[string]int)
	for _, o := range processes {
		count[o.GetVersion()]++
	}
	var versions []string
	for _, version := range slices.Sorted(maps.Keys(count)) {
		processes := "processes"
		if count[version] == 1 {
			processes = "process"
		}
		versions = append(versions, fmt.Sprintf("%s (%d %s)", version, count[version], processes))
	}
	return versions
}

func newWorkerProcessesCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "processes",
		Short:   "List all server processes of the last minute with version and roles",
		Long:    "Lists every server process seen in the last minute, of whatever roles. A rolling upgrade is complete when all\nshow the new version.",
		Example: "  carillon worker processes",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			return client.ShowAnswer(ctx, o, l, l.Workers().ListProcesses, &carillonv1.ListProcessesRequest{},
				func(p *render.Page, resp *carillonv1.ListProcessesResponse) {
					rows := make([][]string, len(resp.GetProcesses()))
					for i, o := range resp.GetProcesses() {
						rows[i] = []string{o.GetProcessId(), o.GetHost(), o.GetVersion(), o.GetRoles(), p.When(o.GetStartedAt()), p.When(o.GetSeenAt())}
					}
					p.Table([]string{"process", "host", "version", "roles", "started", "last seen"}, rows)
				})
		}),
	}
}

func newWorkerTermsCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.ListLeaderTermsRequest{}
	cmd := &cobra.Command{
		Use:   "terms",
		Short: "List who led which shard, and why each term ended",
		Long: "Lists leadership terms, newest first: which worker led which shard from when to when, why the term ended, and how\n" +
			"long the shard had no leader before it. In that time nothing in it was planned or launched.",
		Example: "  carillon worker terms\n  carillon worker terms --shard 3 --limit 200",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			return client.ShowAnswer(ctx, o, l, l.Workers().ListLeaderTerms, req,
				func(p *render.Page, resp *carillonv1.ListLeaderTermsResponse) { writeTerms(p, resp.GetTerms()) })
		}),
	}
	shardFlag(cmd, func(n uint32) { req.Shard = &n })
	cmd.Flags().Uint32Var(&req.PageSize, "limit", 50, "`NUMBER` of terms to list, from 1 to 500")
	return cmd
}

// writeTerms writes terms, newest first, each with the time without a leader before.
func writeTerms(p *render.Page, terms []*carillonv1.LeaderTerm) {
	rows := make([][]string, len(terms))
	for i, t := range terms {
		ended := p.When(t.GetEndedAt())
		why := schedule.EndReason(t.GetEndReason()).Words()
		switch {
		case t.GetExpired():
			ended, why = "", "expired, no worker has taken over; last renewed "+p.When(t.GetRenewedAt())
		case t.GetEndedAt() == nil:
			ended, why = "", "leading now"
		}
		if t.GetEndDetail() != "" {
			why += ": " + render.Legible(t.GetEndDetail())
		}
		rows[i] = []string{fmt.Sprint(t.GetShard()), fmt.Sprint(t.GetEpoch()), t.GetHost(), p.When(t.GetStartedAt()), ended, gapBefore(terms[i+1:], t), why}
	}
	p.Table([]string{"shard", "epoch", "host", "started", "ended", "no leader before", "end"}, rows)
}

// gapBefore is the time without a leader before a term; "" if it is not known.
func gapBefore(older []*carillonv1.LeaderTerm, t *carillonv1.LeaderTerm) string {
	for _, o := range older {
		if o.GetShard() != t.GetShard() {
			continue
		}
		if o.GetEndedAt() == nil || o.GetEndReason() == string(schedule.EndUnknown) {
			return ""
		}
		return render.Duration(max(t.GetStartedAt().AsTime().Sub(o.GetEndedAt().AsTime()), 0))
	}
	return ""
}

// shardFlag adds --shard.
func shardFlag(cmd *cobra.Command, set func(uint32)) {
	cmd.Flags().Func("shard", "`NUMBER` of the shard, from 0", func(s string) error {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil || n >= schedule.MaxShards {
			return fmt.Errorf("the shard %q is not a whole number from 0 to %d", s, schedule.MaxShards-1)
		}
		set(uint32(n))
		return nil
	})
}

// locks are the kinds of lock that a worker holds.
func locks(led []*carillonv1.Leadership) string {
	var kinds []string
	for _, l := range led {
		if kind := l.GetLockKind(); kind != "" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, " ")
}

// leadership is one shard with its epoch: "shard 0 (epoch 17)", "shard 1 (epoch 12, resigning)".
func leadership(l *carillonv1.Leadership) string {
	text := fmt.Sprintf("shard %d (epoch %d", l.GetShard(), l.GetEpoch())
	if !l.GetLockHeld() {
		text += ", no lock"
	}
	if l.GetAskedToResign() {
		text += ", resigning"
	}
	return text + ")"
}

func newWorkerResignCommand(o *client.Client) *cobra.Command {
	var wait bool
	req := &carillonv1.ResignRequest{}
	cmd := &cobra.Command{
		Use:   "resign",
		Short: "Ask the leader of a shard to hand it over, as a drill",
		Long: "Asks the leader of a shard to hand it over. It stops planning and launching, and another worker takes over.\n" +
			"If no other worker has less to do, the same one takes it again. No run is lost, doubled or late. With --wait the\n" +
			"command returns when the next epoch leads, and prints how long that took.",
		Example: "  carillon worker resign --wait\n  carillon worker resign --shard 3",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			began := time.Now()
			resp, err := client.Call(ctx, l, l.Workers().Resign, req)
			if err != nil {
				return err
			}
			was := resp.GetLeadership()
			if !wait {
				return o.Show(resp, func(p *render.Page) {
					p.Line("asked worker %s to hand over shard %d (epoch %d)", was.GetWorkerId(), was.GetShard(), was.GetEpoch())
				})
			}
			now, err := waitForSuccessor(ctx, l, was)
			if err != nil {
				return err
			}
			took := time.Since(began)
			return o.Show(&carillonv1.ResignResponse{Leadership: now}, func(p *render.Page) {
				p.Line("shard %d moved from worker %s (epoch %d) to %s (epoch %d) in %s",
					was.GetShard(), was.GetWorkerId(), was.GetEpoch(), now.GetWorkerId(), now.GetEpoch(), render.Duration(took))
			})
		}),
	}
	shardFlag(cmd, func(n uint32) { req.Shard = n })
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the next epoch leads")
	return cmd
}

// How long to wait for the next leader, and the pause between two calls.
const (
	successorWait  = 30 * time.Second
	successorPause = 20 * time.Millisecond
)

// waitForSuccessor waits for the next leader of a shard.
func waitForSuccessor(ctx context.Context, l *client.Link, was *carillonv1.Leadership) (*carillonv1.Leadership, error) {
	l.Progress.Describe("waiting for a worker to take over shard %d from %s", was.GetShard(), was.GetWorkerId())
	for began := time.Now(); ; {
		resp, err := client.Call(ctx, l, l.Workers().ListWorkers, &carillonv1.ListWorkersRequest{})
		if err != nil && !client.Unanswered(err) {
			return nil, err
		}
		next := slices.IndexFunc(resp.GetLeaderships(), func(n *carillonv1.Leadership) bool {
			return n.GetShard() == was.GetShard() && n.GetEpoch() != was.GetEpoch() && !n.GetExpired()
		})
		if next >= 0 {
			return resp.GetLeaderships()[next], nil
		}
		if time.Since(began) > successorWait {
			return nil, fmt.Errorf("no worker took over shard %d from worker %s (epoch %d) within %s; see carillon worker list",
				was.GetShard(), was.GetWorkerId(), was.GetEpoch(), successorWait)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(successorPause):
		}
	}
}
