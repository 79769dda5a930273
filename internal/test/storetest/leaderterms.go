package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Each of these has a store of its own: they read all terms of it.
var leaderTerms = []check{
	{"a term that goes on has no end, and says when it was renewed last", termGoesOn},
	{"a leader that resigns says why", termResigned},
	{"the next leader ends the term of one whose lock came free, at its last renewal", termLockFreed},
	{"the next leader ends a term that ran out, at its last renewal", termExpired},
	{"a leader that lost its term and is not replaced ends at its last renewal", termLost},
	{"a leader that was replaced may say what the next one could only infer", termAmended},
	{"a leader that was replaced and does not know why changes nothing", termNotAmended},
	{"a time without an answer splits a term", termStalled},
	{"another number of shards ends all terms", termShardsChanged},
	{"a window has the terms that decide who led a bucket", termWindow},
	{"terms that ended long ago are pruned, those that go on stay", termsPruned},
	{"the first call of a key is remembered, if it may have reached the executor", firstSent},
}

// led makes holder the leader of shard 0, a second later.
func (r *rig) led(holder string, ttl time.Duration) schedule.Term {
	r.Helper()
	r.now = r.at(time.Second)
	term, ok, err := r.Takeover(r.ctx, schedule.TakeoverRequest{
		Shard: 0, Shards: 1, Holder: holder, Host: holder + ":1", TTL: ttl, LockHeld: true, Now: r.now,
	})
	r.ok(err, "take over")
	r.hold(ok, "%s takes over", holder)
	return term
}

func (r *rig) ends(term schedule.Term, reason schedule.EndReason, detail string) {
	r.Helper()
	r.ok(r.Resign(r.ctx, term, schedule.Resignation{Now: r.now, End: schedule.TermEnd{Reason: reason, Detail: detail}}), "resign")
}

// listTerms are all, oldest first.
func (r *rig) listTerms(n int) []schedule.LeaderTerm {
	r.Helper()
	terms, err := r.ListTerms(r.ctx, schedule.TermFilter{Limit: 100, Now: r.now})
	r.ok(err, "list terms")
	r.hold(len(terms) == n, "there are %d terms, got %+v", n, terms)
	for i := range len(terms) / 2 {
		terms[i], terms[len(terms)-1-i] = terms[len(terms)-1-i], terms[i]
	}
	return terms
}

func termGoesOn(r *rig) {
	term := r.led("a", time.Hour)
	_, err := r.Renew(r.ctx, term, schedule.RenewRequest{TTL: time.Hour, LockHeld: true, Now: r.at(time.Second)})
	r.ok(err, "renew")
	got := r.listTerms(1)[0]
	r.hold(got.Shard == 0 && got.Epoch == term.Epoch && got.WorkerID == "a" && got.Host == "a:1", "it says who leads, got %+v", got)
	r.hold(got.EndedAt.IsZero() && got.End == schedule.TermEnd{} && !got.Expired, "it has not ended, got %+v", got)
	r.hold(got.RenewedAt.After(got.StartedAt), "it was renewed since it began, got %+v", got)
}

func termResigned(r *rig) {
	term := r.led("a", time.Hour)
	r.now = r.at(time.Second)
	r.ok(r.Resign(r.ctx, term, schedule.Resignation{Now: r.now}), "resign")
	got := r.listTerms(1)[0]
	r.hold(got.End.Reason == schedule.EndResigned && got.EndedAt.After(got.StartedAt), "it resigned, got %+v", got)

	term = r.led("a", time.Hour)
	r.ends(term, schedule.EndUnhealthy, "no launcher")
	got = r.listTerms(2)[1]
	r.hold(got.End == schedule.TermEnd{Reason: schedule.EndUnhealthy, Detail: "no launcher"}, "it says why, got %+v", got)
}

func termLockFreed(r *rig) {
	first := r.led("a", time.Hour)
	_, err := r.Renew(r.ctx, first, schedule.RenewRequest{TTL: time.Hour, LockHeld: true, Now: r.now})
	r.ok(err, "renew")
	renewed := r.listTerms(1)[0].RenewedAt
	r.led("b", time.Hour)
	got := r.listTerms(2)
	r.hold(got[0].End.Reason == schedule.EndLockFreed && got[0].EndedAt.Equal(renewed), "its end is its last renewal, %s, got %+v", renewed, got[0])
	r.hold(got[1].WorkerID == "b" && got[1].EndedAt.IsZero(), "the next one leads, got %+v", got[1])
	r.hold(!got[1].StartedAt.Before(got[0].EndedAt), "it began since then, got %+v", got)
}

