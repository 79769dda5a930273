package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

var admitNow = time.Unix(1_700_000_000, 0).UTC()

// waiting are runs of one limit set, in order, named by letters.
func waiting(set int, priority int32, names string, limits ...schedule.LimitRef) ledger.Head {
	var h ledger.Head
	for _, name := range names {
		h.Runs = append(h.Runs, ledger.WaitingRun{
			Key: schedule.Key{byte(name)}, Owner: "u", Set: fmt.Sprint(set), Limits: limits, Since: admitNow.Add(-time.Minute),
			Order: ledger.QueueOrder{Priority: priority, Position: int64(name)},
		})
	}
	return h
}

func TestAdmission(t *testing.T) {
	gpu, customer := schedule.LimitRef{ID: "gpu"}, schedule.LimitRef{ID: "customer", Key: "a7"}
	limits := func(gpuUsed, customerUsed int) map[schedule.LimitRef]*ledger.LimitNow {
		return map[schedule.LimitRef]*ledger.LimitNow{gpu: {Max: 2, Used: gpuUsed}, customer: {Max: 1, Used: customerUsed}}
	}
	rate := func(next time.Duration) ledger.Rate {
		return ledger.Rate{Starts: 10, Burst: 1, Per: time.Second, Next: admitNow.Add(next)}
	}
	for name, c := range map[string]struct {
		visit ledger.Visit
		want  string
	}{
		"the runs start in order, whatever their sets": {
			ledger.Visit{Heads: []ledger.Head{waiting(1, 0, "ac"), waiting(2, 0, "bd")}}, "a b c d",
		},
		"a higher priority goes first": {
			ledger.Visit{Heads: []ledger.Head{waiting(1, 0, "ab"), waiting(1, -5, "z")}}, "z a b",
		},
		"a paused queue starts nothing": {
			ledger.Visit{Paused: true, Heads: []ledger.Head{waiting(1, 0, "a")}, Reservations: []ledger.Reservation{{}}}, "| paused",
		},
		"a stalled queue starts no run and grants reservations": {
			ledger.Visit{StalledUntil: admitNow.Add(time.Second), Heads: []ledger.Head{waiting(1, 0, "a")}, Reservations: []ledger.Reservation{{}}}, "1 granted | stalled",
		},
		"a stall that is over does not matter": {
			ledger.Visit{StalledUntil: admitNow, Heads: []ledger.Head{waiting(1, 0, "a")}}, "a",
		},
		"no more than max_in_flight": {
			ledger.Visit{MaxInFlight: 3, InFlight: 1, Heads: []ledger.Head{waiting(1, 0, "abc")}}, "a b | full 3 of 3",
		},
		"no more than the launcher's free calls": {
			ledger.Visit{Free: 1, Heads: []ledger.Head{waiting(1, 0, "abc")}}, "a | no_launcher",
		},
		"a reservation takes the place of the first run": {
			ledger.Visit{MaxInFlight: 2, Reservations: []ledger.Reservation{{}}, Heads: []ledger.Head{waiting(1, 0, "abc")}}, "1 granted a | full 2 of 2",
		},
		"a reservation whose limit is full is passed over": {
			ledger.Visit{Reservations: []ledger.Reservation{{Limits: []schedule.LimitRef{gpu}}}, Limits: limits(2, 0), Heads: []ledger.Head{waiting(1, 0, "a")}}, "a",
		},
		"a full limit blocks its set, and others pass": {
			ledger.Visit{Limits: limits(1, 0), Heads: []ledger.Head{waiting(1, 0, "acd", gpu), waiting(2, 0, "be")}}, "a b e | set 1 limit 2 of 2",
		},
		"of two limits the full one blocks": {
			ledger.Visit{Limits: limits(0, 1), Heads: []ledger.Head{waiting(1, 0, "a", gpu, customer), waiting(2, 0, "b", gpu)}}, "b | set 1 limit 1 of 1",
		},
		"a limit that is gone binds nothing": {
			ledger.Visit{Heads: []ledger.Head{waiting(1, 0, "ab", gpu)}}, "a b",
		},
		"a limit of 0 starts nothing": {
			ledger.Visit{Limits: map[schedule.LimitRef]*ledger.LimitNow{gpu: {}}, Heads: []ledger.Head{waiting(1, 0, "a", gpu)}}, "| set 1 limit 0 of 0",
		},
		"a retry has the use of the attempt before": {
			func() ledger.Visit {
				v := ledger.Visit{Limits: limits(0, 1), Heads: []ledger.Head{waiting(1, 0, "a", customer), waiting(2, 0, "b", customer)}}
				v.Heads[1].Runs[0].Kept = []schedule.LimitRef{customer}
				return v
			}(), "b | set 1 limit 1 of 1",
		},
		"no more than the share of the owner, and reservations need none": {
			ledger.Visit{OwnerCalls: new(1), Heads: []ledger.Head{waiting(1, 0, "ab")}, Reservations: []ledger.Reservation{{}}}, "1 granted a | owner_share",
		},
		"an owner that has its share starts nothing": {
			ledger.Visit{OwnerCalls: new(0), Heads: []ledger.Head{waiting(1, 0, "ab")}}, "| owner_share",
		},
		"a rate admits what starts within 250 ms": {
			ledger.Visit{Rate: rate(0), Heads: []ledger.Head{waiting(1, 0, "abcd")}}, "a b+100ms c+200ms | rate +300ms",
		},
		"a rate that is behind has no start saved": {
			ledger.Visit{Rate: rate(-time.Hour), Heads: []ledger.Head{waiting(1, 0, "ab")}, Free: 1}, "a | no_launcher",
		},
		"a rate of a limit blocks its set": {
			ledger.Visit{
				Limits: map[schedule.LimitRef]*ledger.LimitNow{gpu: {Max: 9, Rate: rate(260 * time.Millisecond)}},
				Heads:  []ledger.Head{waiting(1, 0, "a", gpu), waiting(2, 0, "b")},
			}, "b | set 1 rate +260ms",
		},
		"the slower of two rates says when": {
			ledger.Visit{
				Rate: rate(100 * time.Millisecond), Limits: map[schedule.LimitRef]*ledger.LimitNow{gpu: {Max: 9, Rate: rate(200 * time.Millisecond)}},
				Heads: []ledger.Head{waiting(1, 0, "a", gpu)},
			}, "a+200ms | rate +300ms",
		},
		"a head that is used up ends the admission": {
			func() ledger.Visit {
				v := ledger.Visit{Heads: []ledger.Head{waiting(1, 0, "ab"), waiting(2, 0, "x")}}
				v.Heads[0].More = true
				return v
			}(), "a b | unread",
		},
		"unless its set is blocked by then": {
			func() ledger.Visit {
				v := ledger.Visit{Limits: limits(0, 0), Heads: []ledger.Head{waiting(1, 0, "ab", gpu), waiting(2, 0, "x")}}
				v.Heads[0].More = true
				return v
			}(), "a b x | set 1 limit 2 of 2",
		},
		"an aged run goes first, and every second one at most": {
			func() ledger.Visit {
				v := ledger.Visit{PromoteAfter: time.Minute, Heads: []ledger.Head{waiting(1, -9, "abc"), waiting(1, 0, "yz")}}
				v.Oldest = v.Heads[1:]
				return v
			}(), "y! a z! b c",
		},
		"a run that has not waited long enough does not pass": {
			func() ledger.Visit {
				v := ledger.Visit{PromoteAfter: time.Minute + 1, Heads: []ledger.Head{waiting(1, -9, "a"), waiting(1, 0, "y")}}
				v.Oldest = v.Heads[1:]
				return v
			}(), "a y",
		},
		"it does not pass a limit that allows no run, and not the others that are full": {
			func() ledger.Visit {
				v := ledger.Visit{Limits: limits(2, 1), Heads: []ledger.Head{waiting(1, 0, "a", customer), waiting(2, 0, "b", customer, gpu)}}
				v.Heads[0].Runs[0].Kept, v.Heads[1].Runs[0].Kept = []schedule.LimitRef{customer}, []schedule.LimitRef{customer}
				v.Limits[customer].Max = 0
				return v
			}(), "| set 1 limit 0 of 0 | set 2 limit 0 of 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.visit
			v.Now = admitNow
			if v.Free == 0 {
				v.Free = 100
			}
			if v.MaxInFlight == 0 {
				v.MaxInFlight = 100
			}
			if got := admissionText(ledger.Admit(&v)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// admissionText writes what an admission decides: the runs by their letters (! aged), then what
// blocks the others.
func admissionText(a ledger.Admission) string {
	var words []string
	if len(a.Granted) > 0 {
		words = append(words, fmt.Sprint(len(a.Granted), " granted"))
	}
	for _, r := range a.Runs {
		word := string(rune(r.Run.Key[0]))
		if r.Aged {
			word += "!"
		}
		if wait := r.StartAt.Sub(admitNow); wait > 0 {
			word += "+" + wait.String()
		}
		words = append(words, word)
	}
	say := func(prefix string, b *ledger.Block) {
		words = append(words, "| "+prefix+string(b.What))
		if b.What == ledger.BlockedByFull || b.What == ledger.BlockedByLimit {
			words = append(words, fmt.Sprintf("%d of %d", b.Used, b.Max))
		}
		if b.What == ledger.BlockedByRate {
			words = append(words, "+"+b.Until.Sub(admitNow).String())
		}
	}
	if a.All != nil {
		say("", a.All)
	}
	for set := range 9 {
		if b, ok := a.Sets[fmt.Sprint(set)]; ok {
			say(fmt.Sprintf("set %d ", set), &b)
		}
	}
	if a.Unread {
		words = append(words, "| unread")
	}
	return strings.Join(words, " ")
}

// drawVisit draws a queue whose heads have all runs. Sets share limits, so that they block one
// another.
func drawVisit(t *rapid.T) ledger.Visit {
	v := ledger.Visit{
		Now: admitNow, Free: rapid.IntRange(0, 12).Draw(t, "free"), MaxInFlight: rapid.IntRange(1, 12).Draw(t, "max_in_flight"),
		InFlight: rapid.IntRange(0, 3).Draw(t, "in flight"), Limits: make(map[schedule.LimitRef]*ledger.LimitNow),
	}
	if rapid.Bool().Draw(t, "with a rate") {
		v.Rate = drawRate(t)
	}
	var refs []schedule.LimitRef
	for no := range rapid.Int32Range(0, 3).Draw(t, "limits") {
		ref := schedule.LimitRef{ID: fmt.Sprint("limit", no)}
		refs = append(refs, ref)
		l := &ledger.LimitNow{Max: rapid.IntRange(0, 4).Draw(t, "max"), Used: rapid.IntRange(0, 2).Draw(t, "used")}
		if rapid.Bool().Draw(t, "limit with a rate") {
			l.Rate = drawRate(t)
		}
		v.Limits[ref] = l
	}
	if most := rapid.IntRange(-9, 3).Draw(t, "share"); most >= 0 {
		v.OwnerCalls = &most
	}
	v.PromoteAfter = time.Duration(rapid.IntRange(0, 2).Draw(t, "promote after")) * 20 * time.Second
	sets := rapid.IntRange(1, 4).Draw(t, "sets")
	heads := make(map[[2]int]*ledger.Head)
	for i := range rapid.IntRange(0, 14).Draw(t, "runs") {
		set := rapid.IntRange(0, sets-1).Draw(t, "set")
		r := ledger.WaitingRun{
			Key: schedule.Key{byte('a' + i)}, Owner: fmt.Sprint("u", set%2), Set: fmt.Sprint(set), Since: admitNow.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "waits")) * time.Second),
			Order: ledger.QueueOrder{Priority: rapid.Int32Range(0, 2).Draw(t, "priority"), Position: int64(rapid.IntRange(0, 9).Draw(t, "position"))},
		}
		for j, ref := range refs { // the same for each run of a set
			if (set+1)>>j&1 == 1 {
				r.Limits = append(r.Limits, ref)
			}
		}
		at := [2]int{set, int(r.Order.Priority)}
		if heads[at] == nil {
			heads[at] = &ledger.Head{}
		}
		heads[at].Runs = append(heads[at].Runs, r)
	}
	if len(refs) > 0 && rapid.Bool().Draw(t, "a retry keeps a limit") { // each limit is kept by one at most
		for n, ref := range refs[:rapid.IntRange(1, len(refs)).Draw(t, "kept")] {
			r := ledger.WaitingRun{
				Key: schedule.Key{byte('A' + n)}, Owner: fmt.Sprint("u", n%2), Set: fmt.Sprint("kept ", n), Since: admitNow.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "waits")) * time.Second),
				Order:  ledger.QueueOrder{Priority: rapid.Int32Range(0, 2).Draw(t, "priority"), Position: int64(rapid.IntRange(0, 9).Draw(t, "position"))},
				Limits: refs[:n+1], Kept: []schedule.LimitRef{ref},
			}
			v.Limits[ref].Used++
			heads[[2]int{9 + n, 0}] = &ledger.Head{Runs: []ledger.WaitingRun{r}}
		}
	}
	for _, h := range heads {
		slices.SortFunc(h.Runs, func(a, b ledger.WaitingRun) int { return ledger.CompareWaiting(&a, &b) })
		v.Heads = append(v.Heads, *h)
	}
	v.Oldest = v.Heads
	return v
}

