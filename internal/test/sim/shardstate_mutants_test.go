package sim_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shardHistories are how many histories a bug of the shard state may live through.
const shardHistories = 4000

// shardMutants are bugs that a leader's state in memory could have. The comparison
// with the store has to find each.
var shardMutants = []seededBug{
	{"verdicts are entered before the commit", []edit{{
		"internal/ledger/judge.go", "	j.claim()\n	return j.out, nil\n", "	j.claim()\n	s.Commit(j.out, 10*time.Second)\n	return j.out, nil\n",
	}}},
	{"a commit with unknown result is taken as failed", []edit{{
		"internal/ledger/state.go", `func (s *ShardState) Discard() { s.stale = true }`, `func (s *ShardState) Discard() {}`,
	}}},
	{"a run that has ended is kept in flight", []edit{{
		"internal/ledger/changes.go", "if r := s.runs[key]; r != nil {\n			s.forget(r)", "if r := s.runs[key]; r != nil && r.flight == nil {\n			s.forget(r)",
	}}},
	{"a rebuild does not load runs that wait", []edit{{
		"internal/ledger/state.go", `r := &open.Runs[i]; s.runs[r.Key] == nil {`, `r := &open.Runs[i]; s.runs[r.Key] == nil && !r.Waiting {`,
	}}},
	{"a rebuild does not load runs in flight of older epochs", []edit{{
		"internal/ledger/state.go", `r := &open.Runs[i]; s.runs[r.Key] == nil {`, `r := &open.Runs[i]; s.runs[r.Key] == nil && (!r.Status.InFlight() || r.Epoch == s.epoch) {`,
	}}},
	{"owners do not alternate", []edit{{
		"internal/ledger/share.go", `case a.taken != b.taken:`, `case false:`,
	}}},
	{"the capacity of an owner is ignored", []edit{{
		"internal/ledger/share.go", `case t.taken == t.capacity:`, `case false:`,
	}}},
	{"a claim does not read changes", []edit{{
		"internal/ledger/claim.go", "	c.State.Apply(changes)\n	if err := c.checkSwept", "	_ = changes\n	if err := c.checkSwept",
	}}},
	{"a blocker is gone, and changes are not read again", []edit{{
		"internal/ledger/claim.go", "	changes, err := read.Changes()\n	if err != nil {\n		return Verdicts{}, fmt.Errorf(\"read changes again", "	changes := Changes{Ended: gone}\n	if err != nil {\n		return Verdicts{}, fmt.Errorf(\"read changes again",
	}}},
	{"a run is skipped before its fire_at", []edit{{
		"internal/ledger/overlap.go", `if r.fireAt > g.now {`, `if false {`,
	}}},
	{"seen_until passes a missed slot without a verdict", []edit{{
		"internal/ledger/state.go", `until = min(until, r.fireAt-1)`, `_ = r`,
	}}},
	{"seen_until stays where it is", []edit{{
		"internal/ledger/state.go", `s.seenUntil = max(s.seenUntil, micro(v.SeenUntil))`, ``,
	}, {
		"internal/ledger/judge.go", `SeenUntil: s.lookedUntil(now)`, `SeenUntil: time.UnixMicro(s.seenUntil)`,
	}}},
	{"a run that waits for its group is let go though something is in flight", []edit{{
		"internal/ledger/group.go", `len(g.waiting) > 0 && len(g.inFlight) == 0`, `len(g.waiting) > 0`,
	}}},
	{"an edit leaves the planned runs that it took away", []edit{{
		"internal/ledger/changes.go", `if r.place != placeFlight && !there[r.key] {`, `if false {`,
	}}},
	{"a run that is read again stays as it was", []edit{{
		"internal/ledger/changes.go", `if r.outside() != *in {`, `if false {`,
	}}},
	{"a launch of an older epoch is not sent again at once", []edit{{
		"internal/ledger/resend.go", `if epoch != term {`, `if false {`,
	}}},
	{"a launch is sent again before its claimed_until", []edit{{
		"internal/ledger/resend.go", `if r.flight.tryAt > now {`, `if r.flight.tryAt > now+500_000 {`,
	}}},
	{"a claim is not sent again when its lease is over", []edit{{
		"internal/ledger/state.go", `nextSend: v.now + lease.Microseconds(), `, `nextSend: math.MaxInt64, `,
	}}},
	{"owners do not alternate when launches are sent again", []edit{{
		"internal/ledger/resend.go", `return cmp.Compare(a.round, b.round) })`, `return 0 })`,
	}}},
	{"the capacity of an owner is ignored when launches are sent again", []edit{{
		"internal/ledger/resend.go", `capacity == nil || rounds[o] <= capacity(o.id)`, `true`,
	}}},
	{"a launch that was sent again is due at once", []edit{{
		"internal/ledger/resend.go", "	s.Apply(read)\n", "",
	}}},
	{"a run of a sweep stays unknown", []edit{{
		"internal/ledger/claim.go", "\t\t\tc.State.Discard()\n", "",
	}}},
	{"what blocks a waiting run is not looked up every ten seconds", []edit{{
		"internal/ledger/claim.go", `v.Blockers = append(v.Blockers, blockers...)`, `_ = blockers`,
	}}},
	{"a retry that waits for the end of a pause is claimed", []edit{{
		"internal/ledger/run.go", `return (r.automatic || r.trigger == schedule.TriggerEvent) && s.stopped && !s.deleted`, `return false && r.automatic && s.stopped && !s.deleted`,
	}}},
	{"a retry that waits for the end of a pause holds up its group", []edit{{
		"internal/ledger/share.go", `i := slices.IndexFunc(g.waiting, func(r *run) bool { return !r.isHeld(now) && (r.queue == queueSome) == enters })`, `i := slices.IndexFunc(g.waiting[:1], func(r *run) bool { return !r.isHeld(now) && (r.queue == queueSome) == enters })`,
	}}},
	{"a retry whose time is over is claimed", []edit{{
		"internal/ledger/run.go", `return r.startBy != 0 && max(r.fireAt, now) > r.startBy`, `return false`,
	}}},
	{"a retry replaces a newer slot that has started", []edit{{
		"internal/ledger/judge.go", `j.facts.Superseded[r.key]`, `false`,
	}}},
	{"a cancel that is read as a change is not known", []edit{{
		"internal/ledger/place.go", `if r.cancelRequested && !r.queued {`, `if false {`,
	}}},
}

// TestSeededBugsOfTheShardStateAreFound builds the tests of the memory store once for
// each bug.
func TestSeededBugsOfTheShardStateAreFound(t *testing.T) {
	if !*mutate {
		t.Skip("make sim-mutants")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range shardMutants {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			binary, began := build(t, root, m.edits, "./internal/store/memory"), time.Now()
			out, err := exec.CommandContext(t.Context(), binary, "-test.run", "^TestShardStateAgreesWithTheStore$", "-test.timeout", "5m",
				"-rapid.checks", fmt.Sprint(shardHistories), "-rapid.nofailfile", "-rapid.shrinktime", "1ms").CombinedOutput()
			if err == nil {
				t.Fatalf("not found in %d histories", shardHistories)
			}
			first, _, _ := strings.Cut(string(out), "\n        To reproduce")
			t.Logf("found after %.1f s: %s", time.Since(began).Seconds(), first)
		})
	}
}
