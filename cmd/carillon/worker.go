package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newWorkerCommand(c *cli) *cobra.Command {
	cmd := newGroup("worker", "Show workers and leaders, hand over a shard")
	cmd.Aliases = []string{"workers"}
	o := newClient(c)
	o.flags(cmd)
	cmd.AddCommand(o.watched(newWorkerListCommand(o)), newWorkerResignCommand(o))
	return cmd
}

func workers(l *link) carillonv1.WorkerServiceClient {
	return carillonv1.NewWorkerServiceClient(l.conn)
}

func newWorkerListCommand(o *client) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the workers of the last minute and the shards they lead",
		Long: "Lists every worker seen in the last minute, with its host and process id, and the shards that it leads with\n" +
			"their epochs. Below the table: unhealthy workers, which could not launch runs, and shards without\n" +
			"a leader.",
		Example: "  carillon worker list",
		Args:    exactly(),
		RunE: o.ask(func(ctx context.Context, l *link, _ []string) error {
			resp, err := call(ctx, l, workers(l).ListWorkers, &carillonv1.ListWorkersRequest{})
			if err != nil {
				return err
			}
			return o.show(resp, func(p *page) { p.workers(resp) })
		}),
	}
}

// workers shows the workers, and below them what none of them leads.
func (p *page) workers(resp *carillonv1.ListWorkersResponse) {
	rows := make([][]string, len(resp.GetWorkers()))
	led := make(map[uint32]bool)
	for i, w := range resp.GetWorkers() {
		leads := make([]string, len(w.GetLeads()))
		for j, l := range w.GetLeads() {
			leads[j] = leadership(l)
			led[l.GetShard()] = true
		}
		rows[i] = p.wider([]string{w.GetWorkerId(), w.GetHost(), p.when(w.GetStartedAt()), p.when(w.GetSeenAt()), strings.Join(leads, ", ")},
			locks(w.GetLeads()), w.GetUnfit())
	}
	p.table(p.wider([]string{"worker", "host", "started", "last seen", "leader of"}, "lock", "unhealthy"), rows)
	for _, w := range resp.GetWorkers() {
		if w.GetUnfit() != "" {
			p.line("worker %s (%s) is unhealthy: %s", w.GetWorkerId(), w.GetHost(), legible(w.GetUnfit()))
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
			p.line("no worker leads shard %d", shard)
		default:
			p.line("the leader of shard %d, %s, was not seen in the last minute; its term ends %s", shard, l.GetWorkerId(), p.when(l.GetExpiresAt()))
		}
	}
}

// locks are the kinds of lock that a worker leads by.
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

func newWorkerResignCommand(o *client) *cobra.Command {
	var wait bool
	req := &carillonv1.ResignRequest{}
	cmd := &cobra.Command{
		Use:   "resign",
		Short: "Ask the leader of a shard to hand it over, as a drill",
		Long: "Asks the leader of a shard to hand it over. It stops planning and launching, and another worker takes over.\n" +
			"If no other worker has less to do, the same one takes it again. No run is lost, doubled or late. With --wait the\n" +
			"command returns when the next epoch leads, and prints how long that took.",
		Example: "  carillon worker resign --wait\n  carillon worker resign --shard 3",
		Args:    exactly(),
		RunE: o.ask(func(ctx context.Context, l *link, _ []string) error {
			began := time.Now()
			resp, err := call(ctx, l, workers(l).Resign, req)
			if err != nil {
				return err
			}
			was := resp.GetLeadership()
			if !wait {
				return o.show(resp, func(p *page) {
					p.line("asked worker %s to hand over shard %d (epoch %d)", was.GetWorkerId(), was.GetShard(), was.GetEpoch())
				})
			}
			now, err := succeeded(ctx, l, was)
			if err != nil {
				return err
			}
			took := time.Since(began)
			return o.show(&carillonv1.ResignResponse{Leadership: now}, func(p *page) {
				p.line("shard %d moved from worker %s (epoch %d) to %s (epoch %d) in %s",
					was.GetShard(), was.GetWorkerId(), was.GetEpoch(), now.GetWorkerId(), now.GetEpoch(), brief(took))
			})
		}),
	}
	cmd.Flags().Func("shard", "`NUMBER` of the shard, from 0", func(s string) error {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil || n >= schedule.MaxShards {
			return fmt.Errorf("the shard %q is not a whole number from 0 to %d", s, schedule.MaxShards-1)
		}
		req.Shard = uint32(n)
		return nil
	})
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the next epoch leads")
	return cmd
}

// How long and how often the next leader is looked for.
const (
	successorWait  = 30 * time.Second
	successorPause = 20 * time.Millisecond
)

// succeeded waits for the leadership that follows one.
func succeeded(ctx context.Context, l *link, was *carillonv1.Leadership) (*carillonv1.Leadership, error) {
	l.work.say("waiting for a worker to take over shard %d from %s", was.GetShard(), was.GetWorkerId())
	for began := time.Now(); ; {
		resp, err := call(ctx, l, workers(l).ListWorkers, &carillonv1.ListWorkersRequest{})
		if err != nil && !away(err) {
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
