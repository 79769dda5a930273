package sim_test

// eventMutants are bugs that consumers of events could have.
var eventMutants = []seededBug{
	{"the end of a run sets no wake", []edit{{
		"internal/store/memory/events.go", `if !end.WakeAt.IsZero() {`, `if false {`,
	}}},
	{"a publish sets no wake", []edit{{
		"internal/store/memory/events.go", `t.wakeConsumer(s.ScheduleID, p.Now)`, `_ = s`,
	}}},
	{"a consumer whose run was refused is not looked at again", []edit{{
		"internal/ledger/wake.go", `again := now.Add(refusedFor)`, `again := now.Add(1000 * refusedFor)`,
	}}},
	{"a takeover does not load wake rows", []edit{{
		"internal/store/memory/claim.go", `open.Wakes = s.wakesOf(term, nil)`, `_ = s.wakesOf(term, nil)`,
	}}},
	{"a leader reads no wake rows that come", []edit{{
		"internal/ledger/changes.go", `range c.Wakes {`, `range c.Wakes[:0] {`,
	}}},
	{"no look after events were skipped", []edit{{
		"internal/ledger/wake.go", `return Look{Skip: others, Reason: topic.ReasonUnsubscribed, Again: now}`, `return Look{Skip: others, Reason: topic.ReasonUnsubscribed}`,
	}}},
	{"a producer goes before a consumer with events", []edit{{
		"internal/ledger/judge.go", `if g.members == nil || j.isLookedAtFirst(g) {`, `if g.members == nil {`,
	}}},
	{"a run with events waits behind those of schedules", []edit{{
		"internal/ledger/wake.go", `if r.trigger == schedule.TriggerEvent && r.fireAt <= g.now {`, `if r.trigger == schedule.TriggerEvent && r.fireAt < 0 {`,
	}}},
	{"a look takes while a run of the group is in flight", []edit{{
		"internal/ledger/wakes.go", `return len(g.inFlight) == 0 && !slices`, `return !slices`,
	}, {
		"internal/ledger/overlap.go", `busy: len(g.inFlight) > 0`, `busy: false`,
	}}},
	{"a duplicate is delivered", []edit{{
		"internal/store/memory/events.go", `earlier := t.published[id]; earlier != nil {`, `earlier := t.published[id]; earlier != nil && earlier.Seq%4 != 0 {`,
	}}},
	{"an event is taken while a run has it", []edit{{
		"internal/store/memory/events.go", `if id.scheduleID == scheduleID && entry.State == topic.Pending {`, `if id.scheduleID == scheduleID && !entry.State.Ended() {`,
	}}},
	{"the newest events are taken first", []edit{{
		"internal/store/memory/events.go", `cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Round, b.Round))`, `cmp.Or(cmp.Compare(b.Seq, a.Seq), cmp.Compare(a.Round, b.Round))`,
	}}},
	{"a run has more events than it may", []edit{{
		"internal/ledger/wake.go", `return int(c.Definition.Consume.MaxEvents)`, `return int(c.Definition.Consume.MaxEvents) + 1`,
	}}},
	{"a paused consumer takes events", []edit{{
		"internal/ledger/wake.go", `case c.Pause.Active(now), c.FireAt.After(now):`, `case c.FireAt.After(now):`,
	}, {
		"internal/ledger/wakes.go", `case in.Pause.Paused && in.Pause.Until.IsZero():`, `case false:`,
	}, {
		"internal/ledger/wakes.go", `case in.Pause.Paused:`, `case false:`,
	}}},
	{"a run with events starts during a pause", []edit{{
		"internal/ledger/run.go", `return (r.automatic || r.trigger == schedule.TriggerEvent) && s.stopped`, `return r.automatic && s.stopped`,
	}, {
		"internal/ledger/begin.go", `case req.Trigger.ObeysPause() && f.Pause.Active(now):`, `case req.Trigger.FromSpec() && f.Pause.Active(now):`,
	}}},
	{"a deleted consumer takes events", []edit{{
		"internal/ledger/wake.go", `case c.Deleted:`, `case false:`,
	}}},
	{"a consumer takes events of a topic that it names no more", []edit{{
		"internal/ledger/wake.go", `if !topic.Consumes(of, c.Ready[i].Topic) {`, `if false {`,
	}}},
	{"a consumer that is registered again gets the events of the one before", []edit{{
		"internal/store/memory/events.go", `if before != nil && !before.Alive() && after.Alive() {`, `if false {`,
	}}},
	{"a prefix matches its own topic too", []edit{{
		"internal/topic/event.go", `return strings.HasPrefix(topic, s.Topic)`, `return strings.HasPrefix(topic+".", s.Topic)`,
	}}},
	{"events go to consumers of other owners", []edit{{
		"internal/store/memory/events.go", `if row.UserID != userID || !row.Alive() {`, `if !row.Alive() {`,
	}}},
	{"the events of a failed run are consumed", []edit{{
		"internal/ledger/wake.go", `return EventsEnd{To: topic.Dead, Reason: topic.ReasonFailed, Failed: 1, WakeAt: now}`, `return EventsEnd{To: topic.Consumed, WakeAt: now}`,
	}}},
	{"the events of a failed run come again", []edit{{
		"internal/ledger/wake.go", `return EventsEnd{To: topic.Dead, Reason: topic.ReasonFailed, Failed: 1, WakeAt: now}`, `return EventsEnd{To: topic.Pending, WakeAt: now}`,
	}}},
	{"the events of a cancelled run come again", []edit{{
		"internal/ledger/wake.go", `return EventsEnd{To: topic.Dead, Reason: topic.ReasonCancelled, WakeAt: now}`, `return EventsEnd{To: topic.Pending, WakeAt: now}`,
	}}},
	{"the next attempt has no events", []edit{{
		"internal/ledger/wake.go", "	if next != nil {\n		return EventsEnd{To: topic.Reserved,", "	if next != nil && next.Attempt > 9 {\n		return EventsEnd{To: topic.Reserved,",
	}}},
	{"the next attempt is sent without its events", []edit{{
		"launcher/call.go", `if !s.req.Trigger.MayHaveEvents() || s.req.InQueue {`, `if s.req.Trigger != schedule.TriggerEvent {`,
	}}},
	{"a run does not end its events", []edit{{
		"internal/store/memory/events.go", `if entry.Run != r.Key || entry.State != topic.Reserved {`, `if entry.Run != r.Key || entry.State != topic.Reserved || id.seq%5 == 0 {`,
	}}},
	{"a strict request with a changed event is not refused", []edit{{
		"internal/store/memory/events.go", "			if out[i], err = topic.Repeated(p, &e, earlier); err != nil {\n				return nil, err\n			}", "			if out[i], err = topic.Repeated(p, &e, earlier); err != nil && i == 0 {\n				return nil, err\n			}",
	}}},
}
