package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	"github.com/carillon/carillon/internal/topic"
)

// RunFacts is the input of DeriveRun: a run that is no slot of its schedule, or is in a dispatch
// queue.
type RunFacts struct {
	Run        *schedule.Run
	Definition *schedule.Definition // of its revision; nil: it is not stored any more
	Attempts   []schedule.LaunchAttempt
	Result     *schedule.RunResult // of an end; nil: none
	Batch      *topic.Batch        // what a run of a consumer has taken; nil: it is none
	Next       *schedule.Run       // its retry; nil: there is none
	Now        time.Time

	// Of a run that waits in a queue.
	Queue         *ledger.QueueFacts                           // nil: the run is outside queues, or its queue cannot be read
	Position      int                                          // 1: the next of its priority; 0: far behind
	Before        int                                          // runs of higher priorities that wait
	Turns         *ledger.FairBefore                           // in a fair queue: who waits before it; nil: it has drawn nothing
	InFlight      []schedule.Key                               // some of those that the queue has in flight, as far as the caller may read them
	LimitUses     map[schedule.LimitRef][]schedule.Key         // the same of its limits
	LimitKept     map[schedule.LimitRef]*schedule.Run          // of LimitUses the retry that waits and keeps the limit; nil: none does
	LimitReserved map[schedule.LimitRef][]schedule.Reservation // some that use its limits
	Predecessor   *schedule.GroupMember                        // of a chained one: the first open member of its group; nil: unknown
	// Sees reports whether the caller may see what an owner has; nil: anything.
	Sees      func(userID string) bool
	Launchers int              // processes with the role launcher that were seen lately; negative: unknown
	Start     *ledger.Estimate // nil: it is not known
}

// RunAnswer is why a run is where it is.
type RunAnswer struct {
	Run       *schedule.Run
	Now       time.Time
	Position  int
	BlockedBy []RunBlock // of a run that waits; empty: it starts within a second
	// WouldStart is when a run that waits in a queue would start; nil: it is not known, or it does not wait.
	WouldStart *ledger.Estimate
	Lines      []string
}

// RunBlock is one thing that keeps a run from its start.
type RunBlock struct {
	What   ledger.BlockedBy
	Limit  schedule.LimitRef // of limit, and of rate unless it is the queue's
	Used   int               // of full and limit
	Max    int
	UsedBy []schedule.Key
	Until  time.Time // zero: unknown
	Note   string    // of a pause or a stall
}

// What blocks a run that is not the next of a ready queue.
const (
	blockedByDelay       ledger.BlockedBy = "run_at"      // its start is later
	blockedByOverlap     ledger.BlockedBy = "overlap"     // outside queues: a run of its overlap key is in flight
	blockedByClaim       ledger.BlockedBy = "unclaimed"   // outside queues: no worker has claimed it yet
	blockedByReserve     ledger.BlockedBy = "reserved"    // reservations have slots, or go first
	blockedByPredecessor ledger.BlockedBy = "predecessor" // the member of its group before it is not over
)

// DeriveRun explains a run by its facts.
func DeriveRun(f RunFacts) RunAnswer {
	x := &runText{RunFacts: f, out: RunAnswer{Run: f.Run, Now: f.Now, Position: f.Position}}
	x.text.Answer = &Answer{Run: f.Run, Now: f.Now, Attempts: f.Attempts, Result: f.Result, Why: Why(f.Run.Reason), Detail: f.Run.ErrorMessage}
	if f.Definition != nil {
		x.text.Rule = &Rule{Definition: f.Definition}
	}
	if f.Next != nil {
		x.text.Others = []schedule.Run{*f.Next}
	}
	switch r := f.Run; {
	case r.Status.Terminal():
		x.over()
	case r.Stage() == schedule.StatusPlanned:
		x.waits()
		x.wouldStart()
	case r.Retrying():
		x.say("%s is retrying: no launch attempt has succeeded yet", x.subject())
		x.retrying()
	case r.Stage() == schedule.StatusLaunching && r.Queue.In():
		x.say("%s was admitted at %s and is being sent to the executor", x.subject(), describe.Instant(r.ClaimedAt))
	default:
		x.say("%s is in progress: %s", x.subject(), stage(r))
	}
	x.batch()
	x.unique()
	x.grouped()
	x.told()
	x.requested()
	x.life()
	x.result()
	x.attempts()
	x.out.Lines = x.lines
	return x.out
}