func termExpired(r *rig) {
	r.led("a", time.Microsecond)
	r.now = r.at(time.Second)
	got := r.listTerms(1)[0]
	r.hold(got.EndedAt.IsZero() && got.Expired, "it ran out, and nobody has ended it yet, got %+v", got)
	r.led("b", time.Hour)
	got = r.listTerms(2)[0]
	r.hold(got.End.Reason == schedule.EndExpired && got.EndedAt.Sub(got.StartedAt) < time.Millisecond, "it ended as it began, for it was never renewed, got %+v", got)
}

func termLost(r *rig) {
	term := r.led("a", time.Hour)
	renewed := r.listTerms(1)[0].RenewedAt
	r.now = r.at(time.Minute)
	r.ends(term, schedule.EndDatabase, "connection refused")
	got := r.listTerms(1)[0]
	r.hold(got.End == schedule.TermEnd{Reason: schedule.EndDatabase, Detail: "connection refused"}, "it says why, got %+v", got)
	r.hold(got.EndedAt.Equal(renewed), "its end is its last renewal, %s, got %+v", renewed, got)
}

func termAmended(r *rig) {
	first := r.led("a", time.Hour)
	second := r.led("b", time.Hour)
	before := r.listTerms(2)
	r.ends(first, schedule.EndDatabase, "connection refused")
	got := r.listTerms(2)
	r.hold(got[0].End == schedule.TermEnd{Reason: schedule.EndDatabase, Detail: "connection refused"}, "the first says why, got %+v", got[0])
	r.hold(got[0].EndedAt.Equal(before[0].EndedAt), "when it ended stays, got %+v", got[0])
	r.hold(got[1].EndedAt.IsZero(), "the second goes on, got %+v", got[1])
	r.ends(first, schedule.EndClock, "")
	r.hold(r.listTerms(2)[0].End.Reason == schedule.EndDatabase, "what a leader has said itself stays")
	r.ends(second, schedule.EndStopped, "")
}

func termNotAmended(r *rig) {
	first := r.led("a", time.Hour)
	r.led("b", time.Hour)
	r.ends(first, schedule.EndReplaced, "fenced")
	got := r.listTerms(2)[0]
	r.hold(got.End == schedule.TermEnd{Reason: schedule.EndLockFreed}, "what the second has inferred stays, got %+v", got)
}

func termStalled(r *rig) {
	// Postgres works with its own clock: the bounds must lie within the term by it.
	const tick = 10 * time.Millisecond
	term := r.led("a", time.Hour)
	began := r.listTerms(1)[0].StartedAt
	time.Sleep(4 * tick)
	r.now = r.at(4 * tick)
	_, err := r.Renew(r.ctx, term, schedule.RenewRequest{TTL: time.Hour, LockHeld: true, Now: r.now, Stall: &schedule.Stall{
		FromAgo: 3 * tick, UntilAgo: tick, End: schedule.TermEnd{Reason: schedule.EndDatabase, Detail: "slow"},
	}})
	r.ok(err, "renew")
	got := r.listTerms(2)
	r.hold(got[0].StartedAt.Equal(began) && got[0].EndedAt.After(began), "the first part ends at the stall, got %+v", got[0])
	r.hold(got[0].End == schedule.TermEnd{Reason: schedule.EndDatabase, Detail: "slow"}, "it says why, got %+v", got[0])
	r.hold(got[1].StartedAt.Sub(got[0].EndedAt) >= tick, "the second begins behind the stall, got %s", got[1].StartedAt.Sub(got[0].EndedAt))
	r.hold(got[1].Epoch == got[0].Epoch && got[1].EndedAt.IsZero() && got[1].WorkerID == "a", "it is the same term, and goes on, got %+v", got[1])
	r.ends(term, schedule.EndStopped, "")
	got = r.listTerms(2)
	r.hold(got[0].End.Reason == schedule.EndDatabase && got[1].End.Reason == schedule.EndStopped, "only the part that went on ends, got %+v", got)
}

