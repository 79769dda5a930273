package console

import (
	"crypto/rand"
	"fmt"
	"net/url"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// overlapGroupsShown caps the cards of a page: each needs several reads.
const overlapGroupsShown = 20

// overlapGroupsView is the page Workflows: overlap groups in the words of those who own them.
type overlapGroupsView struct {
	Groups []overlapGroup
	Next   string // address of the next page
	First  string // address of the first one
}

// overlapGroup is the card of one group, and its page.
type overlapGroup struct {
	*carillonv1.OverlapGroup
	Schedules []overlapSchedule
	Recent    []overlapActivity
	Oldest    moment
	Running   []runRow
	Waiting   []waitingRow
	Request   string // request_id of the button
}

// HasOpen reports whether a run is in flight or waits.
func (g overlapGroup) HasOpen() bool { return len(g.Running)+len(g.Waiting) > 0 }

type overlapSchedule struct {
	*carillonv1.OverlapSchedule
	Next moment
}

type overlapActivity struct {
	*carillonv1.OverlapActivity
	Ended moment
}

type waitingRow struct {
	runRow
	Why string
}

func (s overlapSchedule) Path() string {
	return Prefix + "schedules/" + url.PathEscape(s.GetScheduleId())
}
func (a overlapActivity) Path() string { return runPath(a.GetIdempotencyKey()) }

// Path is the page of the group: owners can have the same overlap key.
func (g overlapGroup) Path() string {
	return Prefix + "workflows/" + url.PathEscape(g.GetOverlapKey()) + "?user=" + url.QueryEscape(g.GetUserId())
}

func (g overlapGroup) RunPath() string {
	return Prefix + "workflows/" + url.PathEscape(g.GetOverlapKey()) + "/run"
}

// StatusWord is the status with a capital letter.
func (g overlapGroup) StatusWord() string {
	return map[string]string{"running": "Running", "idle": "Idle", "stopped": "Stopped"}[g.GetStatus()]
}

// StatusClass is the colour of the status.
func (g overlapGroup) StatusClass() string {
	return map[string]string{"running": "active", "idle": "success", "stopped": "skipped"}[g.GetStatus()]
}

// Runnable: Run now is refused while a run of the group is in flight or waits, and when all is paused.
func (g overlapGroup) Runnable() bool {
	return g.GetStatus() == "idle" && g.GetPending().GetRuns() == 0
}

// PendingWords are how many runs wait.
func (g overlapGroup) PendingWords() string {
	switch n := g.GetPending().GetRuns(); n {
	case 0:
		return "nothing waits"
	case 1:
		return "1 run waits"
	default:
		return fmt.Sprintf("%d runs wait", n)
	}
}

func (v *visit) overlapGroup(g *carillonv1.OverlapGroup) overlapGroup {
	out := overlapGroup{OverlapGroup: g, Oldest: v.at(g.GetPending().GetOldestAt()), Running: v.rows(g.GetRunning()), Request: rand.Text()}
	for _, s := range g.GetSchedules() {
		out.Schedules = append(out.Schedules, overlapSchedule{s, v.at(s.GetNextRunAt())})
	}
	for _, a := range g.GetRecent() {
		out.Recent = append(out.Recent, overlapActivity{a, v.at(a.GetCompletedAt())})
	}
	for _, w := range g.GetWaiting() {
		out.Waiting = append(out.Waiting, waitingRow{v.row(w.GetRun()), w.GetWhy()})
	}
	return out
}

func (c *Console) showWorkflows(v *visit) (page, error) {
	resp, err := c.overlaps.ListOverlapGroups(v.Context(), &carillonv1.ListOverlapGroupsRequest{PageSize: overlapGroupsShown, PageToken: v.param("page_token")})
	if err != nil {
		return page{}, err
	}
	view := overlapGroupsView{}
	for _, g := range resp.GetGroups() {
		view.Groups = append(view.Groups, v.overlapGroup(g))
	}
	if token := resp.GetNextPageToken(); token != "" {
		view.Next = v.with("page_token", token)
	}
	if v.param("page_token") != "" {
		view.First = v.with("page_token", "")
	}
	return page{name: "workflows", title: "Workflows", view: view}, nil
}

func (c *Console) showWorkflow(v *visit) (page, error) {
	key := v.PathValue("key")
	resp, err := c.overlaps.GetOverlapGroup(v.Context(), &carillonv1.GetOverlapGroupRequest{OverlapKey: key, UserId: v.param("user")})
	if err != nil {
		return page{}, err
	}
	return page{name: "workflow", title: key, view: v.overlapGroup(resp.GetGroup())}, nil
}

func (c *Console) runWorkflow(v *visit) (toast, error) {
	key := v.PathValue("key")
	resp, err := c.overlaps.RunOverlapGroup(v.Context(), &carillonv1.RunOverlapGroupRequest{OverlapKey: key, UserId: v.field("user_id"), RequestId: v.field("request_id")})
	t := toast{Title: "Started " + key}
	if n := len(resp.GetRuns()); n > 1 {
		t.Lines = []string{fmt.Sprintf("%d runs, one after the other.", n)}
	}
	return t, err
}
