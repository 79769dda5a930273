package console

import (
	"cmp"
	"fmt"
	"net/url"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	queuesShown      = 100
	waitingShown     = 100
	queueEventsShown = 20
)

// queuesView is the page of dispatch queues.
type queuesView struct {
	Queues []queueRow
	More   bool
}

// queueView is the page of one queue.
type queueView struct {
	queueRow
	Reservations []reservationRow
	Workers      []pullerRow

	Runs   []runRow
	Next   string // address of the next page of Runs
	First  string // address of the first one
	Events []queueEventRow
	WhatIf whatIf
}

// queueRow is one queue.
type queueRow struct {
	*carillonv1.Queue
	Oldest, Until, Created, Updated moment
}

// reservationRow is a reservation of the queue.
type reservationRow struct {
	*carillonv1.Reservation
	Queue           string
	Requested, Ends moment
}

// Path is where it is released.
func (r reservationRow) Path() string {
	return queuePath(r.Queue) + "/reservations/" + r.GetReservationId()
}

// By is who has it.
func (r reservationRow) By() string { return cmp.Or(r.GetRequestedBy(), r.GetUserId()) }

// Uses are its limits.
func (r reservationRow) Uses() []limitLink { return limitLinks(r.GetLimits()) }

type queueEventRow struct {
	*carillonv1.QueueEvent
	Time moment
}

func queuePath(id string) string { return Prefix + "queues/" + url.PathEscape(id) }

func (q queueRow) Path() string { return queuePath(q.GetQueueId()) }

// Usage is how many of the places for runs in flight are taken.
func (q queueRow) Usage() string {
	if n := q.GetReserved(); n > 0 {
		return fmt.Sprintf("%d and %s, of %d", q.GetInFlight(), describe.Count(int(n), "reservation"), q.GetMaxInFlight())
	}
	return fmt.Sprintf("%d of %d", q.GetInFlight(), q.GetMaxInFlight())
}

// Sum is the sentence above the page.
func (q queueRow) Sum() string {
	text := fmt.Sprintf("%s waiting, %s in flight", describe.Count(int(q.GetWaiting()), "run"), q.Usage())
	if n := q.GetDelayed(); n > 0 {
		text += fmt.Sprintf(", %d delayed", n)
	}
	if n := q.GetReserving(); n > 0 {
		text += fmt.Sprintf(", %s waiting", describe.Count(int(n), "reservation"))
	}
	return text + "."
}

// Limit is the number of waiting runs at which new ones are refused.
func (q queueRow) Limit() string {
	if q.GetMaxWaiting() == 0 {
		return "no limit"
	}
	return fmt.Sprint(q.GetMaxWaiting())
}

// Pace is how many runs of the queue have started and ended a minute, lately.
func (q queueRow) Pace() string {
	return fmt.Sprintf("%g started, %g ended a minute", q.GetStartsPerMinute(), q.GetEndsPerMinute())
}

// Kept is which ends of its runs have a row of history.
func (q queueRow) Kept() string {
	if schedule.History(q.GetHistory()) == schedule.HistoryFailed {
		return "failures only; successes are counted by the minute"
	}
	return "all runs"
}

// Starts is the rate of the queue; "": it has none.
func (q queueRow) Starts() string { return rateText(q.GetRate()) }

// RunTimeout is the longest time without a report; "": that of the run's schedule.
func (q queueRow) RunTimeout() string { return everyWords(q.GetRunTimeoutMs()) }

// LongestRun is how long a run may take; "": any time.
func (q queueRow) LongestRun() string { return everyWords(q.GetMaxRunMs()) }

// Expires is how long a run may wait; "": any time.
func (q queueRow) Expires() string { return everyWords(q.GetExpiresMs()) }

// Retries is what follows a failed run whose schedule has no policy; "": the default.
func (q queueRow) Retries() string {
	p := q.GetRetry()
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%d attempts, %s", p.GetMaxAttempts(), backoffWords(p))
}

// Promoted is how long a run waits before it passes higher priorities; "": it never does.
func (q queueRow) Promoted() string {
	if q.GetPromoteAfterMs() == 0 {
		return ""
	}
	return schedule.ShortDuration(time.Duration(q.GetPromoteAfterMs()) * time.Millisecond)
}

// Fairness is how its keys take turns; "": they do not.
func (q queueRow) Fairness() string {
	if q.GetFair() != string(schedule.FairKey) {
		return ""
	}
	return describe.Turns(q.GetWeights())
}

// Uses are the limits of its runs.
func (q queueRow) Uses() []limitLink { return limitLinks(q.GetLimits()) }

func (v *visit) queue(q *carillonv1.Queue) queueRow {
	return queueRow{Queue: q, Oldest: v.at(q.GetOldestEnqueuedAt()), Until: v.at(q.GetPausedUntil()), Created: v.at(q.GetCreatedAt()), Updated: v.at(q.GetUpdatedAt())}
}

