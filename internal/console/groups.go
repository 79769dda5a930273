package console

import (
	"fmt"
	"net/url"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	jobGroupsShown = 100
	membersShown   = 100
)

// groupsView is the page of groups of runs.
type groupsView struct {
	Groups []groupRow
	Next   string // address of the next page
	First  string // address of the first one
	Queue  string // only of this queue
}

// groupView is the page of one group.
type groupView struct {
	groupRow
	Runs []runRow
	More bool
}

// groupRow is one group.
type groupRow struct {
	*carillonv1.Group
	Created, Ended, CancelRequested, SealAt moment
}

func groupPath(id string) string { return Prefix + "groups/" + url.PathEscape(id) }

func (g groupRow) Path() string      { return groupPath(g.GetGroupId()) }
func (g groupRow) QueuePath() string { return queuePath(g.GetQueueId()) }
func (g groupRow) Running() bool     { return g.GetState() == "RUNNING" }
func (g groupRow) Cancellable() bool { return g.Running() && g.GetCancelRequestedAt() == nil }
func (g groupRow) Retryable() bool   { return !g.Running() && g.GetState() != "COMPLETED" }

// Progress is how many members are over, of how many.
func (g groupRow) Progress() string {
	return fmt.Sprintf("%d of %d", g.GetSucceeded()+g.GetFailed()+g.GetSkipped()+g.GetCancelled(), g.GetMembers())
}

func (v *visit) group(g *carillonv1.Group) groupRow {
	return groupRow{Group: g, Created: v.at(g.GetCreatedAt()), Ended: v.at(g.GetEndedAt()), CancelRequested: v.at(g.GetCancelRequestedAt()), SealAt: v.at(g.GetSealAt())}
}

func (c *Console) showGroups(v *visit) (page, error) {
	resp, err := c.groups.ListGroups(v.Context(), &carillonv1.ListGroupsRequest{PageSize: jobGroupsShown, PageToken: v.param("page_token"), QueueId: v.param("queue")})
	if err != nil {
		return page{}, err
	}
	view := groupsView{Queue: v.param("queue")}
	for _, g := range resp.GetGroups() {
		view.Groups = append(view.Groups, v.group(g))
	}
	if token := resp.GetNextPageToken(); token != "" {
		view.Next = v.with("page_token", token)
	}
	if v.param("page_token") != "" {
		view.First = v.with("page_token", "")
	}
	return page{name: "groups", title: "Groups", view: view}, nil
}

func (c *Console) showGroup(v *visit) (page, error) {
	id := v.PathValue("id")
	got, err := c.groups.GetGroup(v.Context(), &carillonv1.GetGroupRequest{GroupId: id})
	if err != nil {
		return page{}, err
	}
	runs, err := c.runs.ListRuns(v.Context(), &carillonv1.ListRunsRequest{GroupId: id, PageSize: membersShown})
	if err != nil {
		return page{}, err
	}
	view := groupView{groupRow: v.group(got.GetGroup()), Runs: v.rows(runs.GetRuns()), More: runs.GetNextPageToken() != ""}
	return page{name: "group", title: id, view: view}, nil
}

func (c *Console) sealGroup(v *visit) (toast, error) {
	id := v.PathValue("id")
	_, err := c.groups.SealGroup(v.Context(), &carillonv1.SealGroupRequest{GroupId: id})
	return toast{Title: "Sealed " + id, Lines: []string{"It takes no more members, and ends with its last one."}}, err
}

func (c *Console) cancelGroup(v *visit) (toast, error) {
	id := v.PathValue("id")
	resp, err := c.groups.CancelGroup(v.Context(), &carillonv1.CancelGroupRequest{GroupId: id})
	t := toast{Title: "Cancelled " + id}
	if resp.GetGroup().GetState() == "RUNNING" {
		t.Lines = []string{"The executor is asked to cancel the members that it has. The group ends with the last of them."}
	}
	return t, err
}

func (c *Console) retryGroup(v *visit) (toast, error) {
	resp, err := c.groups.RetryGroup(v.Context(), &carillonv1.RetryGroupRequest{GroupId: v.PathValue("id"), NewGroupId: v.field("new_group_id"), Renew: v.field("renew") != ""})
	return toast{Title: fmt.Sprintf("Group %s has %d members", resp.GetGroup().GetGroupId(), resp.GetGroup().GetMembers())}, err
}
