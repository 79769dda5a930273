package console

import (
	"strconv"
	"time"

	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// runRow is a run in a table, a strip, or on a run page.
type runRow struct {
	*carillonv1.Run
	Planned, RunAt, FireAt, Waiting, Claimed, CancelAsked, Launched, Started, Ended, Timeout, Entered, Expires, Deadline, UniqueUntil, FireBy, ResultExpires moment
}

func (v *visit) row(r *carillonv1.Run) runRow {
	return runRow{
		Run: r, Planned: v.at(r.GetCreatedAt()), RunAt: v.at(r.GetRunAt()), FireAt: v.at(r.GetFireAt()), Waiting: v.at(r.GetWaitingSince()),
		Claimed: v.at(r.GetClaimedAt()), CancelAsked: v.at(r.GetCancelRequestedAt()), Launched: v.at(r.GetLaunchedAt()), Started: v.at(r.GetStartedAt()),
		Ended: v.at(r.GetCompletedAt()), Timeout: v.at(r.GetTimeoutAt()), Entered: v.at(r.GetEnqueuedAt()),
		Expires: v.at(r.GetExpiresAt()), Deadline: v.at(r.GetDeadlineAt()),
		UniqueUntil: v.at(r.GetUnique().GetUntil()), FireBy: v.at(r.GetUnique().GetFireBy()), ResultExpires: v.at(r.GetResultExpiresAt()),
	}
}

func (v *visit) rows(runs []*carillonv1.Run) []runRow {
	out := make([]runRow, len(runs))
	for i, r := range runs {
		out[i] = v.row(r)
	}
	return out
}

func (r runRow) Path() string { return runPath(r.GetIdempotencyKey()) }

func runPath(key string) string { return Prefix + "runs/" + key }

// Why is the page that explains its slot.
func (r runRow) Why() string { return whyPath(r.GetScheduleId(), r.GetRunAt()) }

// Short is enough of the key for a table.
func (r runRow) Short() string { return r.GetIdempotencyKey()[:min(10, len(r.GetIdempotencyKey()))] }

// Late is how long after fire_at it was launched.
func (r runRow) Late() string { return between(r.FireAt, r.Launched) }

// Took is how long it ran, as far as that is known.
func (r runRow) Took() string {
	if !r.Launched.Is() {
		return ""
	}
	return between(r.Launched, r.Ended)
}

// Over reports whether nothing can follow.
func (r runRow) Over() bool {
	switch r.GetStatus() {
	case "SUCCESS", "FAILED", "SKIPPED", "CANCELLED":
		return true
	}
	return false
}

// Retriable reports whether it ended otherwise than it should have.
func (r runRow) Retriable() bool { return r.Over() && r.GetStatus() != "SUCCESS" }

// InFlight reports whether it was handed over and has not ended.
func (r runRow) InFlight() bool { return r.GetStatus() != "PLANNED" && !r.Over() }

// Retrying reports whether a launch failed and will be tried again.
func (r runRow) Retrying() bool { return r.GetStatus() == "LAUNCHING" && r.GetErrorCode() != "" }

// Overdue reports whether it should have been claimed, and neither was nor
// waits for another run to end.
func (r runRow) Overdue(now time.Time, grace time.Duration) bool {
	switch r.GetStatus() {
	case "PLANNED":
		return !r.Waiting.Is() && now.Sub(r.FireAt.Instant) > grace
	case "LAUNCHING":
		return now.Sub(r.FireAt.Instant) > grace
	}
	return false
}

// Label is the run in one line, for small elements.
func (r runRow) Label() string {
	text := r.GetStatus()
	if r.GetReason() != "" {
		text += " (" + r.GetReason() + ")"
	}
	text += ", " + r.RunAt.Full()
	if late := r.Late(); late != "" {
		text += ", launched " + late + " after " + r.FireAt.Text()
	}
	return text
}

// strip is a row of squares, oldest first.
type strip struct {
	Squares []square
	Width   int
	Summary string
}

type square struct {
	X   int
	Run runRow
}

// stripOf takes runs newest first, as lists have them.
func stripOf(runs []runRow) strip {
	const step = 9
	s := strip{Width: max(1, len(runs)*step)}
	failed, skipped := 0, 0
	for i, r := range runs {
		s.Squares = append(s.Squares, square{X: (len(runs) - 1 - i) * step, Run: r})
		switch r.GetStatus() {
		case "FAILED":
			failed++
		case "SKIPPED":
			skipped++
		}
	}
	s.Summary = "last " + describe.Count(len(runs), "run") + ": " + strconv.Itoa(failed) + " failed, " + strconv.Itoa(skipped) + " skipped"
	return s
}

// Uses are the limits of the run.
func (r runRow) Uses() []limitLink { return limitLinks(r.GetLimits()) }