func termShardsChanged(r *rig) {
	r.led("a", time.Hour)
	r.ok(r.SetShards(r.ctx, 2, r.at(time.Second)), "set shards")
	got := r.listTerms(1)[0]
	r.hold(got.End.Reason == schedule.EndShardsChanged && !got.EndedAt.IsZero(), "the term has ended, got %+v", got)
}

func termWindow(r *rig) {
	for _, holder := range []string{"a", "b", "c", "d"} {
		r.led(holder, time.Hour)
	}
	all := r.listTerms(4)
	for _, c := range []struct {
		name        string
		from, until time.Time
		want        string
	}{
		{"before all", all[0].StartedAt.Add(-time.Hour), all[0].StartedAt.Add(-time.Minute), "a"},
		{"within one", all[1].StartedAt, all[1].StartedAt, "bc"},
		{"over several", all[1].StartedAt, all[2].StartedAt, "bcd"},
		{"behind all", all[3].StartedAt.Add(time.Hour), all[3].StartedAt.Add(2 * time.Hour), "d"},
	} {
		terms, err := r.WindowTerms(r.ctx, schedule.TermWindow{Bucket: 7, From: c.from, Until: c.until, Now: r.now})
		r.ok(err, "terms of a window")
		got := ""
		for _, t := range terms {
			got += t.WorkerID
		}
		r.hold(got == c.want, "%s: %q, got %q", c.name, c.want, got)
	}
	r.ok(r.SetShards(r.ctx, 2, r.now), "set shards")
	r.now = r.at(time.Second)
	for shard, holder := range []string{"low", "high"} {
		_, ok, err := r.Takeover(r.ctx, schedule.TakeoverRequest{Shard: shard, Shards: 2, Holder: holder, TTL: time.Hour, Now: r.now})
		r.ok(err, "take over")
		r.hold(ok, "%s takes over", holder)
	}
	far := r.listTerms(6)[5].StartedAt.Add(time.Hour)
	for bucket, holder := range map[int]string{0: "low", schedule.Buckets - 1: "high"} {
		terms, err := r.WindowTerms(r.ctx, schedule.TermWindow{Bucket: bucket, From: far, Until: far, Now: r.now})
		r.ok(err, "terms of a window")
		r.hold(len(terms) == 1 && terms[0].WorkerID == holder, "bucket %d is led by %s, got %+v", bucket, holder, terms)
	}
}

func termsPruned(r *rig) {
	r.led("a", time.Hour)
	r.led("b", time.Hour)
	r.term = r.led("c", time.Hour)
	far := r.listTerms(3)[2].StartedAt.Add(time.Hour)
	r.hold(r.prune(far, 1) == 1, "at most one goes at once")
	r.pruneAll(far)
	got := r.listTerms(1)[0]
	r.hold(got.WorkerID == "c", "the term that goes on stays, got %+v", got)
}

func firstSent(r *rig) {
	first := func(q schedule.BeginRequest) time.Time {
		t, err := r.FirstSent(r.ctx, q.Key)
		r.ok(err, "first sent")
		return t
	}
	r.keysOfRuns, r.keys = true, make(map[string]schedule.BeginRequest)
	q := r.strange("twice")
	r.hold(first(q).IsZero(), "nothing was recorded yet")
	began := r.now
	r.granted(q)
	r.hold(first(q).Equal(began), "the first call was recorded at %s, got %s", began, first(q))
	r.release(q.Key, false)
	r.hold(first(q).IsZero(), "it did not reach the executor")

	r.now = r.at(time.Minute)
	again := r.now
	r.permits(q, schedule.Granted)
	r.hold(first(q).Equal(again), "the second may have, got %s", first(q))
	r.now = r.at(time.Hour)
	r.permits(q, schedule.GrantedAgain)
	r.hold(first(q).Equal(again), "the third is not the first, got %s", first(q))
	r.finish(q.Key, schedule.Outcome{Status: schedule.StatusSuccess})
	r.hold(first(q).Equal(again), "history keeps it, got %s", first(q))

	once := r.strange("once")
	r.granted(once)
	r.finish(once.Key, schedule.Outcome{Status: schedule.StatusSuccess})
	r.hold(first(once).IsZero(), "of a run that was delivered once history has nothing, got %s", first(once))
}