// runText collects the sentences about a run.
type runText struct {
	RunFacts
	text
	out RunAnswer
}

// subject begins the first sentence.
func (x *runText) subject() string {
	r := x.Run
	s := fmt.Sprintf("Run %s of %s", r.Key, r.ScheduleID)
	if r.Queue.In() {
		s += ", in queue " + cmp.Or(r.Queue.ID, fmt.Sprint(r.Queue.No)) + ","
	} else {
		s += ", started by " + trigger(r.Trigger) + ","
	}
	if r.Attempt > 1 {
		s += fmt.Sprintf(" attempt %d,", r.Attempt)
	}
	return s
}

// waits is for a run that no launcher has taken yet.
func (x *runText) waits() {
	r := x.Run
	switch {
	case !r.Queue.In() && !r.WaitingSince.IsZero():
		x.say("%s waits for its overlap key since %s (overlap_policy %s)", x.subject(), describe.Instant(r.WaitingSince), r.OverlapPolicy)
		x.block(RunBlock{What: blockedByOverlap})
		return
	case r.Queue.State == schedule.QueueChained:
		x.chained()
		return
	case r.FireAt.After(x.Now):
		x.say("%s starts at %s at the earliest, in %s", x.subject(), describe.Instant(r.FireAt), describe.Span(r.FireAt.Sub(x.Now).Round(time.Second)))
		if r.Attempt > 1 {
			x.say("It is attempt %d of %d and waits for the backoff of its retry policy", r.Attempt, r.MaxAttempts)
		}
		x.block(RunBlock{What: blockedByDelay, Until: r.FireAt})
	case !r.Queue.In():
		x.say("%s is due since %s and no worker has claimed it yet; `carillon doctor` shows whether there is a leader", x.subject(), describe.Instant(r.FireAt))
		x.block(RunBlock{What: blockedByClaim})
		return
	default:
		x.say("%s waits since %s, for %s: %s", x.subject(), describe.Instant(r.Queue.EnqueuedAt), describe.Span(x.Now.Sub(r.Queue.EnqueuedAt).Round(time.Millisecond)), x.place())
	}
	if !r.StartBy.IsZero() && r.Queue.In() {
		x.say("It ends SKIPPED(expired) unless it starts by %s (expires_ms)", describe.Instant(r.StartBy))
	}
	if r.Queue.Kept != "" {
		x.say("It keeps %s since the attempt before it: no other run of the key starts until it is over", strings.Join(r.Queue.Kept.Texts(), " and "))
	}
	if x.Queue != nil {
		x.queueBlocks()
	}
}

// chained is for a member of a sequential group that waits for another one.
func (x *runText) chained() {
	r, first := x.Run, x.Predecessor
	x.say("%s is member %d of the sequential group %s and waits since %s for the members before it", x.subject(), r.Queue.GroupSeq,
		cmp.Or(r.Queue.GroupID, fmt.Sprint(r.Queue.GroupNo)), describe.Instant(r.Queue.EnqueuedAt))
	b := RunBlock{What: blockedByPredecessor}
	if first != nil && first.Seq < r.Queue.GroupSeq {
		b.UsedBy = []schedule.Key{first.Key}
		state := string(first.State)
		if first.FireAt.After(x.Now) {
			state += " until " + describe.Instant(first.FireAt)
		}
		x.say("The first of them is member %d, run %s, which is %s", first.Seq, first.Key, state)
	}
	x.block(b)
}

// place is the position among the waiting runs.
func (x *runText) place() string {
	r, s := x.Run, "more than 10000 runs of its priority start first"
	switch {
	case x.Position == 1:
		s = "it is the next"
	case x.Position > 1:
		s = fmt.Sprintf("position %d", x.Position)
	}
	if x.Position > 0 {
		s += fmt.Sprintf(" of priority %d", r.Priority)
	}
	switch {
	case x.Before == 1:
		s += "; 1 run of higher priority starts first"
	case x.Before > 1:
		s += fmt.Sprintf("; %d runs of higher priority start first", x.Before)
	}
	return s
}