func drawRate(t *rapid.T) ledger.Rate {
	starts := rapid.IntRange(1, 20).Draw(t, "starts")
	return ledger.Rate{
		Starts: starts, Burst: rapid.IntRange(1, starts).Draw(t, "burst"), Per: time.Second,
		Next: admitNow.Add(time.Duration(rapid.IntRange(-500, 700).Draw(t, "next ms")) * time.Millisecond),
	}
}

// copyVisit copies what Admit changes.
func copyVisit(v ledger.Visit) ledger.Visit {
	limits := make(map[schedule.LimitRef]*ledger.LimitNow, len(v.Limits))
	for ref, l := range v.Limits {
		now := *l
		limits[ref] = &now
	}
	v.Limits, v.Heads = limits, slices.Clone(v.Heads)
	return v
}

// admissionModel is one list of all waiting runs. Before each start it looks at them from the
// beginning. Of a rate it knows how many starts it may still have by an instant, in
// microseconds.
type admissionModel struct {
	ledger.Visit
	runs    []ledger.WaitingRun
	started []string
	aged    bool
}

func (m *admissionModel) earliest(r *ledger.Rate) int64 {
	if r.Starts == 0 {
		return m.Now.UnixMicro()
	}
	return max(m.Now.UnixMicro(), r.Next.UnixMicro()-int64(r.Burst-1)*m.gap(r))
}

