package ledger_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

var beginNow = time.Date(2026, 3, 2, 12, 0, 0, 1500, time.UTC)

const (
	beginLease  = 3 * time.Second
	beginHolder = 9
)

// beginCase is a request for a slot that is due, whose run is LAUNCHING and was never
// sent, and whose schedule is neither deleted nor paused: edit changes that. want is
// "permission status reason".
type beginCase struct {
	name string
	edit func(req *schedule.BeginRequest, f *ledger.BeginFacts)
	want string
}

type beginEdit = func(*schedule.BeginRequest, *ledger.BeginFacts)

func sent(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Run.Deliveries = 2 }
func open(_ *schedule.BeginRequest, f *ledger.BeginFacts) {
	f.Lease.Until = beginNow.Add(time.Microsecond)
}

func lapsed(_ *schedule.BeginRequest, f *ledger.BeginFacts) {
	f.Lease.Until = beginNow.Truncate(time.Microsecond)
}

func heldBy(no int32) beginEdit {
	return func(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Lease.Holder = no }
}

// known is a key that the ledger does not know, with a record of the same request.
func known(edits ...func(*schedule.ExecutionRequest)) beginEdit {
	return func(req *schedule.BeginRequest, f *ledger.BeginFacts) {
		f.Run, f.Known = nil, &schedule.ExecutionRequest{Key: req.Key, RequestHash: req.RequestHash}
		for _, edit := range edits {
			edit(f.Known)
		}
	}
}

func recordSent(r *schedule.ExecutionRequest)         { r.Calls = 2 }
func recordDone(r *schedule.ExecutionRequest)         { r.Done = true }
func recordOpen(r *schedule.ExecutionRequest)         { r.Lease.Until = beginNow.Add(time.Microsecond) }
func recordForeign(r *schedule.ExecutionRequest)      { r.RequestHash = [32]byte{9} }
func recordClosedUnsent(r *schedule.ExecutionRequest) { r.RequestHash = [32]byte{} }

func paused(_ *schedule.BeginRequest, f *ledger.BeginFacts)  { f.Pause = schedule.Pause{Paused: true} }
func deleted(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Deleted = true }
func ahead(req *schedule.BeginRequest, _ *ledger.BeginFacts) {
	req.FireAt = beginNow.Add(time.Microsecond)
}
func stranger(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Run = nil }
func ungranted(req *schedule.BeginRequest, _ *ledger.BeginFacts) {
	req.Grant.Required = true
}

// automatic makes the run an automatic retry.
func automatic(req *schedule.BeginRequest, f *ledger.BeginFacts) {
	f.Run.RetryOf = schedule.ManualKey("s", "failed")
	f.Run.Key = schedule.RetryKey(f.Run.RetryOf, "/auto")
	req.Key = f.Run.Key
	req.Trigger, f.Run.Trigger = schedule.TriggerRetry, schedule.TriggerRetry
}

// startBy sets the end of its catch-up window.
func startBy(after time.Duration) beginEdit {
	return func(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Run.StartBy = beginNow.Add(after) }
}

// uses has the run need grant "g".
func uses(req *schedule.BeginRequest, f *ledger.BeginFacts) {
	req.Grant.GrantID, f.Definition.ExecutionGrantID = "g", "g"
}

func cancelling(reason schedule.Reason) func(*schedule.BeginRequest, *ledger.BeginFacts) {
	return func(_ *schedule.BeginRequest, f *ledger.BeginFacts) {
		f.Run.CancelRequestedAt, f.Run.CancelReason = beginNow, reason
	}
}

func became(status schedule.Status, reason schedule.Reason) func(*schedule.BeginRequest, *ledger.BeginFacts) {
	return func(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Run.Status, f.Run.Reason = status, reason }
}

func triggered(by schedule.Trigger) beginEdit {
	return func(req *schedule.BeginRequest, f *ledger.BeginFacts) {
		req.Trigger = by
		if f.Run != nil {
			f.Run.Trigger = by
		}
	}
}

