package console

import (
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	lanes       = 60 // schedules with a lane, soonest first
	laneFires   = 1500
	tightTicks  = 200 // more fires than this in a day are drawn as a band
	timelineFor = 24 * time.Hour
)

// timelineView shows the launches of the next 24 hours.
type timelineView struct {
	Owner, Label, Workflow string
	Forecast               part[forecastView]
	Lanes                  []*lane
	Hours                  []hourMark
	More                   bool // more schedules fire than have a lane
	Zone                   string
}

type lane struct {
	*carillonv1.Schedule
	Next  moment
	Ticks []tick
	Band  bool
	More  bool // it fires more often than is drawn
	Count int
	BandX percent
	BandW percent
	Fails string
}

// Hidden is how many schedules fire that have no lane; 0 where that is not known.
func (t timelineView) Hidden() int {
	f := t.Forecast.Is
	if !t.More || f.Short || t.Forecast.Fails != nil {
		return 0
	}
	return max(0, int(f.Launching)-len(t.Lanes))
}

func (l *lane) Path() string { return schedulePath(l.GetScheduleId()) }

type tick struct {
	X     percent
	Title string
}

type hourMark struct {
	X    percent
	Text string
	Day  bool
}

func (c *Console) showTimeline(v *visit) (page, error) {
	view := timelineView{Owner: v.param("owner"), Label: v.param("label"), Workflow: v.param("workflow"), Zone: v.zone.String()}
	resp, err := c.schedules.ListSchedules(v.Context(), &carillonv1.ListSchedulesRequest{
		OrderBy: orderByNext, NextBefore: timestamppb.New(v.now.Add(timelineFor)), PageSize: lanes,
		UserId: view.Owner, Label: view.Label, WorkflowId: view.Workflow,
	})
	if err != nil {
		return page{}, err
	}
	view.More = resp.GetNextPageToken() != ""
	for _, s := range resp.GetSchedules() {
		if next := v.at(s.GetNextRunAt()); next.Is() && next.Instant.Sub(v.now) < timelineFor {
			view.Lanes = append(view.Lanes, &lane{Schedule: s, Next: next})
		}
	}
	slices.SortStableFunc(view.Lanes, func(a, b *lane) int { return a.Next.Instant.Compare(b.Next.Instant) })
	var g errgroup.Group
	g.SetLimit(askedAtOnce)
	g.Go(func() error { view.Forecast = partOf(c.forecast(v, &view)); return nil })
	for _, l := range view.Lanes {
		g.Go(func() error { c.fillLane(v, l); return nil })
	}
	_ = g.Wait() // each lane holds its error
	view.Hours = v.hours()
	return page{name: "timeline", title: "Next 24 hours", view: view}, nil
}

func (c *Console) fillLane(v *visit, l *lane) {
	resp, err := c.schedules.PreviewSchedule(v.Context(), &carillonv1.PreviewScheduleRequest{
		ScheduleId: l.GetScheduleId(), From: timestamppb.New(v.now), To: timestamppb.New(v.now.Add(timelineFor)), PageSize: laneFires,
	})
	if err != nil {
		l.Fails = failureOf(err).Title
		return
	}
	fires := resp.GetFires()
	l.Count, l.More = len(fires), resp.GetNextPageToken() != ""
	if len(fires) > tightTicks {
		l.Band = true
		l.BandX = v.place(fires[0].GetFireAt().AsTime())
		l.BandW = v.place(fires[len(fires)-1].GetFireAt().AsTime()) - l.BandX
		if l.More { // more slots follow, because the page was full
			l.BandW = 100 - l.BandX
		}
		return
	}
	for _, f := range fires {
		title := f.GetLocal()
		if f.GetNote() != "" {
			title += " · " + f.GetNote()
		}
		l.Ticks = append(l.Ticks, tick{v.place(f.GetFireAt().AsTime()), title})
	}
}

// percent is a position on a lane.
type percent float64

func (p percent) String() string { return strconv.FormatFloat(float64(p), 'f', 2, 64) + "%" }

// place is where an instant of the next 24 hours lies on a lane.
func (v *visit) place(t time.Time) percent {
	return percent(min(100, max(0, float64(t.Sub(v.now))*100/float64(timelineFor))))
}

// hours are every third full hour in the viewer's zone.
func (v *visit) hours() (marks []hourMark) {
	begin := v.now.In(v.zone).Truncate(time.Hour) // zones with a half-hour offset begin on the half hour
	for h := 1; h <= 24; h++ {
		t := begin.Add(time.Duration(h) * time.Hour)
		if t.Hour()%3 != 0 || t.Sub(v.now) > timelineFor {
			continue
		}
		text := t.Format("15:04")
		if t.Hour() == 0 {
			text = t.Format("Mon 2")
		}
		marks = append(marks, hourMark{v.place(t), text, t.Hour() == 0})
	}
	return marks
}
