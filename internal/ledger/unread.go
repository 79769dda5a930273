package ledger

import (
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// queueNamed says whether the definition of a run names a dispatch queue. A definition never
// changes, so it is read once, and only when launches are short.
type queueNamed uint8

const (
	queueUnread queueNamed = iota
	queueNone
	queueSome
)

// maxUnread caps the definitions that one pass reads for this.
const maxUnread = 1000

func isUnread(r *run) bool { return isNear(r) && r.queue == queueUnread }

// chooseRead chooses. If launches are short, it first finds out which of the runs go into queues:
// those wait for no launch.
func (s *ShardState) chooseRead(p *Pass, facts func([]schedule.RevisionID) (Facts, error)) (choice, error) {
	c := s.choose(p)
	if !c.left {
		return c, nil
	}
	unread := s.unreadRuns()
	if len(unread) == 0 {
		return c, nil
	}
	ids := make([]schedule.RevisionID, len(unread))
	for i, r := range unread {
		ids[i] = r.definition()
	}
	f, err := facts(ids)
	if err != nil {
		return choice{}, err
	}
	for _, r := range unread {
		named := queueNone
		if d := f.Definitions[r.definition()]; d != nil && d.QueueID != "" {
			named = queueSome
		}
		s.noteQueue(r, named)
	}
	c = s.choose(p)
	c.unread = len(unread) == maxUnread
	return c, nil
}

// unreadRuns are up to maxUnread runs that a pass may look at and whose definitions were not read.
func (s *ShardState) unreadRuns() (runs []*run) {
	for o := range s.active {
		for g := range o.freed {
			if i := slices.IndexFunc(g.waiting, func(r *run) bool { return !r.isHeld(s.now) }); i >= 0 && g.waiting[i].queue == queueUnread && len(runs) < maxUnread {
				runs = append(runs, g.waiting[i])
			}
		}
	}
	for _, r := range s.unread.runs {
		if len(runs) == maxUnread {
			break
		}
		if isUnread(r) {
			runs = append(runs, r)
		}
	}
	return runs
}

// noteQueue notes for a run, and for all others of its revision, whether they go into a queue.
func (s *ShardState) noteQueue(of *run, named queueNamed) {
	for r := of.schedule.first; r != nil; r = r.next {
		if r.queue != queueUnread || r.revision != of.revision {
			continue
		}
		r.queue = named
		if isNear(r) {
			s.unread.leave(isUnread)
		}
		if isEntering(r) {
			o := r.group.owner
			o.due.leave(isDueToLaunch)
			o.entering.add(r)
		}
	}
}
