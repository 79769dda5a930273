package ledger

// place is the set of lists of the state that hold a run.
type place uint8

const (
	placeGone    place = iota // in none: it was removed, or entered again as another run
	placeWindow               // fires later than the early claim reaches
	placeEarly                // fires within the early claim
	placeDue                  // due, and seen in time
	placeLate                 // due longer than the grace and never seen: the planner judges it
	placeWaiting              // waits for its overlap group
	placeFlight               // LAUNCHING, ENQUEUED or STARTED
)

func (s *ShardState) toFlight(r *run, f flight) {
	f.tryAt = resendAt(s.epoch, f.epoch, f.nextSend)
	r.place, r.flight = placeFlight, &f
	if isLaunching(r) {
		s.sends.add(r)
	}
	if r.cancelRequested && !r.queued {
		s.cancelling[r] = struct{}{}
	}
	m := r.group.forMembers()
	m.inFlight.add(r)
	if r.exclusive {
		m.exclusive++
	}
	r.group.tidy()
}

func (s *ShardState) requestCancel(r *run) {
	if r.cancelRequested = true; r.place == placeFlight && !r.queued {
		s.cancelling[r] = struct{}{}
	}
}

func (s *ShardState) toWaiting(r *run, since int64) {
	r.place, r.waitingSince = placeWaiting, since
	r.group.forMembers().waiting.add(r)
	s.waiting[r.group] = struct{}{}
	s.tidy(r.group)
}

func (s *ShardState) toWindow(r *run) {
	r.place = placeWindow
	s.window.add(r)
}

func (s *ShardState) toEarly(r *run) {
	r.place = placeEarly
	o := r.group.owner
	s.active[o] = struct{}{}
	if r.exclusive {
		r.group.forMembers().near.add(r)
	}
	o.early.add(r)
	s.soon.add(r)
	if r.queue == queueUnread {
		s.unread.add(r)
	}
}

// toDue enters a run that comes from the window or was early. A run that no leader saw
// within the grace is late.
func (s *ShardState) toDue(r *run, cut int64) {
	wasEarly := isEarly(r)
	if r.late(cut) {
		s.take(r)
		r.place = placeLate
		s.late[r] = struct{}{}
		return
	}
	r.place, r.seen = placeDue, true
	o := r.group.owner
	s.active[o] = struct{}{}
	if isEntering(r) {
		o.entering.add(r)
	} else {
		o.due.add(r)
	}
	if wasEarly {
		s.soon.leave(isEarly)
		o.early.leave(isEarly)
		return
	}
	if r.queue == queueUnread {
		s.unread.add(r)
	}
	if r.exclusive {
		r.group.forMembers().near.add(r)
	}
}

// take removes a run from the lists of its place.
func (s *ShardState) take(r *run) {
	from, g, wasLaunching := r.place, r.group, isLaunching(r)
	r.place = placeGone
	switch from {
	case placeGone: // between two lists
	case placeWindow:
		s.window.leave(r)
	case placeLate:
		delete(s.late, r)
	case placeEarly:
		s.soon.leave(isEarly)
		g.owner.early.leave(isEarly)
	case placeDue:
		if r.queue == queueSome {
			g.owner.entering.leave(isEntering)
		} else {
			g.owner.due.leave(isDueToLaunch)
		}
	case placeWaiting:
		r.waitingSince = 0
		g.waiting.remove(r)
	case placeFlight:
		g.inFlight.remove(r)
		if r.exclusive {
			g.exclusive--
		}
		delete(s.cancelling, r)
		if wasLaunching {
			s.sends.leave(isLaunching) // r keeps its flight: the list may still hold it
		}
	}
	wasNear := from == placeEarly || from == placeDue
	if wasNear && r.queue == queueUnread {
		s.unread.leave(isUnread)
	}
	if wasNear && r.exclusive {
		g.near.leave(isNear)
	}
	s.tidy(g)
}

func (s *ShardState) tidy(g *group) {
	if g.tidy(); g.freed() {
		s.active[g.owner] = struct{}{}
	}
}

// advance moves runs by time: from the window to early, from early to due. A due run that
// was never seen and is past cut is missed.
func (s *ShardState) advance(now, reach, cut int64) {
	if now < s.now {
		s.rewind(now)
	}
	s.now = now
	var moved []*run
	soon := s.soon.inOrder(byFireAt)
	for len(soon) > 0 && (!isEarly(soon[0]) || soon[0].fireAt <= now) {
		r := soon[0]
		if soon = soon[1:]; isEarly(r) {
			moved = append(moved, r)
		}
	}
	for _, r := range moved {
		s.toDue(r, cut)
	}
	s.window.until(reach, func(r *run) {
		r.place = placeGone // it has left the window
		if r.fireAt > now {
			s.toEarly(r)
		} else {
			s.toDue(r, cut)
		}
	})
}

// rewind moves runs back into the window that may no longer be due or late, because the
// clock was set back.
func (s *ShardState) rewind(now int64) {
	var again []*run
	for _, r := range s.runs {
		if isDue(r) && r.fireAt > now || r.place == placeLate {
			again = append(again, r)
		}
	}
	for _, r := range again {
		in := r.outside()
		s.again(r, &in)
	}
}

// again enters a known run again, as another object: a list that a run has left
// may still hold it, so a run never comes back to a list.
func (s *ShardState) again(r *run, in *Run) {
	s.take(r)
	s.enter(in) // before the other is unlinked: what is known of its schedule stays
	now := s.runs[in.Key]
	now.seen = now.seen || r.seen && now.fireAt == r.fireAt
	s.unlink(r)
}
