package sim_test

// resultMutants are bugs that results of runs could have.
var resultMutants = []seededBug{
	{"a report ends its run without its result", []edit{{
		"internal/ledger/end.go", `now, report.ExitCode, report.LogURL, report.Result`, `now, report.ExitCode, report.LogURL, nil`,
	}}},
	{"an answer ends its run without its result", []edit{{
		"internal/ledger/end.go", `ExitCode: o.ExitCode, Result: o.Result,`, `ExitCode: o.ExitCode,`,
	}}},
	{"an end has no exit code", []edit{{
		"internal/ledger/end.go", `r.ExitCode, r.LogURL = cmp.Or(s.ExitCode, r.ExitCode), `, `r.ExitCode, r.LogURL = r.ExitCode, `,
	}}},
	{"a later report changes the exit code", []edit{
		{"registrar/report.go", `			change.Report = in.output()`, `			change.Report = in.output(); change.Report.ExitCode = in.ExitCode`},
		{"internal/store/memory/runlogs.go", `if run.Status == schedule.StatusStarted {`, `if true {`},
	}},
	{"a later answer replaces the result", []edit{{
		"internal/store/memory/settle.go", `	r := t.runs[e.Key]
	if r == nil {`, `	r := t.runs[e.Key]
	if r != nil && r.Status.Terminal() && e.Result != nil {
		setUndone(t, t.results, e.Key, e.Result)
	}
	if r == nil {`,
	}, {
		"internal/ledger/end.go", `	return tellsEnd(o) && r.Stage().InFlight()`, `	return tellsEnd(o)`,
	}}},
	{"only results of successes are kept", []edit{{
		"internal/ledger/end.go", `if !r.Status.Terminal() || s.Result == nil {`, `if r.Status != schedule.StatusSuccess || s.Result == nil {`,
	}}},
}
