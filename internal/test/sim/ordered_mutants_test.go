package sim_test

// orderedMutants are bugs that ordered limits could have.
var orderedMutants = []seededBug{
	{"a retry is blocked by the ordered use that it owns", []edit{{
		"internal/ledger/admit.go", "		if slices.Contains(kept, ref) {\n			used--\n		}\n", "",
	}}},
	{"a retry waits behind the runs of its key that come first", []edit{{
		"internal/ledger/admit.go", `if r.Queue.Kept != "" {`, `if false {`,
	}}},
	{"the use of an ordered limit is not passed to the retry", []edit{{
		"internal/store/memory/transaction.go", `t.passUses(r, t.conclude(r))`, `t.conclude(r)`,
	}}},
	{"a snoozed run gives its key back", []edit{{
		"internal/ledger/kept.go", `if !u.Ordered || run == nil ||`, `if !u.Ordered || run == nil || run.Snoozes > 0 ||`,
	}}},
	{"a retry that waits again frees the key that it keeps", []edit{{
		"internal/ledger/kept.go", `if r.Status.Terminal() || r.Queue.Kept == "" {`, `if r.Status.Terminal() || r.Queue.Kept == "" || true {`,
	}}},
	{"the key outlives the end of a retry that waited", []edit{{
		"internal/store/memory/uses.go", "	if !any {\n", "	if !any || r.Status.Terminal() && r.ClaimedAt.IsZero() {\n",
	}}},
	{"a retry that keeps a key ignores its other limits", []edit{{
		"internal/ledger/admit.go", `if l == nil || l.Unlimited {`, `if l == nil || l.Unlimited || len(kept) > 0 {`,
	}}},
	{"a retry that keeps a key changes its limits", []edit{{
		"registrar/queued.go", `run.Queue.Kept != "" && limits`, `run.Queue.Kept == "/" && limits`,
	}}},
}