func both(edits ...func(*schedule.BeginRequest, *ledger.BeginFacts)) func(*schedule.BeginRequest, *ledger.BeginFacts) {
	return func(req *schedule.BeginRequest, f *ledger.BeginFacts) {
		for _, edit := range edits {
			edit(req, f)
		}
	}
}

var beginsByKey = []beginCase{
	{"a new key is granted", both(), "granted"},
	{"a key is busy while its lease runs", both(sent, open), "busy"},
	{"a key is free at the instant when its lease ends", both(sent, lapsed), "granted again by lease"},
	{"an open call is busy before any check", both(sent, open, paused), "busy"},
	{"a run that was accepted answers that", both(became("ENQUEUED", ""), sent), "recorded ENQUEUED"},
	{"a run that has started too", both(became("STARTED", ""), sent), "recorded ENQUEUED"},
	{"a run that has ended answers its end", both(became("FAILED", "lost"), sent), "recorded FAILED"},
	{"an outcome is answered before any check", both(became("SKIPPED", "overlap"), paused, cancelling("cancelled")), "recorded SKIPPED"},

	{"a key that the ledger does not know is granted", stranger, "granted"},
	{"a record of another request is a conflict", known(recordForeign), "conflict"},
	{"a record of another request is a conflict, done or not", known(recordForeign, recordDone, recordSent), "conflict"},
	{"a record that is done answers its outcome", known(recordDone, recordSent), "recorded "},
	{"a record that was closed before any request answers any request", known(recordDone, recordClosedUnsent), "recorded "},
	{"a record is busy while its lease runs", known(recordSent, recordOpen), "busy"},
	{"a record whose call was never sent is free", known(), "granted"},
}

var beginsByRequest = []beginCase{
	{"a request for another schedule is a conflict", func(req *schedule.BeginRequest, _ *ledger.BeginFacts) { req.ScheduleID = "other" }, "conflict"},
	{"a request for another instant is a conflict", func(req *schedule.BeginRequest, _ *ledger.BeginFacts) { req.ScheduledFor = beginNow.Add(time.Second) }, "conflict"},
	{"a request for another trigger is a conflict", func(req *schedule.BeginRequest, _ *ledger.BeginFacts) { req.Trigger = schedule.TriggerManual }, "conflict"},
	{"a request for another version is a conflict", func(req *schedule.BeginRequest, _ *ledger.BeginFacts) { req.Version = 2 }, "conflict"},
	{"a request for another workflow is a conflict", func(req *schedule.BeginRequest, _ *ledger.BeginFacts) { req.Grant.WorkflowID = "other" }, "conflict"},
	{"a request of another owner is a conflict", func(req *schedule.BeginRequest, _ *ledger.BeginFacts) { req.Grant.UserID = "other" }, "conflict"},
	{"a request with another grant is a conflict", func(req *schedule.BeginRequest, _ *ledger.BeginFacts) { req.Grant.GrantID = "other" }, "conflict"},
	{"a request with another input is a conflict", func(req *schedule.BeginRequest, _ *ledger.BeginFacts) { req.Input = json.RawMessage(`1`) }, "conflict"},
	{"a conflict counts before an outcome", both(became("SUCCESS", ""), func(req *schedule.BeginRequest, _ *ledger.BeginFacts) { req.Version = 2 }), "conflict"},
	{"the same input in other words is none", inputs(`{"b": 1, "a": 2}`, `{"a":2,"b":1}`), "granted"},
	{"a run's own input counts before its revision's", both(inputs(`1`, `2`), func(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Run.Input = json.RawMessage(`2`) }), "granted"},
	{"without a definition only the row is compared", func(req *schedule.BeginRequest, f *ledger.BeginFacts) { f.Definition, req.Version = nil, 2 }, "granted"},
}

