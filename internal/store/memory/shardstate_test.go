package memory_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
)

// shardManyPasses are enough that all must have come.
const shardManyPasses = 50_000

// TestShardStateAgreesWithTheStore makes random histories of a shard. At each pass
// the state in memory and the store judge the same runs, and must come to the same
// verdicts; at every tenth pass the state must equal one that is rebuilt.
func TestShardStateAgreesWithTheStore(t *testing.T) {
	seen := &shardCoverage{ends: make(map[string]int), explained: make(map[string]int)}
	rapid.Check(t, func(t *rapid.T) {
		w := newShardWorld(t, seen)
		names := slices.Sorted(maps.Keys(shardSteps))
		for range rapid.IntRange(10, 60).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "before the pass") {
				shardSteps[rapid.SampledFrom(names).Draw(t, "step")](w)
			}
			w.pass()
		}
	})
	t.Logf("%+v", *seen)
	if seen.passes < shardManyPasses {
		return
	}
	for _, missing := range seen.missing() {
		t.Errorf("no history had %s", missing)
	}
}

// shardCoverage counts what the histories had, or the test could pass without
// having seen anything.
type shardCoverage struct {
	passes, claims, early, waits, cancels, left, late, takeovers, again, failed, unknown int
	resent, resentLeft, cancelsSent, strays                                              int
	retries, held, superseded                                                            int
	ends, explained                                                                      map[string]int
}

func (c *shardCoverage) missing() (missing []string) {
	for name, n := range map[string]int{
		"a claim": c.claims, "an early claim": c.early, "a wait": c.waits, "a cancel": c.cancels, "scarce capacity": c.left,
		"a missed slot": c.late, "a second reading": c.again, "a failed commit": c.failed, "an unknown commit": c.unknown,
		"a launch that is sent again": c.resent, "a launch that must wait for capacity": c.resentLeft, "a cancel to send": c.cancelsSent, "a correction": c.strays,
		"an automatic retry that is claimed": c.retries, "a retry that waits for the end of a pause": c.held, "a retry that a newer slot has replaced": c.superseded,
	} {
		if n == 0 {
			missing = append(missing, name)
		}
	}
	for _, reason := range []schedule.Reason{
		schedule.ReasonOverlap, schedule.ReasonQueueFull, schedule.ReasonCoalesced, schedule.ReasonPaused, schedule.ReasonDeleted,
		schedule.ReasonGrantExpired, schedule.ReasonGrantRevoked, schedule.ReasonGrantDenied, schedule.ReasonLaunchRefused,
		schedule.ReasonMissed,
	} {
		if c.ends[string(reason)] == 0 {
			missing = append(missing, "an end for "+string(reason))
		}
	}
	for _, d := range shardDifferences {
		if c.explained[d.name] == 0 {
			missing = append(missing, "the difference "+d.name)
		}
	}
	return missing
}

// shardDifferences are the runs on which state and store differ on purpose. Before
// a pass each such run is found, counted, and settled in the store as the state's
// rule says, so that all else must agree.
var shardDifferences = []struct {
	name, why string
	is        func(w *shardWorld, r *schedule.Run, late map[schedule.Key]bool) bool
	settle    func(w *shardWorld, r *schedule.Run) schedule.LateVerdict
}{
	{
		name: "planned after its instant was looked at",
		why: "The store lets a slot be missed if no pass has found it within the grace. The state lets it be missed only if it fires after " +
			"seen_until: a slot that is planned for an instant that was looked at already is judged by the planner, when it is planned, and fires.",
		is: func(w *shardWorld, r *schedule.Run, late map[schedule.Key]bool) bool {
			return storeMissed(w, r) && !late[r.Key] && !r.FireAt.After(w.seenAtPlan[r.Key])
		},
		settle: fireAsPlanned,
	},
	{
		name: "seen by a pass that was not committed",
		why: "The store lets a slot be missed if no committed pass has found it within the grace. The state remembers what it has looked at, " +
			"also if the commit failed: the leader was there in time, so the slot fires.",
		is: func(w *shardWorld, r *schedule.Run, late map[schedule.Key]bool) bool {
			return storeMissed(w, r) && !late[r.Key] && r.FireAt.After(w.seenUntil) && w.uncommitted[r.Key]
		},
		settle: fireAsPlanned,
	},
	{
		name: "seen behind a missed slot by a leader before",
		why: "The store marks each run that a pass has seen and left behind. The leaders row has one instant, seen_until, which never passes a " +
			"missed slot without a verdict: after a rebuild, a run that fires later than that slot and was left behind counts as missed.",
		is: func(w *shardWorld, r *schedule.Run, late map[schedule.Key]bool) bool {
			return late[r.Key] && w.judged[r.Key] && r.FireAt.After(w.seenUntil)
		},
		settle: func(w *shardWorld, r *schedule.Run) schedule.LateVerdict {
			return schedule.LateVerdict{Key: r.Key, Fire: true, FireAt: w.now, Trigger: schedule.TriggerCatchup}
		},
	},
}

