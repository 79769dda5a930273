package console

import (
	"fmt"

	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// cancelCounted is how many pages of open runs the form counts.
const cancelCounted = 10

// cancelView is the form that cancels the runs in a queue.
type cancelView struct {
	Queue             string
	Waiting, Flying   int
	More              bool // counting stopped
	Rows              []runRow
	Action, QueuePath string
}

func (c cancelView) Runs() int { return c.Waiting + c.Flying }

// Count: "25 runs".
func (c cancelView) Count() string {
	if c.More {
		return fmt.Sprintf("%d or more runs", c.Runs())
	}
	return describe.Count(c.Runs(), "run")
}

func cancelRequest(v *visit) *carillonv1.CancelRunsRequest {
	return &carillonv1.CancelRunsRequest{Filter: &carillonv1.OpenRunFilter{QueueId: v.PathValue("id")}}
}

func (c *Console) showCancelQueue(v *visit) (page, error) {
	req := cancelRequest(v)
	req.DryRun = true
	id := req.GetFilter().GetQueueId()
	view := cancelView{Queue: id, Action: queuePath(id) + "/cancel", QueuePath: queuePath(id)}
	for range cancelCounted {
		resp, err := c.runs.CancelRuns(v.Context(), req)
		if err != nil {
			return page{}, err
		}
		view.Waiting += int(resp.GetCancelled())
		view.Flying += int(resp.GetCancelRequested())
		if len(view.Rows) == 0 {
			view.Rows = v.rows(resp.GetSample())
		}
		req.PageToken = resp.GetNextPageToken()
		if view.More = req.GetPageToken() != ""; !view.More {
			break
		}
	}
	return page{name: "cancel", title: "Cancel the runs of " + id, view: view}, nil
}

// cancelQueue cancels all runs in a queue.
func (c *Console) cancelQueue(v *visit) (toast, error) {
	req := cancelRequest(v)
	req.Note = v.field("note")
	ended, asked := 0, 0
	for {
		resp, err := c.runs.CancelRuns(v.Context(), req)
		if err != nil && ended+asked == 0 {
			return toast{}, err
		}
		if err != nil {
			t := failedToast(err)
			t.Lines = append(t.Lines, fmt.Sprintf("%s cancelled before; send the form again for the rest.", describe.Count(ended+asked, "run")))
			return t, nil
		}
		ended += int(resp.GetCancelled())
		asked += int(resp.GetCancelRequested())
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	t := toast{Title: describe.Count(ended, "run") + " cancelled", Still: ended+asked == 0}
	if t.Still {
		t.Title = "No run is in the queue"
	}
	if asked > 0 {
		t.Lines = append(t.Lines, fmt.Sprintf("The executor is asked to cancel %s in flight.", describe.Count(asked, "run")))
	}
	return t, nil
}
