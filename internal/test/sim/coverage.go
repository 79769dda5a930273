package sim

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// kind is a kind of fault of a call.
type kind int

const (
	crashBefore kind = iota // the process dies, the call has no effect
	crashAfter              // the call takes effect, the process dies
	failed                  // an error, no effect
	replyLost               // the call takes effect, and answers an error
	slow                    // up to a second
	stall                   // up to longer than a term
	kinds                   // those above are drawn for each call
)

// Other faults of a call.
const (
	down   = kinds + iota // the service was away
	cut                   // the caller's timeout was first; the effect may still happen
	frozen                // the process was frozen
	allKinds
)

var kindNames = [allKinds]string{"crash before", "crash after", "error", "reply lost", "slow", "stall", "down", "cut", "frozen"}

// site is a place where a component calls another.
type site int

const (
	siteHeartbeat site = iota
	sitePlan
	sitePrune
	siteClaim
	siteReclaim
	siteSettle
	siteSweep
	siteLoadOpen
	siteCancelRequests
	siteTakeover
	siteRenew
	siteResign
	siteAcquire
	siteRelease
	siteStart
	siteCancel
	siteBegin
	siteFinish
	siteReleaseKey
	siteCloseKey
	siteLoad
	siteRun
	siteAsk
	siteExecutorCancel
	siteReport
	siteChange
	siteChangeRun
	siteGetRun
	siteKeep
	siteBreak
	siteAskToResign
	siteLeaders
	siteInstances
	siteLeave
	siteExtend
	siteGrants
	siteFeed
	siteChangeBackfill
	sitePresence
	siteQueuesWaiting
	siteAdmit
	sitePutBack
	siteSweepQueues
	siteSettleLaunched
	siteEnqueue
	siteChangeQueue
	siteChangeQueued
	siteChangeLimit
	siteReserve
	siteCancelRuns
	siteTake
	siteEventsOf
	sitePublish
	sites
)

var siteNames = [sites]string{
	"heartbeat", "plan", "prune", "claim", "reclaim", "settle", "sweep", "load open", "cancel requests",
	"takeover", "renew", "resign", "acquire lock", "release lock", "start", "cancel", "begin", "finish", "release key",
	"close key", "load DAG", "executor run", "executor ask", "executor cancel", "report", "change schedules", "change run", "get run",
	"keep lock", "break lock", "ask to resign", "leaders", "workers", "leave", "extend", "grants", "feed", "change backfill", "presence",
	"queues waiting", "admit", "put back", "sweep queues", "settle launched", "enqueue", "change queue", "change queued run", "change limit", "reserve", "cancel runs", "take", "events of a run", "publish",
}

// rare are seldom calls; their faults are drawn more often. All others have 1.
var rare = func() (times [sites]int) {
	for s := range times {
		times[s] = 1
	}
	for _, s := range []site{sitePrune, siteResign, siteCancel, siteReleaseKey, siteCloseKey, siteAsk, siteExecutorCancel, siteBreak, siteAskToResign, siteLeave, siteExtend, siteGrants, siteCancelRequests, sitePutBack, siteChangeQueued, siteChangeLimit, siteSettleLaunched, siteReserve, siteCancelRuns} {
		times[s] = 25
	}
	times[siteChangeRun], times[siteReclaim], times[siteChangeBackfill] = 4, 4, 4
	times[siteEventsOf], times[sitePublish] = 4, 4
	times[siteEnqueue], times[siteChangeQueue], times[siteGetRun] = 4, 4, 2
	return times
}()

// strike is an action of the adversary.
type strike int

const (
	strikeKill strike = iota
	strikeStop
	strikeFreeze
	strikeLoseLock
	strikeLockDown
	strikeStoreDown
	strikeClock
	strikeResign
	strikeLosePresence   // the session of a presence lock ends, its process lives
	strikeRestart        // of the database server: all presence locks are free
	strikeExecutorDown   // refuses connections
	strikeExecutorBroken // answers 500, and begins nothing
	strikeExecutorHung   // takes requests, and neither begins nor answers them
	strikes
)

var strikeNames = [strikes]string{"kill", "stop", "freeze", "lock lost", "lock service down", "store down", "clock set", "asked to resign", "presence lost", "server restarted", "executor down", "executor broken", "executor hung"}

// situation is what the worlds must bring about, whatever the faults.
type situation int

