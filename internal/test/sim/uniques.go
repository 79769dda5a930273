package sim

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// The checker's own rules of unique keys: nothing here may use package ledger.

// uniqueWatch is what the checker remembers of unique keys.
type uniqueWatch struct {
	keys map[uniqueName]*keyHolder
}

// uniqueName is a key of the only owner of queues.
type uniqueName struct {
	queueNo int32
	key     string
}

// keyHolder is a key with the last run that took it, or the last retry of that run.
type keyHolder struct {
	run     schedule.Key
	scope   schedule.UniqueScope
	firstAt time.Time // when it entered, by the clock of the registrar
	until   time.Time
}

// addUnique draws the unique key of a request for one run.
func (e *entry) addUnique(d dice) {
	u := &schedule.Unique{
		Key: pick(d.of(1), "a", "a", "b"), Scope: pick(d.of(2), "", schedule.UniqueWaiting, schedule.UniqueOpen, schedule.UniquePeriod),
		OnDuplicate: pick(d.of(3), "", schedule.DuplicateReplace, schedule.DuplicateReplace, schedule.DuplicateRefuse),
	}
	if u.Scope == schedule.UniquePeriod {
		u.PeriodMS = uint32(d.of(4).within(300, 5000))
	}
	if u.OnDuplicate == schedule.DuplicateReplace && d.of(5).perMille(500) {
		quiet := d.of(6).within(100, 1500)
		u.Debounce = &schedule.Debounce{QuietMS: uint32(quiet), MaxMS: uint32(d.of(7).within(quiet, 3000))}
		e.Runs[0].DelayMS, e.delays[0] = nil, time.Duration(quiet)*time.Millisecond
	}
	e.Runs[0].Unique = u
}

// judged sees the verdict on the pending request, in its transaction.
func (l *ledgerWatch) judged(req *schedule.EnqueueRequest, facts *schedule.EnqueueFacts, out *schedule.Enqueue, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entering
	if e == nil || e.RequestID != req.RequestID || facts.Earlier != nil || facts.Queue == nil || len(req.Uniques) == 0 || len(e.Runs) > 1 { // without keys it only looks
		return
	}
	e.answer, e.marks, e.replaces, e.done = nil, "", schedule.Key{}, false
	in := &e.Runs[0]
	h := l.keys[uniqueName{facts.Queue.No, in.Unique.Key}]
	if err != nil {
		if errors.Is(err, schedule.ErrExists) && (h == nil || !l.mayHold(h) || !l.refuses(in, h)) {
			l.violation("request %s was refused for its key, which no run holds: %v", e.RequestID, err)
		}
		if errors.Is(err, schedule.ErrExists) {
			l.coverage.situations[keyRefused].Add(1)
		}
		return
	}
	e.answer, e.marks = out.Keys, out.Marks
	if h == nil || !l.holds(h, out.Now) {
		if out.Marks != "" || len(out.Runs) != 1 || len(out.Replaced) != 0 || out.Keys[0] != out.Runs[0].Key {
			l.violation("no run holds the key of request %s, and it is answered with %q %v", e.RequestID, out.Marks, out.Keys)
		}
		if h != nil {
			l.coverage.situations[keyTakenAgain].Add(1)
		}
		return
	}
	want := schedule.Marks("d")
	if in.Unique.OnDuplicate == schedule.DuplicateReplace && l.unstarted(h) {
		want, e.replaces = "r", h.run
	}
	if out.Marks != want || !slices.Equal(out.Keys, []schedule.Key{h.run}) || len(out.Runs) != 0 || l.refuses(in, h) {
		l.violation("run %.12s holds the key of request %s, which is answered with %q %v, not with %q", h.run, e.RequestID, out.Marks, out.Keys, want)
	}
	e.start = l.startOf(e, h, out.Now)
	if l.jobs[h.run].row.RetryOf != (schedule.Key{}) {
		l.coverage.situations[keyOfRetry].Add(1)
	}
	if want == "r" {
		l.coverage.situations[keyReplaced].Add(1)
	} else {
		l.coverage.situations[keyReturned].Add(1)
	}
}

