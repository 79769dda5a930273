package console

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	orderByNext    = "next_run_at"
	schedulesShown = 25
	stripShown     = 20 // runs in a schedule's strip
	askedAtOnce    = 8  // strips
)

// stateFailing is a choice among the states, though a failing schedule is in one
// of the others as well.
const stateFailing = "failing"

// schedulesView is the list of schedules.
type schedulesView struct {
	Query, Owner, Label, State, Workflow, Grant string
	Rows                                        []*scheduleRow
	Next, First                                 string // addresses of other pages; empty: none
	Request                                     string
}

// Filtered reports whether an empty list may be the filter's doing.
func (s schedulesView) Filtered() bool {
	return s.Query+s.Owner+s.Label+s.State+s.Workflow+s.Grant != "" || s.First != ""
}

type scheduleRow struct {
	*carillonv1.Schedule
	Rule        rule
	Next        moment // in the viewer's zone
	NextThere   moment // in the schedule's zone
	PausedUntil moment
	Strip       strip
	Blind       bool         // its runs could not be read
	Failure     *failureView // nil: it is not failing
}

func (s *scheduleRow) Path() string { return schedulePath(s.GetScheduleId()) }

func schedulePath(id string) string { return Prefix + "schedules/" + id }

// State is its state in one word.
func (s *scheduleRow) State() string { return stateOf(s.Schedule) }

func stateOf(s *carillonv1.Schedule) string {
	switch {
	case s.GetPaused():
		return "paused"
	case s.GetPlanFailures() > 0:
		return "opened"
	case s.GetNextRunAt() != nil || s.GetConsume() != nil:
		return "active"
	case s.GetCronExpr() == "" && s.GetIntervalMs() == 0 && s.GetOnceAt() == nil:
		return "manual"
	}
	return "exhausted"
}

// LabelList is sorted, for maps have no order.
func (s *scheduleRow) LabelList() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s.GetLabels())) {
		all = append(all, name+"="+s.GetLabels()[name])
	}
	return all
}

func (v *visit) scheduleRow(s *carillonv1.Schedule) *scheduleRow {
	return &scheduleRow{
		Schedule: s, Rule: v.rule(s), Next: v.at(s.GetNextRunAt()), NextThere: v.in(s.GetNextRunAt(), s.GetTimezone()), PausedUntil: v.at(s.GetPausedUntil()), Failure: v.failureOf(s),
	}
}

func (c *Console) showSchedules(v *visit) (page, error) {
	view := schedulesView{
		Query: v.param("q"), Owner: v.param("owner"), Label: v.param("label"), State: v.param("state"), Workflow: v.param("workflow"), Grant: v.param("grant"),
	}
	req := &carillonv1.ListSchedulesRequest{
		Query: view.Query, UserId: view.Owner, Label: view.Label, WorkflowId: view.Workflow, ExecutionGrantId: view.Grant,
		PageSize: schedulesShown, PageToken: v.param("page_token"),
	}
	switch view.State {
	case "":
	case stateFailing:
		req.Failing = true
	default:
		req.State = &view.State
	}
	resp, err := c.schedules.ListSchedules(v.Context(), req)
	if err != nil {
		return page{}, err
	}
	if token := resp.GetNextPageToken(); token != "" {
		view.Next = v.with("page_token", token)
	}
	if req.GetPageToken() != "" {
		view.First = v.with("page_token", "")
	}
	for _, s := range resp.GetSchedules() {
		view.Rows = append(view.Rows, v.scheduleRow(s))
	}
	c.fillStrips(v, view.Rows)
	return page{name: "schedules", title: "Schedules", view: view}, nil
}

// fillStrips reads the last runs of each row. If that fails, the row is shown without them.
func (c *Console) fillStrips(v *visit, rows []*scheduleRow) {
	var g errgroup.Group
	g.SetLimit(askedAtOnce)
	for _, row := range rows {
		g.Go(func() error {
			runs, err := c.lastRuns(v.Context(), v, row.GetScheduleId(), stripShown)
			row.Strip, row.Blind = stripOf(runs), err != nil
			return nil
		})
	}
	_ = g.Wait() // none fails
}

func (c *Console) lastRuns(ctx context.Context, v *visit, id string, n uint32) ([]runRow, error) {
	resp, err := c.runs.ListRuns(ctx, &carillonv1.ListRunsRequest{ScheduleId: id, PageSize: n})
	return v.rows(resp.GetRuns()), err
}