// inputs gives the run's revision an input, and the request one.
func inputs(revision, request string) beginEdit {
	return func(req *schedule.BeginRequest, f *ledger.BeginFacts) {
		f.Definition.Input, req.Input = json.RawMessage(revision), json.RawMessage(request)
	}
}

// held gives the key a lease that runs, of instance 7, and says what the database shows
// about that instance.
func held(h ledger.Holder) beginEdit {
	return both(sent, open, heldBy(7), func(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Holder = &h })
}

var gone = ledger.Holder{No: 7, Generation: "a", ServerGeneration: "a", LockFree: true}

var beginsByPresence = []beginCase{
	{"a key whose holder is gone is free before its lease ends", held(gone), "granted again by presence"},
	{"a key whose holder lives is busy", held(ledger.Holder{No: 7, Generation: "a", ServerGeneration: "a"}), "busy"},
	{"a free lock after a restart of the server is no proof", held(ledger.Holder{No: 7, Generation: "a", ServerGeneration: "b", LockFree: true}), "busy"},
	{"a free lock is no proof before the holder has had it", held(ledger.Holder{No: 7, ServerGeneration: "", LockFree: true}), "busy"},
	{"another instance that is gone is no proof", held(ledger.Holder{No: 8, Generation: "a", ServerGeneration: "a", LockFree: true}), "busy"},
	{"a holder that the database does not know is no proof", both(held(ledger.Holder{}), func(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Holder = nil }), "busy"},
	{"a key without a holder is protected by its lease", both(held(ledger.Holder{Generation: "a", ServerGeneration: "a", LockFree: true}), heldBy(0)), "busy"},
	{"a key of another holder is taken over when its lease ends", both(sent, lapsed, heldBy(7)), "granted again by lease"},
	{"an own key whose lease has ended is not taken over", both(sent, lapsed, heldBy(beginHolder)), "granted again"},
	{"a key that was released is not taken over", both(sent, heldBy(7)), "granted again"},
	{"an outcome is answered although the holder is gone", both(held(gone), became("SUCCESS", "")), "recorded SUCCESS"},
	{"checks apply to a key whose holder is gone", both(held(gone), paused), "withheld paused"},
}

