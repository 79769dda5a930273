package notify

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert/expect"
)

// Grouping says how long messages to people wait for more alerts of the same cause.
type Grouping struct {
	Wait     time.Duration // of the first message of an incident
	Interval time.Duration // at least, between two messages of an incident
}

// The defaults and bounds of Grouping.
const (
	defaultGroupWait     = 5 * time.Second
	mostGroupWait        = 10 * time.Minute
	defaultGroupInterval = time.Minute
	leastGroupInterval   = time.Second
	mostGroupInterval    = 24 * time.Hour

	// While an incident grows, the interval grows up to this many times.
	slowest = 5
)

// Longest is the longest interval between two messages of a growing incident. An incident that no
// alert has joined for that time takes no more alerts.
func (g Grouping) Longest() time.Duration { return slowest * g.Interval }

// Next returns the next message of an incident and when it is due; empty: none.
func (g Grouping) Next(of *schedule.AlertGroup) (message expect.NoticeType, due time.Time) {
	var oldest, opened, reminded, newest time.Time
	open := false
	for i := range of.Notices {
		n := &of.Notices[i]
		open = open || n.Open()
		oldest = earlier(oldest, n.OpenedAt)
		switch {
		case n.Told:
			continue
		case n.Type == schedule.NoticeOpened:
			opened = earlier(opened, n.NoticedAt)
		case n.Open():
			reminded = earlier(reminded, n.NoticedAt)
		}
		newest = schedule.Later(newest, n.NoticedAt)
	}
	if newest.IsZero() {
		return "", time.Time{}
	}
	// The pause after a message: none before the first one.
	after := func(pause time.Duration) time.Time {
		if of.ToldAt.IsZero() {
			return time.Time{}
		}
		return of.ToldAt.Add(pause)
	}
	switch growing := min(max(of.ToldAt.Sub(oldest), g.Interval), g.Longest()); {
	case !open:
		return expect.NoticeRecovered, schedule.Later(newest.Add(g.Wait), after(g.Interval))
	case !opened.IsZero():
		return expect.NoticeOpened, schedule.Later(opened.Add(g.Wait), after(growing))
	case !reminded.IsZero():
		return expect.NoticeReminder, schedule.Later(reminded.Add(g.Wait), after(growing))
	default: // some recovered: sent only if the others do not follow
		return expect.NoticeReminder, schedule.Later(newest.Add(g.Longest()), after(growing))
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Group is the part of a message that tells of several schedules.
type Group struct {
	Schedules int      `json:"schedules"`         // in all
	Open      int      `json:"open,omitempty"`    // of them: with an open alert
	New       int      `json:"new,omitempty"`     // of them: not in an earlier message
	Updates   bool     `json:"updates,omitempty"` // there was an earlier message
	IDs       []string `json:"schedule_ids"`      // up to maxGroupIDs, open ones first
	First     Member   `json:"first"`             // the schedule whose alert opened first
	Last      Member   `json:"last"`              // and last
}

// Member is one schedule of a group.
type Member struct {
	ScheduleID string    `json:"schedule_id"`
	OpenedAt   time.Time `json:"opened_at"`
}

// maxGroupIDs bounds the schedules that a message names.
const maxGroupIDs = 10

// Summarize counts the schedules of an incident. An incident of one schedule is
// no group: nil.
func Summarize(of *schedule.AlertGroup) *Group {
	type seen struct{ open, told, fresh bool }
	schedules := make(map[string]seen)
	for i := range of.Notices {
		n := &of.Notices[i]
		s := schedules[n.ScheduleID]
		schedules[n.ScheduleID] = seen{open: s.open || n.Open(), told: s.told || n.Told || n.Type != schedule.NoticeOpened, fresh: s.fresh || !n.Told && n.Open()}
	}
	if len(schedules) < 2 {
		return nil
	}
	g := &Group{Schedules: len(schedules), Updates: !of.ToldAt.IsZero()}
	for _, s := range schedules {
		if s.open {
			g.Open++
		}
		if s.fresh && !s.told {
			g.New++
		}
	}
	first, last := &of.Notices[0], &of.Notices[0]
	for i := range of.Notices {
		n := &of.Notices[i]
		if n.OpenedAt.Before(first.OpenedAt) {
			first = n
		}
		if !n.OpenedAt.Before(last.OpenedAt) {
			last = n
		}
	}
	g.First, g.Last = Member{first.ScheduleID, first.OpenedAt}, Member{last.ScheduleID, last.OpenedAt}
	listed := make(map[string]bool)
	for _, open := range []bool{true, false} {
		for i := range of.Notices {
			id := of.Notices[i].ScheduleID
			if len(g.IDs) < maxGroupIDs && schedules[id].open == open && !listed[id] {
				listed[id] = true
				g.IDs = append(g.IDs, id)
			}
		}
	}
	return g
}

// Together makes the message of a group out of the message of one of its alerts.
// console is the address of the console, "" if it has none.
func (m *Message) Together(what expect.NoticeType, of *schedule.AlertGroup, g *Group, console string) Message {
	d := m.Data
	severity, cause, _ := splitGroupKey(of.Key) // those of a single alert can change while it is open
	out := Message{Type: what, Timestamp: m.Timestamp, Data: MessageData{
		Environment: d.Environment, AlertID: of.GroupID, Labels: d.Labels, Severity: severity, Kind: d.Kind, Cause: cause, Error: d.Error, Group: g,
	}}
	out.Data.Text = g.sentence(what, cause)
	if console != "" {
		out.Data.URL = console + "alerts"
		if d.Kind == schedule.ExpectNoFailure && what != expect.NoticeRecovered {
			out.Data.URL = console + "schedules?state=failing"
		}
	}
	return out
}

func (g *Group) sentence(what expect.NoticeType, cause schedule.Cause) string {
	all, open := counted(g.Schedules), counted(g.Open)
	have := "have"
	if g.Open == 1 {
		have = "has"
	}
	now := fmt.Sprintf("%s %s an open alert. Cause: %s.", open, have, cause)
	switch gone := g.Schedules - g.Open; {
	case what == expect.NoticeRecovered:
		return fmt.Sprintf("The alerts of all %s are closed. Cause: %s.", all, cause)
	case gone > 0 && g.New == 0:
		return fmt.Sprintf("The alerts of %s of %s are closed; %s", number(gone), all, now)
	case gone > 0:
		return fmt.Sprintf("%s more: %s %s an open alert, the alerts of %s are closed. Cause: %s.", number(g.New), open, have, number(gone), cause)
	case g.Updates && g.New > 0:
		return fmt.Sprintf("%s more: %s", number(g.New), now)
	case what == expect.NoticeReminder:
		return fmt.Sprintf("%s still %s an open alert. Cause: %s.", open, have, cause)
	}
	return now
}

// headline is the part of the title that names a group.
func (g *Group) headline(cause schedule.Cause) string {
	return counted(g.Schedules) + ", " + string(cause)
}

// facts are the details of a group.
func (g *Group) facts(m *Message) (facts []fact) {
	names := strings.Join(g.IDs, ", ")
	if more := g.Schedules - len(g.IDs); more > 0 {
		names += fmt.Sprintf(" and %s more", number(more))
	}
	facts = append(facts, fact{"Schedules", oneLine(names, maxSentence)})
	if gone := g.Schedules - g.Open; gone > 0 && g.Open > 0 {
		facts = append(facts, fact{"Open", number(g.Open)}, fact{"Closed", number(gone)})
	}
	if m.Data.Error != "" {
		facts = append(facts, fact{"Error", oneLine("for example: "+m.Data.Error, maxFact)})
	}
	facts = append(facts, fact{"First", oneLine(stamp(g.First.OpenedAt)+" "+g.First.ScheduleID, maxFact)}, fact{"Last", oneLine(stamp(g.Last.OpenedAt)+" "+g.Last.ScheduleID, maxFact)})
	switch {
	case m.Type == expect.NoticeRecovered:
	case m.Data.Kind == schedule.ExpectNoFailure:
		facts = append(facts, fact{"See all", "carillon schedule list --failing"})
	default:
		facts = append(facts, fact{"See all", "carillon alert list --state open"})
	}
	return facts
}

func counted(n int) string {
	if n == 1 {
		return "1 schedule"
	}
	return number(n) + " schedules"
}

// number writes 1000 as 1,000.
func number(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