// queueBlocks says what keeps the queue from its next admission, as ledger.Admit judges it.
func (x *runText) queueBlocks() {
	for _, b := range x.Queue.Blocks(x.Now) {
		x.queueBlock(&b)
	}
	x.reservations()
	if x.Launchers == 0 {
		x.say("No process with the role launcher was seen in the last minute: nothing is sent. `carillon workers` lists the processes")
		x.block(RunBlock{What: ledger.BlockedByCalls})
	}
	if x.Run.Queue.State != schedule.QueueWaiting {
		return
	}
	x.turns()
	switch {
	case x.Position != 1 || x.Before > 0:
		x.block(RunBlock{What: ledger.BlockedByBefore})
	case len(x.out.BlockedBy) == 0 && x.Queue.Queue.Pulled():
		x.say("Nothing blocks it: the next worker with a free slot that fetches gets it")
	case len(x.out.BlockedBy) == 0:
		x.say("Nothing blocks it: a launcher with a free call takes it, at the latest within a second; the queues of one owner have at most nine tenths of its calls")
	}
}

// queueBlock says what keeps the run from its start.
func (x *runText) queueBlock(b *ledger.Block) {
	q := x.Queue
	switch {
	case b.What == ledger.BlockedByPause && q.Queue.Unreadable:
		x.say("The stored definition of the queue is damaged: nothing starts until it is registered again")
		x.block(RunBlock{What: b.What})
	case b.What == ledger.BlockedByPause:
		p := q.Queue.Pause
		s := "The queue is paused" + by(p.By)
		if p.Note != "" {
			s += ", note " + schedule.Quote(p.Note)
		}
		if p.Until.IsZero() {
			s += ", until it is resumed"
		} else {
			s += ", until " + describe.Instant(p.Until)
		}
		x.say("%s", s)
		x.block(RunBlock{What: b.What, Until: p.Until, Note: p.Note})
	case b.What == ledger.BlockedByWorker:
		s := "No worker has ever fetched runs of the queue"
		if !q.LastFetch.IsZero() {
			s = "No worker has fetched runs of the queue since " + describe.Instant(q.LastFetch)
		}
		x.say("%s. `carillon pull %s -- COMMAND` is one", s, q.Queue.QueueID)
		x.block(RunBlock{What: b.What})
	case b.What == ledger.BlockedByStall:
		x.say("The executor cannot take work now: %s. The queue tries again at %s", q.Stall.Reason, describe.Instant(b.Until))
		x.block(RunBlock{What: b.What, Until: b.Until, Note: q.Stall.Reason})
	case b.What == ledger.BlockedByFull:
		s := fmt.Sprintf("The queue is full: %d of %d runs are in flight (max_in_flight)", b.Used, b.Max)
		if len(q.Reserved) > 0 {
			s = fmt.Sprintf("The queue is full: %d of %d slots are taken by runs in flight and reservations (max_in_flight)", b.Used, b.Max)
		}
		if len(x.InFlight) > 0 {
			s += ": " + keysShown(x.InFlight)
		}
		x.say("%s", s)
		x.block(RunBlock{What: b.What, Used: b.Used, Max: b.Max, UsedBy: x.InFlight})
	case b.What == ledger.BlockedByLimit:
		x.fullLimit(b)
	case b.What == ledger.BlockedByRate && b.Limit.ID == "":
		x.say("The queue has started as many runs as its rate allows: the next one starts at %s", describe.Instant(b.Until))
		x.block(RunBlock{What: b.What, Until: b.Until})
	case b.What == ledger.BlockedByRate:
		x.say("Limit %s has started as many runs as its rate allows: the next one starts at %s", b.Limit, describe.Instant(b.Until))
		x.block(RunBlock{What: b.What, Limit: b.Limit, Until: b.Until})
	}
}

// fullLimit says that runs in flight, of any queue, use all of a limit.
func (x *runText) fullLimit(b *ledger.Block) {
	users, reserved := x.LimitUses[b.Limit], x.LimitReserved[b.Limit]
	switch {
	case x.LimitKept[b.Limit] != nil && b.Max > 0:
		x.keptLimit(b.Limit, x.LimitKept[b.Limit])
	case b.Max == 0:
		x.say("Limit %s allows no run: max_in_flight of the key is 0 (`carillon limit set-key` changes it)", b.Limit)
	case len(reserved) > 0:
		x.say("Limit %s is full: %d of %d are in use by runs and reservations", b.Limit, b.Used, b.Max)
		for i := range reserved[:min(len(reserved), maxReservationsShown)] {
			x.say("It is reserved by %s until %s, unless the reservation is extended or released before", x.holder(&reserved[i]), describe.Instant(reserved[i].EndsAt))
		}
	case len(users) > 0:
		x.say("Limit %s is full: %d of %d runs are in flight: %s", b.Limit, b.Used, b.Max, keysShown(users))
	default:
		x.say("Limit %s is full: %d of %d runs are in flight", b.Limit, b.Used, b.Max)
	}
	x.block(RunBlock{What: b.What, Limit: b.Limit, Used: b.Used, Max: b.Max, UsedBy: users})
}

