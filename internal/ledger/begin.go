package ledger

import (
	"cmp"
	"time"

	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

// BeginFacts is what the tables say about one key before the executor is called.
type BeginFacts struct {
	Run        *schedule.Run              // nil: the ledger has no such run
	Lease      schedule.KeyLease          // in the row of Run
	Definition *schedule.Definition       // of Run; nil: it cannot be read
	Known      *schedule.ExecutionRequest // the record of a key without a run; nil: none
	Deleted    bool                       // the schedule of the run, else of the request
	Pause      schedule.Pause             // of the same
	State      schedule.State             // of the same, if the ledger has the run
	Queue      *schedule.Queue            // of the run; nil: it is in none
	Grant      *schedule.Grant            // that the request names; nil: it does not exist
	Holder     *Holder                    // of a lease that runs; nil: the database knows no such instance
}

// Holder is what the database shows about the instance that holds a key.
type Holder struct {
	No               int32
	Generation       string // of the server on which the instance took its presence lock; "": it has not
	ServerGeneration string // of the server now
	LockFree         bool   // the presence lock could be taken just now
}

// Gone reports whether the instance is proven to be gone. A free lock proves nothing
// on another generation of the server: a restart frees the locks of the living too.
func (h *Holder) Gone() bool {
	return h != nil && h.LockFree && h.Generation != "" && h.Generation == h.ServerGeneration
}

// KeyOf returns the key of a run by its row.
func KeyOf(r *schedule.Run, lease schedule.KeyLease) schedule.ExecutionRequest {
	key := schedule.ExecutionRequest{Key: r.Key, Calls: r.Deliveries}
	switch {
	case r.Stage() == schedule.StatusLaunching:
		key.Lease = lease
	case r.Status.Terminal() || r.Stage().InFlight():
		key.Done, key.Outcome = true, OutcomeOf(r)
	}
	return key
}

// OutcomeOf returns the outcome of a run that was accepted or has ended.
func OutcomeOf(r *schedule.Run) schedule.Outcome {
	o := schedule.Outcome{Status: schedule.StatusEnqueued, RunID: r.RunID, TraceID: r.TraceID}
	if r.Status.Terminal() {
		o.Status, o.Reason, o.ErrorCode, o.ErrorMessage = r.Status, r.Reason, r.ErrorCode, r.ErrorMessage
	}
	return o
}

// Begin decides whether the executor may be called for a key. Request is the key after
// it. The first match decides:
//
//   - the request is another one than the key's: Conflict;
//   - its outcome is known: Recorded;
//   - another call holds a lease that is not over, and its holder is not proven to
//     be gone: Busy;
//   - the checks pass: Granted, or GrantedAgain after an earlier call;
//   - a check fails, that is final, and nothing was sent: Refused, and the run ends;
//   - any other failed check: Withheld.
func Begin(req *schedule.BeginRequest, f *BeginFacts, now time.Time) schedule.BeginResult {
	known := f.key(req)
	sent := known.Calls > 0
	switch {
	case f.conflicts(req):
		return schedule.BeginResult{Permission: schedule.Conflict, Sent: sent, Request: known}
	case known.Done:
		return schedule.BeginResult{Permission: schedule.Recorded, Sent: sent, Request: known}
	case f.held(known.Lease, now):
		return schedule.BeginResult{Permission: schedule.Busy, Sent: sent, Request: known}
	}
	refusal, final := f.check(req, now)
	switch {
	case refusal == nil:
		result := granted(req, known, now)
		result.State = f.State
		return result
	case final && !sent:
		known.RequestHash, known.Lease = req.RequestHash, schedule.KeyLease{}
		known.Done, known.Outcome = true, *refusal
		return schedule.BeginResult{Permission: schedule.Refused, Reason: refusal.Reason, Request: known, Settled: f.Run != nil}
	}
	return schedule.BeginResult{Permission: schedule.Withheld, Sent: sent, Reason: refusal.Reason}
}

// Enter changes the facts as a result does, for a second request with the same key.
func (f *BeginFacts) Enter(result *schedule.BeginResult) {
	switch result.Permission {
	case schedule.Granted, schedule.GrantedAgain, schedule.Refused:
	default:
		return
	}
	key := result.Request
	if f.Run == nil {
		f.Known = &key
		return
	}
	f.Lease, f.Run.Deliveries, f.Holder = key.Lease, key.Calls, nil
	if o := &key.Outcome; key.Done {
		f.Run.Enter(o.Status)
		f.Run.Reason, f.Run.ErrorMessage = o.Reason, o.ErrorMessage
	}
}

// key returns the key as the tables have it.
func (f *BeginFacts) key(req *schedule.BeginRequest) schedule.ExecutionRequest {
	switch {
	case f.Run != nil:
		return KeyOf(f.Run, f.Lease)
	case f.Known != nil:
		return *f.Known
	case req.Queued: // history has no row only of a success; see CountedOnly
		return schedule.ExecutionRequest{Key: req.Key, RequestHash: req.RequestHash, Done: true, Outcome: schedule.Outcome{Status: schedule.StatusSuccess}}
	}
	return schedule.ExecutionRequest{Key: req.Key, RequestHash: req.RequestHash}
}

// conflicts reports whether the request is for another run than the key's.
func (f *BeginFacts) conflicts(req *schedule.BeginRequest) bool {
	r, d := f.Run, f.Definition
	switch {
	case r == nil:
		return f.Known != nil && f.Known.RequestHash != req.RequestHash && f.Known.RequestHash != [32]byte{}
	case r.ScheduleID != req.ScheduleID, !r.RunAt.Equal(req.ScheduledFor), r.Trigger != req.Trigger:
		return true
	case d == nil: // the checks that follow decide
		return false
	}
	input := d.Input
	if r.Input != nil {
		input = r.Input
	}
	return d.Version != req.Version || d.WorkflowID != req.Grant.WorkflowID || d.UserID != req.Grant.UserID ||
		d.ExecutionGrantID != req.Grant.GrantID || !schedule.SameJSON(input, req.Input)
}

// held reports whether only the holder of the lease may call the executor.
func (f *BeginFacts) held(lease schedule.KeyLease, now time.Time) bool {
	gone := lease.Holder != 0 && f.Holder.Gone() && f.Holder.No == lease.Holder
	return now.Before(lease.Until) && !gone
}

// takenOver returns why a key is free although another process held it. A key that its
// holder has released is not taken over.
func takenOver(lease schedule.KeyLease, by int32, now time.Time) schedule.TakeoverProof {
	switch {
	case lease.Until.IsZero() || lease.Holder != 0 && lease.Holder == by:
		return schedule.NotTakenOver
	case now.Before(lease.Until):
		return schedule.ProofOfPresence
	}
	return schedule.ProofOfLease
}

// granted returns the key of a call that may begin. It counts as sent at once: if the
// sender dies, nobody knows whether its request reached the executor.
func granted(req *schedule.BeginRequest, known schedule.ExecutionRequest, now time.Time) schedule.BeginResult {
	result := schedule.BeginResult{
		Permission: schedule.Granted, Sent: known.Calls > 0, TakenOver: takenOver(known.Lease, req.Holder, now), Request: known,
	}
	if result.Sent {
		result.Permission = schedule.GrantedAgain
	}
	result.Request.RequestHash = req.RequestHash
	result.Request.Calls++
	result.Request.Lease = CallLease(req, now)
	return result
}

// CallLease returns the lease of a call that begins now.
func CallLease(req *schedule.BeginRequest, now time.Time) schedule.KeyLease {
	return schedule.KeyLease{Holder: req.Holder, Until: stored(now.Add(req.Lease))}
}

// check checks run, cancel, deletion, the time of an automatic retry, pause and grant, in
// this order. nil: the call is allowed. Before fire_at only a cancel is final: a pause, a
// deletion or a grant may still change. A pause is never final for an automatic retry. A run
// of a dispatch queue depends on its queue, and no longer on its schedule; what was sent goes on.
func (f *BeginFacts) check(req *schedule.BeginRequest, now time.Time) (refusal *schedule.Outcome, final bool) {
	if r := f.Run; r != nil {
		switch {
		case r.Stage() != schedule.StatusLaunching:
			return &schedule.Outcome{Status: r.Status}, false
		case !r.CancelRequestedAt.IsZero():
			return &schedule.Outcome{Status: schedule.StatusCancelled, Reason: cancelled(r.CancelReason)}, true
		}
	}
	due := !now.Before(req.FireAt)
	switch {
	case f.Run != nil && f.Run.Queue.In():
		if f.Run.Deliveries == 0 && isPast(f.Run.StartBy, now) {
			end := expired(f.Run, now)
			return &schedule.Outcome{Status: end.To, Reason: end.Reason, ErrorMessage: end.ErrorMessage}, due
		}
		if f.Run.Deliveries == 0 && f.Queue != nil && f.Queue.Pause.Active(now) {
			return &schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonPaused}, false // it waits again
		}
	case f.Deleted:
		return &schedule.Outcome{Status: schedule.StatusCancelled, Reason: schedule.ReasonDeleted}, due
	case f.Run != nil && isPast(f.Run.StartBy, now):
		return &schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonMissed}, due
	case f.Run != nil && f.Run.IsAutomaticRetry() && f.Pause.Active(now):
		return &schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonPaused}, false // it waits
	case req.Trigger.ObeysPause() && f.Pause.Active(now):
		return &schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonPaused}, due
	}
	reason, why := grant.Denial(f.Grant, req.Grant, schedule.GrantCheckedAt(now, req.FireAt))
	if reason != schedule.ReasonNone {
		return &schedule.Outcome{Status: schedule.StatusSkipped, Reason: reason, ErrorMessage: why}, due
	}
	return nil, false
}

