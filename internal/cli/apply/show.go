package apply

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// marks begin the line of a schedule, by action.
var marks = map[string]string{"create": "+", "change": "~", "delete": "-"}

// WriteChanges writes what an apply changed, or a dry run would change.
func WriteChanges(p *render.Page, resp *carillonv1.ApplySchedulesResponse, set string, dry bool) {
	for _, c := range resp.GetChanges() {
		writeScheduleChange(p, c, c.GetAction())
	}
	for _, w := range resp.GetWorkflows() {
		if w.GetAction() == "create" {
			p.Line("+ workflow %s version %d", w.GetWorkflowId(), w.GetVersion())
		}
	}
	if left := resp.GetLeft(); len(left) > 0 {
		p.Line("? not in the files; --prune deletes them: %s", listSome(left))
	}
	writeTotals(p, resp, set, dry)
	writePeaks(p, resp)
}

// writeDrift writes how the server differs from the files.
func writeDrift(p *render.Page, resp *carillonv1.ApplySchedulesResponse, set string) {
	if !resp.GetChanged() {
		p.Line("set %s: no differences (%s)", set, render.Count(len(resp.GetChanges()), "schedule"))
		return
	}
	words := map[string]string{"create": "missing", "change": "differs (server -> files)", "delete": "not in the files"}
	for _, c := range resp.GetChanges() {
		// Consequences of an apply are for apply --dry-run.
		c.Fires, c.NextRunAt, c.AdoptedFrom = nil, nil, ""
		writeScheduleChange(p, c, words[c.GetAction()])
	}
	for _, w := range resp.GetWorkflows() {
		if w.GetAction() == "create" {
			p.Line("+ workflow %s version %d: missing", w.GetWorkflowId(), w.GetVersion())
		}
	}
}

// writeScheduleChange writes one schedule, unless it is unchanged.
func writeScheduleChange(p *render.Page, c *carillonv1.ScheduleChange, word string) {
	mark, moves := marks[c.GetAction()]
	if !moves {
		return
	}
	note := ""
	if c.GetPaused() {
		note += ", paused"
	}
	if from := c.GetAdoptedFrom(); from != "" {
		note += ", taken over from " + from
	}
	if c.GetNextRunAt() != nil && c.GetFires() == nil {
		note += ", next run " + p.When(c.GetNextRunAt())
	}
	p.Line("%s %s: %s%s", mark, c.GetScheduleId(), word, note)
	for _, f := range c.GetFields() {
		p.Line("    %s: %s -> %s", f.GetField(), orNone(f.GetFrom()), orNone(f.GetTo()))
	}
	writeFireChange(p, c.GetFires())
}

func orNone(text string) string {
	if text == "" {
		return "(none)"
	}
	return text
}

// writeFireChange writes which future runs a change removes and adds.
func writeFireChange(p *render.Page, f *carillonv1.FireChange) {
	if f == nil {
		return
	}
	horizon := horizon(p, f.GetCountedUntil().AsTime())
	if f.GetAdded() == 0 && f.GetRemoved() == 0 {
		p.Line("    next %s: no runs removed or added", horizon)
		return
	}
	p.Line("    next %s: %d runs removed, %d added", horizon, f.GetRemoved(), f.GetAdded())
	writeSomeFires(p, "-", f.GetFirstRemoved(), f.GetRemoved())
	writeSomeFires(p, "+", f.GetFirstAdded(), f.GetAdded())
}

// horizon is the time from now until an instant: "30 days", or "5h" below two days.
func horizon(p *render.Page, until time.Time) string {
	left := until.Sub(p.Now)
	if left < 2*render.Day {
		return render.Distance(left)
	}
	return render.Count(int(left.Round(render.Day)/render.Day), "day")
}

func writeSomeFires(p *render.Page, mark string, fires []*carillonv1.Fire, all uint32) {
	for _, f := range fires {
		p.Line("      %s %s  %s", mark, render.Stamp(f.GetFireAt().AsTime()), f.GetLocal())
	}
	if rest := int(all) - len(fires); rest > 0 {
		p.Line("      %s … and %d more", mark, rest)
	}
}

// writeTotals writes the number of schedules for each action.
func writeTotals(p *render.Page, resp *carillonv1.ApplySchedulesResponse, set string, dry bool) {
	count := make(map[string]int)
	for _, c := range resp.GetChanges() {
		count[c.GetAction()]++
	}
	switch {
	case resp.GetDoneBefore():
		p.Line("set %s: this request was applied before; nothing changed", set)
		return
	case !resp.GetChanged():
		p.Line("set %s: no changes (%s)", set, render.Count(count["unchanged"], "schedule"))
		return
	}
	format := "set %s: %d created, %d changed, %d deleted, %d unchanged"
	if dry {
		format = "set %s: %d to create, %d to change, %d to delete, %d unchanged"
	}
	p.Line(format, set, count["create"], count["change"], count["delete"], count["unchanged"])
}

// writePeaks compares the launches and the busiest minute before and after.
func writePeaks(p *render.Page, resp *carillonv1.ApplySchedulesResponse) {
	f := resp.GetForecast()
	if f == nil || !resp.GetChanged() {
		return
	}
	p.Line("launches until %s: %s before, %s after", render.Stamp(f.GetUntil().AsTime()), busiest(f.GetBefore()), busiest(f.GetAfter()))
}

func busiest(l *carillonv1.LaunchPeak) string {
	if l.GetLaunches() == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (at most %d in a minute, %s)", l.GetLaunches(), l.GetPeak(), render.Stamp(l.GetPeakAt().AsTime()))
}

// listSome lists the first names on one line.
func listSome(names []string) string {
	const shown = 10
	text := ""
	for i, name := range names {
		if i == shown {
			return text + fmt.Sprintf(" and %d more", len(names)-shown)
		}
		if i > 0 {
			text += ", "
		}
		text += name
	}
	return text
}