// keptLimit says that the runs of a key wait for a retry that waits itself.
func (x *runText) keptLimit(ref schedule.LimitRef, kept *schedule.Run) {
	s := fmt.Sprintf("Limit %s is ordered: run %s %s, and its retry %s keeps the key until it is over", ref, kept.RetryOf, before(kept), kept.Key)
	if kept.FireAt.After(x.Now) {
		s += "; it starts at " + describe.Instant(kept.FireAt) + " at the earliest"
	}
	x.say("%s", s)
}

// before is what has happened to the run that an automatic retry follows.
func before(retry *schedule.Run) string {
	switch retry.Key {
	case schedule.SnoozeKey(retry.RetryOf):
		return "was snoozed"
	case schedule.AgainKey(retry.RetryOf):
		return "was interrupted"
	}
	return "failed"
}

func keysShown(keys []schedule.Key) string {
	shown := make([]string, len(keys))
	for i, key := range keys {
		shown[i] = key.String()
	}
	return strings.Join(shown, ", ")
}

func (x *runText) block(b RunBlock) { x.out.BlockedBy = append(x.out.BlockedBy, b) }

// requested says who asked for the run, and how its queue chose it.
func (x *runText) requested() {
	r := x.Run
	if r.RequestedBy != "" {
		x.say("It was requested by %s", schedule.Quote(r.RequestedBy))
	}
	if r.Queue.AdmittedAs == schedule.AdmittedAged {
		x.say("It was admitted ahead of its order: it had waited for promote_after_ms of its queue")
	}
}

// life is what has happened to it so far.
func (x *runText) life() {
	r := x.Run
	s := fmt.Sprintf("It was created at %s", describe.Instant(r.CreatedAt))
	for _, step := range []struct {
		name string
		at   time.Time
	}{
		{"admitted", r.ClaimedAt}, {takenBy(r), r.LaunchedAt}, {"started", r.StartedAt}, {"cancel requested", r.CancelRequestedAt}, {"ended", r.CompletedAt},
	} {
		if name := step.name; !step.at.IsZero() {
			if name == "admitted" && !r.Queue.In() {
				name = "claimed"
			}
			s += ", " + name + " at " + describe.Instant(step.at)
		}
	}
	if r.Deliveries > 1 {
		s += fmt.Sprintf(", sent %s", describe.Count(int(r.Deliveries), "time"))
	}
	x.say("%s", s)
	if r.Queue.In() && !r.ClaimedAt.IsZero() && !r.Queue.EnqueuedAt.IsZero() {
		waited := describe.Span(max(0, r.ClaimedAt.Sub(schedule.Later(r.Queue.EnqueuedAt, r.FireAt))))
		if r.Status.Terminal() || r.Queue.State.Admitted() {
			x.say("It waited %s in the queue", waited)
		} else {
			x.say("It waited %s in the queue until it was admitted first, and was put back since", waited)
		}
	}
	if !r.RetryOf.IsZero() {
		x.say("It retries run %s", r.RetryOf)
	}
}

// OfRun is the answer about a slot as one about its run.
func (a *Answer) OfRun(run *schedule.Run) RunAnswer {
	out := RunAnswer{Run: run, Now: a.Now, Lines: a.Sentences()}
	if a.Run != nil {
		out.Run = a.Run
	}
	switch a.Verdict {
	case VerdictWaiting:
		b := RunBlock{What: blockedByOverlap}
		for i := range a.Blocking {
			b.UsedBy = append(b.UsedBy, a.Blocking[i].Key)
		}
		out.BlockedBy = []RunBlock{b}
	case VerdictDue:
		out.BlockedBy = []RunBlock{{What: blockedByClaim}}
	case VerdictWillFire:
		out.BlockedBy = []RunBlock{{What: blockedByDelay, Until: out.Run.FireAt}}
	}
	return out
}
