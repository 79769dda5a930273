package main

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// mode is how a run ends and how the product gets to know.
type mode int

const (
	answers      mode = iota // 200 at once
	fails                    // 200 FAILED at once
	refuses                  // 422: it never runs
	thinksFirst              // 200 after a while
	reports                  // 202, then STARTED and the end, some of them twice or too late
	reportsFirst             // the end is reported before the 202
	hangsUp                  // runs, then drops the connection instead of answering
	hangs                    // runs, then never answers
	shuffles                 // 202, the end is reported before STARTED
	snoozes                  // 200 SNOOZE at once; only a run of a queue
)

// behaviour is what the oracle does with one key.
type behaviour struct {
	mode     mode
	stumbles int // calls that are put off before it begins
	kind     int // of the first of them
	lasts    time.Duration
	repeats  bool // reports come twice, and a STARTED after the end
}

// newBehaviour draws one. A tame one always works. A job is a run of a queue.
func newBehaviour(draw uint64, tame, job bool) behaviour {
	r := rand.New(rand.NewPCG(draw, 7))
	b := behaviour{lasts: time.Duration(r.IntN(30)) * time.Millisecond, repeats: r.IntN(2) == 0, kind: r.IntN(stumbleKinds)}
	dice := r.IntN(100)
	switch {
	case dice < 60:
		b.mode = answers
	case dice < 66:
		b.mode, b.lasts = thinksFirst, 200*time.Millisecond+time.Duration(r.IntN(600))*time.Millisecond
	case dice < 84:
		b.mode, b.lasts = reports, time.Duration(r.IntN(1500))*time.Millisecond
	case tame:
		b.mode = answers
	case job && dice < 86:
		b.mode = snoozes
	case dice < 88:
		b.mode = fails
	case dice < 90:
		b.mode = refuses
	case dice < 93:
		b.mode = reportsFirst
	case dice < 95:
		b.mode, b.lasts = shuffles, time.Duration(r.IntN(400))*time.Millisecond
	case dice < 98:
		b.mode, b.lasts = hangsUp, time.Duration(r.IntN(200))*time.Millisecond
	default:
		b.mode, b.lasts = hangs, time.Duration(r.IntN(300))*time.Millisecond
	}
	if !tame && r.IntN(16) == 0 {
		b.stumbles = 1 + r.IntN(2)
	}
	return b
}

const stumbleKinds = 5

// stumble answers a call without beginning the effect, in a way that leaves
// the outcome unknown.
func (b behaviour) stumble(w http.ResponseWriter, r *http.Request, number int) {
	switch (b.kind + number) % stumbleKinds {
	case 0:
		http.Error(w, "later", http.StatusServiceUnavailable)
	case 1:
		http.Error(w, "oops", http.StatusInternalServerError)
	case 2:
		http.Error(w, "too many", http.StatusTooManyRequests)
	case 3:
		dropConnection(w)
	case 4:
		hang(r)
	}
}

// hangLimit is far beyond EXECUTOR_TIMEOUT_MS of the rig.
const hangLimit = 20 * time.Second

// hang answers nothing until the caller has given up.
func hang(r *http.Request) {
	limit := time.NewTimer(hangLimit)
	defer limit.Stop()
	select {
	case <-r.Context().Done():
	case <-limit.C:
	}
}

// dropConnection closes without a word.
func dropConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// perform is the effect of a key: it happens once, for any number of calls.
func (o *oracle) perform(w http.ResponseWriter, r *http.Request, e *effect, body runBody) {
	end := "SUCCESS"
	switch e.plan.mode {
	case refuses:
		o.mu.Lock()
		e.refused, e.said = true, true
		o.note(record.Executor{Kind: record.Refuse, Key: e.key})
		o.mu.Unlock()
		o.durable()
		o.answer(w, e)
		return
	case reports, shuffles:
		o.work.Go(func() { o.reportLater(e, body) })
		o.answer(w, e)
		return
	case fails:
		end = "FAILED"
	case snoozes:
		end = "SNOOZE"
	}
	o.spend(e.plan.lasts)
	finished := o.finish(e, end)
	// A repeated call may have been told 202 meanwhile, and this one's caller be
	// gone: then the report is all that anybody hears.
	if finished && o.promisedReport(e) {
		o.work.Go(func() { o.report(body, e, end) })
	}
	switch e.plan.mode {
	case reportsFirst:
		if finished {
			o.report(body, e, end)
		}
		writeAnswer(w, http.StatusAccepted, map[string]any{"run_id": e.runID})
	case hangsUp:
		dropConnection(w)
	case hangs:
		hang(r)
	default:
		o.answer(w, e)
	}
}

// reportLater is a run that was accepted: STARTED, heartbeats, the end; with
// repeats also the end again, and a STARTED that overtakes nothing any more.
func (o *oracle) reportLater(e *effect, body runBody) {
	if e.plan.mode != shuffles {
		o.report(body, e, "STARTED")
	}
	if e.plan.repeats {
		o.spend(e.plan.lasts / 2)
		o.report(body, e, "STARTED")
	}
	o.spend(e.plan.lasts)
	if o.finish(e, "SUCCESS") {
		o.report(body, e, "SUCCESS")
	}
	if e.plan.repeats || e.plan.mode == shuffles {
		o.report(body, e, "SUCCESS") // of a cancelled run it comes too late
		o.report(body, e, "STARTED")
	}
}