const (
	changeLate          situation = iota // readers have passed a transaction whose changes come now
	changeLateBy1s                       // likewise, and it was open for more than a second
	keyTakenOver                         // from a process that has lost its presence lock
	windowFull                           // a leader knows as many planned runs as it may, and more come
	retriedItself                        // the executor is called for an automatic retry
	retriedInVain                        // the last attempt of several fails
	retriedByHand                        // a user runs an ended run again
	retryMissed                          // an automatic retry could not start within its catch-up window
	retryCancelled                       // a user cancels a failed run, and with it its retry
	snoozedAgain                         // a snoozed run follows another one
	interruptedAgain                     // an interrupted run starts again
	interruptedTooOften                  // one interruption too many is a failure
	retryHeld                            // an automatic retry is planned while its schedule is paused
	jobAdmitted
	jobAdmittedAgain // after it waited again
	jobPutBack       // the executor did not take it
	jobDeclined      // the executor says that it takes no runs now
	jobDelayed
	jobPlaced // its request names a place
	jobUpdated
	jobCancelled // while it waits
	jobCancelledInFlight
	jobRetried
	jobSnoozed
	jobTold
	jobRepeated  // a request is made again after its answer
	jobRefused   // its queue is closed
	jobSentAgain // the executor is called again for its key
	jobOfAnother // another process calls than the one that admitted it
	jobLeft      // its queue is paused for good
	queueFull    // an admission leaves runs waiting
	queuePaused  // while runs wait
	limitFull    // an admission uses all of a limit
	limitPassed  // a run passes others that a limit keeps waiting
	keyKept      // a retry starts that has kept its key
	startedLater // under a rate, a run is admitted before its start
	jobPromoted  // a run passes others because it has waited for so long
	turnTaken    // a run passes others of a key that has had its turns
	memberReleased
	memberStopped
	groupCompleted
	groupPartial
	groupCancelled
	groupFollowed // by its on_complete run
	slotEnteredQueue
	slotEnteredFull    // while no launch was free
	slotRefusedByQueue // it is closed
	slotReplaced       // a newer slot ends a run in a queue
	reservationGranted
	reservationFirst  // while runs wait
	reservationWaited // for more than a second
	reservationReleased
	reservationExpired   // its user has forgotten it
	reservationWithdrawn // nobody waits for it
	jobExpired
	jobOverdue     // it reaches its max_run_ms
	runOverdue     // outside of queues
	estimatePlayed // an admission is compared with the play of its queue
	keyReturned    // a request finds the run that holds its unique key
	keyReplaced    // and replaces it
	keyRefused     // and is refused
	keyOfRetry     // the run that holds the key is a retry
	keyTakenAgain  // from a run that holds it no more
	runFetched     // by a worker
	runGivenAgain  // its worker has not received it, or has died
	runLost        // its worker is silent
	workerDied
	pulledCancelled // its worker hears of it
	slotGrouped
	slotsGrouped      // a second run of the same instant
	slotUngrouped     // a run entered without the group of its schedule
	groupSealedInTime // at its seal_at
	runTold           // outside of queues
	runReturned
	returnedAgain   // an end is told again with another result
	jobCounted      // a success has no row
	jobNeeded       // a success of a queue that keeps only failures has one
	manyCancelled   // several runs end in one transaction
	manyAsked       // a cancel of many runs asks for one in flight
	manyInPages     // a cancel of many runs takes several transactions
	manyAgain       // a page is asked for again, and was cancelled
	slotCoalesced   // a newer one takes its place while the overlap key is busy
	slotOfManualRun // a manual run takes its place
	turnInherited   // with since when it waited
	turnTakenFirst  // a run starts while others of its key wait
	eventRepeated   // it is published again
	eventDiffers    // with other data
	eventRefused    // likewise, and its publisher is strict
	eventsInOne     // several events in one run
	eventsLeft      // a run gets as many as it may, and more are pending
	eventsOfNext    // the next attempt has them
	eventsReturned  // their run was skipped
	eventConsumed
	eventDead
	eventCancelled
	eventOfDeleted // its consumer was deleted
	eventOfNobody  // its consumer names the topic no more
	consumerPaused // while events are pending
	consumerFirst  // its run starts while others of its overlap key are due
	situations
)

