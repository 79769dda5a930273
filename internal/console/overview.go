package console

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Limits of the overview. The page shows when one is reached.
const (
	soonShown   = 12
	lateShown   = 12
	failedShown = 8
	sampled     = 200             // runs of the last hour that drift is read from
	lateGrace   = 5 * time.Second // a tick and a retry are no lateness worth a look
	failedSince = 24 * time.Hour
)

// overviewView is the first page.
type overviewView struct {
	Soon     part[soon]
	Counts   part[*carillonv1.GetOverviewResponse]
	Late     part[[]runRow]
	Failed   part[[]runRow]
	Failing  part[failingView]
	Alerts   part[alertCount]
	Drift    part[spread]
	Lateness spread
	Workers  part[*carillonv1.ListWorkersResponse]
	Leaders  []leaderRow
}

// soon are the schedules that fire within the hour, soonest first.
type soon struct{ Rows []soonRow }

type soonRow struct {
	*carillonv1.Schedule
	Next moment
	Rule rule
}

// alertCount is the number of open alerts, and how many of them are acknowledged.
type alertCount struct {
	Open, Seen int
	More       bool
}

func (c *Console) openAlerts(v *visit) (n alertCount, err error) {
	open := "open"
	resp, err := c.alerts.ListAlerts(v.Context(), &carillonv1.ListAlertsRequest{State: &open, PageSize: openShown})
	n.Open, n.More = len(resp.GetAlerts()), resp.GetNextPageToken() != ""
	for _, a := range resp.GetAlerts() {
		if a.GetAckedAt() != nil {
			n.Seen++
		}
	}
	return n, err
}

// spread is how a sample of lengths is spread.
type spread struct {
	N             int
	P50, P99, Max time.Duration
}

// Words are a length as the page shows it.
func (spread) Words(d time.Duration) string { return brief(d) }

func (c *Console) showOverview(v *visit) (page, error) {
	var view overviewView
	var g errgroup.Group
	g.Go(func() error { view.Soon = partOf(c.firesSoon(v)); return nil })
	g.Go(func() error { c.lookAtRuns(v, &view); return nil })
	g.Go(func() error {
		view.Counts = partOf(c.counts.of(v, func() (*carillonv1.GetOverviewResponse, error) {
			return c.schedules.GetOverview(v.Context(), &carillonv1.GetOverviewRequest{})
		}))
		return nil
	})
	g.Go(func() error {
		resp, err := c.workers.ListWorkers(v.Context(), &carillonv1.ListWorkersRequest{})
		view.Workers = partOf(resp, err)
		view.Leaders = v.leaders(resp)
		return nil
	})
	g.Go(func() error { view.Alerts = partOf(c.openAlerts(v)); return nil })
	g.Go(func() error { view.Failing = partOf(c.failing(v)); return nil })
	_ = g.Wait()                                                  // each part holds its error
	if f := view.Late.Fails; f != nil && view.Soon.Fails != nil { // nothing to show at all
		return page{name: "failure", title: f.Title, view: *f, code: f.code}, nil
	}
	return page{name: "overview", title: "Overview", view: view}, nil
}

func (c *Console) firesSoon(v *visit) (s soon, err error) {
	resp, err := c.schedules.ListSchedules(v.Context(), &carillonv1.ListSchedulesRequest{
		OrderBy: orderByNext, NextBefore: timestamppb.New(v.now.Add(time.Hour)), PageSize: soonShown,
	})
	for _, one := range resp.GetSchedules() {
		// The next slot of a schedule that the planner is behind on may be far.
		if next := v.at(one.GetNextRunAt()); next.Is() && next.Instant.Sub(v.now) <= time.Hour {
			s.Rows = append(s.Rows, soonRow{one, next, v.rule(one)})
		}
	}
	slices.SortStableFunc(s.Rows, func(a, b soonRow) int { return a.Next.Instant.Compare(b.Next.Instant) })
	return s, err
}

