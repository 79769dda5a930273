package expect_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert/expect"
)

// world is a made-up afternoon of a schedule that fires every few minutes, told
// minute by minute, with nothing of the product in it.
type world struct {
	every  int // minutes between slots, counted from midnight
	limit  int // minutes
	after  int64
	length int // minutes that it lasts
	edited int // the minute of an edit to everyAfter; 0: none
	every2 int
	paused []bool        // by minute
	began  map[int][]int // by slot: when its runs were accepted
	done   map[int][]int // by slot: when they ended well
	looked []int         // minutes of the evaluations
	kind   schedule.ExpectationKind
}

func drawWorld(t *rapid.T) world {
	w := world{
		every: rapid.SampledFrom([]int{1, 2, 5, 7, 15}).Draw(t, "every"), limit: rapid.IntRange(1, 20).Draw(t, "limit"),
		after: int64(rapid.IntRange(1, 4).Draw(t, "alert_after")), length: rapid.IntRange(10, 150).Draw(t, "length"),
		began: make(map[int][]int), done: make(map[int][]int),
		kind: rapid.SampledFrom([]schedule.ExpectationKind{schedule.ExpectStart, schedule.ExpectFinish}).Draw(t, "kind"),
	}
	if rapid.Bool().Draw(t, "edited") {
		w.edited, w.every2 = rapid.IntRange(1, w.length).Draw(t, "at"), rapid.SampledFrom([]int{1, 3, 10}).Draw(t, "to")
	}
	w.paused = make([]bool, w.length+1)
	for range rapid.IntRange(0, 2).Draw(t, "pauses") {
		from := rapid.IntRange(1, w.length).Draw(t, "from")
		for m := from; m <= min(w.length, from+rapid.IntRange(0, 30).Draw(t, "for")); m++ {
			w.paused[m] = true
		}
	}
	for slot := range w.length + 1 {
		if !w.isSlot(slot) || w.paused[slot] || rapid.IntRange(0, 3).Draw(t, "fate") == 0 {
			continue
		}
		begins := slot + rapid.IntRange(0, w.limit+5).Draw(t, "delay")
		ends := begins + rapid.IntRange(0, w.limit+5).Draw(t, "takes")
		if slices.Contains(w.paused[slot:min(begins, w.length)+1], true) {
			continue // a pause ends what has not started
		}
		w.began[slot], w.done[slot] = []int{begins}, []int{ends}
	}
	w.looked = append(rapid.SliceOfN(rapid.IntRange(1, w.length), 0, 30).Draw(t, "looks"), w.length)
	slices.Sort(w.looked)
	return w
}

// isSlot says whether the rule in force asks for a run at a minute. The edit comes
// half a minute behind its own.
func (w *world) isSlot(m int) bool {
	if w.edited > 0 && m > w.edited {
		return m%w.every2 == 0
	}
	return m > 0 && m%w.every == 0
}

// oracle counts the late slots in a row, brute force: for each minute in turn it
// asks of the slot then whether it came about.
func (w *world) oracle(now int) (late int64) {
	fulfilled := w.began
	if w.kind == schedule.ExpectFinish {
		fulfilled = w.done
	}
	for m := 1; m <= now; m++ {
		if !w.isSlot(m) {
			continue
		}
		inTime := slices.ContainsFunc(fulfilled[m], func(at int) bool { return at <= m+w.limit && at <= now })
		begun := slices.ContainsFunc(w.began[m], func(at int) bool { return at <= now })
		stopped := false
		for p := m; p <= min(now, m+w.limit); p++ {
			stopped = stopped || w.paused[p]
		}
		switch {
		case inTime:
			late = 0
		case !begun && stopped:
		case now > m+w.limit: // a minute behind it is more than the slack of an evaluation
			late++
		default:
			return late // it may yet come about, and what follows it waits
		}
	}
	return late
}

