package preview

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func NewForecastCommand(c *command.CLI) *cobra.Command {
	o := client.New(c)
	req := &carillonv1.ForecastLaunchesRequest{}
	cmd := &cobra.Command{
		Use:   "forecast",
		Short: "Forecast how many runs start when, and how to flatten the peaks",
		Long: "Counts the runs that all schedules, or those of an owner, workflow or label, launch in the next 24 hours, minute\n" +
			"by minute. Shows the busiest minutes with their schedules, and which jitter or which other minute of the hour\n" +
			"would reduce the peak, and to how many launches. -o json has\n" +
			"every minute.",
		Example: "  carillon forecast\n  carillon forecast --label team=billing --until 48h --peaks 10\n  carillon forecast --user ada -o json",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			return client.ShowAnswer(ctx, o, l, l.Schedules().ForecastLaunches, req,
				func(p *render.Page, resp *carillonv1.ForecastLaunchesResponse) { writeForecast(p, resp) })
		}),
	}
	o.Flags(cmd)
	o.WithWatch(cmd)
	f := cmd.Flags()
	f.StringVar(&req.UserId, "user", "", "only schedules of this owner `ID`")
	f.StringVar(&req.WorkflowId, "workflow", "", "only of this workflow `ID`")
	f.StringVar(&req.ManagedBy, "managed-by", "", "only schedules managed by this `NAME`")
	f.StringVar(&req.Label, "label", "", "only with this label: `NAME=VALUE`, or NAME for any value")
	f.Func("from", "start of the window: a `TIME` (RFC 3339), or a duration from now (default: now)", o.TimeFromNow(&req.From, 1))
	f.Func("until", "end of the window: a `TIME` (RFC 3339), or a duration from now (default: 24h after its start; at most 7d)", o.TimeFromNow(&req.Until, 1))
	f.Func("peaks", "`NUMBER` of minutes to show (default 5, at most 50)", command.Uint32(&req.Peaks))
	f.Func("contributors", "`NUMBER` of schedules to show for each (default 5, at most 50)", command.Uint32(&req.Contributors))
	return o.CompleteFlags(cmd)
}

const minuteFormat = "2006-01-02 15:04"

func writeForecast(p *render.Page, f *carillonv1.ForecastLaunchesResponse) {
	until := f.GetUntil().AsTime()
	p.Line("%d launches of %d schedules from %s to %s (UTC)%s", f.GetLaunches(), f.GetSchedules(),
		f.GetFrom().AsTime().Format(minuteFormat), until.Format(minuteFormat), idle(f))
	if f.GetLaunches() == 0 {
		return
	}
	p.Line("")
	writeHours(p, f)
	if len(f.GetPeaks()) > 0 {
		p.Line("")
		rows := make([][]string, len(f.GetPeaks()))
		for i, peak := range f.GetPeaks() {
			rows[i] = []string{
				peak.GetMinute().AsTime().Format(minuteFormat), fmt.Sprint(peak.GetLaunches()), fmt.Sprint(peak.GetSchedules()), contributors(peak),
			}
		}
		p.Table([]string{"peak", "launches", "schedules", "top schedules"}, rows)
	}
	if len(f.GetFlattenings()) > 0 {
		p.Line("")
		p.Line("To flatten the peaks:")
	}
	for _, flattening := range f.GetFlattenings() {
		p.Line("- %s", flattening.GetText())
	}
}

// idle is the number of schedules that were not counted.
func idle(f *carillonv1.ForecastLaunchesResponse) string {
	var out strings.Builder
	if n := f.GetPaused(); n > 0 {
		fmt.Fprintf(&out, "; %d paused", n)
	}
	if n := f.GetUnreadable(); n > 0 {
		fmt.Fprintf(&out, "; %d unreadable", n)
	}
	return out.String()
}

// writeHours writes the launches per hour; in a window of more than two days, per six
// hours.
func writeHours(p *render.Page, f *carillonv1.ForecastLaunchesResponse) {
	const width = 40
	minutes := f.GetLaunchesPerMinute()
	step := time.Hour
	if len(minutes) > 2*24*60 {
		step = 6 * time.Hour
	}
	type stretch struct {
		begins    time.Time
		sum, most uint32
	}
	var all []stretch
	at, tallest := f.GetFrom().AsTime().Truncate(time.Minute), uint32(1)
	for i, n := range minutes {
		minute := at.Add(time.Duration(i) * time.Minute)
		if begins := minute.Truncate(step); len(all) == 0 || !all[len(all)-1].begins.Equal(begins) {
			all = append(all, stretch{begins: begins})
		}
		s := &all[len(all)-1]
		s.sum, s.most = s.sum+n, max(s.most, n)
		tallest = max(tallest, s.sum)
	}
	rows := make([][]string, len(all))
	for i, s := range all {
		bar := strings.Repeat("█", int((uint64(s.sum)*width+uint64(tallest)-1)/uint64(tallest)))
		rows[i] = []string{s.begins.Format(minuteFormat), fmt.Sprint(s.sum), fmt.Sprint(s.most), bar}
	}
	p.Table([]string{"from", "launches", "max per minute", ""}, rows)
}

func contributors(peak *carillonv1.ForecastPeak) string {
	names := make([]string, len(peak.GetContributors()))
	for i, c := range peak.GetContributors() {
		names[i] = c.GetScheduleId()
		if c.GetLaunches() > 1 {
			names[i] = fmt.Sprintf("%s (%d)", c.GetScheduleId(), c.GetLaunches())
		}
	}
	text := strings.Join(names, ", ")
	if more := int(peak.GetSchedules()) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
