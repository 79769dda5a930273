package console

import (
	"crypto/rand"
	"fmt"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// backfillsView is the backfills of a schedule.
type backfillsView struct {
	ID, Zone string
	Gone     bool // the schedule was deleted: nothing more of it is run
	Rows     []backfillRow
	Next     string
	Request  string
}

type backfillRow struct {
	*carillonv1.Backfill
	Since, Until, Made, Ended, ETA moment
	Bar                            []segment
}

// Over reports whether it has ended.
func (b backfillRow) Over() bool { return b.GetState() == "finished" || b.GetState() == "cancelled" }

// Path is the address of its actions.
func (b backfillRow) Path() string { return Prefix + "backfills/" + b.GetBackfillId() }

// Tone is the class of the state's chip.
func (b backfillRow) Tone() string {
	return map[string]string{"running": "ENQUEUED", "paused": "paused", "finished": "SUCCESS"}[b.GetState()]
}

// Done is its progress in percent.
func (b backfillRow) Done() int32 {
	p := b.GetProgress()
	if p.GetTotal() == 0 {
		return 100
	}
	return (p.GetTotal() - p.GetRemaining() - p.GetNotRun() - p.GetInFlight()) * 100 / p.GetTotal()
}

func (v *visit) backfill(b *carillonv1.Backfill) backfillRow {
	row := backfillRow{
		Backfill: b, Since: v.at(b.GetFrom()), Until: v.at(b.GetTo()), Made: v.at(b.GetCreatedAt()), Ended: v.at(b.GetEndedAt()), ETA: v.at(b.GetProgress().GetEta()),
	}
	p, x := b.GetProgress(), 0
	for _, part := range []struct {
		class, name string
		n           int32
	}{
		{"success", "succeeded", p.GetSucceeded()},
		{"failed", "failed", p.GetFailed()},
		{"late", "skipped or cancelled", p.GetSkipped() + p.GetCancelled()},
		{"running", "in flight", p.GetInFlight()},
		{"passed", "not selected", p.GetPassedOver()},
	} {
		if part.n == 0 || p.GetTotal() == 0 {
			continue
		}
		width := max(2, int(int64(part.n)*1000/int64(p.GetTotal())))
		row.Bar = append(row.Bar, segment{X: x, Width: width, Class: part.class, Title: fmt.Sprintf("%d %s", part.n, part.name)})
		x += width
	}
	return row
}

func (c *Console) showBackfills(v *visit) (page, error) {
	view := backfillsView{ID: v.PathValue("id"), Request: rand.Text()}
	found, err := c.schedules.GetSchedule(v.Context(), &carillonv1.GetScheduleRequest{ScheduleId: view.ID})
	if view.Gone = status.Code(err) == codes.NotFound; err != nil && !view.Gone { // or it never was: then its list is not found either
		return page{}, err
	}
	view.Zone = found.GetSchedule().GetTimezone()
	resp, err := c.schedules.ListBackfills(v.Context(), &carillonv1.ListBackfillsRequest{ScheduleId: view.ID, PageSize: 20, PageToken: v.param("page_token")})
	if err != nil {
		return page{}, err
	}
	for _, b := range resp.GetBackfills() {
		view.Rows = append(view.Rows, v.backfill(b))
	}
	if token := resp.GetNextPageToken(); token != "" {
		view.Next = v.with("page_token", token)
	}
	return page{name: "backfills", title: view.ID + ": backfill", view: view}, nil
}

// startBackfill requests a backfill, or a dry run of one.
func (c *Console) startBackfill(v *visit) (toast, error) {
	req, err := c.backfillOf(v)
	if err != nil {
		return toast{}, err
	}
	resp, err := c.schedules.BackfillSchedule(v.Context(), req)
	if err != nil {
		return toast{}, err
	}
	if b := resp.GetBackfill(); b != nil && resp.GetSlots() == 0 { // the same form was sent twice
		return toast{Title: "Backfill is " + b.GetState(), Lines: []string{"It was requested " + v.at(b.GetCreatedAt()).Full() + "; nothing changed."}}, nil
	}
	count := fmt.Sprintf("%d of the %d slots in the range", resp.GetCount(), resp.GetSlots())
	if !req.GetDryRun() {
		return toast{Title: "Backfill started", Lines: []string{count + " will run."}}, nil
	}
	t := toast{Title: "Would run " + count, Lines: []string{"Nothing changed."}, Still: true}
	if resp.GetCount() > 0 {
		t.Lines = append(t.Lines, "The first "+v.at(resp.GetFirst()).Full()+", the last "+v.at(resp.GetLast()).Full()+".")
	}
	return t, nil
}

func (c *Console) backfillOf(v *visit) (*carillonv1.BackfillScheduleRequest, error) {
	id := v.PathValue("id")
	found, err := c.schedules.GetSchedule(v.Context(), &carillonv1.GetScheduleRequest{ScheduleId: id})
	if err != nil {
		return nil, err
	}
	req := &carillonv1.BackfillScheduleRequest{ScheduleId: id, Note: v.field("note"), DryRun: v.field("dry_run") != "", RequestId: v.requestID()}
	for name, target := range map[string]**timestamppb.Timestamp{"from": &req.From, "to": &req.To} {
		text := v.field(name)
		if text == "" {
			continue
		}
		at, problem := readingIn(text, found.GetSchedule().GetTimezone())
		if problem != "" {
			return nil, status.Errorf(codes.InvalidArgument, "%s: %.40q %s", name, text, problem)
		}
		*target = timestamppb.New(at)
	}
	for name, target := range map[string]**string{"reprocess": &req.Reprocess, "order": &req.Order, "overlap_policy": &req.OverlapPolicy} {
		if word := v.field(name); word != "" {
			*target = &word
		}
	}
	for name, set := range map[string]func(uint32){
		"concurrency": func(n uint32) { req.Concurrency = &n }, "rate_per_minute": func(n uint32) { req.RatePerMinute = n },
	} {
		text := v.field(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "%s: %.20q is not a whole number", name, text)
		}
		set(uint32(n))
	}
	return req, nil
}

func (c *Console) pauseBackfill(v *visit) (toast, error) {
	_, err := c.schedules.PauseBackfill(v.Context(), &carillonv1.PauseBackfillRequest{BackfillId: v.PathValue("id")})
	return toast{Title: "Backfill paused", Lines: []string{"Runs in flight continue."}}, err
}

func (c *Console) resumeBackfill(v *visit) (toast, error) {
	_, err := c.schedules.ResumeBackfill(v.Context(), &carillonv1.ResumeBackfillRequest{BackfillId: v.PathValue("id")})
	return toast{Title: "Backfill resumed"}, err
}

func (c *Console) cancelBackfill(v *visit) (toast, error) {
	_, err := c.schedules.CancelBackfill(v.Context(), &carillonv1.CancelBackfillRequest{BackfillId: v.PathValue("id"), CancelRuns: v.field("cancel_runs") != ""})
	lines := []string{"No more of its runs are started."}
	if v.field("cancel_runs") != "" {
		lines = append(lines, "Cancel of its runs in flight requested.")
	}
	return toast{Title: "Backfill cancelled", Lines: lines}, err
}
