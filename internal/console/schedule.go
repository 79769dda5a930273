package console

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	upcomingShown = 10
	pastShown     = 20
)

// scheduleView is one schedule.
type scheduleView struct {
	*scheduleRow
	Facts        []fact
	Expectations []expectationRow
	Telling      string // when an alert is opened
	Input        string
	Upcoming     part[[]fireRow]
	Past         part[[]runRow]
	Created      moment
	Revised      moment
	Backlog      [2]moment
	Request      string // of a trigger
}

// fact is one line of a definition that is not the default.
type fact struct{ Name, Value, Note, Link string }

// fireRow is a slot ahead.
type fireRow struct {
	RunAt, There, FireAt moment
	Local, Note          string
	Jitter               string // how far fire_at is from run_at
}

func (v *visit) fireRow(f *carillonv1.Fire, zone string) fireRow {
	row := fireRow{RunAt: v.at(f.GetRunAt()), There: v.in(f.GetRunAt(), zone), FireAt: v.at(f.GetFireAt()), Local: f.GetLocal(), Note: f.GetNote()}
	switch d := row.FireAt.Instant.Sub(row.RunAt.Instant); {
	case d > 0:
		row.Jitter = "+" + brief(d)
	case d < 0:
		row.Jitter = "−" + brief(-d)
	}
	return row
}

func (v *visit) fireRows(fires []*carillonv1.Fire, zone string) []fireRow {
	rows := make([]fireRow, len(fires))
	for i, f := range fires {
		rows[i] = v.fireRow(f, zone)
	}
	return rows
}

func (c *Console) showSchedule(v *visit) (page, error) {
	id := v.PathValue("id")
	resp, err := c.schedules.GetSchedule(v.Context(), &carillonv1.GetScheduleRequest{ScheduleId: id})
	if err != nil {
		return page{}, err
	}
	s := resp.GetSchedule()
	view := scheduleView{
		scheduleRow: v.scheduleRow(s), Facts: factsOf(s), Expectations: v.expectations(s), Telling: telling(s.GetExpect()), Input: indented(s.GetInput()), Request: rand.Text(),
		Created: v.at(s.GetCreatedAt()), Revised: v.at(s.GetRevisedAt()), Backlog: [2]moment{v.at(s.GetBacklogFrom()), v.at(s.GetBacklogUntil())},
	}
	var g errgroup.Group
	g.Go(func() error {
		view.Past = partOf(c.lastRuns(v.Context(), v, id, pastShown))
		return nil
	})
	g.Go(func() error {
		resp, err := c.schedules.PreviewSchedule(v.Context(), &carillonv1.PreviewScheduleRequest{
			ScheduleId: id, PageSize: upcomingShown, From: timestamppb.New(v.now),
		})
		view.Upcoming = partOf(v.fireRows(resp.GetFires(), s.GetTimezone()), err)
		return nil
	})
	_ = g.Wait() // each part holds its error
	if s.GetGroup() != "" {
		view.Facts = append(view.Facts, groupFact(s, view.Past.Is))
	}
	view.Strip = stripOf(view.Past.Is)
	return page{name: "schedule", title: id, view: view}, nil
}

