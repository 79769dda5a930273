package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// The checker's own rules of limits and rates: nothing here may use package ledger, or the
// methods of limits.

// limitWatch is what the checker remembers of limits.
type limitWatch struct {
	limitRows map[string]schedule.Limit
	starts    map[string][]time.Time // under each rate: of a limit by its id, of a queue by "queue " and its id
}

func newLimitWatch() limitWatch {
	return limitWatch{limitRows: make(map[string]schedule.Limit), starts: make(map[string][]time.Time)}
}

// limitsOfRuns are what users name.
var limitsOfRuns = [][]string{nil, {"gpu"}, {"customer=a"}, {"customer=b"}, {"api"}, {"customer=a", "gpu"}, {"account=a"}, {"account=a", "gpu"}, {"account=b", "customer=b"}}

// setLimits registers the limits, and later changes their numbers. Rates stay: the checker
// compares all starts of a world.
func (w *world) setLimits(d dice) {
	w.setLimit(schedule.LimitDefinition{LimitID: "gpu", MaxInFlight: uint32(d.of(1).within(1, 3))})
	w.setLimit(schedule.LimitDefinition{LimitID: "customer", Keyed: true, MaxInFlight: uint32(d.of(2).within(1, 2))})
	w.setLimit(schedule.LimitDefinition{LimitID: "account", Keyed: true, Ordered: true, MaxInFlight: 1})
	rate := schedule.RateDefinition{Starts: uint32(w.dice.of(forLimits).within(3, 30)), PerMS: 1000, Burst: uint32(w.dice.of(forLimits+1).within(1, 3))}
	w.setLimit(schedule.LimitDefinition{LimitID: "api", Rate: rate})
}

func (w *world) setLimit(def schedule.LimitDefinition) {
	def.UserID = "u0"
	err := w.insist(func(ctx context.Context) error {
		_, err := w.limits.ChangeLimit(ctx, def.LimitID, func(f schedule.LimitFacts) (schedule.LimitChange, error) {
			l := schedule.Limit{LimitDefinition: def, Revision: 1}
			if f.Limit != nil {
				l.No, l.Revision = f.Limit.No, f.Limit.Revision+1
			}
			return schedule.LimitChange{After: &l}, nil
		})
		return err
	})
	w.log.say(w.elapsed(), "user: limit %s: max_in_flight %d, rate %v: %v", def.LimitID, def.MaxInFlight, def.Rate, err)
}

// rateOf is the rate of a queue in all its definitions.
func (w *world) rateOf(n int) (rate schedule.RateDefinition) {
	if d := w.dice.of(forLimits + 10 + uint64(n)); w.profile.limited && d.of(1).perMille(300) {
		rate = schedule.RateDefinition{Starts: uint32(d.of(2).within(5, 40)), PerMS: 1000, Burst: uint32(d.of(3).within(1, 3))}
	}
	return rate
}

// limit sees every write of a limit.
func (l *ledgerWatch) limit(after *schedule.Limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limitRows[after.LimitID] = *after
}

// merged are limits of a run as it should have them.
func merged(lists ...[]string) string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// namesOf are the limits of a run.
func namesOf(r *schedule.Run) []string {
	if r.Queue.Limits == "" {
		return nil
	}
	return strings.Split(string(r.Queue.Limits), ",")
}

// mostOf is max_in_flight of a limit that a run names; 0: any number.
func (l *ledgerWatch) mostOf(name string) int {
	id, _, _ := strings.Cut(name, "=")
	return int(l.limitRows[id].MaxInFlight)
}

// using counts the runs of any queue that use a limit: those in flight, and retries that keep it.
func (l *ledgerWatch) using(name string, but func(*job) bool) (n int) {
	for _, j := range l.jobOrder {
		p := placeOf(&j.row)
		if p != placeEnded && slices.Contains(namesOf(&j.row), name) && (l.keeps(j, name) || p.inFlight() && !but(j)) {
			n++
		}
	}
	return n
}

// keeps reports whether a run has a key of an ordered limit from the attempt before it: since that
// one was admitted, no other run of the key starts until the last of them is over.
func (l *ledgerWatch) keeps(j *job, name string) bool {
	of := l.jobs[j.row.RetryOf]
	if of == nil || of.admissions == 0 || !strings.HasPrefix(name, "account=") || !slices.Contains(namesOf(&of.row), name) {
		return false
	}
	for _, step := range []string{"/auto", "/snooze", "/again"} {
		if j.row.Key == successorKey(of.row.Key, step) {
			return true
		}
	}
	return false
}

