package sim

import "github.com/carillon/carillon/internal/schedule"

// attemptsOfJobs is the default of DEFAULT_MAX_ATTEMPTS.
const attemptsOfJobs = 3

// What the worlds have set for DEFAULT_BACKOFF_MS and DEFAULT_MAX_BACKOFF_MS.
const (
	backoffOfJobs    = 4_000
	maxBackoffOfJobs = 6_000
)

// attemptsIn is how many attempts a run has in a queue where its schedule has no policy.
func (l *ledgerWatch) attemptsIn(queueNo int32) int32 {
	if q := l.queues[queueNo]; q != nil && q.row.Retry.MaxAttempts > 0 {
		return int32(q.row.Retry.MaxAttempts)
	}
	return attemptsOfJobs
}

// queueNoOf is the queue of a run; 0: it is in none.
func (l *ledgerWatch) queueNoOf(key schedule.Key) int32 {
	if j := l.jobs[key]; j != nil {
		return j.row.Queue.No
	}
	return 0
}