// holds reports whether a run holds its key at an instant of the registrar's clock.
func (l *ledgerWatch) holds(h *keyHolder, now time.Time) bool {
	switch h.scope {
	case schedule.UniqueWaiting:
		return l.unstarted(h)
	case schedule.UniquePeriod:
		return h.until.After(now) && l.jobs[h.run].row.Status != schedule.StatusCancelled
	}
	return placeOf(&l.jobs[h.run].row) != placeEnded
}

// mayHold is holds where the instant is not known.
func (l *ledgerWatch) mayHold(h *keyHolder) bool {
	return l.holds(h, l.began.Add(l.elapsed()-l.profile.maxSkew-time.Second))
}

// unstarted reports whether neither the run nor one that it retries was admitted.
func (l *ledgerWatch) unstarted(h *keyHolder) bool {
	j := l.jobs[h.run]
	return placeOf(&j.row) != placeEnded && j.admissions == 0 && j.row.RetryOf == (schedule.Key{}) && j.row.CancelRequestedAt.IsZero()
}

// refuses reports whether a request is refused while a run holds its key.
func (l *ledgerWatch) refuses(in *registrar.QueuedInput, h *keyHolder) bool {
	u := in.Unique
	return u.OnDuplicate == schedule.DuplicateRefuse || u.OnDuplicate == schedule.DuplicateReplace && l.unstarted(h) && l.jobs[h.run].row.ScheduleID != in.ScheduleID
}

// startOf is when a replaced run starts.
func (l *ledgerWatch) startOf(e *entry, h *keyHolder, now time.Time) time.Time {
	d := e.Runs[0].Unique.Debounce
	if d == nil {
		return now.Truncate(time.Millisecond).Add(e.delays[0])
	}
	at, latest := now.Add(time.Duration(d.QuietMS)*time.Millisecond), h.firstAt.Add(time.Duration(d.MaxMS)*time.Millisecond)
	if latest.Before(at) {
		at = latest
	}
	if at.Before(now) {
		at = now
	}
	return at.Truncate(time.Millisecond)
}

// tookKey: a new run of a request holds its key.
func (l *ledgerWatch) tookKey(r *schedule.Run, u *schedule.Unique) {
	if u == nil {
		return
	}
	h := &keyHolder{run: r.Key, scope: u.Scope, firstAt: r.CreatedAt}
	if h.scope == "" {
		h.scope = schedule.UniqueOpen
	}
	if h.scope == schedule.UniquePeriod {
		h.until = h.firstAt.Add(time.Duration(u.PeriodMS) * time.Millisecond)
	}
	l.keys[uniqueName{r.Queue.No, u.Key}] = h
}

// handedOver: the retry of a run holds its key.
func (l *ledgerWatch) handedOver(r *schedule.Run) {
	for _, h := range l.keys {
		if h.run == r.RetryOf && h.scope != schedule.UniqueWaiting {
			h.run = r.Key
		}
	}
}

// replacedJob reports whether a change of a waiting run is what the pending request asks for.
func (l *ledgerWatch) replacedJob(j *job, before *schedule.Run) bool {
	e, r := l.entering, &j.row
	if e == nil || e.replaces != r.Key {
		return false
	}
	in := &e.Runs[0]
	if j.admissions > 0 || !bytes.Equal(r.Input, in.Input) || r.Priority != *in.Priority || r.Queue.Limits != before.Queue.Limits || !r.FireAt.Equal(e.start) {
		l.violation("request %s made of run %.12s: %+v, and it was to start at %s", e.RequestID, r.Key, r, e.start)
	}
	e.done, e.replaces = true, schedule.Key{}
	return true
}

// answeredUnique compares an answer with the verdict.
func (l *ledgerWatch) answeredUnique(e *entry, out *registrar.Enqueued) {
	if !slices.Equal(out.Keys, e.answer) || out.Marks != e.marks {
		l.violation("request %s was judged %q %v, and is answered with %q %v", e.RequestID, e.marks, e.answer, out.Marks, out.Keys)
	}
	if e.marks == "r" && !e.done {
		l.violation("request %s is answered with run %v, which it has not replaced", e.RequestID, e.answer)
	}
	if e.marks == "" != slices.Equal(e.answer, e.rows) {
		l.violation("request %s is answered with %q %v, and has made %v", e.RequestID, e.marks, e.answer, e.rows)
	}
}
