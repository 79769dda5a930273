package console

import (
	"crypto/rand"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// runView is one run.
type runView struct {
	Run     runRow
	Zone    string
	Steps   []step
	Bar     []segment
	Span    string
	DAG     *carillonv1.WorkflowVersion
	DAGText string
	DAGNote string
	// LastLines is the end of the output, once the run ended.
	LastLines string
	Request   string // of a retry
	Result    string // JSON, indented; "": none
	Artifacts []artifactRow
	// ByHand are the keys of the retries that were made by hand.
	ByHand []string
	// Waits is why a run has not reached the executor yet.
	Waits []string
}

// step is one instant in a run's timeline.
type step struct {
	Name, Note string
	At         moment
	After      string // since the step before
	Open       bool   // it has not been reached
}

// segment is a part of the bar, in thousandths of its length.
type segment struct {
	X, Width     int
	Class, Title string
}

func (c *Console) showRun(v *visit) (page, error) {
	resp, err := c.runs.GetRun(v.Context(), &carillonv1.GetRunRequest{IdempotencyKey: v.PathValue("key")})
	if err != nil {
		return page{}, err
	}
	row := v.row(resp.GetRun())
	view := runView{Run: row, Zone: v.zone.String(), Steps: stepsOf(row, v.atText(resp.GetFirstSentAt())), Request: rand.Text()}
	view.Result, view.Artifacts = indented(row.GetResult()), artifactsOf(row.Run)
	view.Bar, view.Span = barOf(row, v.now)
	view.LastLines = c.lastLinesOf(v, row)
	view.ByHand = c.retriesByHand(v, row)
	view.Waits = c.waitsOf(v, row)
	dag, err := c.workflows.GetWorkflowVersion(v.Context(), &carillonv1.GetWorkflowVersionRequest{
		WorkflowId: row.GetWorkflowId(), Version: row.GetVersion(), UserId: row.GetUserId(),
	})
	switch {
	case err == nil:
		view.DAG, view.DAGText = dag.GetWorkflowVersion(), indented(dag.GetWorkflowVersion().GetDag())
	case status.Code(err) == codes.NotFound:
		view.DAGNote = "The database has no such version that the run's owner may run. It may be in a folder or a bucket, or the executor does not need one."
	default:
		view.DAGNote = status.Convert(err).Message()
	}
	return page{name: "run", title: "Run " + row.Short(), view: view}, nil
}

// waitsOf explains a run that the executor does not have yet. The page is of use without it.
func (c *Console) waitsOf(v *visit, r runRow) []string {
	if r.Over() || r.Launched.Is() {
		return nil
	}
	resp, err := c.runs.ExplainRun(v.Context(), &carillonv1.ExplainRunRequest{IdempotencyKey: r.GetIdempotencyKey()})
	if err != nil {
		return nil
	}
	return resp.GetSentences()
}

// retriesByHand finds the retries of a run that has ended among the runs of its instant. The page
// is of use without them.
func (c *Console) retriesByHand(v *visit, r runRow) (keys []string) {
	if !r.Retriable() {
		return nil
	}
	at := r.GetRunAt().AsTime()
	resp, err := c.runs.ListRuns(v.Context(), &carillonv1.ListRunsRequest{
		ScheduleId: r.GetScheduleId(), From: timestamppb.New(at), To: timestamppb.New(at.Add(time.Microsecond)), Trigger: proto.String("retry"), PageSize: runsShown,
	})
	if err != nil {
		return nil
	}
	for _, other := range resp.GetRuns() {
		if other.GetRetryOf() == r.GetIdempotencyKey() && other.GetIdempotencyKey() != r.GetRetriedBy() {
			keys = append(keys, other.GetIdempotencyKey())
		}
	}
	return keys
}

// stepsOf are the instants that a run has, in their order.
func stepsOf(r runRow, firstSent moment) []step {
	var steps []step
	add := func(name, note string, at moment) {
		if at.Is() {
			steps = append(steps, step{Name: name, At: at, Note: note})
		}
	}
	add("Due", "fire_at", r.FireAt)
	add("Waited", "for the run in flight of its overlap key", r.Waiting)
	add("Claimed", claimNote(r), r.Claimed)
	add("May have been sent", "no answer was recorded, so it was sent again under the same key", firstSent)
	add("Launched", "handed to the executor", r.Launched)
	add("Started", "reported by the executor", r.Started)
	add("Cancel requested", "", r.CancelAsked)
	add("Ended", r.GetStatus(), r.Ended)
	slices.SortStableFunc(steps, func(a, b step) int { return a.At.Instant.Compare(b.At.Instant) })
	steps = append([]step{{Name: "Planned", At: r.Planned, Note: "run created"}}, steps...)
	if !r.Ended.Is() && (r.GetStatus() == "STARTED" || r.GetStatus() == "ENQUEUED") {
		steps = append(steps, step{Name: "Times out", At: r.Timeout, Note: "unless the executor reports", Open: true})
	}
	for i := 1; i < len(steps); i++ {
		steps[i].After = afterWords(steps[i].At.Instant.Sub(steps[i-1].At.Instant))
	}
	return steps
}

// claimNote describes how a run is claimed: an armed slot cannot change any more and waits in the
// launcher.
func claimNote(r runRow) string {
	if r.Claimed.Instant.Before(r.FireAt.Instant) {
		return "by the leader, ahead of time: it waits in the launcher until it is due"
	}
	return "by the leader, after the overlap check"
}

// afterWords is the time since the step before. A manual run is due at its request, shortly before
// its row is written.
func afterWords(d time.Duration) string {
	switch {
	case d >= 0:
		return brief(d) + " later"
	case d > -time.Second:
		return ""
	}
	return brief(-d) + " before"
}

// barOf draws the phases after fire_at to scale: waiting, launching, queued at the executor,
// running.
func barOf(r runRow, now time.Time) ([]segment, string) {
	end := now
	if r.Ended.Is() {
		end = r.Ended.Instant
	}
	from := r.FireAt.Instant
	total := end.Sub(from)
	if total <= 0 || !r.FireAt.Is() || (!r.Launched.Is() && !r.Ended.Is()) {
		return nil, ""
	}
	const length = 1000
	var bar []segment
	at := from
	add := func(class, name string, until time.Time) {
		if !until.After(at) {
			return
		}
		x, to := int(at.Sub(from)*length/total), int(until.Sub(from)*length/total)
		bar = append(bar, segment{X: x, Width: max(to-x, 2), Class: class, Title: name + ": " + brief(until.Sub(at))})
		at = until
	}
	if r.Launched.Is() {
		add("late", "due, not yet launched", r.Launched.Instant)
	}
	if r.Started.Is() {
		add("queued", "accepted, not yet started", r.Started.Instant)
		add("running", "running", end)
	} else {
		add("running", "with the executor", end)
	}
	return bar, brief(total)
}

// atText is an RFC 3339 time; "" is none.
func (v *visit) atText(text string) moment {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return v.at(nil)
	}
	return v.at(timestamppb.New(at))
}
