package ledger

import (
	"cmp"
	"time"

	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

// BeginFacts is what the tables say about one key before the executor is called.
type BeginFacts struct {
	Known   *schedule.ExecutionRequest // the record of the key; nil: none
	Run     *BeginRun                  // nil: the ledger has no such run
	Deleted bool                       // the schedule of the request
	Pause   schedule.Pause             // of the schedule of the request
	Grant   *schedule.Grant            // that the request names; nil: it does not exist
	Holder  *Holder                    // of Known while its lease runs; nil: the database knows no such instance
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

// BeginRun holds the columns of a run that Begin reads.
type BeginRun struct {
	Status          schedule.Status
	Reason          schedule.Reason
	Trigger         schedule.Trigger
	CancelRequested bool
	CancelReason    schedule.Reason
}

// BeginRunOf copies these columns from a run.
func BeginRunOf(r *schedule.Run) *BeginRun {
	return &BeginRun{
		Status: r.Status, Reason: r.Reason, Trigger: r.Trigger,
		CancelRequested: !r.CancelRequestedAt.IsZero(), CancelReason: r.CancelReason,
	}
}

// Begin decides whether the executor may be called for a key. For Granted,
// GrantedAgain and Refused, Request is the record to write. The first match decides:
//
//   - the key was used for another request: Conflict;
//   - its outcome is recorded: Recorded;
//   - another call holds a lease that is not over, and its holder is not proven to
//     be gone: Busy;
//   - the checks pass: Granted, or GrantedAgain where the key has a record;
//   - a check fails, that is final, and nothing was sent: Refused, and the key is DONE;
//   - any other failed check: Withheld.
func Begin(req *schedule.BeginRequest, f *BeginFacts, now time.Time) schedule.BeginResult {
	sent := f.Known != nil && f.Known.Sent
	if k := f.Known; k != nil {
		closedUnsent := k.RequestHash == [32]byte{} // closed before any request was made
		switch {
		case !closedUnsent && k.RequestHash != req.RequestHash:
			return schedule.BeginResult{Permission: schedule.Conflict, Sent: sent, Request: *k}
		case k.Done:
			return schedule.BeginResult{Permission: schedule.Recorded, Sent: sent, Request: *k}
		case f.held(now):
			return schedule.BeginResult{Permission: schedule.Busy, Sent: sent, Request: *k}
		}
	}
	refusal, final := f.check(req, now)
	switch {
	case refusal == nil:
		return f.granted(req, now)
	case final && !sent:
		return schedule.BeginResult{Permission: schedule.Refused, Reason: refusal.Reason, Request: schedule.ExecutionRequest{
			Key: req.Key, RequestHash: req.RequestHash, Done: true, Outcome: *refusal, CreatedAt: f.createdAt(now),
		}}
	}
	return schedule.BeginResult{Permission: schedule.Withheld, Sent: sent, Reason: refusal.Reason}
}

// held reports whether only the holder of the known key may call the executor.
func (f *BeginFacts) held(now time.Time) bool {
	return now.Before(f.Known.LeaseUntil) && !f.holderGone()
}

func (f *BeginFacts) holderGone() bool {
	return f.Known.Holder != 0 && f.Holder.Gone() && f.Holder.No == f.Known.Holder
}

// takenOver returns why a known key is free although another process held it. A key
// that its holder has released is not taken over.
func (f *BeginFacts) takenOver(req *schedule.BeginRequest, now time.Time) schedule.TakeoverProof {
	switch k := f.Known; {
	case k.LeaseUntil.IsZero() || k.Holder != 0 && k.Holder == req.Holder:
		return schedule.NotTakenOver
	case now.Before(k.LeaseUntil):
		return schedule.ProofOfPresence
	}
	return schedule.ProofOfLease
}

// granted returns the record of a call that may begin. It counts as sent at once:
// if the sender dies, nobody knows whether its request reached the executor.
func (f *BeginFacts) granted(req *schedule.BeginRequest, now time.Time) schedule.BeginResult {
	result := schedule.BeginResult{Permission: schedule.Granted, Request: schedule.ExecutionRequest{
		Key: req.Key, RequestHash: req.RequestHash, Sent: true, Calls: 1,
		LeaseUntil: stored(now.Add(req.Lease)), Holder: req.Holder, CreatedAt: f.createdAt(now),
	}}
	if f.Known != nil {
		result.TakenOver = f.takenOver(req, now)
		result.Permission, result.Sent = schedule.GrantedAgain, f.Known.Sent
		result.Request.Calls += f.Known.Calls
	}
	return result
}

func (f *BeginFacts) createdAt(now time.Time) time.Time {
	if f.Known != nil && !f.Known.CreatedAt.IsZero() {
		return f.Known.CreatedAt
	}
	return stored(now)
}

// check checks run, cancel, deletion, pause and grant, in this order. nil: the call
// is allowed. Before fire_at only a cancel is final: a pause, a deletion or a grant
// may still change.
func (f *BeginFacts) check(req *schedule.BeginRequest, now time.Time) (refusal *schedule.Outcome, final bool) {
	trigger := req.Trigger
	if r := f.Run; r != nil {
		trigger = r.Trigger
		switch {
		case r.Status != schedule.StatusLaunching:
			return &schedule.Outcome{Status: r.Status, Reason: r.Reason}, false
		case r.CancelRequested:
			return &schedule.Outcome{Status: schedule.StatusCancelled, Reason: cancelled(r.CancelReason)}, true
		}
	}
	due := !now.Before(req.FireAt)
	switch {
	case f.Deleted:
		return &schedule.Outcome{Status: schedule.StatusCancelled, Reason: schedule.ReasonDeleted}, due
	case trigger.FromSpec() && f.Pause.Active(now):
		return &schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonPaused}, due
	}
	reason, why := grant.Judge(f.Grant, req.Grant, schedule.GrantJudgedAt(now, req.FireAt))
	if reason != schedule.ReasonNone {
		return &schedule.Outcome{Status: schedule.StatusSkipped, Reason: reason, ErrorMessage: why}, due
	}
	return nil, false
}

// CloseKey closes a key for which no call has begun: every later send of it is
// answered with the cancel. closed = false: a call has begun, or the key is DONE, and
// the record stays as it is.
func CloseKey(key schedule.Key, known *schedule.ExecutionRequest, reason schedule.Reason, now time.Time) (record schedule.ExecutionRequest, closed bool) {
	record = schedule.ExecutionRequest{Key: key, CreatedAt: stored(now)}
	if known != nil {
		if known.Done || known.Sent || now.Before(known.LeaseUntil) {
			return *known, false
		}
		record.RequestHash, record.CreatedAt = known.RequestHash, known.CreatedAt
	}
	record.Done = true
	record.Outcome = schedule.Outcome{Status: schedule.StatusCancelled, Reason: reason}
	return record, true
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