func (c *Console) lookAtRuns(v *visit, view *overviewView) {
	list := func(req *carillonv1.ListRunsRequest) ([]runRow, error) {
		resp, err := c.runs.ListRuns(v.Context(), req)
		return v.rows(resp.GetRuns()), err
	}
	view.Late = partOf(list(&carillonv1.ListRunsRequest{DueBefore: timestamppb.New(v.now.Add(-lateGrace)), PageSize: lateShown}))
	view.Failed = partOf(list(&carillonv1.ListRunsRequest{Status: []string{"FAILED"}, From: timestamppb.New(v.now.Add(-failedSince)), PageSize: failedShown}))
	scheduled := "schedule"
	launched, err := list(&carillonv1.ListRunsRequest{
		Trigger: &scheduled, Status: []string{"ENQUEUED", "STARTED", "SUCCESS", "FAILED"}, From: timestamppb.New(v.now.Add(-time.Hour)), PageSize: sampled,
	})
	view.Drift = partOf(spreadOf(launched, func(r runRow) moment { return r.RunAt }), err)
	view.Lateness = spreadOf(launched, func(r runRow) moment { return r.FireAt })
}

// spreadOf is the distance between launches and their target.
func spreadOf(runs []runRow, target func(runRow) moment) spread {
	var all []time.Duration
	for _, r := range runs {
		if r.Launched.Is() {
			all = append(all, r.Launched.Instant.Sub(target(r).Instant).Abs())
		}
	}
	if len(all) == 0 {
		return spread{}
	}
	slices.Sort(all)
	rank := func(percent int) time.Duration { return all[max(0, (len(all)*percent+99)/100-1)] } // nearest rank
	return spread{N: len(all), P50: rank(50), P99: rank(99), Max: all[len(all)-1]}
}

// leaderRow is one shard.
type leaderRow struct {
	*carillonv1.Leadership
	Host  string
	Until moment
}

// Problem is the problem of the shard's leader; empty: none.
func (l leaderRow) Problem() string {
	switch {
	case l.GetWorkerId() == "":
		return "no leader: nothing in it is planned or launched"
	case l.GetExpired():
		return "the leader's term has expired and no worker has taken over"
	case l.GetAskedToResign():
		return "asked to hand over"
	}
	return ""
}

func (v *visit) leaders(resp *carillonv1.ListWorkersResponse) (rows []leaderRow) {
	hosts := make(map[string]string)
	for _, w := range resp.GetWorkers() {
		hosts[w.GetWorkerId()] = w.GetHost()
	}
	led := make(map[uint32]bool)
	for _, l := range resp.GetLeaderships() {
		led[l.GetShard()] = true
		rows = append(rows, leaderRow{l, hosts[l.GetWorkerId()], v.at(l.GetExpiresAt())})
	}
	for shard := range resp.GetShards() {
		if !led[shard] {
			rows = append(rows, leaderRow{Leadership: &carillonv1.Leadership{Shard: shard}})
		}
	}
	return rows
}

// Sum is the sentence above the page.
func (o overviewView) Sum() string {
	if o.Counts.Fails != nil {
		return ""
	}
	late, failed := "Nothing is late", "nothing failed in the last 24 hours"
	if n := int(o.Counts.Is.GetRunsLate()); n > 0 {
		late = describe.Count(n, "run") + " late now"
	}
	if n := int(o.Counts.Is.GetRunsFailed()); n > 0 {
		failed = describe.Count(n, "run") + " failed in the last 24 hours"
	}
	text := late + ", " + failed
	if n := o.Alerts.Is.Open; n > 0 {
		text += "; " + describe.Count(n, "open alert")
	}
	return text + "."
}

// Leaderless lists the shards without a leader. Nothing in them is planned, so nothing in them
// counts as late.
func (o overviewView) Leaderless() string {
	if o.Workers.Fails == nil && len(o.Leaders) == 0 {
		return "No worker has started on this database: nothing is planned or launched."
	}
	var shards []string
	for _, l := range o.Leaders {
		if l.GetWorkerId() == "" || l.GetExpired() {
			shards = append(shards, strconv.FormatUint(uint64(l.GetShard()), 10))
		}
	}
	switch len(shards) {
	case 0:
		return ""
	case 1:
		return "Shard " + shards[0] + " has no leader: nothing in it is planned or launched."
	}
	return "Shards " + strings.Join(shards, ", ") + " have no leader: nothing in them is planned or launched."
}
