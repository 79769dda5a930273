package schedule

import (
	"math"
	"time"
)

// History says which ends of the runs of a queue are written to history.
type History string

// The histories.
const (
	HistoryAll    History = "all"
	HistoryFailed History = "failed" // a success is only counted by the minute; see ledger.CountedOnly
)

func (d *QueueDefinition) checkHistory(c *Collect) {
	if d.History != HistoryAll && d.History != HistoryFailed {
		c.Add("history", d.History, "is not all or failed", "leave it out for all; failed counts successes by the minute and keeps no row of them")
	}
}

// HistoryText is what the end of a run reads of its queue; "": all.
func (d *QueueDefinition) HistoryText() History {
	if d.History == HistoryFailed {
		return HistoryFailed
	}
	return ""
}

// ByHand reports whether the schedule has no slots: its runs are started by hand or by
// events, or put into a queue.
func (d *Definition) ByHand() bool {
	return d.CronExpr == "" && d.IntervalMS == 0 && d.OnceAt.IsZero()
}

// KeepsHistory reports whether each run of the schedule has a row of history, also in a queue that
// keeps only failures: slots are explained by their runs, and success_every_ms looks for successes.
func (d *Definition) KeepsHistory() bool { return !d.ByHand() || d.Expect.SuccessEveryMS > 0 }

// QueueMinute is what queue_minutes has of one minute of a queue and a workflow.
type QueueMinute struct {
	QueueNo    int32
	Minute     time.Time
	WorkflowID string
	Ended      bool // it counts ends, and not starts
	Runs       int64
	Wait       time.Duration // of all starts together
	Run        time.Duration // of all ends together
}

// Minute is the length of a row of queue_minutes.
const Minute = time.Minute

// paceMinutes is how many minutes QueuePace looks at, the current one included.
const paceMinutes = 5

// PacedRows is how many ended runs a QueuePace counts at most.
const PacedRows = 10_000

// QueuePace is how many runs of a queue have started and ended lately.
type QueuePace struct {
	Since        time.Time // the beginning of a minute
	Starts, Ends int
}

// PaceSince is the beginning of the minutes that a QueuePace counts.
func PaceSince(now time.Time) time.Time {
	return now.UTC().Truncate(Minute).Add(-(paceMinutes - 1) * Minute)
}

// Extend is how many runs there are since the beginning of the pace if there were n since an instant.
func (p *QueuePace) Extend(n int, since, now time.Time) int {
	return int(float64(n) * now.Sub(p.Since).Seconds() / max(now.Sub(since).Seconds(), 0.001))
}

// PerMinute is the mean of a count of the pace, in hundredths.
func (p *QueuePace) PerMinute(count int, now time.Time) float64 {
	return math.Round(float64(count)*100/max(1, now.Sub(p.Since).Minutes())) / 100
}
