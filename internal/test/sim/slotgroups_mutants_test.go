package sim_test

// slotGroupMutants are bugs that groups of the runs of schedules could have.
var slotGroupMutants = []seededBug{
	{"a run of a slot joins a group that was sealed", []edit{{
		"internal/ledger/slotgroup.go", `case g.State != schedule.GroupRunning || g.Sealed || !now.Before(g.SealAt):`, `case false:`,
	}}},
	{"a run that enters after the grace joins a group", []edit{
		{"internal/ledger/slotgroup.go", `if g := entries[i].Group; g != nil && now.Before(g.SealAt) {`, `if g := entries[i].Group; g != nil {`},
		{"internal/ledger/slotgroup.go", `case !now.Before(wanted.SealAt):`, `case false:`},
		{"internal/ledger/slotgroup.go", `|| g.Sealed || !now.Before(g.SealAt):`, `|| g.Sealed:`},
	}},
	{"no group is sealed at its seal_at", []edit{{
		"internal/ledger/slotgroup.go", `g.SealAt.IsZero() || now.Before(g.SealAt) {`, `true {`,
	}}},
	{"a group is sealed before its grace is over", []edit{{
		"internal/ledger/slotgroup.go", `g.SealAt.IsZero() || now.Before(g.SealAt) {`, `g.SealAt.IsZero() {`,
	}}},
	{"two groups of one instant", []edit{{
		"internal/store/memory/slotgroups.go", `there != nil {`, `there != nil && there.Members == 0 {`,
	}}},
	{"runs by hand join groups", []edit{{
		"internal/ledger/slotgroup.go", `switch r.trigger {`, `switch cmp.Or(schedule.TriggerSchedule, r.trigger) {`,
	}}},
	{"a run enters without its group and no log entry says so", []edit{{
		"internal/ledger/slotgroup.go", `	for _, u := range s.ungrouped {`, `	for _, u := range s.ungrouped[:0] {`,
	}}},
	{"groups of slots have the webhook of no schedule", []edit{{
		"internal/ledger/slotgroup.go", `Webhook: d.Webhook, BodyHash`, `BodyHash`,
	}}},
	{"a group does not count the runs that join it", []edit{{
		"internal/store/memory/slotgroups.go", `c.putGroup(*g)`, `if g.Members > 1 { g.Members-- }; c.putGroup(*g)`,
	}}},
	{"a run outside of queues is told of to nobody", []edit{{
		"internal/plan/decide.go", `		row.Webhook = d.Webhook`, `		_ = d.Webhook`,
	}}},
	{"a failure that is retried is told of as the last one", []edit{{
		"internal/ledger/message.go", `		return schedule.WebhookRetrying`, `		return schedule.WebhookFailed`,
	}}},
	{"each slot that was missed has a message", []edit{{
		"internal/ledger/message.go", `r.Trigger.FromSpec() && (r.Reason == schedule.ReasonMissed || r.Reason == schedule.ReasonCoalesced)`, `false`,
	}}},
	{"the retry of a run outside of queues has no webhook", []edit{{
		"internal/ledger/attempt.go", `Webhook: r.Webhook`, `Webhook: map[bool]string{true: r.Webhook}[r.Queue.In()]`,
	}}},
}
