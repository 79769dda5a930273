package ledger

// Known is how much the state holds.
func (s *ShardState) Known() (runs, schedules, groups, owners, listed int) {
	listed = len(s.soon.runs) + len(s.unread.runs) + len(s.late) + s.window.runs + len(s.sends.runs) + len(s.cancelling) + len(s.waiting)
	for o := range s.active {
		listed += len(o.due.runs) + len(o.early.runs) + len(o.entering.runs) + len(o.freed)
	}
	return len(s.runs), len(s.schedules), len(s.groups), len(s.owners), listed
}

// LoseFreed makes the state forget which groups are free: a defect.
func (s *ShardState) LoseFreed() {
	for o := range s.active {
		clear(o.freed)
	}
}
