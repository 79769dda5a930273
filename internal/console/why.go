package console

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/explain"
)

// whyView explains one instant of a schedule.
type whyView struct {
	ID, Zone, Asked string
	Near            []nearLink // instants to ask about
	Problem         string     // with the request
	Fails           *failure
	Answer          *whyAnswer // nil: nothing was asked yet
}

// lastSlot selects the newest slot that is due, as in carillon explain.
const lastSlot = "last"

type nearLink struct{ Text, Link string }

type whyAnswer struct {
	*carillonv1.ExplainSlotResponse
	At                   moment // in the schedule's zone
	Slot, Before, After  *slotRow
	Run                  *runRow
	Others, Blocking     []runRow
	RuleMade, RuleEnds   moment
	PauseFrom, PauseEnds moment
	RangeFrom, RangeTo   moment
}

type slotRow struct {
	*carillonv1.ExplainedSlot
	RunAt, FireAt moment
	Link          string
}

// Tone is the class of the verdict's chip.
func (a *whyAnswer) Tone() string {
	switch a.GetVerdict() {
	case "ran":
		return "SUCCESS"
	case "failed", "retrying", "unrecorded":
		return "FAILED"
	case "skipped", "not_fired", "will_not_fire", "due":
		return "SKIPPED"
	case "in_flight", "waiting", "will_fire":
		return "ENQUEUED"
	}
	return "CANCELLED"
}

// Words are the verdict's.
func (a *whyAnswer) Words() string { return strings.ReplaceAll(a.GetVerdict(), "_", " ") }

// Around are the slots before and after, if any.
func (a *whyAnswer) Around() (rows []*slotRow) {
	for _, s := range []*slotRow{a.Before, a.After} {
		if s != nil {
			rows = append(rows, s)
		}
	}
	return rows
}

func (c *Console) showWhy(v *visit) (page, error) {
	id := v.PathValue("id")
	view := whyView{ID: id, Asked: v.param("time")}
	resp, err := c.schedules.GetSchedule(v.Context(), &carillonv1.GetScheduleRequest{ScheduleId: id})
	s := resp.GetSchedule()
	if view.Zone = s.GetTimezone(); status.Code(err) == codes.NotFound {
		view.Zone, err = c.lastZone(v, id)
	}
	if err != nil {
		return page{}, err
	}
	view.Near = append(view.Near, nearLink{"the last slot", schedulePath(id) + "/explain?time=" + lastSlot})
	if len(resp.GetPreview()) > 0 {
		view.Near = append(view.Near, nearLink{"the next slot", whyPath(id, resp.GetPreview()[0].GetRunAt())})
	}
	if view.Asked != "" {
		c.answerWhy(v, &view)
	}
	return page{name: "why", title: id + ": explain", view: view}, nil
}

// lastZone is the time zone of a deleted schedule, which can still be explained.
func (c *Console) lastZone(v *visit, id string) (string, error) {
	resp, err := c.schedules.ListRevisions(v.Context(), &carillonv1.ListRevisionsRequest{ScheduleId: id, PageSize: 1})
	if err != nil || len(resp.GetRevisions()) == 0 {
		return "UTC", err
	}
	return resp.GetRevisions()[0].GetDefinition().GetTimezone(), nil
}

// answerWhy explains the entered instant and shows errors on the page.
func (c *Console) answerWhy(v *visit, view *whyView) {
	req := &carillonv1.ExplainSlotRequest{ScheduleId: view.ID}
	if view.Asked == lastSlot {
		// Neither time nor local: the newest slot that is due.
	} else if _, isReading := explain.ParseReading(view.Asked); isReading {
		req.Local = view.Asked
	} else if at, problem := readingIn(view.Asked, view.Zone); problem != "" {
		view.Problem = problem
		return
	} else {
		req.Time = timestamppb.New(at)
	}
	answer, err := c.schedules.ExplainSlot(v.Context(), req)
	if err != nil {
		f := failureOf(err)
		view.Fails = &f
		return
	}
	view.Answer = v.why(answer, view.Zone)
}

func (v *visit) why(answer *carillonv1.ExplainSlotResponse, zone string) *whyAnswer {
	row := func(s *carillonv1.ExplainedSlot) *slotRow {
		if s == nil {
			return nil
		}
		return &slotRow{s, v.in(s.GetRunAt(), zone), v.in(s.GetFireAt(), zone), whyPath(answer.GetScheduleId(), s.GetRunAt())}
	}
	a := &whyAnswer{
		ExplainSlotResponse: answer, At: v.in(answer.GetTime(), zone), Slot: row(answer.GetSlot()), Before: row(answer.GetBefore()), After: row(answer.GetAfter()),
		Others: v.rows(answer.GetOthers()), Blocking: v.rows(answer.GetBlocking()),
		RuleMade: v.at(answer.GetRule().GetMadeAt()), RuleEnds: v.at(answer.GetRule().GetReplacedAt()),
		PauseFrom: v.at(answer.GetPause().GetFrom()), PauseEnds: v.at(answer.GetPause().GetUntil()),
		RangeFrom: v.at(answer.GetRange().GetFrom()), RangeTo: v.at(answer.GetRange().GetTo()),
	}
	if answer.GetRun() != nil {
		run := v.row(answer.GetRun())
		a.Run = &run
	}
	return a
}

// whyPath is the page that explains an instant.
func whyPath(id string, at *timestamppb.Timestamp) string {
	return schedulePath(id) + "/explain?time=" + at.AsTime().UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// readingIn is the instant that people write: with an offset, or as the clock of
// the zone shows it.
func readingIn(text, zone string) (at time.Time, problem string) {
	loc, err := cronexpr.LoadLocation(zone)
	if err != nil {
		loc = time.UTC
	}
	if at, err = parseLocal(text, loc); err != nil {
		return at, "is not a date and time; write 2026-03-08T02:30 (in " + zone + ") or 2026-03-08T02:30:00Z"
	}
	if utc, err := parseLocal(text, time.UTC); err == nil && utc.Format(time.DateTime) != at.In(loc).Format(time.DateTime) && !hasOffset(text) {
		return at, "does not exist in " + zone + ": the clock skips it; write a time with an offset"
	}
	return at, ""
}

func hasOffset(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}
