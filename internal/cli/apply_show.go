package cli

import (
	"fmt"
	"time"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// How an action is shown before what it is done to.
var marks = map[string]string{"create": "+", "change": "~", "delete": "-"}

// applied says what an apply did, or a dry run would do.
func (p *page) applied(resp *carillonv1.ApplySchedulesResponse, set string, dry bool) {
	for _, c := range resp.GetChanges() {
		p.change(c, c.GetAction())
	}
	for _, w := range resp.GetWorkflows() {
		if w.GetAction() == "create" {
			p.line("+ workflow %s version %d", w.GetWorkflowId(), w.GetVersion())
		}
	}
	if left := resp.GetLeft(); len(left) > 0 {
		p.line("? not in the files; --prune deletes them: %s", someOf(left))
	}
	p.sum(resp, set, dry)
	p.forecast(resp)
}

// drift says the same from the other side: the files are what should be.
func (p *page) drift(resp *carillonv1.ApplySchedulesResponse, set string) {
	if !resp.GetChanged() {
		p.line("set %s: no differences (%s)", set, countOf(len(resp.GetChanges()), "schedule"))
		return
	}
	words := map[string]string{"create": "missing", "change": "differs (server -> files)", "delete": "not in the files"}
	for _, c := range resp.GetChanges() {
		// What would become of it is for apply --dry-run to say; this is what is.
		c.Fires, c.NextRunAt, c.AdoptedFrom = nil, nil, ""
		p.change(c, words[c.GetAction()])
	}
	for _, w := range resp.GetWorkflows() {
		if w.GetAction() == "create" {
			p.line("+ workflow %s version %d: missing", w.GetWorkflowId(), w.GetVersion())
		}
	}
}

// change writes one schedule, unless it is as it should be.
func (p *page) change(c *carillonv1.ScheduleChange, word string) {
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
		note += ", next run " + p.when(c.GetNextRunAt())
	}
	p.line("%s %s: %s%s", mark, c.GetScheduleId(), word, note)
	for _, f := range c.GetFields() {
		p.line("    %s: %s -> %s", f.GetField(), orAbsent(f.GetFrom()), orAbsent(f.GetTo()))
	}
	p.moved(c.GetFires())
}

func orAbsent(text string) string {
	if text == "" {
		return "(none)"
	}
	return text
}

// moved writes which future runs a change removes and adds.
func (p *page) moved(f *carillonv1.FireChange) {
	if f == nil {
		return
	}
	horizon := p.horizon(f.GetCountedUntil().AsTime())
	if f.GetAdded() == 0 && f.GetRemoved() == 0 {
		p.line("    next %s: no runs removed or added", horizon)
		return
	}
	p.line("    next %s: %d runs removed, %d added", horizon, f.GetRemoved(), f.GetAdded())
	p.some("-", f.GetFirstRemoved(), f.GetRemoved())
	p.some("+", f.GetFirstAdded(), f.GetAdded())
}

// horizon is the time from now until an instant: "30 days", or "5h" below two days.
func (p *page) horizon(until time.Time) string {
	left := until.Sub(p.now)
	if left < 2*day {
		return distance(left)
	}
	return countOf(int(left.Round(day)/day), "day")
}

func (p *page) some(mark string, fires []*carillonv1.Fire, all uint32) {
	for _, f := range fires {
		p.line("      %s %s  %s", mark, stamp(f.GetFireAt().AsTime()), f.GetLocal())
	}
	if rest := int(all) - len(fires); rest > 0 {
		p.line("      %s … and %d more", mark, rest)
	}
}

// sum is the last word: how many of each.
func (p *page) sum(resp *carillonv1.ApplySchedulesResponse, set string, dry bool) {
	count := make(map[string]int)
	for _, c := range resp.GetChanges() {
		count[c.GetAction()]++
	}
	switch {
	case resp.GetDoneBefore():
		p.line("set %s: this request was applied before; nothing changed", set)
		return
	case !resp.GetChanged():
		p.line("set %s: no changes (%s)", set, countOf(count["unchanged"], "schedule"))
		return
	}
	format := "set %s: %d created, %d changed, %d deleted, %d unchanged"
	if dry {
		format = "set %s: %d to create, %d to change, %d to delete, %d unchanged"
	}
	p.line(format, set, count["create"], count["change"], count["delete"], count["unchanged"])
}

// forecast compares the busiest minutes.
func (p *page) forecast(resp *carillonv1.ApplySchedulesResponse) {
	f := resp.GetForecast()
	if f == nil || !resp.GetChanged() {
		return
	}
	p.line("launches until %s: %s before, %s after", stamp(f.GetUntil().AsTime()), busiest(f.GetBefore()), busiest(f.GetAfter()))
}

func busiest(l *carillonv1.LaunchPeak) string {
	if l.GetLaunches() == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (at most %d in a minute, %s)", l.GetLaunches(), l.GetPeak(), stamp(l.GetPeakAt().AsTime()))
}

// someOf is a list for one line.
func someOf(names []string) string {
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