// CloseKey cancels a key for which no call has begun: its run ends, and every later send
// is answered with the cancel. closed = false: a call has begun, or the outcome is known.
func CloseKey(known schedule.ExecutionRequest, reason schedule.Reason, now time.Time) (after schedule.ExecutionRequest, closed bool) {
	if known.Done || known.Calls > 0 || now.Before(known.Lease.Until) {
		return known, false
	}
	known.Done, known.Lease = true, schedule.KeyLease{}
	known.Outcome = schedule.Outcome{Status: schedule.StatusCancelled, Reason: reason}
	return known, true
}

// FinishKey records the outcome of a key that the ledger does not know. The first one
// stays, except that the end of the run replaces an acceptance.
func FinishKey(known schedule.ExecutionRequest, f *schedule.FinishRequest) schedule.ExecutionRequest {
	if known.Done && (known.Outcome.Status != schedule.StatusEnqueued || !tellsEnd(&f.Outcome)) {
		return known
	}
	if f.Unsent && !known.Done {
		known.Calls--
	}
	known.Done, known.Lease.Until, known.Outcome = true, time.Time{}, f.Outcome
	return known
}

// EndOfKey ends the run of a key for which no call was made.
func EndOfKey(key *schedule.ExecutionRequest, now time.Time) schedule.Settlement {
	o := &key.Outcome
	return schedule.Settlement{Key: key.Key, To: o.Status, Reason: o.Reason, ErrorMessage: o.ErrorMessage, CompletedAt: now}
}

// cancelled returns the reason of a cancel: `cancelled` if the request gave none.
func cancelled(reason schedule.Reason) schedule.Reason {
	return cmp.Or(reason, schedule.ReasonCancelled)
}

// stored rounds an instant as the stores do: UTC, microseconds.
func stored(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
