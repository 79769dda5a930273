package console

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	slotsShown = 200 // of a simulation, on one page
	// maxPasted bounds pasted text: it is part of the page's address.
	maxPasted = 48 << 10
)

// simulationView is a scenario as in the form, and its result.
type simulationView struct {
	Kind                                         string // saved, cron, interval, once, pasted
	Schedule, Cron, Interval, Once, Zone, Pasted string
	Jitter, Overlap, Queued, Catchup, Timeout    string
	LaunchTimeout, ExecutorOutages               string
	From, Until, Outages, Pauses                 string
	Duration, P95, Failures, Seed                string
	Zones, Overlaps, Catchups                    []string
	Viewer                                       string
	Tried                                        bool
	LeftOut                                      []string // pasted members that a simulation ignores
	Fails                                        *failure
	Began, Ended                                 moment
	Slots                                        []simulatedRow
	Sums                                         *carillonv1.SimulationSums
	Each                                         []*carillonv1.SimulationSums
	First, Count                                 int    // which of the slots are shown, and how many there are
	Next, Newest                                 string // addresses of other pages of the slots
	Examples                                     []example
}

// simulatedRow is one slot of a simulation, as the clock of its schedule shows it.
type simulatedRow struct {
	*carillonv1.SimulatedSlot
	RunAt, Launched, Ended moment
}

func (v *visit) simulated(s *carillonv1.SimulatedSlot) simulatedRow {
	zone := time.UTC
	text, _, _ := strings.Cut(s.GetLocal(), " ")
	if local, err := time.Parse(time.RFC3339, text); err == nil {
		zone = local.Location()
	}
	on := func(at *timestamppb.Timestamp) moment { // with a date if it is another day than the slot's
		m := moment{now: s.GetRunAt().AsTime(), zone: zone}
		if at != nil {
			m.Instant = at.AsTime()
		}
		return m
	}
	row := simulatedRow{SimulatedSlot: s, RunAt: v.at(s.GetRunAt()), Launched: on(s.GetLaunchedAt())}
	if row.Launched.Is() {
		row.Ended = on(s.GetCompletedAt())
	}
	return row
}

// Local is the slot in its schedule's zone.
func (s simulatedRow) Local() string {
	text, _, _ := strings.Cut(s.GetLocal(), " ")
	if local, err := time.Parse(time.RFC3339, text); err == nil {
		if local.Second() == 0 {
			return local.Format("Mon 2006-01-02 15:04 -07:00")
		}
		return local.Format("Mon 2006-01-02 15:04:05 -07:00")
	}
	return s.GetLocal()
}

// Late is how long after fire_at it is launched.
func (s simulatedRow) Late() string { return briefly(s.GetLatenessMs()) }

// Queued is how long it waited for an earlier run.
func (s simulatedRow) Queued() string { return briefly(s.GetQueuedMs()) }

// briefly is a number of milliseconds; empty for none.
func briefly(ms uint32) string {
	if ms == 0 {
		return ""
	}
	return brief(time.Duration(ms) * time.Millisecond)
}

// MS are a number of milliseconds in words.
func (simulationView) MS(ms uint32) string { return orText(briefly(ms), "0") }

// Several reports whether slots of more than one schedule are shown.
func (s simulationView) Several() bool { return len(s.Each) > 1 }

// Begin is the place of the first slot that is shown, from one.
func (s simulationView) Begin() int { return s.First + 1 }

// Last is the place of the last slot that is shown.
func (s simulationView) Last() int { return s.First + len(s.Slots) }

// Problem is the error of a form field, under the name of the service or of the form.
func (s simulationView) Problem(fields ...string) string {
	if s.Fails == nil {
		return ""
	}
	for _, one := range s.Fails.Violations {
		name := one.Field
		if _, inner, ok := strings.Cut(name, "]."); ok && strings.HasPrefix(name, "schedules[") {
			name = inner
		}
		name, _, _ = strings.Cut(name, "[") // outages[2].from is of the field outages
		for _, field := range fields {
			if name == field {
				return one.Problem
			}
		}
	}
	return ""
}

var simulations = []struct{ title, query string }{
	{"a run of 90 s every minute, queued", "kind=interval&interval=1m&zone=UTC&overlap=queue&queued=2&duration=90s&from=2027-03-01T00:00&until=2027-03-01T00:30"},
	{"half an hour without a worker, then only the newest slot", "kind=cron&cron=*/10+*+*+*+*&zone=UTC&catchup=latest&duration=1m&from=2027-03-01T00:00&until=2027-03-01T03:00&outages=2027-03-01T00:15+/+35m"},
	{"every tenth run fails, some take an hour", "kind=cron&cron=*/15+*+*+*+*&zone=UTC&overlap=skip&duration=5m&p95=1h&failures=10&from=2027-03-01T00:00&until=2027-03-02T00:00"},
}

