package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// considered is from when on a run that waits is considered by an admission: a launcher may read
// the whole queue once a second.
const considered = 1200 * time.Millisecond

// unseen is how long a commit may stay invisible after its timestamp, which Postgres takes before it
// writes the commit, on a busy machine.
const unseen = 100 * time.Millisecond

// place is where a run stands.
type place struct {
	record.JobWrite           // the last one
	since           time.Time // it was committed
}

// use is a limit that a run uses, or has used.
type use struct {
	limit string
	key   string
	freed time.Time // zero: it is used
}

// queueModel is what the witnesses say of the queues at one time.
type queueModel struct {
	*jobs
	places map[string]place // by key
	uses   []use            // and those that were freed not long ago
	flying map[string]int   // runs in flight by queue
}

// replay is Q2 and Q3: it goes through the transactions in the order of their commits. When a run
// is admitted, no run that came before it was left out, unless a limit of it was full; and no limit
// is exceeded at any time.
func (j *jobs) replay() {
	m := &queueModel{
		jobs: j, places: make(map[string]place), flying: make(map[string]int),
	}
	for _, tx := range transactions(j.JobWrites) {
		m.order(tx)
		m.apply(tx)
		m.bounds(tx)
	}
	for _, u := range m.uses {
		if u.freed.IsZero() {
			j.violate("Q3", j.shown(u.key), "the limit %s is used by it at the end", u.limit)
		}
	}
	for key, p := range m.places {
		if p.Kind == record.ReserveWrite {
			j.violate("Q12", j.shown(key), "a reservation of queue %s has not ended", p.Queue)
		}
	}
}

// transactions puts the writes together that were committed together, in the order of the commits.
// SQLite has one writer, and no numbers of transactions: there the admissions of a queue that follow
// each other are put together.
func transactions(writes []record.JobWrite) (all [][]record.JobWrite) {
	sorted := slices.Clone(writes)
	first := make(map[int64]int64) // sequence number by transaction
	for _, w := range sorted {
		if _, known := first[w.Tx]; !known {
			first[w.Tx] = w.Seq
		}
	}
	slices.SortStableFunc(sorted, func(a, b record.JobWrite) int {
		if a.Tx == 0 || a.Tx == b.Tx {
			return cmp.Compare(a.Seq, b.Seq)
		}
		return cmp.Or(a.Committed.Compare(b.Committed), cmp.Compare(first[a.Tx], first[b.Tx]))
	})
	for i, w := range sorted {
		if i > 0 && together(sorted[i-1], w) {
			all[len(all)-1] = append(all[len(all)-1], w)
		} else {
			all = append(all, []record.JobWrite{w})
		}
	}
	return all
}

func together(a, b record.JobWrite) bool {
	if a.Tx != 0 || b.Tx != 0 {
		return a.Tx == b.Tx
	}
	admits := func(w record.JobWrite) bool { return w.Kind == record.RunWrite && admission(w) }
	return admits(a) && admits(b) && a.Queue == b.Queue || admits(a) && b.Kind == record.UseWrite && b.After != "" || a.Kind == record.UseWrite && b.Kind == record.UseWrite
}

// admission reports whether a write admits a run, or grants a reservation.
func admission(w record.JobWrite) bool { return w.Before == "waiting" && inFlight(w.After) }

// compare orders the runs of a queue. Reservations go before all of them.
func compare(a, b record.JobWrite) int {
	if a.Kind != b.Kind {
		return cmp.Compare(a.Kind, b.Kind) // reserve, run
	}
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Fair, b.Fair), cmp.Compare(a.Position, b.Position), cmp.Compare(a.Key, b.Key))
}

// order is Q2 for the admissions of a transaction, and Q12 for the reservations that it passes over.
func (m *queueModel) order(tx []record.JobWrite) {
	last := make(map[string]record.JobWrite) // of each queue
	taken := make(map[string]bool)
	for _, w := range tx {
		if w.Kind != record.UseWrite && admission(w) {
			taken[w.Key] = true
			if was, known := last[w.Queue]; !known || compare(w, was) > 0 {
				last[w.Queue] = w
			}
		}
	}
	for queue, w := range last {
		for key, p := range m.places {
			if p.Queue != queue || p.After != "waiting" || taken[key] || compare(p.JobWrite, w) >= 0 || p.since.After(w.Began.Add(-considered-m.rose-m.fell)) {
				continue
			}
			withdrawn := p.Kind == record.ReserveWrite && !p.Until.After(w.Committed.Add(m.stall+sloppiness)) // nobody waits for it
			if withdrawn || m.full(p.JobWrite, tx, w.Began) {
				continue
			}
			promise := "Q2"
			if p.Kind == record.ReserveWrite {
				promise = "Q12"
			}
			m.violate(promise, m.shown(key), "it waited in queue %s since %s before %.12s, which was admitted at %s", queue, clock(p.since), w.Key, clock(w.Committed))
		}
	}
}

// full reports whether one of the limits of a run can have been full for a transaction that began then.
// A use that it has itself, which a run before it left to it, does not count.
func (m *queueModel) full(of record.JobWrite, tx []record.JobWrite, began time.Time) bool {
	for limit := range strings.SplitSeq(of.Limits, ",") {
		used := 0
		for _, u := range m.uses {
			if u.limit == limit && u.key != of.Key && (u.freed.IsZero() || !u.freed.Add(unseen).Before(began)) {
				used++
			}
		}
		for _, w := range tx {
			if w.Kind == record.UseWrite && w.After != "" && w.Limits == limit {
				used++
			}
		}
		if limit != "" && used >= mostOf(limit) {
			return true
		}
	}
	return false
}