// factsOf are the settings of a schedule with explanations.
func factsOf(s *carillonv1.Schedule) []fact {
	facts := []fact{
		{Name: "Overlap", Value: s.GetOverlapPolicy(), Note: overlapWords[s.GetOverlapPolicy()]},
		{Name: "Catch-up", Value: s.GetCatchupPolicy(), Note: catchupWords[s.GetCatchupPolicy()]},
		{Name: "Run timeout", Value: msWords(s.GetRunTimeoutMs())},
	}
	add := func(shown bool, name, value, note string) {
		if shown {
			facts = append(facts, fact{Name: name, Value: value, Note: note})
		}
	}
	add(s.GetMaxRunMs() > 0, "Longest run", msWords(s.GetMaxRunMs()), "a run that is not over by then fails")
	add(s.GetExpiresMs() > 0, "Expires", msWords(s.GetExpiresMs()), "a run that waits in its queue for so long ends")
	add(s.GetLaunchTimeoutMs() > 0, "Launch timeout", msWords(s.GetLaunchTimeoutMs()), "a run that is not accepted by then fails")
	p := s.GetRetry()
	add(p.GetMaxAttempts() > 1, "Retries", fmt.Sprintf("%d attempts", p.GetMaxAttempts()),
		backoffWords(p))
	add(s.GetJitterMs() > 0, "Jitter", "± "+msWords(s.GetJitterMs()), "random, but fixed per slot")
	add(s.GetDst() != "vixie", "Daylight saving", s.GetDst(), "gap: skipped; fold: runs twice")
	add(s.GetOverlapKey() != s.GetScheduleId(), "Overlap key", s.GetOverlapKey(), "shared with other schedules of its owner")
	add(s.GetCatchupPolicy() != "none", "Catch-up window", msWords(s.GetCatchupWindowMs()), "older slots are not caught up")
	add(s.GetOverlapPolicy() == "queue" || s.GetOverlapPolicy() == "coalesce", "Max queued", fmt.Sprint(s.GetMaxQueued()), "")
	add(s.GetPriority() != 0, "Priority", fmt.Sprintf("%+d", s.GetPriority()), "higher goes first among due slots")
	if queue := s.GetQueueId(); queue != "" {
		facts = append(facts, fact{Name: "Queue", Value: queue, Note: "its runs enter it when they are due", Link: Prefix + "queues/" + url.PathEscape(queue)})
	}
	add(len(s.GetLimits()) > 0, "Limits", strings.Join(s.GetLimits(), ", "), "besides those of the queue")
	add(s.GetFairKey() != "", "Fair key", s.GetFairKey(), "what its runs count for in a fair queue")
	add(s.GetWebhook() != "", "Webhook", s.GetWebhook(), "is told of the ends of runs")
	add(len(s.GetConsume().GetFilter()) > 0, "Filter", string(s.GetConsume().GetFilter()), "only events that match it start runs")
	add(s.GetStartAt() != nil, "Starts", s.GetStartAt().AsTime().Format("2006-01-02 15:04:05 UTC"), "")
	add(s.GetEndAt() != nil, "Ends", s.GetEndAt().AsTime().Format("2006-01-02 15:04:05 UTC"), "")
	if grant := s.GetExecutionGrantId(); grant != "" {
		facts = append(facts, fact{Name: "Grant", Value: grant, Link: Prefix + "schedules?grant=" + url.QueryEscape(grant)})
	}
	add(s.GetManagedBy() != "", "Managed by", s.GetManagedBy(), "its next deployment may change it")
	return facts
}

var overlapWords = map[string]string{
	"allow": "runs may overlap", "skip": "a slot is skipped while a run is in flight",
	"queue": "a slot waits for the run in flight, in order", "replace": "the run in flight is cancelled for the new slot",
	"coalesce": "the newest slot waits for the run in flight, in place of older ones",
}

var catchupWords = map[string]string{
	"none": "missed slots are not caught up", "fire_immediately": "all missed slots run, oldest first",
	"spread": "missed slots run, spread over time", "latest": "only the newest missed slot runs",
}

// indented is indented JSON; other text stays unchanged.
func indented(raw []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

// groupFact names the group of a schedule, with a link to that of its newest run that has one.
func groupFact(s *carillonv1.Schedule, past []runRow) fact {
	f := fact{Name: "Group", Value: s.GetGroup(), Note: "its runs of one instant end together with those of other schedules", Link: Prefix + "groups?queue=" + url.QueryEscape(s.GetQueueId())}
	for i := range past {
		if id := past[i].GetGroupId(); id != "" {
			f.Link, f.Note = groupPath(id), f.Note+"; the link is to that of "+past[i].GetRunAt().AsTime().Format(time.RFC3339)
			break
		}
	}
	return f
}

// backoffWords are the waits of a retry policy, and the failure classes that it is for.
func backoffWords(p *carillonv1.RetryPolicy) string {
	return fmt.Sprintf("after %s, each wait %d %% of the one before, at most %s; on %s", msWords(p.GetBackoffMs()), p.GetFactorPercent(), msWords(p.GetMaxBackoffMs()), strings.Join(p.GetOn(), ", "))
}