var beginsByCheck = []beginCase{
	{"a planned run is withheld", became("PLANNED", ""), "withheld"},

	{"a run whose cancel is requested is refused", cancelling("replaced"), "refused CANCELLED replaced"},
	{"a cancel without a reason is `cancelled`", cancelling(""), "refused CANCELLED cancelled"},
	{"a cancel is final before fire_at", both(cancelling("cancelled"), ahead), "refused CANCELLED cancelled"},
	{"a cancel counts before a deletion and a pause", both(cancelling("replaced"), deleted, paused), "refused CANCELLED replaced"},
	{"after a call a cancel withholds: the call may have arrived", both(cancelling("cancelled"), sent), "withheld cancelled"},

	{"a run of a deleted schedule is refused", deleted, "refused CANCELLED deleted"},
	{"a deletion is not final before fire_at", both(deleted, ahead), "withheld deleted"},
	{"a deletion counts before a pause", both(deleted, paused), "refused CANCELLED deleted"},
	{"a deletion applies to runs by hand", both(deleted, triggered("manual")), "refused CANCELLED deleted"},
	{"a deletion applies to keys that the ledger does not know", both(deleted, stranger), "refused CANCELLED deleted"},

	{"a slot of a paused schedule is refused", paused, "refused SKIPPED paused"},
	{"a pause is not final before fire_at", both(paused, ahead), "withheld paused"},
	{"a pause withholds an automatic retry, which waits", both(paused, automatic), "withheld paused"},
	{"a pause does not apply to a retry by hand", both(paused, triggered("retry")), "granted"},
	{"an automatic retry may be called until its catch-up window is over", both(automatic, startBy(0)), "granted"},
	{"an automatic retry is refused when its catch-up window is over", both(automatic, startBy(-time.Microsecond)), "refused SKIPPED missed"},
	{"also during a pause", both(automatic, paused, startBy(-time.Microsecond)), "refused SKIPPED missed"},
	{"a call that may have reached the executor keeps it", both(automatic, sent, startBy(-time.Microsecond)), "withheld missed"},
	{"a deletion counts before the catch-up window", both(automatic, deleted, startBy(-time.Microsecond)), "refused CANCELLED deleted"},
	{"a pause applies to catch-up runs", both(paused, triggered("catchup")), "refused SKIPPED paused"},
	{"a pause does not apply to runs by hand", both(paused, triggered("manual")), "granted"},
	{"without a run a pause depends on the request's trigger", both(paused, stranger, triggered("schedule")), "refused SKIPPED paused"},
	{"a pause has ended at its until", func(_ *schedule.BeginRequest, f *ledger.BeginFacts) {
		f.Pause = schedule.Pause{Paused: true, Until: beginNow}
	}, "granted"},
	{"a pause counts before a grant", both(paused, ungranted), "refused SKIPPED paused"},
	{"after a call a pause withholds", both(paused, sent), "withheld paused"},

	{"without a grant where one is required a call is refused", ungranted, "refused SKIPPED grant_denied"},
	{"a grant is not final before fire_at", both(ungranted, ahead), "withheld grant_denied"},
	{"a grant that was revoked refuses", func(req *schedule.BeginRequest, f *ledger.BeginFacts) {
		uses(req, f)
		f.Grant = &schedule.Grant{GrantID: "g", UserID: "u", Scopes: []string{"graph:execute:w"}, RevokedAt: beginNow}
	}, "refused SKIPPED grant_revoked"},
	{"a grant that ends at fire_at does not allow the call", func(req *schedule.BeginRequest, f *ledger.BeginFacts) {
		ahead(req, f)
		uses(req, f)
		f.Grant = &schedule.Grant{GrantID: "g", UserID: "u", Scopes: []string{"graph:execute:w"}, ExpiresAt: req.FireAt}
	}, "withheld grant_expired"},
	{"a grant that does not exist refuses", func(req *schedule.BeginRequest, f *ledger.BeginFacts) {
		uses(req, f)
	}, "refused SKIPPED grant_denied"},
}

func TestMayThisKeyBeCalled(t *testing.T) {
	for _, c := range slices.Concat(beginsByKey, beginsByRequest, beginsByPresence, beginsByCheck) {
		t.Run(c.name, func(t *testing.T) {
			req := schedule.BeginRequest{
				Key: schedule.Key{1}, RequestHash: [32]byte{2}, ScheduleID: "s", ScheduledFor: beginNow, Trigger: schedule.TriggerSchedule, Version: 1,
				FireAt: beginNow, Lease: beginLease, Holder: beginHolder, Grant: schedule.GrantUse{UserID: "u", WorkflowID: "w"},
			}
			f := ledger.BeginFacts{
				Run:        &schedule.Run{Key: req.Key, ScheduleID: "s", RunAt: beginNow, Status: schedule.StatusLaunching, Trigger: schedule.TriggerSchedule},
				Definition: &schedule.Definition{ScheduleID: "s", UserID: "u", WorkflowID: "w", Version: 1},
			}
			c.edit(&req, &f)
			calls := int32(0)
			if f.Run != nil {
				calls = f.Run.Deliveries
			} else if f.Known != nil {
				calls = f.Known.Calls
			}
			got := ledger.Begin(&req, &f, beginNow)
			if text := begunText(&got); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
			if got.Sent != (calls > 0) {
				t.Errorf("a call was sent before: %t, want %t", got.Sent, calls > 0)
			}
			isKey(t, &req, &got, calls)
			again(t, &req, &f, &got)
		})
	}
}

