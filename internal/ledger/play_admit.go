package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// admit plays the admissions of one instant. false: the play stops.
func (p *Play) admit() bool {
	for {
		v := p.visit()
		if p.Spend != nil && !p.Spend(40+5*len(v.Heads)+len(v.Oldest)) {
			p.Spent = true
			return false
		}
		a := Admit(&v)
		p.Facts.NextStart = v.Rate.Next
		for _, g := range a.Granted {
			p.grant(g)
		}
		for i := range a.Runs {
			p.start(&a.Runs[i])
			if p.Spend != nil && !p.Spend(20) {
				p.Spent = true
				return false
			}
		}
		if a.Unread || len(a.Runs) == maxAdmitted {
			continue
		}
		p.note(&a)
		return true
	}
}

// visit is what an admission would read now.
func (p *Play) visit() Visit {
	f := &p.Facts
	if !f.Stall.Until.After(p.Now) {
		f.Stall.Level = 0 // the executor takes work again
	}
	req := schedule.AdmitRequest{Now: p.Now, Free: maxAdmitted}
	room := f.Room(&req)
	f.Heads, f.Oldest = nil, nil
	if room > 0 {
		p.heads(room)
	}
	return f.visit(&req)
}

// heads reads the first runs of each set that is not known to be blocked.
func (p *Play) heads(room int) {
	var open []*playedSet
	for _, name := range p.names {
		if s := p.sets[name]; len(s.order) > 0 && s.parked == nil {
			open = append(open, s)
		}
	}
	if len(open) == 0 {
		return
	}
	each := (room + len(open) - 1) / len(open)
	p.scratch = p.scratch[:0]
	head := func(order []int, n int) Head {
		n = min(n, len(order))
		from := len(p.scratch)
		for _, i := range order[:n] {
			p.scratch = append(p.scratch, p.Runs[i].WaitingRun)
		}
		return Head{Runs: p.scratch[from:len(p.scratch):len(p.scratch)], More: n < len(order)}
	}
	for _, s := range open {
		p.Facts.Heads = append(p.Facts.Heads, head(s.order, each))
	}
	if p.Facts.Queue.PromoteAfterMS == 0 {
		return
	}
	for _, s := range open {
		for rest := s.order; len(rest) > 0; {
			n, _ := slices.BinarySearchFunc(rest, p.Runs[rest[0]].Order.Priority+1, func(i int, priority int32) int { return cmp.Compare(p.Runs[i].Order.Priority, priority) })
			p.Facts.Oldest = append(p.Facts.Oldest, head(rest[:n], each/2+1))
			rest = rest[n:]
		}
	}
}

func (p *Play) grant(g *Reservation) {
	i := slices.IndexFunc(p.Facts.Reserved, func(r schedule.Reservation) bool { return r.ID == g.ID })
	r := &p.Facts.Reserved[i]
	r.GrantedAt = p.Now
	r.EndsAt = p.Now.Add(time.Duration(r.HoldMS) * time.Millisecond)
	p.take(g.Limits, nil)
	p.Uses = append(p.Uses, PlayedUse{Limits: g.Limits, From: p.Now, Until: r.EndsAt})
	p.at(r.EndsAt, playRelease, 0)
}

// take takes one use of each limit, unless it is kept.
func (p *Play) take(limits, kept []schedule.LimitRef) {
	for _, ref := range limits {
		if l := p.Facts.Limits[ref]; l != nil && !slices.Contains(kept, ref) {
			l.Used++
		}
	}
}

func (p *Play) start(a *Admitted) {
	i := p.index[a.Run.Key]
	r := &p.Runs[i]
	s := p.sets[r.Set]
	at, _ := slices.BinarySearchFunc(s.order, i, p.compare)
	if at == 0 {
		s.order = s.order[1:]
	} else {
		s.order = slices.Delete(s.order, at, at+1)
	}
	r.State, r.Started = schedule.QueueRunning, a.StartAt
	p.Facts.InFlight++
	p.turns.admitted(r)
	p.take(r.Limits, r.Kept)
	if !r.Unknown {
		p.at(a.StartAt.Add(r.Takes), playEnd, i)
	}
}

// note remembers what blocks, and when a rate lets the next run start.
func (p *Play) note(a *Admission) {
	p.rateAt = time.Time{}
	wake := func(b *Block) {
		if b.What == BlockedByRate {
			p.rateAt = sooner(p.rateAt, b.Until.Add(-startAhead))
		}
	}
	if a.All != nil {
		wake(a.All)
	}
	for name := range a.Sets {
		b := a.Sets[name]
		if b.What == BlockedByLimit {
			s := p.sets[name]
			s.parked = &b
			p.parked[b.Limit] = append(p.parked[b.Limit], s)
		} else if a.All == nil {
			wake(&b)
		}
	}
	p.Last = a.All
	if p.Stop < 0 {
		return
	}
	name := p.Runs[p.Stop].Set
	if b, known := a.Sets[name]; known {
		p.Last = &b
	} else if s := p.sets[name]; s != nil && s.parked != nil {
		p.Last = s.parked
	}
}
