package console

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// columnMinutes is the number of minutes in one column of the forecast.
const columnMinutes = 10

// forecastView is how many launches the next 24 hours bring.
type forecastView struct {
	Columns     []column
	Launches    uint32
	Most        uint32 // in one minute
	Peaks       []peakRow
	Flattenings []flatteningRow
	Schedules   uint32
	Paused      uint32
	Unreadable  uint32
	Launching   uint32 // schedules with a launch until Until
	Until       moment
	Short       bool // more launches lie ahead than one call counts
}

// column is the busiest minute of ten.
type column struct {
	X, Y, Height percent
	Peak         bool
	Title        string
}

type peakRow struct {
	*carillonv1.ForecastPeak
	At moment
}

// flatteningRow is a change that flattens the busiest minute, with that minute in the viewer's
// zone.
type flatteningRow struct {
	*carillonv1.ForecastFlattening
	At moment
}

// Comes is the peak after the change.
func (f flatteningRow) Comes() string { return launches(f.GetPeak()) }

func (c *Console) forecast(v *visit, view *timelineView) (forecastView, error) {
	until := v.now.Add(timelineFor)
	resp, err := c.schedules.ForecastLaunches(v.Context(), &carillonv1.ForecastLaunchesRequest{
		Until: timestamppb.New(until), UserId: view.Owner, WorkflowId: view.Workflow, Label: view.Label,
	})
	if err != nil {
		return forecastView{}, err
	}
	f := forecastView{
		Launches: resp.GetLaunches(), Schedules: resp.GetSchedules(), Paused: resp.GetPaused(), Unreadable: resp.GetUnreadable(),
		Launching: resp.GetLaunching(),
		Until:     v.at(resp.GetUntil()),
	}
	f.Short = until.Sub(f.Until.Instant) > time.Minute
	for _, p := range resp.GetPeaks() {
		f.Peaks = append(f.Peaks, peakRow{p, v.at(p.GetMinute())})
	}
	for _, one := range resp.GetFlattenings() {
		f.Flattenings = append(f.Flattenings, flatteningRow{one, v.at(one.GetPeakMinute())})
	}
	f.draw(v, resp.GetFrom().AsTime(), resp.GetLaunchesPerMinute())
	return f, nil
}

// draw makes columns of minutes, the highest as high as the drawing.
func (f *forecastView) draw(v *visit, from time.Time, minutes []uint32) {
	for _, n := range minutes {
		f.Most = max(f.Most, n)
	}
	if f.Most == 0 {
		return
	}
	first := from.Truncate(time.Minute)
	for i := 0; i < len(minutes); i += columnMinutes {
		var most, sum uint32
		for _, n := range minutes[i:min(i+columnMinutes, len(minutes))] {
			most, sum = max(most, n), sum+n
		}
		if sum == 0 {
			continue
		}
		begin := first.Add(time.Duration(i) * time.Minute)
		height := percent(float64(most) * 96 / float64(f.Most))
		f.Columns = append(f.Columns, column{
			X: v.place(begin), Y: 100 - height, Height: height, Peak: most == f.Most,
			Title: fmt.Sprintf("%s: %s in ten minutes, %d in the busiest", v.when(begin).Text(), launches(sum), most),
		})
	}
}

// Busy reports whether there is a peak worth a word.
func (f forecastView) Busy() bool { return f.Most > 1 }

func launches(n uint32) string {
	if n == 1 {
		return "1 launch"
	}
	return fmt.Sprintf("%d launches", n)
}
