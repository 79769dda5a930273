package console

import (
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// pullerRow is a worker that fetches runs of a queue.
type pullerRow struct {
	*carillonv1.QueueWorker
	Seen moment
}

// Runs are the runs that it has.
func (w pullerRow) Runs() (links []limitLink) {
	for _, key := range w.GetRunning() {
		links = append(links, limitLink{Text: key[:min(12, len(key))], Path: runPath(key)})
	}
	return links
}

// Heartbeat is how long a worker of the queue may be silent; "": nobody fetches its runs.
func (q queueRow) Heartbeat() string {
	if q.GetDelivery() != "pull" {
		return ""
	}
	return everyWords(q.GetHeartbeatMs())
}

func (v *visit) workersOf(q *carillonv1.Queue) (rows []pullerRow) {
	for _, w := range q.GetFetching() {
		rows = append(rows, pullerRow{w, v.at(w.GetSeenAt())})
	}
	return rows
}
