package sim_test

// reservationMutants are bugs that reservations of a queue could have.
var reservationMutants = []seededBug{
	{"a reservation preempts", []edit{{
		"internal/ledger/admit.go", `case a.v.Paused || a.inFlight() >= a.v.MaxInFlight:
			return`, `case a.v.Paused:
			return`,
	}}},
	{"a paused queue grants reservations", []edit{{
		"internal/ledger/admit.go", `case a.v.Paused || a.inFlight() >= a.v.MaxInFlight:
			return`, `case a.inFlight() >= a.v.MaxInFlight:
			return`,
	}}},
	{"a granted reservation does not count in max_in_flight", []edit{{
		"internal/ledger/admission.go", `InFlight: f.InFlight + f.held(req.Now),`, `InFlight: f.InFlight,`,
	}}},
	{"runs go before a waiting reservation", []edit{{
		"internal/ledger/admission.go", "		Reservations: f.Reserving(req.Now),\n", "",
	}}},
	{"reservations are granted in the wrong order", []edit{{
		"internal/store/memory/reservations.go", `return cmp.Compare(a.Position, b.Position)`, `return cmp.Compare(b.Position, a.Position)`,
	}}},
	{"an ended reservation keeps its uses", []edit{{
		"internal/store/memory/reservations.go", "		putUndone(t, t.uses, id, nil, false)\n", "",
	}}},
	{"a reservation uses no limit", []edit{{
		"internal/ledger/reservation.go", `o.Uses = append(o.Uses, LimitUse{LimitNo: l.No, Key: ref.Key, UsedBy: r.ID})`, `_ = l`,
	}}},
	{"a reservation of a full limit is granted", []edit{{
		"internal/ledger/admit.go", `case a.fullLimit(r.Limits, nil) == nil:`, `default:`,
	}}},
	{"a reservation never ends by itself", []edit{{
		"internal/ledger/reservation.go", "		case r.Over(now):\n			out.End(r.QueueID, *r, now, \"\", false)\n		case next", "		case r.Over(now):\n		case next",
	}, {
		"internal/ledger/reservation.go", "		case r.Over(c.Now):\n			out.End(f.Queue.QueueID, r, c.Now, \"\", false)\n			continue\n", "",
	}}},
	{"a sweep ends reservations early", []edit{{
		"internal/ledger/reservation.go", "		case r.Over(now):\n			out.End(r.QueueID", "		case r.Over(now.Add(100 * time.Millisecond)):\n			out.End(r.QueueID",
	}}},
	{"an extension is lost", []edit{{
		"internal/ledger/reservation.go", `r.EndsAt = stored(c.EndsAt)`, `_ = c.EndsAt`,
	}}},
	{"a grant has no end of its own", []edit{{
		"internal/ledger/reservation.go", `r.EndsAt = r.GrantedAt.Add(time.Duration(r.HoldMS) * time.Millisecond)`, `r.EndsAt = r.GrantedAt.Add(time.Hour)`,
	}}},
}
