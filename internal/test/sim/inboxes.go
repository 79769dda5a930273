package sim

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/launcher"
)

// The checker's own rules of events and inboxes: nothing here may use package ledger, or the functions
// of package topic.

// inboxWatch has the events, and what consumers have of them.
type inboxWatch struct {
	published map[string]*topic.Event // by name
	bySeq     map[int64]*topic.Event
	cameAt    map[int64]time.Duration          // when each event was published
	last      map[string]*topic.Event          // by publisher
	inboxes   map[string]map[int64]topic.Entry // by consumer and event
	batches   map[schedule.Key][]int64         // the events of each run
	roots     map[schedule.Key]schedule.Key    // the first attempt of each run with events
	refused   map[string]time.Duration         // consumers whose run was skipped, and when
	wakeRows  map[string]time.Time
	wanting   map[string]time.Duration // consumers that are to be looked at, and since when
	fresh     []*topic.Event           // of the current transaction
	writes    []entryWrite             // likewise
	claimAt   time.Time                // the instant of the current claim
}

type entryWrite struct {
	term          *schedule.Term
	before, after *topic.Entry
}

func (e *entryWrite) entry() *topic.Entry {
	if e.after != nil {
		return e.after
	}
	return e.before
}

func newInboxWatch() inboxWatch {
	return inboxWatch{
		published: make(map[string]*topic.Event), bySeq: make(map[int64]*topic.Event), cameAt: make(map[int64]time.Duration), last: make(map[string]*topic.Event),
		inboxes: make(map[string]map[int64]topic.Entry), batches: make(map[schedule.Key][]int64), roots: make(map[schedule.Key]schedule.Key),
		refused: make(map[string]time.Duration), wakeRows: make(map[string]time.Time), wanting: make(map[string]time.Duration),
	}
}

func eventName(user string, e *topic.Event) string {
	return strings.Join([]string{user, e.Topic, e.Source, e.EventID}, "\x00")
}

// publishedNew: a name is published once, and the events of a publisher in its order.
func (l *ledgerWatch) publishedNew(e *topic.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := eventName(e.UserID, e)
	if l.published[name] != nil {
		l.violation("event %s of topic %s was published twice", e.EventID, e.Topic)
	}
	if before := l.last[e.Subject]; before != nil && (e.Seq <= before.Seq || e.Type <= before.Type) {
		l.violation("event %s of %s has number %d, after %s with number %d", e.Type, e.Subject, e.Seq, before.Type, before.Seq)
	}
	l.log.say(l.elapsed(), "event %d: %s of %s, %s", e.Seq, e.EventID, e.Topic, e.UserID)
	l.published[name], l.bySeq[e.Seq], l.last[e.Subject] = e, e, e
	l.cameAt[e.Seq] = l.elapsed()
	l.fresh = append(l.fresh, e)
}

// entryWritten notes a write of an inbox. It is checked by the state after its transaction.
func (l *ledgerWatch) entryWritten(term *schedule.Term, before, after *topic.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = append(l.writes, entryWrite{term, before, after})
}

// wakeWritten notes a wake row.
func (l *ledgerWatch) wakeWritten(scheduleID string, when time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeRows[scheduleID] = when
}