// mostInFlight is that of a queue of the workload.
func mostInFlight(queue string) int { return record.QueueNamed(queue).MaxInFlight }

// mostOf is how many runs may use a limit of the workload, or one key of it.
func mostOf(limit string) int { return record.LimitOf(limit).MaxInFlight }

// apply makes the writes of a transaction.
func (m *queueModel) apply(tx []record.JobWrite) {
	for _, w := range tx {
		if w.Kind == record.UseWrite {
			m.use(w)
			continue
		}
		if inFlight(w.Before) && !inFlight(w.After) {
			m.flying[m.places[w.Key].Queue]--
		}
		if inFlight(w.After) && !inFlight(w.Before) {
			m.flying[w.Queue]++
		}
		if was := m.places[w.Key].After; was != w.Before {
			m.violate("Q10", m.shown(w.Key), "it goes from %q to %q at %s, and was %q", w.Before, w.After, clock(w.Committed), was)
		}
		if w.Kind == record.RunWrite && w.Before == "running" && w.After != "" {
			m.violate("Q10", m.shown(w.Key), "it goes back from running to %s at %s", w.After, clock(w.Committed))
		}
		if w.After == "" {
			delete(m.places, w.Key)
		} else {
			since := w.Committed
			if was := m.places[w.Key]; w.Kind == record.ReserveWrite && was.After == w.After {
				since = was.since // only its end has moved
			}
			m.places[w.Key] = place{w, since}
		}
	}
}

func (m *queueModel) use(w record.JobWrite) {
	if w.After != "" {
		m.uses = append(m.uses, use{limit: w.Limits, key: w.Key})
		return
	}
	for i := range m.uses {
		if u := &m.uses[i]; u.limit == w.Limits && u.key == w.Key && u.freed.IsZero() {
			u.freed = w.Committed
			break
		}
	}
	const remembered = 30 * time.Second // longer than any transaction
	m.uses = slices.DeleteFunc(m.uses, func(u use) bool { return !u.freed.IsZero() && u.freed.Before(w.Committed.Add(-remembered)) })
}

// bounds is Q3 once a transaction is committed.
func (m *queueModel) bounds(tx []record.JobWrite) {
	flying, expired := maps.Clone(m.flying), make(map[string]bool)
	for key, p := range m.places {
		// A reservation is over when its time is, and its row is deleted after that.
		if p.Kind == record.ReserveWrite && inFlight(p.After) && !p.Until.After(tx[0].Committed.Add(m.rose)) {
			expired[key] = true
			flying[p.Queue]--
		}
	}
	for id, n := range flying {
		if most := mostInFlight(id); n > most {
			m.violate("Q3", m.shown(tx[0].Key), "%d runs of queue %s are in flight at %s; max_in_flight is %d", n, id, clock(tx[0].Committed), most)
		}
	}
	used := make(map[string]int)
	holds := make(map[string]bool)
	for _, u := range m.uses {
		if u.freed.IsZero() {
			if !expired[u.key] {
				used[u.limit]++
			}
			holds[u.limit+" "+u.key] = true
		}
	}
	for limit, n := range used {
		if most := mostOf(limit); n > most {
			m.violate("Q3", m.shown(tx[0].Key), "the limit %s is used %d times at %s; the most is %d", limit, n, clock(tx[0].Committed), most)
		}
	}
	for _, w := range tx {
		if p, there := m.places[w.Key]; there && w.Kind != record.UseWrite && inFlight(p.After) && w.Tx != 0 {
			for limit := range strings.SplitSeq(p.Limits, ",") {
				if limit != "" && !holds[limit+" "+w.Key] {
					m.violate("Q3", m.shown(w.Key), "it is %s at %s, and does not use its limit %s", p.After, clock(w.Committed), limit)
				}
			}
		}
	}
}

// effectsWithin is Q3 as the world sees it: what is at work at the executor and with the holders of
// reservations at one time, except for what the ledger has given up.
func (j *jobs) effectsWithin() {
	type change struct {
		at time.Time
		by int
		of string
	}
	bounds := make(map[string]int)
	var changes []change
	for key, e := range j.effects {
		job := j.byKey[key]
		if job == nil || e.began.IsZero() {
			continue
		}
		until := e.ended
		if left := j.left[key]; until.IsZero() || left.Before(until) {
			until = left
		}
		of := []string{"queue " + job.Queue}
		bounds[of[0]] = mostInFlight(job.Queue)
		for limit := range strings.SplitSeq(j.limits[key], ",") {
			if limit != "" {
				bounds["limit "+limit] = mostOf(limit)
				of = append(of, "limit "+limit)
			}
		}
		if worker := e.calls[0].Worker; worker != "" {
			bounds["worker "+worker] = record.WorkerSlots
			of = append(of, "worker "+worker)
		}
		for _, what := range of {
			if until.After(e.began) {
				changes = append(changes, change{e.began, 1, what}, change{until, -1, what})
			}
		}
	}
	for _, s := range j.slots {
		if queue := "queue " + s.queue; s.until.After(s.from) {
			bounds[queue] = mostInFlight(s.queue)
			changes = append(changes, change{s.from, 1, queue}, change{s.until, -1, queue})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	now := make(map[string]int)
	for _, c := range changes {
		if now[c.of] += c.by; now[c.of] > bounds[c.of] {
			j.violate("Q3", record.Run{RunAt: c.at, ScheduleID: c.of}, "%d runs and reservations are at work at %s; the most is %d", now[c.of], clock(c.at), bounds[c.of])
		}
	}
}
