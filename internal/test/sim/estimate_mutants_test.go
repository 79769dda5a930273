package sim_test

// estimateMutants are bugs that the play of a queue could have.
var estimateMutants = []seededBug{
	{"a play forgets the runs in flight", []edit{{
		"internal/ledger/estimate.go", `p.Facts.InFlight = len(c.Flights)`, `p.Facts.InFlight = 0`,
	}}},
	{"a play forgets what uses a limit", []edit{{
		"internal/ledger/estimate.go", `own.Used = min(own.Used, used[ref])`, `own.Used = own.Max`,
	}}},
	{"a play starts runs in the order of their keys", []edit{{
		"internal/ledger/play.go", `slices.SortFunc(waiting, func(a, b int) int { return CompareWaiting(&p.Runs[a].WaitingRun, &p.Runs[b].WaitingRun) })`,
		`slices.SortFunc(waiting, func(a, b int) int { return slices.Compare(p.Runs[a].Key[:], p.Runs[b].Key[:]) })`,
	}}},
}
