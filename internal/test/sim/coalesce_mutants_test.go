package sim_test

// coalesceMutants are bugs that overlap policy coalesce could have. Too few worlds have several waiting
// runs of one key for bugs in their order: TestCoalescingAgreesWithTheOracle finds those.
var coalesceMutants = []seededBug{
	{"older slots wait together with the newest", []edit{{
		"internal/ledger/coalesce.go", `if r.isSlot() && r != newest {`, `if r.isSlot() && r != newest && r.waitingSince != 0 {`,
	}}},
	{"the oldest slot waits, and newer ones end", []edit{{
		"internal/ledger/coalesce.go", `r.isOfLaterSlot(newest)`, `newest.isOfLaterSlot(r)`,
	}}},
	{"the newest slot of all schedules of a key waits", []edit{{
		"internal/ledger/coalesce.go", `of[r.schedule] = append(of[r.schedule], r)`, `of[schedules[0]] = append(of[schedules[0]], r)`,
	}}},
	{"a slot that takes the place of another waits from the start", []edit{{
		"internal/ledger/coalesce.go", `kept[i].since = since`, `_ = i`,
	}}},
	{"since when a run waits is not handed to the next leader", []edit{{
		"internal/ledger/state.go", `s.toWaiting(r, micro(in.WaitingSince))`, `s.toWaiting(r, micro(in.FireAt))`,
	}}},
	{"a manual run leaves the slots of its schedule alone", []edit{{
		"internal/ledger/coalesce.go", `if slices.ContainsFunc(runs, (*run).isManual) {`, `if false {`,
	}}},
	{"a slot takes the place of a manual run", []edit{{
		"internal/ledger/coalesce.go", `return r.trigger.FromSpec() || r.automatic }`, `return r.trigger.FromSpec() || r.automatic || r.isManual() }`,
	}, {
		"internal/ledger/coalesce.go", `if slices.ContainsFunc(runs, (*run).isManual) {`, `if false {`,
	}}},
}