func (c *Console) showSimulation(v *visit) (page, error) {
	view := simulationView{
		Kind: v.param("kind"), Schedule: v.param("schedule"), Cron: v.param("cron"), Interval: v.param("interval"), Once: v.param("once"),
		Zone: v.param("zone"), Pasted: v.param("pasted"), Jitter: v.param("jitter"), Overlap: v.param("overlap"), Queued: v.param("queued"),
		Catchup: v.param("catchup"), Timeout: v.param("timeout"), From: v.param("from"), Until: v.param("until"), Outages: v.param("outages"),
		LaunchTimeout: v.param("launch_timeout"), ExecutorOutages: v.param("executor_outages"),
		Pauses: v.param("pauses"), Duration: v.param("duration"), P95: v.param("p95"), Failures: v.param("failures"), Seed: v.param("seed"),
		Zones: cronexpr.Zones(), Overlaps: texts(schedule.OverlapPolicies), Catchups: texts(schedule.CatchupPolicies), Viewer: v.zone.String(),
	}
	view.Kind = orText(view.Kind, "saved")
	view.Zone = orText(view.Zone, v.zone.String())
	for _, e := range simulations {
		view.Examples = append(view.Examples, example{e.title, Prefix + "simulate?" + e.query})
	}
	req, problems := v.scenario(&view)
	if req == nil && problems == nil {
		return page{name: "simulate", title: "Simulate", view: view}, nil
	}
	view.Tried = true
	if len(problems) > 0 {
		view.Fails = &failure{Title: "Invalid request", Violations: problems, code: http.StatusUnprocessableEntity}
	} else {
		c.play(v, &view, req)
	}
	return page{name: "simulate", title: "Simulate", view: view}, nil
}

// play runs the simulation and shows errors on the page.
func (c *Console) play(v *visit, view *simulationView, req *carillonv1.SimulateSchedulesRequest) {
	resp, err := c.schedules.SimulateSchedules(v.Context(), req)
	if status.Code(err) == codes.DeadlineExceeded {
		err = status.Errorf(codes.DeadlineExceeded,
			"not finished within %s; simulate a shorter window or fewer slots (`carillon simulate --timeout` allows more time)", askTimeout)
	}
	if err != nil {
		f := failureOf(err)
		view.Fails = &f
		return
	}
	view.Sums, view.Each, view.Count = resp.GetSums(), resp.GetSchedules(), len(resp.GetSlots())
	view.Began, view.Ended = v.in(req.GetFrom(), view.Zone), v.in(req.GetUntil(), view.Zone)
	first, err := strconv.Atoi(v.param("after"))
	if err != nil || first < 0 || first >= view.Count {
		first = 0
	}
	view.First = first
	for _, s := range resp.GetSlots()[first:min(first+slotsShown, view.Count)] {
		view.Slots = append(view.Slots, v.simulated(s))
	}
	if view.Last() < view.Count {
		view.Next = v.with("after", strconv.Itoa(view.Last()))
	}
	if first > 0 {
		view.Newest = v.with("after", "")
	}
}