// inSequence: an admitted run does not start between two attempts of another one.
func (l *ledgerWatch) inSequence(j *job) {
	for _, name := range namesOf(&j.row) {
		if l.keeps(j, name) {
			l.coverage.situations[keyKept].Add(1)
		}
		for _, other := range l.jobOrder {
			if p := placeOf(&other.row); other != j && p != placeEnded && !p.inFlight() && slices.Contains(namesOf(&other.row), name) && l.keeps(other, name) {
				l.violation("the job %.12s starts between two attempts of another one of %s: %.12s waits", j.row.Key, name, other.row.Key)
			}
		}
	}
}

// usesOwned: each use of a limit is that of a run in flight, of a retry that keeps it, or of a reservation.
func (w *world) usesOwned() {
	for id, row := range w.watch.limitRows {
		uses, err := w.limits.ListLimitUses(context.Background(), row.No, 1000)
		if err != nil {
			w.violation("the uses of limit %s cannot be read: %v", id, err)
		}
		for _, u := range uses {
			name := schedule.LimitRef{ID: id, Key: u.Key}.String()
			j := w.watch.jobs[u.UsedBy]
			_, reserved := w.watch.reservations[u.UsedBy]
			if j == nil && !reserved || j != nil && (placeOf(&j.row) == placeEnded || !placeOf(&j.row).inFlight() && !w.watch.keeps(j, name)) {
				w.violation("limit %s is used by %.12s, which is not in flight", name, u.UsedBy)
			}
		}
	}
}

// withinLimits: after an admission no limit of the run is exceeded.
func (l *ledgerWatch) withinLimits(j *job) {
	for _, name := range namesOf(&j.row) {
		if most, n := l.mostOf(name), l.using(name, func(*job) bool { return false })+l.reservedUses(name, time.Now()); most > 0 && n > most {
			l.violation("%d runs of limit %s are in flight after the admission of %.12s, and max_in_flight is %d", n, name, j.row.Key, most)
		} else if most > 0 && n == most {
			l.coverage.situations[limitFull].Add(1)
		}
	}
	l.inSequence(j)
}

// blocked reports whether a limit kept a waiting run from its start before the i-th admission of
// this transaction: what it and later ones use does not count. Of a rate the checker does not
// know when the next start is.
func (l *ledgerWatch) blocked(w *job, i int) bool {
	for _, name := range namesOf(&w.row) {
		if name == "api" {
			return true
		}
		most := l.mostOf(name)
		n := l.using(name, func(j *job) bool { return slices.Contains(l.admissions[i:], j) }) + l.reservedUses(name, time.Time{})
		if l.keeps(w, name) {
			n-- // its own
		}
		if most > 0 && n >= most {
			l.coverage.situations[limitPassed].Add(1)
			return true
		}
	}
	return false
}

// startsAt notes when an admitted run starts.
func (l *ledgerWatch) startsAt(key schedule.Key, at, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.jobs[key]
	if wait := at.Sub(now); wait < 0 || wait > 250*time.Millisecond {
		l.violation("the job %.12s was admitted %s before its start", key, wait)
	} else if wait > 0 {
		l.coverage.situations[startedLater].Add(1)
	}
	j.startAt = at
	if q := &l.queues[j.row.Queue.No].row; q.Rate.Starts > 0 {
		l.starts["queue "+q.QueueID] = append(l.starts["queue "+q.QueueID], at)
	}
	if slices.Contains(namesOf(&j.row), "api") {
		l.starts["api"] = append(l.starts["api"], at)
	}
}

// ratesKept checks all starts of a world: a window has at most starts + burst - 1.
func (l *ledgerWatch) ratesKept() {
	for name, starts := range l.starts {
		rate := l.limitRows[name].Rate
		for _, q := range l.queues {
			if "queue "+q.row.QueueID == name {
				rate = q.row.Rate
			}
		}
		slices.SortFunc(starts, time.Time.Compare)
		first, per := 0, time.Duration(rate.PerMS)*time.Millisecond
		for i, at := range starts {
			for !starts[first].Add(per).After(at) {
				first++
			}
			if n := i - first + 1; n > int(rate.Starts+rate.Burst)-1 {
				l.violation("%s has %d starts between %s and %s, and its rate is %+v", name, n, l.at(starts[first]), l.at(at), rate)
			}
		}
	}
}
