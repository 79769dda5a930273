package plan

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Member is a schedule whose launches are counted, with its load.
type Member struct {
	Schedule *schedule.Schedule
	Load     Load
}

// Flattening is a change that lowers the busiest minute: a jitter for all schedules of a burst, or
// another minute of the hour for some. Its effect was counted by replaying the changed rules.
type Flattening struct {
	Jitter  time.Duration // zero: minutes are moved
	Moves   []Move
	Members []*schedule.Schedule // schedules to change, ordered by id
	Peak    int                  // launches in the busiest minute of the window after the change
	PeakAt  time.Time
}

// Move is another minute of the hour for one schedule.
type Move struct {
	Schedule *schedule.Schedule
	CronExpr string // the new one
	Minutes  int    // shift; negative: earlier
}

// burst has the schedules that may change, and the launches of all others.
type burst struct {
	members     []Member
	from, until time.Time
	others      *Minutes
}

// A change is worth the edits if it saves at least leastSaved launches of the busiest minute and
// one in savedOneIn. Moving one of two schedules in a minute, or seven of a hundred, is not.
const (
	leastSaved = 2
	savedOneIn = 10
)

// guessSteps is the work of trying a launch at every minute of its hour.
const guessSteps = 4

// Flatten finds the jitter and the minutes that lower the busiest minute most. counts has the
// launches of all schedules in [from, until); only members may change. The work is about ten times
// the launches of members. It returns only changes that are worth it, the better one first.
func Flatten(counts *Minutes, members []Member, from, until time.Time) []Flattening {
	b := burst{members: slices.Clone(members), from: from, until: until, others: counts.clone()}
	slices.SortFunc(b.members, func(a, b Member) int {
		return strings.Compare(a.Schedule.ScheduleID, b.Schedule.ScheduleID)
	})
	for _, m := range b.members {
		b.others.Add(m.Load, from, until, -1)
	}
	_, now := counts.Busiest()
	var found []Flattening
	for _, f := range []Flattening{b.byMinutes(), b.byJitter()} {
		if saved := now - f.Peak; len(f.Members) > 0 && saved >= leastSaved && saved*savedOneIn >= now {
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b Flattening) int { return a.Peak - b.Peak })
	return found
}

func (m *Minutes) clone() *Minutes {
	return &Minutes{From: m.From, Count: slices.Clone(m.Count), Meter: m.Meter}
}

// jitters are tried in this order.
var jitters = []time.Duration{
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
}

// byJitter finds the smallest jitter whose peak is within 10 % of the best.
func (b *burst) byJitter() (best Flattening) {
	var tried []Flattening
	for _, jitter := range jitters {
		tried = append(tried, b.withJitter(jitter))
	}
	least := slices.MinFunc(tried, func(a, b Flattening) int { return a.Peak - b.Peak })
	for _, f := range tried {
		if f.Peak*10 <= least.Peak*11 {
			return f
		}
	}
	return least
}

func (b *burst) withJitter(jitter time.Duration) Flattening {
	out := Flattening{Jitter: jitter}
	counts := b.others.clone()
	for _, m := range b.members {
		if !counts.Meter.spend(0) {
			break
		}
		load := m.Load
		if load.Timetable.jitter < jitter {
			moved := *load.Timetable
			moved.jitter, load.Timetable = jitter, &moved
			out.Members = append(out.Members, m.Schedule)
		}
		counts.Add(load, b.from, b.until, 1)
	}
	return out.counted(counts)
}

func (f Flattening) counted(counts *Minutes) Flattening {
	i, n := counts.Busiest()
	f.Peak, f.PeakAt = n, counts.At(i)
	return f
}

// byMinutes finds the lowest possible peak, then the fewest moves that reach it.
func (b *burst) byMinutes() Flattening {
	least := b.moved(0)
	if fewer := b.moved(least.Peak); fewer.Peak <= least.Peak {
		return fewer
	}
	return least
}

