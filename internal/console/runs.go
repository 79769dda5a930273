package console

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const runsShown = 50

// runsView is the ledger.
type runsView struct {
	Query, Schedule, Queue, Owner, Workflow, Reason, Trigger, From, To string
	Late                                                               bool   // only overdue launches
	Dead                                                               bool   // only runs that failed for good
	Redrive                                                            string // path of the page that redrives the list's runs; empty: none
	Several                                                            string // Query begins several keys: which
	Status                                                             []string
	Statuses, Reasons, Triggers                                        []string // to choose from
	Rows                                                               []runRow
	Next, First                                                        string
	Zone                                                               string
}

// Chosen reports whether the status is selected.
func (r runsView) Chosen(status string) bool { return slices.Contains(r.Status, status) }

// Filtered reports whether an empty list may be the filter's doing.
func (r runsView) Filtered() bool {
	return r.Query+r.Schedule+r.Queue+r.Owner+r.Workflow+r.Reason+r.Trigger+r.From+r.To != "" || r.Late || r.Dead || len(r.Status) > 0 || r.First != ""
}

// More reports whether a filter of the collapsed section is used.
func (r runsView) More() bool {
	return r.Late || r.Dead || r.Queue+r.Owner+r.Workflow+r.Reason+r.Trigger+r.From+r.To != ""
}

func (c *Console) showRuns(v *visit) (page, error) {
	view := runsView{
		Schedule: v.param("schedule"), Queue: v.param("queue"), Owner: v.param("owner"), Workflow: v.param("workflow"), Reason: v.param("reason"),
		Query: v.param("q"), Late: v.param("late") != "", Dead: v.param("dead") != "", Trigger: v.param("trigger"), From: v.param("from"), To: v.param("to"), Status: chosen(v.URL.Query()),
		Statuses: texts(schedule.Statuses), Reasons: texts(schedule.Reasons), Triggers: texts(schedule.Triggers), Zone: v.zone.String(),
	}
	req := &carillonv1.ListRunsRequest{
		ScheduleId: view.Schedule, QueueId: view.Queue, UserId: view.Owner, WorkflowId: view.Workflow, Status: view.Status,
		PageSize: runsShown, PageToken: v.param("page_token"),
	}
	if view.Reason != "" {
		req.Reason = &view.Reason
	}
	if view.Trigger != "" {
		req.Trigger = &view.Trigger
	}
	if view.Dead {
		req.Dead = &view.Dead
	}
	if view.Late {
		req.DueBefore = timestamppb.New(v.now.Add(-lateGrace))
	}
	if view.Query != "" {
		return c.findRuns(v, view)
	}
	var err error
	if req.From, err = v.instant("from"); err != nil {
		return page{}, err
	}
	if req.To, err = v.instant("to"); err != nil {
		return page{}, err
	}
	resp, err := c.runs.ListRuns(v.Context(), req)
	if err != nil {
		return page{}, err
	}
	view.Rows = v.rows(resp.GetRuns())
	if view.Dead && len(view.Rows) > 0 && !view.Late && view.Trigger == "" && len(view.Status) == 0 { // a redrive has no such filters
		view.Redrive = redrivePath(v.URL.Query())
	}
	if token := resp.GetNextPageToken(); token != "" {
		view.Next = v.with("page_token", token)
	}
	if req.GetPageToken() != "" {
		view.First = v.with("page_token", "")
	}
	return page{name: "runs", title: "Runs", view: view}, nil
}

// findRuns searches for a run_id, a trace_id, or the first digits of a key. It ignores the other
// filters.
func (c *Console) findRuns(v *visit, view runsView) (page, error) {
	var found []*carillonv1.Run
	for _, req := range []*carillonv1.ListRunsRequest{{RunId: view.Query, PageSize: runsShown}, {TraceId: view.Query, PageSize: runsShown}} {
		resp, err := c.runs.ListRuns(v.Context(), req)
		if err != nil {
			return page{}, err
		}
		found = append(found, resp.GetRuns()...)
	}
	if keyDigits.MatchString(view.Query) {
		resp, err := c.runs.GetRun(v.Context(), &carillonv1.GetRunRequest{IdempotencyKey: view.Query})
		switch status.Code(err) {
		case codes.OK:
			found = append(found, resp.GetRun())
		case codes.NotFound:
		case codes.InvalidArgument: // several runs
			failed := failureOf(err)
			view.Several = failed.Of("idempotency_key")
		default:
			return page{}, err
		}
	}
	slices.SortStableFunc(found, func(a, b *carillonv1.Run) int {
		return cmp.Or(b.GetRunAt().AsTime().Compare(a.GetRunAt().AsTime()), cmp.Compare(a.GetIdempotencyKey(), b.GetIdempotencyKey()))
	})
	found = slices.CompactFunc(found, func(a, b *carillonv1.Run) bool { return a.GetIdempotencyKey() == b.GetIdempotencyKey() })
	view.Rows = v.rows(found)
	return page{name: "runs", title: "Runs", view: view}, nil
}

// keyDigits are the first digits of a key, or all of them.
var keyDigits = regexp.MustCompile(`^[0-9a-fA-F]{4,64}$`)

func chosen(q url.Values) (all []string) {
	for _, one := range q["status"] {
		if one != "" {
			all = append(all, one)
		}
	}
	return all
}

func texts[T ~string](words []T) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}

// instant is a parameter as people write one, in the viewer's zone; nil where
// it is not given.
func (v *visit) instant(name string) (*timestamppb.Timestamp, error) {
	text := v.param(name)
	if text == "" {
		return nil, nil
	}
	t, err := parseLocal(text, v.zone)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%s: %.40q is not a date and time; write 2026-03-08T02:30 (in %s) or 2026-03-08T02:30:00Z",
			name, strings.ToValidUTF8(text, "?"), v.zone)
	}
	return timestamppb.New(t.Truncate(time.Microsecond)), nil
}
