package sim_test

// cancelMutants are bugs that a cancel of many runs could have.
var cancelMutants = []seededBug{
	{"a cancel of many runs passes over what is in flight", []edit{{
		"internal/ledger/cancel.go", `case request != "" && r.CancelRequestedAt.IsZero():`, `case request == "-":`,
	}}},
	{"a cancel of many runs passes over chained members", []edit{{
		"internal/ledger/cancel.go", `if o.Waiting && !waits || ahead && !o.Named {`, `if o.Waiting && !waits || ahead && !o.Named || r.Queue.State == schedule.QueueChained {`,
	}}},
	{"a cancel of many runs ends after its first page", []edit{{
		"registrar/cancel.go", `if page.Found == in.Filter.Limit {`, `if page.Found > in.Filter.Limit {`,
	}}},
	{"the next page of a cancel begins too late", []edit{{
		"internal/schedule/redrive.go", `RunAt: last.RunAt, Key: last.Key`, `RunAt: last.RunAt.Add(-time.Second), Key: last.Key`,
	}}},
	{"a cancel of a queue reaches the other queues", []edit{{
		"internal/store/memory/cancel.go", `	f.Statuses = schedule.OpenStatuses
`, `	f.Statuses, f.QueueNo = schedule.OpenStatuses, 0
`,
	}}},
	{"a dry run of a cancel cancels", []edit{{
		"registrar/cancel.go", `		if in.DryRun {
`, `		if in.DryRun && in.Note != "" {
`,
	}}},
	{"a pause that cancels what waits cancels what is in flight too", []edit{{
		"internal/ledger/cancel.go", `if o.Waiting && !waits || ahead && !o.Named {`, `if o.Waiting && !waits && o.Named || ahead && !o.Named {`,
	}}},
	{"a cancel of a schedule cancels the slots that are still to come", []edit{{
		"internal/ledger/cancel.go", `if o.Waiting && !waits || ahead && !o.Named {`, `if o.Waiting && !waits || ahead && o.Named {`,
	}}},
	{"a cancel of many runs only asks", []edit{{
		"internal/store/memory/cancel.go", "	for i := range change.End {\n		t.settle(&change.End[i], change.Now)\n	}\n", "",
	}}},
	{"a cancel of many runs does not ask", []edit{{
		"internal/store/memory/cancel.go", "		t.askCancel(t.runs[key], change.Reason, change.Now)\n", "		_ = key\n",
	}}},
	{"the second request of a cancel replaces the first", []edit{{
		"internal/ledger/cancel.go", `case request != "" && r.CancelRequestedAt.IsZero():`, `case request != "":`,
	}, {
		"internal/ledger/end.go", `if !r.Status.InFlight() || !r.CancelRequestedAt.IsZero() {`, `if !r.Status.InFlight() {`,
	}}},
}