// sight is what the store would show of the world at a minute.
func (w *world) sight(base time.Time, now int, state schedule.ExpectationState, alert *schedule.Alert) *schedule.ExpectationCase {
	minute := func(m int) time.Time { return base.Add(time.Duration(m) * time.Minute) }
	definition := func(every int) schedule.Definition {
		e := schedule.Expect{AlertAfter: uint32(w.after)}
		if w.kind == schedule.ExpectStart {
			e.StartWithinMS = uint32(w.limit * 60_000)
		} else {
			e.FinishWithinMS = uint32(w.limit * 60_000)
		}
		return schedule.Definition{
			ScheduleID: "s", IntervalMS: uint32(every * 60_000), StartAt: base, Timezone: "UTC", Expect: e,
		}
	}
	s := &schedule.Schedule{Definition: definition(w.every), Revision: 1, RevisedAt: base, CreatedAt: base}
	c := &schedule.ExpectationCase{State: state, Alert: alert, Schedule: s}
	if w.edited > 0 && w.edited < now {
		first := schedule.Revision{Revision: 1, Definition: s.Definition, CreatedAt: base}
		s.Definition, s.Revision, s.RevisedAt = definition(w.every2), 2, minute(w.edited).Add(30*time.Second)
		c.Revisions = []schedule.Revision{{Revision: 2, Definition: s.Definition, CreatedAt: s.RevisedAt}, first}
	}
	for m := 1; m <= now; m++ {
		switch {
		case w.paused[m] && !w.paused[m-1]:
			c.Pauses = append(c.Pauses, schedule.Event{Kind: schedule.EventPaused, Time: minute(m)})
			s.Pause = schedule.Pause{Paused: true}
		case !w.paused[m] && w.paused[m-1]:
			// It ended within the minute before.
			c.Pauses = append(c.Pauses, schedule.Event{Kind: schedule.EventResumed, Time: minute(m).Add(-30 * time.Second)})
			s.Pause = schedule.Pause{}
		}
	}
	for m := 1; m <= now; m++ {
		for i, begins := range w.began[m] {
			r := schedule.SlotRun{RunAt: minute(m), Status: schedule.StatusPlanned}
			if begins <= now {
				r.Status, r.ClaimedAt, r.LaunchedAt = schedule.StatusStarted, minute(begins), minute(begins)
			}
			if ends := w.done[m][i]; ends <= now {
				r.Status, r.CompletedAt = schedule.StatusSuccess, minute(ends)
			}
			c.Runs = append(c.Runs, r)
		}
	}
	return c
}

func TestTheJudgeAgreesWithCountingMinuteByMinute(t *testing.T) {
	base := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		state := schedule.ExpectationState{ScheduleID: "s", Kind: w.kind, Status: schedule.ExpectationOK, WatchedSince: base, JudgedUntil: base}
		var alert *schedule.Alert
		open := false
		for _, m := range w.looked {
			now := base.Add(time.Duration(m) * time.Minute)
			out := expect.Evaluate(w.sight(base, m, state, alert), now)
			state, alert = out.State, nil
			for _, n := range out.Notices {
				switch {
				case n.Type == expect.NoticeOpened && open, n.Type == expect.NoticeRecovered && !open:
					t.Fatalf("minute %d: told %s, with an alert open: %v", m, n.Type, open)
				case n.Type == expect.NoticeOpened:
					open = true
				case n.Type == expect.NoticeRecovered:
					open = false
				}
			}
			for i := range out.Alerts {
				if out.Alerts[i].ClosedAt.IsZero() {
					alert = &out.Alerts[i]
				}
			}
			if open != (alert != nil) || (state.Status == schedule.ExpectationAlerting) != open {
				t.Fatalf("minute %d: told open=%v, alert %+v, state %+v", m, open, alert, state)
			}
			if want := w.oracle(m); state.Late != want {
				t.Fatalf("minute %d: %d late in a row, counted %d; %+v", m, state.Late, want, state)
			}
			if state.Late < w.after && open {
				t.Fatalf("minute %d: an alert is open at %d late of %d", m, state.Late, w.after)
			}
		}
	})
}
