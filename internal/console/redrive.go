package console

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	// redriveCounted is how many pages of dead runs the form counts.
	redriveCounted = 10
	// redriveShown is how many schedules the form names.
	redriveShown = 20
)

// redriveView is the form that redrives the dead runs of a filter.
type redriveView struct {
	Filter    []fact
	Action    string // with the filter
	Back      string
	Dead      int
	More      bool // counting stopped
	Left      int
	Schedules []*carillonv1.RedrivenSchedule
	Others    int // schedules that are not named
	Rows      []runRow
	Request   string
}

// Count: "25 dead runs".
func (r redriveView) Count() string {
	if r.More {
		return fmt.Sprintf("%d or more dead runs", r.Dead)
	}
	return describe.Count(r.Dead, "dead run")
}

// redriveParams are the filters that the list of runs and a redrive share.
var redriveParams = []struct{ name, label string }{
	{"schedule", "Schedule"}, {"owner", "Owner"}, {"workflow", "Workflow"}, {"reason", "Reason"}, {"from", "From"}, {"to", "To"},
}

// redrivePath is the page that redrives the runs of a list.
func redrivePath(list url.Values) string {
	q := make(url.Values)
	for _, p := range redriveParams {
		if value := list.Get(p.name); value != "" {
			q.Set(p.name, value)
		}
	}
	if len(q) == 0 {
		return Prefix + "runs/redrive"
	}
	return Prefix + "runs/redrive?" + q.Encode()
}

// redriveRequest is the request for the filter in the page's address.
func (v *visit) redriveRequest() (*carillonv1.RedriveRunsRequest, error) {
	f := &carillonv1.DeadRunFilter{ScheduleId: v.param("schedule"), UserId: v.param("owner"), WorkflowId: v.param("workflow")}
	if reason := v.param("reason"); reason != "" {
		f.Reason = &reason
	}
	var err error
	if f.From, err = v.instant("from"); err != nil {
		return nil, err
	}
	if f.To, err = v.instant("to"); err != nil {
		return nil, err
	}
	return &carillonv1.RedriveRunsRequest{Filter: f, All: true}, nil
}

func (c *Console) showRedrive(v *visit) (page, error) {
	req, err := v.redriveRequest()
	if err != nil {
		return page{}, err
	}
	req.DryRun = true
	list := v.URL.Query()
	view := redriveView{Action: redrivePath(list), Request: rand.Text()}
	for _, p := range redriveParams {
		if value := v.param(p.name); value != "" {
			view.Filter = append(view.Filter, fact{Name: p.label, Value: value})
		}
	}
	list.Set("dead", "yes")
	view.Back = Prefix + "runs?" + list.Encode()
	runs := make(map[string]uint32)
	for range redriveCounted {
		resp, err := c.runs.RedriveRuns(v.Context(), req)
		if err != nil {
			return page{}, err
		}
		view.Dead += int(resp.GetRedriven())
		view.Left += int(resp.GetLeftDead())
		if len(view.Rows) == 0 {
			view.Rows = v.rows(resp.GetSample())
		}
		for _, s := range resp.GetSchedules() {
			runs[s.GetScheduleId()] += s.GetRedriven()
		}
		req.PageToken = resp.GetNextPageToken()
		if view.More = req.GetPageToken() != ""; !view.More {
			break
		}
	}
	view.Schedules = mostRuns(runs)
	view.Others = max(len(view.Schedules)-redriveShown, 0)
	view.Schedules = view.Schedules[:len(view.Schedules)-view.Others]
	return page{name: "redrive", title: "Redrive dead runs", view: view}, nil
}

// redrive retries all dead runs of the filter.
func (c *Console) redrive(v *visit) (toast, error) {
	req, err := v.redriveRequest()
	if err != nil {
		return toast{}, err
	}
	req.RequestId, req.Renew = v.requestID(), v.field("renew") != ""
	if text := v.field("rate_per_minute"); text != "" {
		rate, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return toast{}, status.Errorf(codes.InvalidArgument, "rate_per_minute: %.40q is not a whole number", text)
		}
		perMinute := uint32(rate)
		req.RatePerMinute = &perMinute
	}
	done, left := 0, 0
	for {
		resp, err := c.runs.RedriveRuns(v.Context(), req)
		if err != nil && done == 0 {
			return toast{}, err
		}
		if err != nil {
			t := failedToast(err)
			t.Lines = append(t.Lines, fmt.Sprintf("%s redriven before; send the form again for the rest.", describe.Count(done, "dead run")))
			return t, nil
		}
		done += int(resp.GetRedriven())
		left += int(resp.GetLeftDead())
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	t := toast{Title: describe.Count(done, "dead run") + " redriven", Still: done == 0}
	if done == 0 {
		t.Title = "No dead run matches"
	}
	if left > 0 {
		t.Lines = append(t.Lines, describe.Count(left, "dead run")+" of deleted schedules and queues cannot be redriven.")
	}
	return t, nil
}

// mostRuns lists schedules by their dead runs, the most first.
func mostRuns(runs map[string]uint32) []*carillonv1.RedrivenSchedule {
	all := make([]*carillonv1.RedrivenSchedule, 0, len(runs))
	for id, n := range runs {
		all = append(all, &carillonv1.RedrivenSchedule{ScheduleId: id, Redriven: n})
	}
	slices.SortFunc(all, func(a, b *carillonv1.RedrivenSchedule) int {
		return cmp.Or(cmp.Compare(b.GetRedriven(), a.GetRedriven()), cmp.Compare(a.GetScheduleId(), b.GetScheduleId()))
	})
	return all
}
