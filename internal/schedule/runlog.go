package schedule

import (
	"strings"
	"time"
)

// Limits of a run's stored output, in bytes.
const (
	MaxReportedOutput = 64 << 10  // of a report
	MaxStepOutput     = 256 << 10 // of a step of the local executor
	MaxRunOutput      = 1 << 20   // of all steps of a run
	MaxLogPart        = 64 << 10
	MaxLogURL         = 2048
)

// ExecutorReport is what an in-process executor reports about a run.
type ExecutorReport struct {
	Key          Key
	Status       Status // STARTED, SUCCESS, FAILED or SNOOZE
	RunID        string
	ErrorCode    string
	ErrorMessage string
	FailureClass FailureClass // of a failure; "": by the reason
	ExitCode     *int32       // of the run's process
	LogURL       string
	Result       *RunResult // of an end; nil: none
	Commit       *Commit    // of a success; nil: none
	SnoozeFor    time.Duration
}

// LogPart is a piece of a run's output: whole lines of plain text, secrets masked.
type LogPart struct {
	Seq       int64  // place among the parts of its run, from 1
	Step      string // of the local executor; "": the output that was reported
	WrittenAt time.Time
	From, To  int64 // range of the step's raw output, in bytes
	Text      string
	// Skipped is how many bytes of the step are missing directly before this part.
	// A store computes it; it is not written.
	Skipped int64
}

// RunLogAppend adds parts to a run's log and removes others of it.
type RunLogAppend struct {
	Key   Key
	Parts []LogPart
	Drop  []int64 // Seq of parts that make room
}

// RunLogQuery selects parts of one run's log, in the order of Seq.
type RunLogQuery struct {
	Key   Key
	Step  string // "": all
	After int64  // Seq of the last part that the caller has; 0: from the beginning
	Limit int
	Last  bool // the last Limit parts instead, still in the order of Seq
}

// LastLines keeps the last n lines of parts, which are in the order of Seq. It
// changes parts.
func LastLines(parts []LogPart, n int) []LogPart {
	for i := len(parts) - 1; i >= 0; i-- {
		p := &parts[i]
		if n <= 0 {
			return parts[i+1:]
		}
		text := strings.TrimSuffix(p.Text, "\n")
		lines := strings.Count(text, "\n") + 1
		if lines <= n {
			n -= lines
			continue
		}
		begin := len(text)
		for range n {
			begin = strings.LastIndexByte(text[:begin], '\n')
		}
		p.Text, p.Skipped = p.Text[begin+1:], 0 // what is cut off is kept, so it is no gap
		return parts[i:]
	}
	return parts
}

// RunReport is the rest of a report besides the outcome. Empty members leave the recorded values.
// ExitCode, LogURL and Progress are written only while the run is STARTED: those of an end are in its
// Settlement, and it has no progress.
type RunReport struct {
	ExitCode  *int32
	LogURL    string
	Progress  Progress
	Output    string // replaces the output of earlier reports
	OutputCut int64  // bytes that were cut from its front
}

// Empty reports whether there is nothing to write.
func (r *RunReport) Empty() bool {
	return r == nil || r.ExitCode == nil && r.LogURL == "" && r.Output == "" && r.Progress == ""
}

// Part is the output as a part of the run's log.
func (r *RunReport) Part(now time.Time) LogPart {
	return LogPart{WrittenAt: now, From: r.OutputCut, To: r.OutputCut + int64(len(r.Output)), Text: r.Output}
}