func (c *Console) showQueues(v *visit) (page, error) {
	resp, err := c.queues.ListQueues(v.Context(), &carillonv1.ListQueuesRequest{PageSize: queuesShown})
	if err != nil {
		return page{}, err
	}
	view := queuesView{More: resp.GetNextPageToken() != ""}
	for _, q := range resp.GetQueues() {
		view.Queues = append(view.Queues, v.queue(q))
	}
	return page{name: "queues", title: "Queues", view: view}, nil
}

func (c *Console) showQueue(v *visit) (page, error) {
	id := v.PathValue("id")
	got, err := c.queues.GetQueue(v.Context(), &carillonv1.GetQueueRequest{QueueId: id})
	if err != nil {
		return page{}, err
	}
	view := queueView{queueRow: v.queue(got.GetQueue()), Workers: v.workersOf(got.GetQueue())}
	waiting, err := c.queues.ListWaiting(v.Context(), &carillonv1.ListWaitingRequest{QueueId: id, PageSize: waitingShown, PageToken: v.param("page_token")})
	if err != nil {
		return page{}, err
	}
	view.Runs = v.rows(waiting.GetRuns())
	if token := waiting.GetNextPageToken(); token != "" {
		view.Next = v.with("page_token", token)
	}
	if v.param("page_token") != "" {
		view.First = queuePath(id)
	}
	reserved, err := c.queues.ListReservations(v.Context(), &carillonv1.ListReservationsRequest{QueueId: id})
	if err != nil {
		return page{}, err
	}
	for _, r := range reserved.GetReservations() {
		view.Reservations = append(view.Reservations, reservationRow{r, id, v.at(r.GetCreatedAt()), v.at(r.GetEndsAt())})
	}
	log, err := c.queues.ListQueueEvents(v.Context(), &carillonv1.ListQueueEventsRequest{QueueId: id, PageSize: queueEventsShown})
	if err != nil {
		return page{}, err
	}
	for _, e := range log.GetEvents() {
		view.Events = append(view.Events, queueEventRow{e, v.at(e.GetTime())})
	}
	view.WhatIf = c.whatIf(v, id)
	return page{name: "queue", title: id, view: view}, nil
}

func (c *Console) pauseQueue(v *visit) (toast, error) {
	until, err := v.until()
	if err != nil {
		return toast{}, err
	}
	id := v.PathValue("id")
	paused, err := c.queues.PauseQueue(v.Context(), &carillonv1.PauseQueueRequest{QueueId: id, Note: v.field("note"), Until: until, CancelWaiting: v.field("cancel_waiting") != ""})
	if err != nil {
		return toast{}, err
	}
	t := toast{Title: "Paused " + id, Lines: []string{"No more runs of it are launched; runs in flight continue."}}
	if v.field("cancel_waiting") != "" {
		t.Lines = append(t.Lines, describe.Count(int(paused.GetCancelled()), "waiting run")+" cancelled.")
	}
	if until != nil {
		t.Lines = append(t.Lines, "It resumes automatically "+v.at(until).Full()+".")
	}
	return t, nil
}

func (c *Console) resumeQueue(v *visit) (toast, error) {
	id := v.PathValue("id")
	_, err := c.queues.ResumeQueue(v.Context(), &carillonv1.ResumeQueueRequest{QueueId: id, Note: v.field("note")})
	return toast{Title: "Resumed " + id}, err
}

// move moves a waiting run to the front or the end of its priority.
func (c *Console) move(v *visit) (toast, error) {
	resp, err := c.runs.MoveRun(v.Context(), &carillonv1.MoveRunRequest{IdempotencyKey: v.PathValue("key"), To: v.field("to")})
	return toast{Title: fmt.Sprintf("Moved to position %d of priority %d", resp.GetRun().GetPosition(), resp.GetRun().GetPriority())}, err
}

// redeliverWebhook sends the message about the end of a run again.
func (c *Console) redeliverWebhook(v *visit) (toast, error) {
	_, err := c.runs.RedeliverWebhooks(v.Context(), &carillonv1.RedeliverWebhooksRequest{IdempotencyKey: v.PathValue("key")})
	return toast{Title: "Sending again", Lines: []string{"With the same id and all its attempts."}}, err
}

func (c *Console) releaseReservation(v *visit) (toast, error) {
	resp, err := c.queues.ReleaseReservation(v.Context(), &carillonv1.ReleaseReservationRequest{ReservationId: v.PathValue("reservation")})
	t := toast{Title: "Released the reservation of " + resp.GetReservation().GetUserId()}
	if resp.GetReservation().GetGranted() {
		t.Lines = []string{"Its slot is free; what its holder does with it goes on."}
	}
	return t, err
}

func (c *Console) closeQueue(v *visit) (toast, error) {
	id := v.PathValue("id")
	_, err := c.queues.CloseQueue(v.Context(), &carillonv1.CloseQueueRequest{QueueId: id, Note: v.field("note")})
	return toast{Title: "Closed " + id, Lines: []string{"It takes no new runs; those in it go on."}}, err
}

func (c *Console) openQueue(v *visit) (toast, error) {
	id := v.PathValue("id")
	_, err := c.queues.OpenQueue(v.Context(), &carillonv1.OpenQueueRequest{QueueId: id, Note: v.field("note")})
	return toast{Title: "Opened " + id, Lines: []string{"It takes new runs again."}}, err
}