// scenario is the request of the form; nil without problems while the form is empty.
func (v *visit) scenario(view *simulationView) (*carillonv1.SimulateSchedulesRequest, []violation) {
	f := &scenarioForm{view: view, zone: v.zone}
	if z, err := cronexpr.LoadLocation(view.Zone); err == nil {
		f.zone = z // otherwise the service reports the error
	}
	req := f.whole()
	if req == nil && len(f.problems) == 0 {
		return nil, nil
	}
	if req == nil {
		return nil, f.problems
	}
	f.window(req, v.now)
	for _, s := range req.GetSchedules() {
		f.assume(s, req)
	}
	return req, f.problems
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// scenarioForm reads the form and records invalid fields.
type scenarioForm struct {
	view     *simulationView
	zone     *time.Location // that dates without an offset are in
	problems []violation
	leftOut  map[string]bool // the names in view.LeftOut
}

func (f *scenarioForm) wrong(field, problem string, args ...any) {
	f.problems = append(f.problems, violation{field, fmt.Sprintf(problem, args...)})
}

// whole are the schedules that are meant; nil where none is.
func (f *scenarioForm) whole() *carillonv1.SimulateSchedulesRequest {
	view, rule := f.view, &carillonv1.SimulatedSchedule{}
	switch view.Kind {
	case "saved":
		req := &carillonv1.SimulateSchedulesRequest{}
		for _, id := range strings.FieldsFunc(view.Schedule, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
			req.Schedules = append(req.Schedules, &carillonv1.SimulatedSchedule{ScheduleId: id})
		}
		if len(req.GetSchedules()) == 0 {
			return nil
		}
		return req
	case "pasted":
		if view.Pasted == "" {
			return nil
		}
		return f.pasted()
	case "cron":
		rule.CronExpr = optionalText(view.Cron)
	case "interval":
		rule.IntervalMs = f.length("interval_ms", view.Interval)
	case "once":
		rule.OnceAt = f.at("once_at", view.Once)
	}
	if rule.CronExpr == nil && rule.IntervalMs == nil && rule.GetOnceAt() == nil {
		return nil
	}
	rule.Timezone = &view.Zone
	return &carillonv1.SimulateSchedulesRequest{Schedules: []*carillonv1.SimulatedSchedule{rule}}
}

// window reads the fields for all schedules; empty ones keep the pasted value.
func (f *scenarioForm) window(req *carillonv1.SimulateSchedulesRequest, now time.Time) {
	view := f.view
	if at := f.at("from", view.From); at != nil || req.GetFrom() == nil {
		req.From = at
	}
	if req.GetFrom() == nil {
		req.From = timestamppb.New(now.Truncate(time.Second))
	}
	if at := f.at("until", view.Until); at != nil || req.GetUntil() == nil {
		req.Until = at
	}
	if req.GetUntil() == nil {
		req.Until = timestamppb.New(req.GetFrom().AsTime().Add(24 * time.Hour))
	}
	if spans := f.spans("outages", view.Outages); spans != nil {
		req.Outages = spans
	}
	if spans := f.spans("executor_outages", view.ExecutorOutages); spans != nil {
		req.ExecutorOutages = spans
	}
	if n := f.number("seed", view.Seed); n != nil {
		req.Seed = *n
	}
}

// assume reads the assumptions for each schedule.
func (f *scenarioForm) assume(s *carillonv1.SimulatedSchedule, req *carillonv1.SimulateSchedulesRequest) {
	view := f.view
	set := func(to **uint32, n *uint32) {
		if n != nil {
			*to = n
		}
	}
	set(&s.JitterMs, f.length("jitter_ms", view.Jitter))
	set(&s.RunTimeoutMs, f.length("run_timeout_ms", view.Timeout))
	set(&s.LaunchTimeoutMs, f.length("launch_timeout_ms", view.LaunchTimeout))
	set(&s.MaxQueued, f.number("max_queued", view.Queued))
	if view.Overlap != "" {
		s.OverlapPolicy = &view.Overlap
	}
	if view.Catchup != "" {
		s.CatchupPolicy = &view.Catchup
	}
	if spans := f.spans("pauses", view.Pauses); spans != nil {
		s.Pauses = spans
	}
	duration, p95, failures := f.length("run.duration_ms", view.Duration), f.length("run.p95_ms", view.P95), f.number("run.failure_percent", view.Failures)
	if duration == nil && p95 == nil && failures == nil {
		return
	}
	if s.GetRun() == nil {
		s.Run = &carillonv1.AssumedRun{}
	}
	set(&s.Run.DurationMs, duration)
	if p95 != nil {
		s.Run.P95Ms = *p95
	}
	if failures != nil {
		s.Run.FailurePercent = *failures
	}
}

func optionalText(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// length is a length of time; nil where none is written.
func (f *scenarioForm) length(field, text string) *uint32 {
	if text == "" {
		return nil
	}
	ms, problem := milliseconds(text)
	if problem != "" {
		f.wrong(field, "%.40q %s", text, problem)
		return nil
	}
	return &ms
}

func (f *scenarioForm) number(field, text string) *uint32 {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		f.wrong(field, "%.40q is not a whole number", text)
		return nil
	}
	value := uint32(n)
	return &value
}

// at is an instant, as the clock of the form's zone shows it or with an offset;
// nil where none is written.
func (f *scenarioForm) at(field, text string) *timestamppb.Timestamp {
	if text == "" {
		return nil
	}
	t, err := parseLocal(text, f.zone)
	if err != nil {
		f.wrong(field, "%.40q is not a date and time; write 2027-03-01T02:30 (in %s) or 2027-03-01T02:30:00Z", text, f.zone)
		return nil
	}
	return timestamppb.New(t)
}

// spans are lines of TIME / DURATION or TIME / TIME; nil if there are none.
func (f *scenarioForm) spans(field, text string) (all []*carillonv1.SimulatedSpan) {
	for i, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ',' }) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		begin, end, _ := strings.Cut(line, "/")
		begin, end = strings.TrimSpace(begin), strings.TrimSpace(end)
		from, err := parseLocal(begin, f.zone)
		until, endErr := parseLocal(end, f.zone)
		if ms, problem := milliseconds(end); problem == "" && ms > 0 {
			until, endErr = from.Add(time.Duration(ms)*time.Millisecond), nil
		}
		if err != nil || endErr != nil {
			f.wrong(fmt.Sprintf("%s[%d]", field, i), "%.60q is not a time range; write 2027-03-01T01:00 / 2h (in %s), or two times with a / between", line, f.zone)
			continue
		}
		all = append(all, &carillonv1.SimulatedSpan{From: timestamppb.New(from), Until: timestamppb.New(until)})
	}
	return all
}
