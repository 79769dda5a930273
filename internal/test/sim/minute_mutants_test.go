package sim_test

// minuteMutants are bugs that queues which keep only failures could have.
var minuteMutants = []seededBug{
	{"a success without a row is not counted", []edit{{
		"internal/store/memory/minutes.go", `putUndone(t, t.minutes, id, m, true)`, `_ = id`,
	}}},
	{"a success is counted and keeps its row", []edit{{
		"internal/store/memory/minutes.go", `		t.remove(r)`, `		_ = r`,
	}}},
	{"a count replaces the one before it", []edit{{
		"internal/store/memory/minutes.go", `m.Runs += c.Runs`, `m.Runs = c.Runs`,
	}}},
	{"a start is counted in the minute of its end", []edit{{
		"internal/ledger/minutes.go", `count(r.Queue.No, admitted, of, false)`, `count(r.Queue.No, r.CompletedAt, of, false)`,
	}}},
	{"failures are not kept either", []edit{{
		"internal/ledger/minutes.go", `r.Status != schedule.StatusSuccess, !r.IsJob()`, `r.Status != schedule.StatusSuccess && r.Status != schedule.StatusFailed, !r.IsJob()`,
	}}},
	{"every queue keeps only failures", []edit{{
		"internal/store/memory/minutes.go", `q == nil || q.HistoryText() == ""`, `q == nil`,
	}, {
		"internal/store/memory/minutes.go", `ledger.CountedOnly(r, q.HistoryText(),`, `ledger.CountedOnly(r, schedule.HistoryFailed,`,
	}}},
	{"a run of a slot is not kept", []edit{{
		"internal/ledger/minutes.go", `r.Status != schedule.StatusSuccess, !r.IsJob()`, `r.Status != schedule.StatusSuccess, !r.Queue.In()`,
	}}},
	{"a member of a group is not kept", []edit{{
		"internal/ledger/minutes.go", `r.Queue.GroupNo != 0, !r.RetryOf.IsZero()`, `!r.RetryOf.IsZero()`,
	}}},
	{"the last attempt is not kept", []edit{{
		"internal/ledger/minutes.go", `r.Queue.GroupNo != 0, !r.RetryOf.IsZero()`, `r.Queue.GroupNo != 0`,
	}}},
	{"a run with a message is not kept", []edit{{
		"internal/ledger/minutes.go", `return !told`, `return told || !told`,
	}}},
	{"a run that a caller waits for is not kept", []edit{{
		"internal/ledger/minutes.go", `case r.Queue.KeepHistory, r.Queue`, `case r.Queue`,
	}}},
	{"nobody notes that a caller waits", []edit{{
		"registrar/entry.go", `e.Waits || s.KeepsHistory()`, `s.KeepsHistory()`,
	}}},
	{"a run with a unique key of a period is not kept", []edit{{
		"internal/ledger/minutes.go", `hold.Scope == schedule.UniquePeriod:`, `hold.Scope == "":`,
	}}},
	{"a run with a result is not kept", []edit{{
		"internal/ledger/minutes.go", `case returned:`, `case returned && r.Key == schedule.Key{}:`,
	}}},
}
