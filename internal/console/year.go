package console

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	yearDays    = 371   // 53 weeks, so that every weekday has its row
	yearRuns    = 20000 // looked at, newest first
	yearColumns = 53
	cell, gap   = 11, 3
)

// yearView is a year of one schedule's runs, a square a day.
type yearView struct {
	ID       string
	Days     []dayCell
	Months   []monthLabel
	Width    int
	Height   int
	Runs     int
	Failed   int
	Skipped  int
	Counted  moment // the days before it are not counted; the zero moment: all are
	LeftOver bool
}

type dayCell struct {
	X, Y   int
	Day    time.Time
	Level  string // the class of its colour
	Title  string
	Link   string
	counts map[string]int
}

type monthLabel struct {
	X    int
	Name string
}

// showYear is fetched by the schedule's page when that is there: a year of runs
// takes a while.
func (c *Console) showYear(v *visit) (page, error) {
	view := yearView{ID: v.PathValue("id"), Width: yearColumns*(cell+gap) + 30, Height: 7*(cell+gap) + 18}
	today := dayOf(v.now, v.zone)
	first := today.AddDate(0, 0, -yearDays+1)
	first = first.AddDate(0, 0, (8-int(first.Weekday()))%7) // Mondays begin a column
	days := make(map[time.Time]*dayCell)
	if err := c.countDays(v, &view, days, first); err != nil {
		return page{}, err
	}
	for day, i := first, 0; !day.After(today); day, i = day.AddDate(0, 0, 1), i+1 {
		one := days[day]
		if one == nil {
			one = &dayCell{}
		}
		one.Day, one.X, one.Y = day, 30+i/7*(cell+gap), 18+i%7*(cell+gap)
		one.describe(view.LeftOver && day.Before(dayOf(view.Counted.Instant, v.zone)))
		if len(one.counts) > 0 {
			one.Link = fmt.Sprintf("%sruns?schedule=%s&from=%s&to=%s", Prefix, view.ID, day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly))
		}
		if day.Day() == 1 && i/7 < yearColumns-1 {
			view.Months = append(view.Months, monthLabel{one.X, day.Format("Jan")})
		}
		view.Days = append(view.Days, *one)
	}
	return page{name: "year", title: view.ID, view: view}, nil
}

func dayOf(t time.Time, zone *time.Location) time.Time {
	y, m, d := t.In(zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) // as a key: days have no length there
}

func (c *Console) countDays(v *visit, view *yearView, days map[time.Time]*dayCell, first time.Time) error {
	req := &carillonv1.ListRunsRequest{ScheduleId: view.ID, From: timestamppb.New(first), PageSize: 200}
	for {
		resp, err := c.runs.ListRuns(v.Context(), req)
		if err != nil {
			return err
		}
		for _, r := range resp.GetRuns() {
			day := dayOf(r.GetRunAt().AsTime(), v.zone)
			if days[day] == nil {
				days[day] = &dayCell{counts: make(map[string]int)}
			}
			days[day].counts[r.GetStatus()]++
			view.Runs++
			switch r.GetStatus() {
			case "FAILED":
				view.Failed++
			case "SKIPPED":
				view.Skipped++
			}
			view.Counted = v.at(r.GetRunAt())
		}
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
		if view.Runs >= yearRuns {
			view.LeftOver = true
			return nil
		}
	}
}

// describe sets the day's colour: failures take precedence over successes.
func (d *dayCell) describe(uncounted bool) {
	total := 0
	for _, n := range d.counts {
		total += n
	}
	d.Level, d.Title = "none", d.Day.Format("Mon 2 Jan 2006")+": no runs"
	switch failed, skipped := d.counts["FAILED"], d.counts["SKIPPED"]; {
	case uncounted:
		d.Level, d.Title = "unknown", d.Day.Format("Mon 2 Jan 2006")+": not counted"
		return
	case total == 0:
		return
	case failed*2 > total:
		d.Level = "failed-most"
	case failed > 0:
		d.Level = "failed-some"
	case skipped*2 > total:
		d.Level = "skipped"
	case d.counts["SUCCESS"] == 0: // in flight, or cancelled
		d.Level = "other"
	default:
		d.Level = "success"
	}
	d.Title = d.Day.Format("Mon 2 Jan 2006") + ": " + describe.Count(total, "run")
	for _, status := range []string{"FAILED", "SKIPPED", "CANCELLED"} {
		if n := d.counts[status]; n > 0 {
			d.Title += fmt.Sprintf(", %d %s", n, status)
		}
	}
}
