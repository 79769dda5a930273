package console

import (
	"net/url"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// groupsShown bounds the groups of failing schedules on the overview.
const groupsShown = 8

// failingView is the failing schedules by how they fail.
type failingView struct {
	Schedules uint32
	Groups    []failingGroup
	More      int // groups that are not shown
}

// failingGroup is the schedules that fail in one way.
type failingGroup struct {
	*carillonv1.FailureGroup
	First, Last moment
}

// Why is the reason, with the error code if it adds something.
func (g failingGroup) Why() string {
	return schedule.Reason(g.GetReason()).WithCode(g.GetErrorCode())
}

// Words explain the reason.
func (g failingGroup) Words() string { return reasonWords(g.GetReason()) }

// Counts: "3 schedules, 41 failed runs".
func (g failingGroup) Counts() string {
	return describe.Count(int(g.GetSchedules()), "schedule") + ", " + describe.Count(int(g.GetFailures()), "failed run")
}

// Paths are the pages of the examples.
func (g failingGroup) Paths() (all []namedPath) {
	for _, id := range g.GetExamples() {
		all = append(all, namedPath{id, schedulePath(url.PathEscape(id))})
	}
	return all
}

type namedPath struct{ Name, Path string }

// Others is how many schedules of the group are not named.
func (g failingGroup) Others() int { return int(g.GetSchedules()) - len(g.GetExamples()) }

func (c *Console) failing(v *visit) (view failingView, err error) {
	resp, err := c.schedules.GroupFailures(v.Context(), &carillonv1.GroupFailuresRequest{})
	if err != nil {
		return view, err
	}
	view.Schedules = resp.GetSchedules()
	for _, g := range resp.GetGroups() {
		if len(view.Groups) == groupsShown {
			view.More++
			continue
		}
		view.Groups = append(view.Groups, failingGroup{g, v.at(g.GetFirstAt()), v.at(g.GetLastAt())})
	}
	return view, nil
}

// failureView is how one schedule fails.
type failureView struct {
	*carillonv1.ScheduleFailure
	First, Last moment
}

// failureOf is nil for a schedule that does not fail.
func (v *visit) failureOf(s *carillonv1.Schedule) *failureView {
	f := s.GetFailure()
	if f == nil {
		return nil
	}
	return &failureView{f, v.at(f.GetFirstAt()), v.at(f.GetLastAt())}
}

// Run is the page of the newest failed run.
func (f *failureView) Run() string { return Prefix + "runs/" + f.GetIdempotencyKey() }

// Why is the reason, with the error code if it adds something.
func (f *failureView) Why() string { return schedule.Reason(f.GetReason()).WithCode(f.GetErrorCode()) }

// Count: "3 failed runs".
func (f *failureView) Count() string { return describe.Count(int(f.GetFailures()), "failed run") }
