package sim_test

// pullMutants are bugs that pull workers could meet.
var pullMutants = []seededBug{
	{"a slot is given twice", []edit{{
		"internal/ledger/pull.go", `if !taken[slot] {`, `if true {`,
	}}},
	{"heartbeats are ignored", []edit{{
		"internal/ledger/queued.go", `return lostWorker(req, r, q, due)`, `return r, QueueLater, due`,
	}}},
	{"a worker that fetches is lost all the same", []edit{{
		"internal/ledger/pull.go", `if lost.After(now) {`, `if lost.After(now) && seen.Equal(r.LaunchedAt) {`,
	}}},
	{"a run that was not received is not given again", []edit{{
		"internal/ledger/pull.go", `if h.QueueNo == f.Queue.No && !h.Cancel {`, `if false {`,
	}}},
	{"a lost answer gives a second run", []edit{{
		"internal/ledger/pull.go", "		used++\n		if h.QueueNo", "		if h.QueueNo",
	}}},
	{"a worker does not hear of cancels", []edit{{
		"internal/ledger/pull.go", `(!its || h.Cancel)`, `(!its || h.Cancel && h.Slot == 0)`,
	}}},
	{"a launcher sends the runs of a pull queue", []edit{{
		"internal/ledger/admission.go", `NoWorker:     f.Queue.Pulled() && req.Fetch == nil,`, `NoWorker: false,`,
	}}},
	{"a launcher that stops gives runs", []edit{{
		"launcher/dispatch/pull.go", "		req.Free = 0\n", "",
	}, {
		"launcher/dispatch/pull.go", `case out.Alone && stopping:`, `case false:`,
	}}},
	{"a run is given again under another key", []edit{{
		"launcher/dispatch/pull.go", `req := runs[0].request()`, "req := runs[0].request()\n	if run.Run.UpdatedAt.Before(d.now().Add(-time.Second)) {\n		req.Key[31] ^= 1\n	}",
	}}},
}