// again begins the same key in the same transaction.
func again(t *testing.T, req *schedule.BeginRequest, f *ledger.BeginFacts, first *schedule.BeginResult) {
	t.Helper()
	f.Enter(first)
	second := ledger.Begin(req, f, beginNow)
	want := first.Permission
	switch want {
	case schedule.Granted, schedule.GrantedAgain:
		want = schedule.Busy
	case schedule.Refused:
		want = schedule.Recorded
		if second.Request.Outcome != first.Request.Outcome {
			t.Errorf("a second request is answered %+v, want %+v", second.Request.Outcome, first.Request.Outcome)
		}
	}
	if second.Permission != want {
		t.Errorf("a second request is answered %d, want %d", second.Permission, want)
	}
}

// begunText is a result as beginCase writes it.
func begunText(b *schedule.BeginResult) string {
	word := map[schedule.Permission]string{
		schedule.Granted: "granted", schedule.GrantedAgain: "granted again", schedule.Recorded: "recorded", schedule.Busy: "busy",
		schedule.Conflict: "conflict", schedule.Refused: "refused", schedule.Withheld: "withheld",
	}[b.Permission]
	if b.Permission == schedule.Refused || b.Permission == schedule.Recorded {
		word += fmt.Sprintf(" %s", b.Request.Outcome.Status)
	}
	if b.TakenOver != schedule.NotTakenOver {
		word += " by " + string(b.TakenOver)
	}
	if b.Reason != schedule.ReasonNone {
		word += " " + string(b.Reason)
	}
	return word
}

// isKey checks the key that a result comes with.
func isKey(t *testing.T, req *schedule.BeginRequest, b *schedule.BeginResult, calls int32) {
	t.Helper()
	got := b.Request
	switch b.Permission {
	case schedule.Granted, schedule.GrantedAgain:
		lease := schedule.KeyLease{Holder: beginHolder, Until: beginNow.Add(beginLease).Truncate(time.Microsecond)}
		want := schedule.ExecutionRequest{Key: req.Key, RequestHash: req.RequestHash, Calls: calls + 1, Lease: lease}
		if got != want {
			t.Errorf("the key is %+v, want %+v", got, want)
		}
	case schedule.Refused:
		if !got.Done || got.Outcome.Reason != b.Reason || got.Calls != 0 || got.Lease != (schedule.KeyLease{}) {
			t.Errorf("a key that is refused is done, free and has the reason %q, got %+v", b.Reason, got)
		}
	case schedule.Withheld:
		if got != (schedule.ExecutionRequest{}) {
			t.Errorf("a withheld key is not shown, got %+v", got)
		}
	default:
		if got.Key != req.Key || got.Calls != calls {
			t.Errorf("the key is shown with its %d calls, got %+v", calls, got)
		}
	}
}

func TestMayThisKeyBeClosed(t *testing.T) {
	for _, c := range []struct {
		name   string
		known  schedule.ExecutionRequest
		closed bool
	}{
		{"a key whose call was never sent", schedule.ExecutionRequest{RequestHash: [32]byte{2}}, true},
		{"a key whose call was sent", schedule.ExecutionRequest{Calls: 1}, false},
		{"a key whose lease runs", schedule.ExecutionRequest{Lease: callOpen}, false},
		{"a key whose lease has ended", schedule.ExecutionRequest{Lease: callOver}, true},
		{"a key whose outcome is known", schedule.ExecutionRequest{Done: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, closed := ledger.CloseKey(c.known, schedule.ReasonReplaced, beginNow)
			want := c.known
			if c.closed {
				want.Done, want.Lease = true, free
				want.Outcome = schedule.Outcome{Status: schedule.StatusCancelled, Reason: schedule.ReasonReplaced}
			}
			if closed != c.closed || got != want {
				t.Errorf("closed: %t, want %t; the key is %+v, want %+v", closed, c.closed, got, want)
			}
		})
	}
}