// storeMissed reports whether the store leaves a run to the planner.
// fireAsPlanned lets a run fire that the store believes missed.
func fireAsPlanned(_ *shardWorld, r *schedule.Run) schedule.LateVerdict {
	return schedule.LateVerdict{Key: r.Key, Fire: true, FireAt: r.FireAt, Trigger: r.Trigger}
}

func storeMissed(w *shardWorld, r *schedule.Run) bool {
	cut := w.now.Add(-shardGrace)
	return memory.MissedRun(r, w.judged, cut)
}

// settleDifferences brings the store to where the state's rules lead.
func (w *shardWorld) settleDifferences() {
	late := w.late()
	judged := make(map[string][]schedule.LateVerdict)
	for _, r := range w.open(schedule.RunFilter{}) {
		for _, d := range shardDifferences {
			if !d.is(w, &r, late) {
				continue
			}
			w.seen.explained[d.name]++
			w.Log("explained: ", d.name, ": ", r.Key)
			if s := w.scheduleNow(r.ScheduleID); s.Deleted || s.Pause.Active(w.now) { // no plan judges its runs
				w.changeRun(r.Key, schedule.RunChange{Now: w.now, Settle: &schedule.Settlement{To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled}})
				continue
			}
			judged[r.ScheduleID] = append(judged[r.ScheduleID], d.settle(w, &r))
			w.judged[r.Key] = true
		}
	}
	if len(judged) == 0 {
		return
	}
	_, err := w.store.Plan(w.ctx, schedule.PlanRequest{Term: w.term, Now: w.now, Horizon: w.now, Grace: 1000 * time.Hour, Limit: 100},
		func(candidates []schedule.PlanCandidate) (out []schedule.PlanDecision) {
			for i := range candidates {
				id := candidates[i].Schedule.ScheduleID
				out = append(out, schedule.PlanDecision{ScheduleID: id, NextRunAt: w.now, PlanAt: w.now, LateVerdicts: judged[id]})
			}
			return out
		})
	w.must(err)
}

// late are the runs that the state would leave to the planner in a pass now.
func (w *shardWorld) late() map[schedule.Key]bool {
	changes, err := w.Changes()
	w.must(err)
	w.state.Apply(changes)
	_, err = w.state.Judge(ledger.Pass{Now: w.now, Grace: shardGrace}, w.Facts)
	w.must(err)
	late := make(map[schedule.Key]bool)
	for _, key := range w.state.Late() {
		late[key] = true
	}
	return late
}

// pass lets both judge, compares, and commits, or does not.
func (w *shardWorld) pass() {
	if w.state.Stale() {
		w.state = w.rebuild()
	}
	w.moveWindow()
	w.sendAgain()
	w.settleDifferences()
	w.forget()
	p := w.drawPass()
	w.readings, w.foundGone = 0, false
	seenUntil := w.wantSeenUntil()
	w.between = nil
	if draw(w, "something is committed during the pass", true, false, false) {
		w.between = w.interfere
	}
	claim := ledger.Claim{State: w.state, Pass: p, Swept: w.swept}
	v, err := claim.Decide(w)
	w.between, w.swept = nil, nil
	w.must(err)
	for _, key := range claim.Strays {
		if !w.defects[key] {
			w.Fatalf("run %s was corrected, and the state was right", key)
		}
	}
	if w.seen.strays += len(claim.Strays); w.state.Stale() {
		return // a run of a sweep was unknown
	}
	switch {
	case w.foundGone && w.read < len(w.log):
		w.Fatal("a run that blocks others is gone, and changes were not read again")
	case w.read == len(w.log) && w.readings == 1 && !v.SeenUntil.Equal(seenUntil):
		w.Fatalf("seen_until: got %s, want %s", v.SeenUntil, seenUntil)
	}
	w.seen.passes++
	if w.readings > 1 {
		w.seen.again++
	}
	switch outcome := draw(w, "commit", "done", "done", "done", "done", "failed", "unknown", "unknown and done"); outcome {
	case "failed":
		w.seen.failed++
		w.sawInVain()
	case "unknown":
		w.state.Discard()
	case "unknown and done":
		w.compare(p, v)
		w.sawUntil(v.SeenUntil)
		w.state.Discard()
		w.seen.unknown++
	default:
		w.compare(p, v)
		w.sawUntil(v.SeenUntil)
		w.state.Commit(v, shardLease)
	}
	if w.passes++; w.passes%10 == 0 && !w.state.Stale() {
		w.compareRebuilt()
	}
}

