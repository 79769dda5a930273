package sim_test

// fairMutants are bugs that fair queues could have.
var fairMutants = []seededBug{
	{"a key draws as if none of its runs waited", []edit{{
		"internal/ledger/fair.go", `next[t] = max(f.Clock, min(f.Share, f.Last))`, `next[t] = f.Clock`,
	}}},
	{"the runs of a batch have the same turn", []edit{{
		"internal/ledger/fair.go", `next[t] += turnOf(d.queues[t.QueueNo].Weight(t.Key))`, `next[t] = max(facts[t].Clock, min(facts[t].Share, facts[t].Last)) + turnOf(d.queues[t.QueueNo].Weight(t.Key))`,
	}}},
	{"the clock of a fair queue stands still", []edit{{
		"internal/store/memory/fair.go", `max(t.clocks[of], c.Order)`, `t.clocks[of]`,
	}}},
	{"weights are ignored", []edit{{
		"internal/ledger/fair.go", `turnOf(d.queues[t.QueueNo].Weight(t.Key))`, `turnOf(1)`,
	}}},
	{"all runs have one key", []edit{{
		"internal/ledger/fair.go", `FairTurns{r.Queue.No, r.Queue.Priority, r.Queue.FairKey})`, `FairTurns{r.Queue.No, r.Queue.Priority, ""})`,
	}}},
	{"an admission ignores turns", []edit{{
		"internal/ledger/admit.go", `FairOrder: q.FairOrder, `, ``,
	}}},
	{"a retry goes before all turns", []edit{{
		"internal/ledger/queued.go", `FairKey: before.Queue.FairKey, FairOrder: before.Queue.FairOrder,`, `FairKey: before.Queue.FairKey,`,
	}}},
	{"a run that waits again goes before all turns", []edit{{
		"internal/ledger/queued.go", "	r.Queue.State = schedule.QueueWaiting\n	if back.FireAt.After(now) {", "	r.Queue.State = schedule.QueueWaiting\n	r.Queue.FairOrder = 0\n	if back.FireAt.After(now) {",
	}}},
	{"a delayed run draws nothing", []edit{{
		"internal/store/memory/admit.go", "			t.drawFair(req.Now, &after)\n", "",
	}}},
	{"the key that a run names is forgotten", []edit{{
		"registrar/entry.go", `row.Queue.FairKey = cmp.Or(in.FairKey, s.FairKey)`, `row.Queue.FairKey = s.FairKey`,
	}}},
}