var situationNames = [situations]string{
	"change late", "change late by more than a second", "key taken over by proof", "window full",
	"automatic retry", "last attempt failed", "retry by hand", "retry missed", "retry cancelled", "run snoozed again", "interrupted run started again", "run interrupted too often", "retry held by a pause",
	"job admitted", "job admitted again", "job put back", "job declined", "job delayed", "job placed", "job updated", "job cancelled", "job cancelled in flight",
	"job retried", "job snoozed", "job told of", "job request repeated", "job refused by a closed queue", "job sent again", "job sent by another process", "job left in a paused queue",
	"queue full", "queue paused with waiting runs", "limit full", "run passed others at a full limit", "retry kept its key", "run admitted before its start", "job promoted", "turn taken",
	"member of a group released", "member of a group stopped", "group completed", "group partial", "group cancelled", "group followed by a run",
	"slot entered a queue", "slot entered a queue without a free launch", "slot refused by a closed queue", "run in a queue replaced",
	"reservation granted", "reservation granted before waiting runs", "reservation granted after a wait", "reservation released", "reservation expired", "reservation withdrawn",
	"run expired in a queue", "run in a queue past its deadline", "run past its deadline",
	"admission compared with its play",
	"unique key returned", "unique key replaced", "unique key refused", "unique key of a retry", "unique key taken again",
	"run fetched by a worker", "run given again", "run of a silent worker lost", "worker died", "fetched run stopped",
	"slot joined a group", "slots of one instant joined a group", "slot without its group", "group sealed at its seal_at", "run outside of queues told of",
	"run ended with a result", "end of a run told again with another result",
	"success counted without a row", "success kept by a queue of failures",
	"several runs cancelled at once", "runs in flight cancelled with others", "runs cancelled in pages", "page of a cancel repeated",
	"slot coalesced", "slot taken over by a manual run", "turn inherited", "turn taken before others of the key",
	"event repeated", "event repeated with other data", "event refused by a strict publisher", "several events in one run", "events left by a full run", "events of the next attempt", "events of a skipped run pending again",
	"event consumed", "event dead", "event of a cancelled run", "event of a deleted consumer", "event of a topic that is consumed no more", "consumer paused with events", "consumer before others of its key",
}

// Coverage counts faults by call, over all worlds.
type Coverage struct {
	calls   [sites]atomic.Int64
	faults  [sites][allKinds]atomic.Int64
	strikes [strikes]atomic.Int64

	situations [situations]atomic.Int64
}

// Missing lists the pairs of call and fault, and the strikes, that never happened.
func (c *Coverage) Missing() (missing []string) {
	for s := range sites {
		for k := range allKinds {
			// An outage or a freeze is seldom at the same time as a rare call, and a
			// stall mostly outlasts its caller's timeout.
			byChance := k >= stall && rare[s] > 1
			if c.faults[s][k].Load() == 0 && !cannot(s, k) && !byChance {
				missing = append(missing, siteNames[s]+": "+kindNames[k])
			}
		}
	}
	for s := range strikes {
		if c.strikes[s].Load() == 0 {
			missing = append(missing, strikeNames[s])
		}
	}
	for s := range situations {
		if c.situations[s].Load() == 0 {
			missing = append(missing, situationNames[s])
		}
	}
	return missing
}

// cannot reports that a fault has no meaning for a call.
func cannot(s site, k kind) bool {
	users := s == siteReport || s == siteChange || s == siteChangeRun || s == siteGetRun || s == siteGrants || s == siteAskToResign || s == siteChangeBackfill ||
		s == siteEnqueue || s == siteChangeQueue || s == siteChangeQueued || s == siteChangeLimit || s == siteReserve ||
		s == siteCancelRuns || s == sitePublish
	switch {
	case s == sitePresence:
		return true
	case k == crashBefore || k == crashAfter || k == frozen:
		return users // clients of the API do not die; their requests may be lost
	case k == down:
		return s == siteStart || s == siteCancel || s == siteRun || s == siteAsk || s == siteExecutorCancel || s == siteReport
	case k == stall:
		return s == siteLeave || s == siteExtend // their callers wait a second at most
	case k == cut:
		// Their callers wait for as long as their process lives.
		return s == siteAcquire || s == siteStart || s == siteCancel || s == siteReport || s == siteSettle
	}
	return false
}

// Faults is one line on all faults by kind.
func (c *Coverage) Faults() string {
	var b strings.Builder
	for k := range allKinds {
		n := int64(0)
		for s := range sites {
			n += c.faults[s][k].Load()
		}
		fmt.Fprintf(&b, "%s %d, ", kindNames[k], n)
	}
	for s := range strikes {
		fmt.Fprintf(&b, "%s %d, ", strikeNames[s], c.strikes[s].Load())
	}
	for s := range situations {
		fmt.Fprintf(&b, "%s %d, ", situationNames[s], c.situations[s].Load())
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// Calls is how many calls were made.
func (c *Coverage) Calls() (n int64) {
	for s := range sites {
		n += c.calls[s].Load()
	}
	return n
}
