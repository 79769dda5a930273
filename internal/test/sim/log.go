package sim

import (
	"fmt"
	"sync"
	"time"
)

// record is the log of a world: always as a hash, to compare two runs of a seed, and on
// request line by line.
type record struct {
	mu    sync.Mutex
	hash  dice
	lines []string
	keep  bool
	over  bool // from now on only processes end
}

// note records one call at the instant of its effect.
func (r *record) note(at time.Duration, who string, s site, id uint64, fault kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.hash = r.hash.of(uint64(at)).of(uint64(s)<<8 | uint64(fault+1)).of(id)
	if !r.keep {
		return
	}
	wrong := ""
	if fault >= 0 {
		wrong = "  ! " + kindNames[fault]
	}
	r.lines = append(r.lines, fmt.Sprintf("%9.6fs  %-6s %-16s %06x%s", at.Seconds(), who, siteNames[s], id&0xffffff, wrong))
}

// say records something else worth reading.
func (r *record) say(at time.Duration, format string, args ...any) {
	if !r.keep {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%9.6fs         ", at.Seconds())+fmt.Sprintf(format, args...))
}

// close ends the record: the order in which processes end does not matter.
func (r *record) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}
