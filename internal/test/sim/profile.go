package sim

import "time"

// profile holds the properties of a world.
type profile struct {
	workers   int
	shards    int
	faulty    time.Duration // how long there are faults
	schedules int

	ttl, lookahead, grace            time.Duration
	lease, retryFor, cancelWait      time.Duration
	callTimeout, runTimeout          time.Duration
	maxSkew                          time.Duration
	maxLaunches, maxCatchup          int
	executorCancels, executorAnswers bool       // has Cancel, has GetByKey
	rates                            [kinds]int // of faults around a call, per 100,000
	strikes                          int        // how often the adversary acts
	grants, requireGrant             bool       // schedules name grants; nothing runs without one
	backfills                        bool
	incidents                        bool // of the executor
	changes                          int  // how many the ledger keeps; 0: more than a world has
	repeats                          bool // changes come again after a rebuild
	late                             bool // a change can be committed after others that began later
	window                           int  // how many planned runs a leader holds; 0: all
	plain                            bool // no other faults
	queues                           int  // dispatch queues; 0: nobody uses any
	limited                          bool // their runs use limits, and some have a rate
	grouped                          bool // users make groups of runs
	counting                         bool // some queues keep only failures
	pulled                           bool // workers fetch the runs of the last queue
	maxCalls                         int  // of a dispatcher
	consumers, publishers            int  // of events; 0: nobody uses any
}

// calmAfter bounds how long after the last fault everything must have ended: leases,
// retries and run timeouts, and the longest catch-up, with one slot per lookahead.
const calmAfter = 5 * time.Minute

// calmAfter is calmAfter of a world: consumers work off what has gathered, batch after batch, and a
// batch can be snoozed many times.
func (p *profile) calmAfter() time.Duration {
	if p.consumers > 0 {
		return 2 * calmAfter
	}
	return calmAfter
}

// newProfile draws a world. Each world has only some kinds of faults (swarm testing), so
// that frequent ones do not hide rare ones.
func newProfile(d dice) profile {
	d = d.of(forProfile)
	p := profile{
		workers: d.of(1).within(2, 3), shards: pick(d.of(19), 1, 1, 2, 3), faulty: d.of(2).span(11*time.Second, 15*time.Second), schedules: d.of(3).within(3, 6),
		ttl:       pick(d.of(4), 3*time.Second, 4*time.Second),
		lookahead: pick(d.of(5), 2*time.Second, 4*time.Second, 6*time.Second),
		grace:     pick(d.of(6), 2*time.Second, 4*time.Second, 6*time.Second),
		lease:     pick(d.of(7), 2*time.Second, 4*time.Second), retryFor: pick(d.of(8), 6*time.Second, 10*time.Second),
		cancelWait: pick(d.of(9), time.Second, 3*time.Second), callTimeout: pick(d.of(10), time.Second, 2*time.Second),
		runTimeout:  pick(d.of(11), 4*time.Second, 7*time.Second),
		maxSkew:     pick(d.of(12), 0, 50*time.Millisecond, 400*time.Millisecond),
		maxLaunches: pick(d.of(13), 1, 3, 50), maxCatchup: pick(d.of(14), 1, 2, 100),
		executorCancels: d.of(15).perMille(800), executorAnswers: d.of(16).perMille(600),
		strikes: pick(d.of(17), 0, 2, 4, 8),
	}
	p.grants = d.of(20).perMille(500)
	p.requireGrant = p.grants && d.of(21).perMille(150)
	p.backfills = d.of(22).perMille(500)
	for k := range p.rates {
		on, rate := d.of(100+uint64(k)).perMille(600), d.of(200+uint64(k))
		switch {
		case !on:
		case kind(k) == crashBefore || kind(k) == crashAfter:
			p.rates[k] = pick(rate, 20, 100, 300)
		case kind(k) == stall:
			p.rates[k] = pick(rate, 50, 200, 600)
		default:
			p.rates[k] = pick(rate, 100, 1000, 4000)
		}
	}
	p.incidents = d.of(23).perMille(400)
	p.late = d.of(27).perMille(400)
	p.window = pick(d.of(26), 0, 0, 1, 2, 5)
	p.changes, p.repeats = pick(d.of(24), 0, 0, 3), d.of(25).perMille(300)
	if !p.requireGrant && d.of(28).perMille(400) {
		p.queues, p.maxCalls = d.of(29).within(1, 3), pick(d.of(30), 1, 3, 50)
		p.limited, p.grouped = d.of(31).perMille(500), d.of(32).perMille(500)
		p.pulled, p.counting = d.of(33).perMille(400), d.of(34).perMille(500)
	}
	if !p.requireGrant && d.of(35).perMille(550) {
		p.consumers, p.publishers = d.of(36).within(1, 4), d.of(37).within(1, 3)
	}
	if d.of(18).perMille(100) {
		p.plain, p.late, p.rates, p.strikes = true, false, [kinds]int{}, 0
	}
	return p
}
