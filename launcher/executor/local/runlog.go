package local

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/output"
	"github.com/carillon/carillon/internal/schedule"
)

const (
	logEvery   = 500 * time.Millisecond // between two writes of one run's log
	logTimeout = 5 * time.Second        // of one write
	maxLine    = 16 << 10               // bytes kept of a line
	lineMargin = 1 << 10                // more that are read: a secret cut in half would not be masked
	maxPending = 32 << 10               // bytes of a step that wait for the next write
	leastPart  = 256                    // what a part counts at least, so that there are few
)

// runLog writes the output of a run's steps to the store: whole lines with secrets
// masked, limited for each step and for the run.
type runLog struct {
	key   schedule.Key
	store LogStore
	now   func() time.Time

	mu    sync.Mutex
	steps []*liveLog

	writing sync.Mutex // one write at a time; guards the fields below
	seq     int64
	parts   []storedPart       // in the order of seq
	unsent  []schedule.LogPart // of writes that failed
	drop    []int64            // likewise
	sizes   map[string]int     // kept of each step
	size    int                // kept of all
}

type storedPart struct {
	seq  int64
	step string
	size int
}

// liveLog is the output of one step that is not in the store yet.
type liveLog struct {
	step string
	mask *output.Masker

	mu      sync.Mutex
	pending []byte // the last line may be unfinished
	line    int    // where that begins
	cut     int    // bytes of it that were left out
	from    int64  // bytes of the step's output before pending
	to      int64  // bytes of the step's output so far
}

func newRunLog(key schedule.Key, store LogStore, now func() time.Time) *runLog {
	return &runLog{key: key, store: store, now: now, sizes: make(map[string]int)}
}

// open begins the log of a step. nil: nothing is stored.
func (l *runLog) open(step string, mask *output.Masker) *liveLog {
	if l == nil || l.store == nil {
		return nil
	}
	live := &liveLog{step: step, mask: mask}
	l.mu.Lock()
	l.steps = append(l.steps, live)
	l.mu.Unlock()
	return live
}

// write takes a piece of output. It never blocks on the store.
func (l *liveLog) write(p []byte) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to += int64(len(p))
	for len(p) > 0 {
		part, ends := p, bytes.IndexByte(p, '\n')
		if ends >= 0 {
			part = p[:ends]
		}
		room := min(max(maxLine+lineMargin-(len(l.pending)-l.line), 0), len(part))
		l.pending = append(l.pending, part[:room]...)
		l.cut += len(part) - room
		if ends < 0 {
			break
		}
		l.endLine()
		p = p[ends+1:]
	}
	if over := len(l.pending) - maxPending; over > 0 {
		l.dropFront(over)
	}
}

// endLine ends the current line. A line that is too long also loses the margin, which
// may hold half of a secret.
func (l *liveLog) endLine() {
	if l.cut > 0 {
		whole := l.mask.Mask(output.Clean(l.pending[l.line:]))
		kept := whole[:max(0, len(whole)-lineMargin)]
		l.pending = append(l.pending[:l.line], kept...)
		l.pending = append(l.pending, " "+output.CutNote(int64(l.cut+lineMargin))...)
		l.cut = 0
	}
	l.pending = append(l.pending, '\n')
	l.line = len(l.pending)
}

// dropFront drops whole lines: half a line might hold half a secret.
func (l *liveLog) dropFront(over int) {
	n := l.line // an unfinished line stays
	if over < l.line {
		n = over + bytes.IndexByte(l.pending[over:l.line], '\n') + 1
	}
	l.pending = append(l.pending[:0], l.pending[n:]...)
	l.line -= n
	l.from = max(l.from, l.to-int64(len(l.pending)+l.cut))
}

// take returns the lines that are finished, or all at the end.
func (l *liveLog) take(all bool) (part schedule.LogPart, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if all && len(l.pending) > l.line {
		l.endLine()
	}
	if l.line == 0 {
		return part, false
	}
	text := l.mask.Mask(output.Clean(l.pending[:l.line]))
	rest := int64(len(l.pending) - l.line + l.cut)
	part = schedule.LogPart{Step: l.step, Text: text, From: l.from, To: max(l.to-rest, l.from)}
	l.from = part.To
	l.pending = append(l.pending[:0], l.pending[l.line:]...)
	l.line = 0
	return part, true
}

// follow writes every logEvery until done.
func (l *runLog) follow(ctx context.Context, done <-chan struct{}, failed func(error)) {
	ticker := time.NewTicker(logEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			if err := l.flush(ctx, false); err != nil {
				failed(err)
			}
		}
	}
}

// flush writes the new output. After an error it is kept for the next time, within
// the limit of a run.
func (l *runLog) flush(ctx context.Context, all bool) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	steps := l.steps[:len(l.steps):len(l.steps)]
	l.mu.Unlock()
	for _, step := range steps {
		if p, ok := step.take(all); ok {
			l.seq++
			p.Seq, p.WrittenAt = l.seq, l.now().UTC().Truncate(time.Microsecond)
			l.unsent = append(l.unsent, p)
			l.add(storedPart{p.Seq, p.Step, max(len(p.Text), leastPart)})
		}
	}
	if len(l.unsent) == 0 && len(l.drop) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	if err := l.store.AppendRunLog(ctx, schedule.RunLogAppend{Key: l.key, Parts: l.unsent, Drop: l.drop}); err != nil {
		return err
	}
	l.unsent, l.drop = nil, nil
	return nil
}

// add counts a part, and drops the oldest if the step or the run has too many.
func (l *runLog) add(p storedPart) {
	l.parts = append(l.parts, p)
	l.sizes[p.step] += p.size
	l.size += p.size
	for l.sizes[p.step] > schedule.MaxStepOutput {
		l.dropFirst(func(o storedPart) bool { return o.step == p.step })
	}
	for l.size > schedule.MaxRunOutput {
		l.dropFirst(func(storedPart) bool { return true })
	}
}

func (l *runLog) dropFirst(which func(storedPart) bool) {
	for i, p := range l.parts {
		if !which(p) {
			continue
		}
		l.parts = append(l.parts[:i], l.parts[i+1:]...)
		l.sizes[p.step] -= p.size
		l.size -= p.size
		for j := range l.unsent {
			if l.unsent[j].Seq == p.seq {
				l.unsent = append(l.unsent[:j], l.unsent[j+1:]...)
				return
			}
		}
		l.drop = append(l.drop, p.seq)
		return
	}
}