// sawUntil writes seen_until, as a claim does.
func (w *shardWorld) sawUntil(then time.Time) {
	w.seenUntil = later(w.seenUntil, then)
	w.must(w.store.SetSeenUntil(w.ctx, w.term, w.seenUntil))
}

// wantSeenUntil is now, or just before the first missed slot that the planner has
// not judged; never less than before.
func (w *shardWorld) wantSeenUntil() time.Time {
	until := w.now
	for _, r := range w.open(schedule.RunFilter{}) {
		if before := r.FireAt.Add(-time.Microsecond); storeMissed(w, &r) && before.Before(until) {
			until = before
		}
	}
	return later(until, w.seenUntil)
}

// sawInVain notes what a pass has seen that was not committed.
func (w *shardWorld) sawInVain() {
	for _, r := range w.open(schedule.RunFilter{}) {
		if !r.FireAt.After(w.now) {
			w.uncommitted[r.Key] = true
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *shardWorld) drawPass() ledger.Pass {
	capacities := make(map[string]int)
	for _, owner := range []string{"ada", "bob", "eve"} {
		capacities[owner] = draw(w, "capacity", 0, 1, 2, 100, 100)
	}
	return ledger.Pass{
		Now: w.now, ClaimAhead: draw(w, "ahead", 0, 250*time.Millisecond, 950*time.Millisecond), Grace: shardGrace,
		Limit: draw(w, "limit", 0, 1, 2, 3, 5, 100, 100, 100), Capacity: func(owner string) int { return capacities[owner] },
		RequireGrant: false,
	}
}

// interfere commits something after the pass has read the changes: a run that is
// in flight ends, and what follows it is there at once.
func (w *shardWorld) interfere() { w.retry() }

// compare lets the store claim, and compares.
func (w *shardWorld) compare(p ledger.Pass, v ledger.Verdicts) {
	unread := w.unreadGroups()
	want := w.oracle(p)
	got := verdictsOf(v)
	w.count(p, want, v)
	if len(unread) > 0 {
		// What was committed after the last reading is for the next pass. If capacity is
		// scarce it may take the place of any run, else only of its own group.
		for _, r := range w.open(schedule.RunFilter{}) {
			w.again = append(w.again, shardChange{key: r.Key})
		}
		for key := range want.ends {
			w.again = append(w.again, shardChange{key: key})
		}
		for _, key := range v.Claims {
			w.again = append(w.again, shardChange{key: key})
		}
		for _, e := range v.Ends {
			w.again = append(w.again, shardChange{key: e.Key})
		}
		if want.left || v.Left {
			return
		}
		want.drop(w, unread)
		got.drop(w, unread)
	}
	if a, b := got.text(w), want.text(w); a != b {
		w.Fatalf("pass at %s, ahead %s, limit %d\nstate: %s\nstore: %s", w.now.Format("05.000"), p.ClaimAhead, p.Limit, a, b)
	}
}

// unreadGroups are the overlap groups of the runs that were changed since the state
// last read changes.
func (w *shardWorld) unreadGroups() map[string]bool {
	groups := make(map[string]bool)
	for _, c := range w.log[w.read:] {
		r, err := w.store.GetRun(w.ctx, c.key)
		w.must(err)
		groups[r.OverlapKey] = true
	}
	return groups
}

func (w *shardWorld) oracle(p ledger.Pass) oracleVerdicts {
	o := oracleVerdicts{ends: make(map[schedule.Key]string), waits: make(map[schedule.Key]time.Time), cancels: make(map[schedule.Key]schedule.Reason)}
	w.claiming = &o
	result, err := w.store.OracleClaim(w.ctx, memory.OracleRequest{
		Term: w.term, Now: p.Now, ClaimAhead: p.ClaimAhead, Grace: p.Grace, Limit: p.Limit, Capacity: p.Capacity, RequireGrant: p.RequireGrant,
		Lease: shardLease, RetryFor: 30 * time.Second, Seen: w.judged,
	}, ledger.JudgeOverlap)
	w.claiming = nil
	w.must(err)
	for i := range result.Launches {
		o.claims = append(o.claims, result.Launches[i].Run.Key)
	}
	o.left = result.More
	return o
}

func verdictsOf(v ledger.Verdicts) oracleVerdicts {
	o := oracleVerdicts{claims: v.Claims, ends: make(map[schedule.Key]string), waits: make(map[schedule.Key]time.Time), cancels: make(map[schedule.Key]schedule.Reason), left: v.Left}
	for _, e := range v.Ends {
		o.ends[e.Key] = fmt.Sprintln(e.To, e.Reason, e.ErrorCode, e.ErrorMessage)
	}
	for _, w := range v.Waits {
		o.waits[w.Key] = v.WaitsSince(w)
	}
	for _, c := range v.Cancels {
		o.cancels[c.Key] = c.Reason
	}
	return o
}

func (o *oracleVerdicts) drop(w *shardWorld, groups map[string]bool) {
	in := func(key schedule.Key) bool {
		r, err := w.store.GetRun(w.ctx, key)
		w.must(err)
		return groups[r.OverlapKey]
	}
	o.claims = slices.DeleteFunc(slices.Clone(o.claims), in)
	maps.DeleteFunc(o.ends, func(key schedule.Key, _ string) bool { return in(key) })
	maps.DeleteFunc(o.waits, func(key schedule.Key, _ time.Time) bool { return in(key) })
	maps.DeleteFunc(o.cancels, func(key schedule.Key, _ schedule.Reason) bool { return in(key) })
}

// text is the verdicts, the claims in order.
func (o *oracleVerdicts) text(w *shardWorld) string {
	name := func(key schedule.Key) string {
		r, err := w.store.GetRun(w.ctx, key)
		w.must(err)
		return fmt.Sprintf("%s/%s/%s/%s@%s", r.ScheduleID, key.String()[:6], r.OverlapPolicy, r.Trigger, r.FireAt.Format("05.000"))
	}
	var lines []string
	for key, end := range o.ends {
		lines = append(lines, "end "+name(key)+" "+end)
	}
	for key, since := range o.waits {
		lines = append(lines, "wait "+name(key)+" since "+since.UTC().Format("04:05.000000"))
	}
	for key, reason := range o.cancels {
		lines = append(lines, "cancel "+name(key)+" "+string(reason))
	}
	slices.Sort(lines)
	claims := make([]string, len(o.claims))
	for i, key := range o.claims {
		claims[i] = "claim " + name(key)
	}
	return strings.Join(append(claims, lines...), "\n\t") + fmt.Sprint("\n\tleft behind: ", o.left)
}

func (w *shardWorld) count(p ledger.Pass, want oracleVerdicts, v ledger.Verdicts) {
	c := w.seen
	c.claims, c.waits, c.cancels, c.late = c.claims+len(want.claims), c.waits+len(want.waits), c.cancels+len(want.cancels), c.late+len(w.state.Late())
	if want.left {
		c.left++
	}
	for _, e := range v.Ends {
		c.ends[string(e.Reason)]++
	}
	for _, key := range want.claims {
		r, err := w.store.GetRun(w.ctx, key)
		w.must(err)
		if r.FireAt.After(p.Now) {
			c.early++
		}
		if r.IsAutomaticRetry() {
			c.retries++
		}
	}
	for _, r := range w.open(schedule.RunFilter{}) {
		s := w.scheduleNow(r.ScheduleID)
		if r.IsAutomaticRetry() && r.Status == schedule.StatusPlanned && !r.FireAt.After(p.Now) && s.Pause.Active(p.Now) && !s.Deleted {
			c.held++
		}
	}
}

// compareRebuilt compares the state with one that was rebuilt.
func (w *shardWorld) compareRebuilt() {
	changes, err := w.Changes()
	w.must(err)
	w.state.Apply(changes)
	read := w.read
	fresh := w.rebuild()
	w.read = read
	if got, want := w.runsOf(w.state), w.runsOf(fresh); got != want {
		w.Fatalf("the state is not what a rebuild makes\nstate:\n%s\nrebuilt:\n%s", got, want)
	}
	// After the clock was set back the state knows more than the window of a rebuild.
	got, want := w.state.NextFireAt(w.now), fresh.NextFireAt(w.now)
	if !got.Equal(want) && !got.After(w.now.Add(shardWindow)) {
		w.Fatalf("next fire_at: got %s, rebuilt %s", got, want)
	}
}

func (w *shardWorld) runsOf(s *ledger.ShardState) string {
	var lines []string
	for r := range s.All() {
		if r.Status != schedule.StatusPlanned || !r.WaitingSince.IsZero() || !r.FireAt.After(w.now.Add(shardWindow)) {
			lines = append(lines, fmt.Sprintf("%+v", r))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (w *shardWorld) Queues([]string) (map[string]*schedule.Queue, error) { return nil, nil }

func (w *shardWorld) Waiting(int32, int) (int, error) { return 0, nil }

// Superseded looks for a newer slot that was claimed.
func (w *shardWorld) Superseded(keys []schedule.Key) (map[schedule.Key]bool, error) {
	found := make(map[schedule.Key]bool)
	for _, key := range keys {
		r, err := w.store.GetRun(w.ctx, key)
		w.must(err)
		runs, err := w.store.ListRuns(w.ctx, schedule.RunFilter{ScheduleID: r.ScheduleID, Limit: 1_000_000, Now: w.now})
		w.must(err)
		if slices.ContainsFunc(runs, func(o schedule.Run) bool { return o.RunAt.After(r.RunAt) && !o.ClaimedAt.IsZero() }) {
			found[key] = true
			w.seen.superseded++
		}
	}
	return found, nil
}
