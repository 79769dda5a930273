package ledger_test

import (
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

// beginCase is a request for a slot that is due, whose run is LAUNCHING, whose
// schedule is neither deleted nor paused, and whose key has no record: edit
// changes that. want is "permission status reason".
type beginCase struct {
	name string
	edit func(req *schedule.BeginRequest, f *ledger.BeginFacts)
	want string
}

// known gives the key a record of the same request.
func known(edits ...func(*schedule.ExecutionRequest)) func(*schedule.BeginRequest, *ledger.BeginFacts) {
	return func(req *schedule.BeginRequest, f *ledger.BeginFacts) {
		f.Known = &schedule.ExecutionRequest{Key: req.Key, RequestHash: req.RequestHash, CreatedAt: beginNow.Add(-time.Minute)}
		for _, edit := range edits {
			edit(f.Known)
		}
	}
}

func sent(r *schedule.ExecutionRequest)   { r.Sent, r.Calls = true, 2 }
func done(r *schedule.ExecutionRequest)   { r.Done = true }
func open(r *schedule.ExecutionRequest)   { r.LeaseUntil = beginNow.Add(time.Microsecond) }
func lapsed(r *schedule.ExecutionRequest) { r.LeaseUntil = beginNow.Truncate(time.Microsecond) }
func foreign(r *schedule.ExecutionRequest) {
	r.RequestHash = [32]byte{9}
}
func closedUnsent(r *schedule.ExecutionRequest) { r.RequestHash = [32]byte{} }

func paused(_ *schedule.BeginRequest, f *ledger.BeginFacts)  { f.Pause = schedule.Pause{Paused: true} }
func deleted(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Deleted = true }
func ahead(req *schedule.BeginRequest, _ *ledger.BeginFacts) {
	req.FireAt = beginNow.Add(time.Microsecond)
}
func stranger(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Run = nil }
func ungranted(req *schedule.BeginRequest, _ *ledger.BeginFacts) {
	req.Grant = schedule.GrantUse{Required: true}
}

func cancelling(reason schedule.Reason) func(*schedule.BeginRequest, *ledger.BeginFacts) {
	return func(_ *schedule.BeginRequest, f *ledger.BeginFacts) {
		f.Run.CancelRequested, f.Run.CancelReason = true, reason
	}
}

func became(status schedule.Status, reason schedule.Reason) func(*schedule.BeginRequest, *ledger.BeginFacts) {
	return func(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Run.Status, f.Run.Reason = status, reason }
}

func triggers(of, asked schedule.Trigger) func(*schedule.BeginRequest, *ledger.BeginFacts) {
	return func(req *schedule.BeginRequest, f *ledger.BeginFacts) {
		req.Trigger = asked
		if f.Run != nil {
			f.Run.Trigger = of
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
	{"a key that the ledger does not know is granted", stranger, "granted"},
	{"a key used for another request is a conflict", known(foreign), "conflict"},
	{"a key used for another request is a conflict, done or not", known(foreign, done, sent), "conflict"},
	{"a key that is done answers its record", known(done, sent), "recorded"},
	{"a key that was closed before any request answers any request", known(done, closedUnsent), "recorded"},
	{"a key is busy while its lease runs", known(sent, open), "busy"},
	{"a key is free at the instant when its lease ends", known(sent, lapsed), "granted again by lease"},
	{"a key whose call was never sent is free", known(), "granted again"},
	{"a record is answered before any check", both(known(done, sent), paused, cancelling("cancelled")), "recorded"},
	{"an open call is busy before any check", both(known(sent, open), paused), "busy"},
}

// held gives the key a record with a lease that runs, of instance 7, and says what
// the database shows about that instance.
func held(h ledger.Holder) func(*schedule.BeginRequest, *ledger.BeginFacts) {
	return func(req *schedule.BeginRequest, f *ledger.BeginFacts) {
		known(sent, open, func(r *schedule.ExecutionRequest) { r.Holder = 7 })(req, f)
		f.Holder = &h
	}
}

var beginsByPresence = []beginCase{
	{"a key whose holder is gone is free before its lease ends", held(ledger.Holder{No: 7, Generation: "a", ServerGeneration: "a", LockFree: true}), "granted again by presence"},
	{"a key whose holder lives is busy", held(ledger.Holder{No: 7, Generation: "a", ServerGeneration: "a"}), "busy"},
	{"a free lock after a restart of the server is no proof", held(ledger.Holder{No: 7, Generation: "a", ServerGeneration: "b", LockFree: true}), "busy"},
	{"a free lock is no proof before the holder has had it", held(ledger.Holder{No: 7, ServerGeneration: "", LockFree: true}), "busy"},
	{"another instance that is gone is no proof", held(ledger.Holder{No: 8, Generation: "a", ServerGeneration: "a", LockFree: true}), "busy"},
	{"a holder that the database does not know is no proof", both(held(ledger.Holder{}), func(_ *schedule.BeginRequest, f *ledger.BeginFacts) { f.Holder = nil }), "busy"},
	{"a key without a holder is protected by its lease", both(known(sent, open), func(_ *schedule.BeginRequest, f *ledger.BeginFacts) {
		f.Holder = &ledger.Holder{Generation: "a", ServerGeneration: "a", LockFree: true}
	}), "busy"},
	{"a key of another holder is taken over when its lease ends", known(sent, lapsed, func(r *schedule.ExecutionRequest) { r.Holder = 7 }), "granted again by lease"},
	{"an own key whose lease has ended is not taken over", known(sent, lapsed, func(r *schedule.ExecutionRequest) { r.Holder = beginHolder }), "granted again"},
	{"a key that was released is not taken over", known(sent, func(r *schedule.ExecutionRequest) { r.Holder = 7 }), "granted again"},
	{"a record is answered although its holder is gone", both(held(ledger.Holder{No: 7, Generation: "a", ServerGeneration: "a", LockFree: true}), func(_ *schedule.BeginRequest, f *ledger.BeginFacts) {
		f.Known.Done = true
	}), "recorded"},
	{"checks apply to a key whose holder is gone", both(held(ledger.Holder{No: 7, Generation: "a", ServerGeneration: "a", LockFree: true}), paused), "withheld paused"},
}

var beginsByCheck = []beginCase{
	{"a planned run is withheld", became("PLANNED", ""), "withheld"},
	{"a run that was skipped is withheld with its reason", became("SKIPPED", "overlap"), "withheld overlap"},
	{"a run that failed is withheld with its reason", became("FAILED", "lost"), "withheld lost"},
	{"a run that succeeded is withheld with its reason", became("SUCCESS", "accepted"), "withheld accepted"},
	{"a run that was accepted is withheld, and has no reason", became("ENQUEUED", ""), "withheld"},
	{"how a run ended counts before a cancel", both(became("FAILED", "timeout"), cancelling("cancelled")), "withheld timeout"},

	{"a run whose cancel is requested is refused", cancelling("replaced"), "refused CANCELLED replaced"},
	{"a cancel without a reason is `cancelled`", cancelling(""), "refused CANCELLED cancelled"},
	{"a cancel is final before fire_at", both(cancelling("cancelled"), ahead), "refused CANCELLED cancelled"},
	{"a cancel counts before a deletion and a pause", both(cancelling("replaced"), deleted, paused), "refused CANCELLED replaced"},
	{"after a call a cancel withholds: the call may have arrived", both(cancelling("cancelled"), known(sent)), "withheld cancelled"},
	{"after a call that was never sent a cancel refuses", both(cancelling("cancelled"), known()), "refused CANCELLED cancelled"},

	{"a run of a deleted schedule is refused", deleted, "refused CANCELLED deleted"},
	{"a deletion is not final before fire_at", both(deleted, ahead), "withheld deleted"},
	{"a deletion counts before a pause", both(deleted, paused), "refused CANCELLED deleted"},
	{"a deletion applies to runs by hand", both(deleted, triggers("manual", "manual")), "refused CANCELLED deleted"},
	{"a deletion applies to keys that the ledger does not know", both(deleted, stranger), "refused CANCELLED deleted"},

	{"a slot of a paused schedule is refused", paused, "refused SKIPPED paused"},
	{"a pause is not final before fire_at", both(paused, ahead), "withheld paused"},
	{"a pause applies to catch-up runs", both(paused, triggers("catchup", "catchup")), "refused SKIPPED paused"},
	{"a pause does not apply to runs by hand", both(paused, triggers("manual", "manual")), "granted"},
	{"a pause depends on the run's trigger: a slot requested as manual", both(paused, triggers("schedule", "manual")), "refused SKIPPED paused"},
	{"a pause depends on the run's trigger: a manual run requested as a slot", both(paused, triggers("manual", "schedule")), "granted"},
	{"without a run a pause depends on the request's trigger", both(paused, stranger, triggers("", "schedule")), "refused SKIPPED paused"},
	{"a pause has ended at its until", func(_ *schedule.BeginRequest, f *ledger.BeginFacts) {
		f.Pause = schedule.Pause{Paused: true, Until: beginNow}
	}, "granted"},
	{"a pause counts before a grant", both(paused, ungranted), "refused SKIPPED paused"},
	{"after a call a pause withholds", both(paused, known(sent)), "withheld paused"},

	{"without a grant where one is required a call is refused", ungranted, "refused SKIPPED grant_denied"},
	{"a grant is not final before fire_at", both(ungranted, ahead), "withheld grant_denied"},
	{"a grant that was revoked refuses", func(req *schedule.BeginRequest, f *ledger.BeginFacts) {
		req.Grant = schedule.GrantUse{GrantID: "g", UserID: "u", WorkflowID: "w"}
		f.Grant = &schedule.Grant{GrantID: "g", UserID: "u", Scopes: []string{"graph:execute:w"}, RevokedAt: beginNow}
	}, "refused SKIPPED grant_revoked"},
	{"a grant that ends at fire_at does not allow the call", func(req *schedule.BeginRequest, f *ledger.BeginFacts) {
		ahead(req, f)
		req.Grant = schedule.GrantUse{GrantID: "g", UserID: "u", WorkflowID: "w"}
		f.Grant = &schedule.Grant{GrantID: "g", UserID: "u", Scopes: []string{"graph:execute:w"}, ExpiresAt: req.FireAt}
	}, "withheld grant_expired"},
	{"a grant that does not exist refuses", func(req *schedule.BeginRequest, _ *ledger.BeginFacts) {
		req.Grant = schedule.GrantUse{GrantID: "g", UserID: "u", WorkflowID: "w"}
	}, "refused SKIPPED grant_denied"},
}

func TestMayThisKeyBeCalled(t *testing.T) {
	for _, c := range slices.Concat(beginsByKey, beginsByPresence, beginsByCheck) {
		t.Run(c.name, func(t *testing.T) {
			req := schedule.BeginRequest{
				Key: schedule.Key{1}, RequestHash: [32]byte{2}, ScheduleID: "s", Trigger: schedule.TriggerSchedule, FireAt: beginNow, Lease: beginLease, Holder: beginHolder,
			}
			f := ledger.BeginFacts{Run: &ledger.BeginRun{Status: schedule.StatusLaunching, Trigger: schedule.TriggerSchedule}}
			c.edit(&req, &f)
			got := ledger.Begin(&req, &f, beginNow)
			if text := begunText(&got); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
			if wasSent := f.Known != nil && f.Known.Sent; got.Sent != wasSent {
				t.Errorf("a call was sent before: %t, want %t", got.Sent, wasSent)
			}
			isRecord(t, &req, &f, &got)
		})
	}
}

// begunText is a result as beginCase writes it.
func begunText(b *schedule.BeginResult) string {
	word := map[schedule.Permission]string{
		schedule.Granted: "granted", schedule.GrantedAgain: "granted again", schedule.Recorded: "recorded", schedule.Busy: "busy",
		schedule.Conflict: "conflict", schedule.Refused: "refused", schedule.Withheld: "withheld",
	}[b.Permission]
	if b.Permission == schedule.Refused {
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

// isRecord checks the record that a result comes with.
func isRecord(t *testing.T, req *schedule.BeginRequest, f *ledger.BeginFacts, b *schedule.BeginResult) {
	t.Helper()
	created, calls := beginNow.Truncate(time.Microsecond), int32(1)
	if f.Known != nil {
		created, calls = f.Known.CreatedAt, f.Known.Calls+1
	}
	want := schedule.ExecutionRequest{}
	switch b.Permission {
	case schedule.Granted, schedule.GrantedAgain:
		want = schedule.ExecutionRequest{
			Key: req.Key, RequestHash: req.RequestHash, Sent: true, Calls: calls,
			LeaseUntil: beginNow.Add(beginLease).Truncate(time.Microsecond), Holder: beginHolder, CreatedAt: created,
		}
	case schedule.Refused:
		outcome := b.Request.Outcome
		if outcome.Reason != b.Reason {
			t.Errorf("the record says %q, the result %q", outcome.Reason, b.Reason)
		}
		want = schedule.ExecutionRequest{Key: req.Key, RequestHash: req.RequestHash, Done: true, Outcome: outcome, CreatedAt: created}
	case schedule.Recorded, schedule.Busy, schedule.Conflict:
		want = *f.Known
	}
	if b.Request != want {
		t.Errorf("the record is %+v, want %+v", b.Request, want)
	}
}

func TestMayThisKeyBeClosed(t *testing.T) {
	for _, c := range []struct {
		name   string
		known  func(*schedule.BeginRequest, *ledger.BeginFacts)
		closed bool
	}{
		{"a new key", both(), true},
		{"a key whose call was never sent", known(), true},
		{"a key whose call was sent", known(sent), false},
		{"a key whose lease runs", known(open), false},
		{"a key that is done", known(done), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, f := schedule.BeginRequest{Key: schedule.Key{1}, RequestHash: [32]byte{2}}, ledger.BeginFacts{}
			c.known(&req, &f)
			record, closed := ledger.CloseKey(req.Key, f.Known, schedule.ReasonReplaced, beginNow)
			want := schedule.ExecutionRequest{Key: req.Key, Done: true, CreatedAt: beginNow.Truncate(time.Microsecond)}
			want.Outcome = schedule.Outcome{Status: schedule.StatusCancelled, Reason: schedule.ReasonReplaced}
			switch {
			case !c.closed:
				want = *f.Known
			case f.Known != nil:
				want.RequestHash, want.CreatedAt = f.Known.RequestHash, f.Known.CreatedAt
			}
			if closed != c.closed || record != want {
				t.Errorf("closed: %t, want %t; the record is %+v, want %+v", closed, c.closed, record, want)
			}
		})
	}
}