// eventsCommitted checks what a transaction did to events and inboxes.
func (l *ledgerWatch) eventsCommitted(at time.Duration) {
	writes, fresh := l.writes, l.fresh
	l.writes, l.fresh = nil, nil
	slices.SortFunc(writes, func(a, b entryWrite) int {
		return cmp.Or(cmp.Compare(a.entry().ScheduleID, b.entry().ScheduleID), cmp.Compare(a.entry().Seq, b.entry().Seq))
	})
	for _, e := range fresh {
		l.reaches(e, writes)
	}
	taken := make(map[schedule.Key][]int64)
	for i := range writes {
		l.entryMoved(at, &writes[i])
		e := writes[i].entry()
		if l.inboxes[e.ScheduleID] == nil {
			l.inboxes[e.ScheduleID] = make(map[int64]topic.Entry)
		}
		if writes[i].after == nil {
			delete(l.inboxes[e.ScheduleID], e.Seq)
			continue
		}
		l.inboxes[e.ScheduleID][e.Seq] = *e
		if b := writes[i].before; b != nil && e.State == topic.Reserved && b.Run != e.Run {
			taken[e.Run] = append(taken[e.Run], e.Seq)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(taken), func(a, b schedule.Key) int { return slices.Compare(a[:], b[:]) }) {
		l.batch(key, taken[key])
	}
	for _, id := range sorted(l.inboxes) {
		l.waitsForLook(id)
	}
}

// waitsForLook: what is reserved has an open run, and what is pending a wake row, or an open run of the
// consumer that will write one.
func (l *ledgerWatch) waitsForLook(id string) {
	pending, reserved := 0, 0
	for _, e := range l.inboxes[id] {
		switch e.State {
		case topic.Pending:
			pending++
		case topic.Reserved:
			reserved++
			if h := l.rows[e.Run]; h == nil || h.gone || ended(h.row.Status) {
				l.violation("event %d is reserved for %s by run %.12s, which is not open", e.Seq, id, e.Run)
			}
		}
	}
	if pending > 0 && reserved == 0 && l.wakeRows[id].IsZero() {
		l.violation("%d events of %s are pending without a wake row", pending, id)
		l.wakeRows[id] = schedule.MaxTime // said once
	}
}

// subscribes reports whether a consumer names a topic.
func subscribes(s *schedule.Schedule, name string) bool {
	return slices.ContainsFunc(s.Consume.Topics, func(of string) bool {
		before, prefix := strings.CutSuffix(of, "*")
		return of == name || prefix && strings.HasPrefix(name, before)
	})
}

// reaches: each consumer of the topic has the event from its publish on, and nobody else has.
func (l *ledgerWatch) reaches(e *topic.Event, writes []entryWrite) {
	var want, got []string
	for _, id := range sorted(l.lives) {
		if row := &l.lives[id].row; row.Alive() && row.UserID == e.UserID && subscribes(row, e.Topic) {
			want = append(want, id)
		}
	}
	for i := range writes {
		if w := &writes[i]; w.before == nil && w.after.Seq == e.Seq {
			got = append(got, w.after.ScheduleID)
		}
	}
	if !slices.Equal(want, got) || e.Fanout != len(want) {
		l.violation("event %d of topic %s went to %v (%d), and its consumers are %v", e.Seq, e.Topic, got, e.Fanout, want)
	}
}

// entryMoved: an entry goes from pending to a run, to its next attempts and to one end, and each step is
// true.
func (l *ledgerWatch) entryMoved(at time.Duration, w *entryWrite) {
	before, after := w.before, w.after
	so := false
	switch {
	case before == nil:
		so = after.State == topic.Pending && after.Round == 1 && after.Attempts == 0 && slices.ContainsFunc(sorted(l.published), func(name string) bool { return l.published[name].Seq == after.Seq })
	case before.State.Ended():
		so = after == nil
	case after == nil:
	case before.State == topic.Pending && after.State == topic.Reserved:
		so = l.mayTake(at, w)
	case before.State == topic.Pending && after.State == topic.Skipped:
		so = w.term == nil && after.Reason == topic.ReasonDeleted || l.skipped(at, after)
	case before.State == topic.Reserved:
		so = l.endedWith(at, before, after)
	}
	if !so {
		l.violation("entry of event %d for %s: from %+v to %+v, which is not so", w.entry().Seq, w.entry().ScheduleID, before, after)
	}
}

// mayTake: a new run takes an event for a consumer that lives, names the topic, is not paused, and was not
// registered after the publish.
func (l *ledgerWatch) mayTake(at time.Duration, w *entryWrite) bool {
	f, h := l.lives[w.after.ScheduleID], l.rows[w.after.Run]
	row := &f.row
	paused := row.Pause.Paused && (row.Pause.Until.IsZero() || row.Pause.Until.After(l.began.Add(at)))
	return w.term != nil && h != nil && h.planned == at && h.row.Trigger == schedule.TriggerEvent && h.row.ScheduleID == row.ScheduleID && h.row.Revision == row.Revision &&
		row.Alive() && !paused && subscribes(row, l.bySeq[w.after.Seq].Topic) && l.cameAt[w.after.Seq] >= f.created
}

// skipped: an event ends without a run if its consumer is deleted, or names its topic no more.
func (l *ledgerWatch) skipped(at time.Duration, e *topic.Entry) bool {
	f := l.lives[e.ScheduleID]
	switch e.Reason {
	case topic.ReasonDeleted:
		l.coverage.situations[eventOfDeleted].Add(1)
		return !f.row.Alive() || f.created == at
	case topic.ReasonUnsubscribed:
		l.coverage.situations[eventOfNobody].Add(1)
		return f.row.Alive() && !subscribes(&f.row, l.bySeq[e.Seq].Topic)
	}
	return false
}

// endedWith: the end of a run says what comes of its events, in the same transaction.
func (l *ledgerWatch) endedWith(at time.Duration, before, after *topic.Entry) bool {
	h := l.rows[before.Run]
	if h == nil || !ended(h.row.Status) || h.completed != at {
		return false
	}
	if next := l.rows[successorKey(before.Run, l.automaticName(h))]; next != nil && next.planned == at {
		l.coverage.situations[eventsOfNext].Add(1)
		return after.State == topic.Reserved && after.Run == next.row.Key
	}
	switch after.State {
	case topic.Consumed:
		l.coverage.situations[eventConsumed].Add(1)
		return h.row.Status == schedule.StatusSuccess && after.Run == before.Run
	case topic.Dead:
		if after.Reason == topic.ReasonCancelled {
			l.coverage.situations[eventCancelled].Add(1)
			return h.row.Status == schedule.StatusCancelled
		}
		l.coverage.situations[eventDead].Add(1)
		return h.row.Status == schedule.StatusFailed && after.Reason == topic.ReasonFailed
	case topic.Skipped:
		return h.row.Status == schedule.StatusCancelled && h.row.Reason == schedule.ReasonDeleted && after.Reason == topic.ReasonDeleted
	case topic.Pending:
		l.coverage.situations[eventsReturned].Add(1)
		if h.row.Reason != schedule.ReasonPaused {
			l.refused[after.ScheduleID] = at
		}
		return h.row.Status == schedule.StatusSkipped && after.Run.IsZero()
	}
	return false
}

// batch: a run has the oldest pending events of its consumer, as many as it may, and the next attempt
// has those of the one before.
func (l *ledgerWatch) batch(key schedule.Key, seqs []int64) {
	h := l.rows[key]
	if of, retry := l.batches[h.row.RetryOf]; retry {
		l.roots[key] = l.roots[h.row.RetryOf]
		if l.batches[key] = of; !slices.Equal(of, seqs) {
			l.violation("run %.12s has the events %v, and the attempt before it had %v", key, seqs, of)
		}
		return
	}
	l.batches[key], l.roots[key] = seqs, key
	most, left := int(l.lives[h.row.ScheduleID].row.Consume.MaxEvents), 0
	for seq, e := range l.inboxes[h.row.ScheduleID] {
		if e.State != topic.Pending {
			continue
		}
		if left++; seq < seqs[len(seqs)-1] {
			l.violation("run %.12s has taken event %d, and event %d, which is older, is pending", key, seqs[len(seqs)-1], seq)
		}
	}
	if len(seqs) > most || len(seqs) < most && left > 0 {
		l.violation("run %.12s has %d events of at most %d, and %d are left", key, len(seqs), most, left)
	}
	if len(seqs) > 1 {
		l.coverage.situations[eventsInOne].Add(1)
	}
	if left > 0 {
		l.coverage.situations[eventsLeft].Add(1)
	}
}

// getsEvents: a call has the events that its run has taken, as they were published, and the digest of
// their names.
func (l *ledgerWatch) getsEvents(call *launcher.Call) {
	seqs, has := l.batches[call.Key]
	if b := call.Events; !has || b == nil {
		if has || b != nil || call.Trigger == schedule.TriggerEvent {
			l.violation("the executor is called for %s run_at %s with events %+v, and its run has %v", call.ScheduleID, l.at(call.ScheduledFor), b, seqs)
		}
		return
	}
	var got []int64
	names := ""
	for i := range call.Events.Events {
		e := &call.Events.Events[i]
		got = append(got, e.Seq)
		if is := l.bySeq[e.Seq]; is == nil || eventName(is.UserID, is) != eventName(is.UserID, &e.Event) || string(is.Data) != string(e.Data) {
			l.violation("the executor gets event %d as %+v, and it was published as %+v", e.Seq, e, is)
		}
		names += strings.Join([]string{e.Topic, e.Source, e.EventID, "1", ""}, "\x00")
	}
	if b := call.Events; !slices.Equal(got, seqs) || b.Count != len(seqs) || b.Root != l.roots[call.Key] || b.Digest != sha256.Sum256([]byte(names)) {
		l.violation("the executor gets the events %v of run %.12s as %d of root %.12s, and the run has %v", got, call.Key, b.Count, b.Root, seqs)
	}
}
