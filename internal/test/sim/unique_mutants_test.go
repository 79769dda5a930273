package sim_test

// uniqueMutants are bugs that unique keys of a queue could have.
var uniqueMutants = []seededBug{
	{"a run enters although another one holds its key", []edit{{
		"internal/ledger/unique.go", `if held == nil || !holdsKey(held, u.now) {`, `if held == nil || held.Run == nil || held.Scope != schedule.UniqueWaiting {`,
	}}},
	{"unique checked by a retry", []edit{{
		"internal/store/memory/failures.go", `t.insert(t.next[i], t.next[i].CreatedAt)`, "held := false\n		for _, h := range t.uniques {\n			held = held || h.RunKey == t.next[i].RetryOf\n		}\n		if !held {\n			t.insert(t.next[i], t.next[i].CreatedAt)\n		}",
	}}},
	{"a retry does not hold the key of the run before it", []edit{{
		"internal/ledger/unique.go", "		h.RunKey = next\n		return h, true\n", "		_ = next\n		return h, false\n",
	}}},
	{"a snoozed run frees its key", []edit{{
		"internal/ledger/unique.go", `if next, goesOn := r.RetriedBy(); goesOn {`, `if next, goesOn := r.RetriedBy(); goesOn && !r.Snoozed() {`,
	}}},
	{"an admitted run is replaced", []edit{{
		"internal/ledger/unique.go", `return !r.Status.Terminal() && !r.Queue.State.Admitted() && r.ClaimedAt.IsZero() && r.RetryOf.IsZero()`, `return !r.Status.Terminal() && r.RetryOf.IsZero()`,
	}}},
	{"the retry of a run is replaced", []edit{{
		"internal/ledger/unique.go", `r.ClaimedAt.IsZero() && r.RetryOf.IsZero() &&`, `r.ClaimedAt.IsZero() &&`,
	}}},
	{"a replaced run keeps its input", []edit{{
		"internal/ledger/unique.go", "	r.Input = row.Input\n", "",
	}}},
	{"a replaced run keeps its start", []edit{{
		"internal/ledger/unique.go", "	startAt(r, fireAt, u.now)\n", "	_ = fireAt\n",
	}}},
	{"a debounce without end", []edit{{
		"internal/ledger/unique.go", `latest.Before(at) {`, `false {`,
	}}},
	{"a debounced run does not wait for another request", []edit{{
		"internal/ledger/unique.go", "		startAt(row, quietEnd(asked.Debounce, f.FirstAt, u.now), u.now)\n", "",
	}}},
	{"a replaced run is not written", []edit{{
		"internal/store/memory/uniques.go", `for i := range decided.Replaced {`, `for i := range decided.Replaced[:0] {`,
	}}},
	{"refuse is answered like return", []edit{{
		"internal/ledger/unique.go", `case asked.OnDuplicate == schedule.DuplicateRefuse:`, `case false:`,
	}}},
	{"the scope waiting lasts until the end of the run", []edit{{
		"internal/ledger/unique.go", `return f.Run != nil && NeverAdmitted(f.Run)`, `return f.Run != nil`,
	}}},
	{"a period ends with its run", []edit{{
		"internal/ledger/unique.go", `return f.Until.After(now)`, `return f.Run != nil && f.Until.After(now)`,
	}}},
	{"a period never ends", []edit{{
		"internal/ledger/unique.go", `return f.Until.After(now)`, `return true`,
	}}},
	{"a cancelled run holds its key for the rest of the period", []edit{{
		"internal/ledger/unique.go", `return h, h.Scope == schedule.UniquePeriod && r.Status != schedule.StatusCancelled`, `return h, h.Scope == schedule.UniquePeriod`,
	}}},
	{"a repeat does not say that its run was there already", []edit{{
		"internal/store/memory/enqueue.go", `record.BodyHash, record.Marks, record.Keys = decided.BodyHash, decided.Marks, decided.Answer()`, `record.BodyHash, record.Keys = decided.BodyHash, decided.Answer()`,
	}}},
	{"a request that added no run is not kept", []edit{{
		"internal/store/memory/enqueue.go", `if req.RequestID != "" {`, `if req.RequestID != "" && len(runs) > 0 {`,
	}}},
}