// moved moves schedules one by one to the minute of the hour with the fewest other launches at its
// peak. A schedule stays if no minute is better or if at most enough others launch in its minute.
// Of equal minutes the nearest wins.
func (b *burst) moved(enough int) (out Flattening) {
	guess, exact := guess{Minutes: b.others.clone()}, b.others.clone()
	span := b.until.Sub(b.from)
	if whole := span.Round(24 * time.Hour); (span - whole).Abs() < time.Minute {
		guess.days = int(whole / time.Minute)
	}
	for _, m := range b.members { // count all at their current minutes first
		guess.Add(m.Load, b.from, b.until, 1)
	}
	for _, m := range b.members {
		minute, ok := minuteOf(m.Schedule.CronExpr)
		load := m.Load
		if ok {
			at := guess.of(load, b.from, b.until)
			if by := guess.settle(at, minute, enough); by != 0 {
				move := Move{Schedule: m.Schedule, CronExpr: withMinute(m.Schedule.CronExpr, minute+by), Minutes: by}
				if moved, err := load.with(m.Schedule, move.CronExpr); err == nil {
					load, out.Moves, out.Members = moved, append(out.Moves, move), append(out.Members, m.Schedule)
				}
			}
		}
		exact.Add(load, b.from, b.until, 1)
	}
	return out.counted(exact)
}

// guess estimates launches by shifting counts; replaying the changed rules gives the real figure.
type guess struct {
	*Minutes
	days int // minutes of a window of whole days, within one minute; 0: not whole days
}

func (l Load) with(s *schedule.Schedule, expression string) (Load, error) {
	d := s.Definition
	d.CronExpr = expression
	var err error
	l.Timetable, err = NewTimetable(&d, s.CreatedAt, s.RevisedAt)
	return l, err
}

// of are the indices of the minutes at which a load launches.
func (m *Minutes) of(l Load, from, until time.Time) (at []int) {
	for fires := range l.Launches(from, until) {
		at = append(at, m.index(fires))
	}
	return at
}

// settle moves launches to the best minute, unless at most enough launches share theirs, and
// returns by how many minutes.
func (g *guess) settle(at []int, minute, enough int) (by int) {
	if !g.Meter.spend(beginSteps + len(at)*guessSteps) {
		return 0
	}
	if n, _ := g.busiest(at, 0); n <= enough { // they are counted themselves
		return 0
	}
	for _, i := range at {
		g.Count[i]--
	}
	best, _ := g.busiest(at, 0)
	for distance := 1; distance < 60; distance++ {
		for _, try := range []int{distance, -distance} {
			if minute+try < 0 || minute+try > 59 {
				continue
			}
			if n, ok := g.busiest(at, try); ok && n < best {
				best, by = n, try
			}
		}
	}
	for _, i := range at {
		i, _ = g.moved(i, by)
		g.Count[i]++
	}
	return by
}

// busiest is the highest count among the minutes that the launches would move to. It is not ok if
// one of them is outside the counted window.
func (g *guess) busiest(at []int, by int) (most int, ok bool) {
	for _, i := range at {
		if i, ok = g.moved(i, by); !ok {
			return 0, false
		}
		most = max(most, g.Count[i])
	}
	return most, true
}

// moved is the index that a launch moves to. In a window of whole days it wraps around, because
// the same rule launches at the other end too. Other windows have no counts beyond their ends.
func (g *guess) moved(i, by int) (to int, ok bool) {
	switch to = i + by; {
	case to >= len(g.Count):
		to -= g.days
	case to < 0:
		to += g.days
	}
	return to, to >= 0 && to < len(g.Count)
}

// macros maps cron macros to expressions, if another minute makes sense for them.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// minuteOf is the one minute of the hour at which an expression fires.
func minuteOf(expression string) (minute int, ok bool) {
	fields, i := fieldsOf(expression)
	if fields == nil {
		return 0, false
	}
	minute, err := strconv.Atoi(fields[i])
	return minute, err == nil
}

func withMinute(expression string, minute int) string {
	fields, i := fieldsOf(expression)
	fields[i] = strconv.Itoa(minute)
	return strings.Join(fields, " ")
}

// fieldsOf splits an expression; minute is the index of its minute field.
func fieldsOf(expression string) (fields []string, minute int) {
	if written, ok := macros[strings.ToLower(strings.TrimSpace(expression))]; ok {
		expression = written
	}
	fields = strings.Fields(expression)
	if len(fields) != 5 && len(fields) != 6 {
		return nil, 0
	}
	return fields, len(fields) - 5
}