func (m *admissionModel) gap(r *ledger.Rate) int64 {
	gap := r.Per.Microseconds() / int64(r.Starts)
	if gap*int64(r.Starts) < r.Per.Microseconds() {
		gap++
	}
	return gap
}

func (m *admissionModel) may(r *ledger.WaitingRun) bool {
	soon := m.Now.UnixMicro() + 250_000
	if m.earliest(&m.Rate) > soon {
		return false
	}
	for _, ref := range r.Limits {
		l := m.Limits[ref]
		if l == nil {
			continue
		}
		others := l.Used
		for _, kept := range r.Kept {
			if kept == ref {
				others--
			}
		}
		if others >= l.Max || m.earliest(&l.Rate) > soon {
			return false
		}
	}
	return true
}

func (m *admissionModel) step() bool {
	if len(m.started) >= m.Free || m.OwnerCalls != nil && len(m.started) >= *m.OwnerCalls || m.InFlight+len(m.started) >= m.MaxInFlight {
		return false
	}
	pick, aged := -1, false
	if m.PromoteAfter > 0 && !m.aged {
		for i := range m.runs {
			if r := &m.runs[i]; m.Now.Sub(r.Since) >= m.PromoteAfter && m.may(r) && (pick < 0 || r.Since.Before(m.runs[pick].Since)) {
				pick, aged = i, true
			}
		}
	}
	for i := range m.runs {
		if pick < 0 && m.may(&m.runs[i]) {
			pick = i
		}
	}
	if pick < 0 {
		return false
	}
	r := m.runs[pick]
	at := m.earliest(&m.Rate)
	rates := []*ledger.Rate{&m.Rate}
	for _, ref := range r.Limits {
		if l := m.Limits[ref]; l != nil {
			if !slices.Contains(r.Kept, ref) {
				l.Used++
			}
			at = max(at, m.earliest(&l.Rate))
			rates = append(rates, &l.Rate)
		}
	}
	for _, rate := range rates {
		if rate.Starts > 0 {
			rate.Next = time.UnixMicro(max(rate.Next.UnixMicro(), at) + m.gap(rate))
		}
	}
	m.aged = aged
	m.started = append(m.started, fmt.Sprint(string(rune(r.Key[0])), " ", aged, " ", at))
	m.runs = slices.Delete(m.runs, pick, pick+1)
	return true
}

