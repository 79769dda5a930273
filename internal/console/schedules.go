package console

import (
	"context"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	schedulesShown = 25
	stripShown     = 20 // runs in a schedule's strip
	askedAtOnce    = 8  // strips
)

// schedulesView is the list of schedules.
type schedulesView struct {
	Query, Owner, Label, State, Workflow string
	Rows                                 []*scheduleRow
	Next, First                          string // addresses of other pages; empty: there is none
	Searched                             int    // how many were looked through for Query; 0: all there are
	Request                              string
}

// Filtered reports whether an empty list may be the filter's doing.
func (s schedulesView) Filtered() bool {
	return s.Query+s.Owner+s.Label+s.State+s.Workflow != "" || s.First != ""
}

type scheduleRow struct {
	*carillonv1.Schedule
	Rule        rule
	Next        moment // in the viewer's zone
	NextThere   moment // in its own
	PausedUntil moment
	Strip       strip
	Blind       bool // its runs could not be asked for
}

// Path is the schedule's own page.
func (s *scheduleRow) Path() string { return schedulePath(s.GetScheduleId()) }

func schedulePath(id string) string { return Prefix + "schedules/" + id }

// State is where it stands, in one word.
func (s *scheduleRow) State() string { return stateOf(s.Schedule) }

func stateOf(s *carillonv1.Schedule) string {
	switch {
	case s.GetPaused():
		return "paused"
	case s.GetPlanFailures() > 0:
		return "opened"
	case s.GetNextRunAt() != nil:
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
		Schedule: s, Rule: v.rule(s), Next: v.at(s.GetNextRunAt()), NextThere: v.in(s.GetNextRunAt(), s.GetTimezone()), PausedUntil: v.at(s.GetPausedUntil()),
	}
}

func (c *Console) showSchedules(v *visit) (page, error) {
	view := schedulesView{
		Query: v.param("q"), Owner: v.param("owner"), Label: v.param("label"), State: v.param("state"), Workflow: v.param("workflow"),
	}
	req := &carillonv1.ListSchedulesRequest{
		UserId: view.Owner, Label: view.Label, WorkflowId: view.Workflow, PageSize: schedulesShown, PageToken: v.param("page_token"),
	}
	if view.State != "" {
		req.State = &view.State
	}
	var found []*carillonv1.Schedule
	var err error
	if view.Query == "" {
		var resp *carillonv1.ListSchedulesResponse
		resp, err = c.schedules.ListSchedules(v.Context(), req)
		found = resp.GetSchedules()
		if token := resp.GetNextPageToken(); token != "" {
			view.Next = v.with("page_token", token)
		}
		if req.GetPageToken() != "" {
			view.First = v.with("page_token", "")
		}
	} else {
		found, err = c.search(v, &view, req)
	}
	if err != nil {
		return page{}, err
	}
	for _, s := range found {
		view.Rows = append(view.Rows, v.scheduleRow(s))
	}
	c.fillStrips(v, view.Rows)
	return page{name: "schedules", title: "Schedules", view: view}, nil
}

// search looks for a word in what a list shows of a schedule. The API filters
// by whole values only.
func (c *Console) search(v *visit, view *schedulesView, req *carillonv1.ListSchedulesRequest) ([]*carillonv1.Schedule, error) {
	req.PageToken = ""
	all, more, err := c.listed(v, req)
	if err != nil {
		return nil, err
	}
	word := strings.ToLower(view.Query)
	found := slices.DeleteFunc(all, func(s *carillonv1.Schedule) bool {
		row := scheduleRow{Schedule: s}
		text := strings.Join(append(row.LabelList(), s.GetScheduleId(), s.GetWorkflowId(), s.GetUserId(), s.GetCronExpr(), s.GetTimezone(), s.GetManagedBy()), "\n")
		return !strings.Contains(strings.ToLower(text), word)
	})
	if more || len(found) > schedulesShown {
		view.Searched = len(all)
	}
	return found[:min(len(found), schedulesShown)], nil
}

// fillStrips asks for the last runs of each row. A strip that fails leaves its
// row as it is: the list is worth more than the strips.
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