func modelAdmission(v ledger.Visit) []string {
	m := admissionModel{Visit: copyVisit(v)}
	for _, h := range v.Heads {
		m.runs = append(m.runs, h.Runs...)
	}
	slices.SortFunc(m.runs, func(a, b ledger.WaitingRun) int {
		for _, c := range []int64{
			int64(a.Order.Priority) - int64(b.Order.Priority), a.Order.FairOrder - b.Order.FairOrder,
			a.Order.Position - b.Order.Position, int64(a.Key[0]) - int64(b.Key[0]),
		} {
			if c != 0 {
				return int(c)
			}
		}
		return 0
	})
	for m.step() {
	}
	return m.started
}

func startedBy(a ledger.Admission) (started []string) {
	for _, r := range a.Runs {
		started = append(started, fmt.Sprint(string(rune(r.Run.Key[0])), " ", r.Aged, " ", r.StartAt.UnixMicro()))
	}
	return started
}

func TestAdmissionsAreThoseOfOneSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawVisit(t)
		want := modelAdmission(v)
		got := copyVisit(v)
		if a := ledger.Admit(&got); !slices.Equal(startedBy(a), want) {
			t.Fatalf("got  %q\nwant %q", startedBy(a), want)
		}
	})
}

// A launcher reads only the first runs of each limit set and priority. What it admits is the
// beginning of what it would admit had it read all.
func TestAnAdmissionFromTheFirstRunsIsTheBeginningOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawVisit(t)
		want := modelAdmission(v)
		most := rapid.IntRange(1, 4).Draw(t, "read")
		part := copyVisit(v)
		for i, h := range part.Heads {
			if len(h.Runs) > most {
				part.Heads[i] = ledger.Head{Runs: h.Runs[:most], More: true}
			}
		}
		a := ledger.Admit(&part)
		got := startedBy(a)
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("got  %q\nwant the beginning of %q", got, want)
		}
		if !a.Unread && len(got) < len(want) {
			t.Fatalf("got %q and nothing unread, want %q", got, want)
		}
	})
}

// If something is free, each limit set that still waits is blocked by a named thing.
func TestWhatWaitsIsBlockedBySomethingWithAName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawVisit(t)
		a := ledger.Admit(&v)
		if a.All != nil {
			return
		}
		started := make(map[schedule.Key]bool)
		for _, r := range a.Runs {
			started[r.Run.Key] = true
		}
		for _, h := range v.Heads {
			for _, r := range h.Runs {
				if b, ok := a.Sets[r.Set]; !started[r.Key] && (!ok || b.What == "") {
					t.Fatalf("run %c waits and nothing blocks its set %s: %+v", r.Key[0], r.Set, a.Sets)
				}
			}
		}
	})
}
