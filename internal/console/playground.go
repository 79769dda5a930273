package console

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const previewShown = 20

// playgroundView is a rule that is being tried out.
type playgroundView struct {
	Kind                          string // cron, interval, once
	Cron, Interval, Once, Zone    string
	Jitter, DST, From, Start, End string
	Zones                         []string
	Tried                         bool
	Rule                          rule
	Fires                         []fireRow
	Fails                         *failure
	Notes                         int // slots that daylight saving does something to
	Viewer                        string
	Examples                      []example
}

// example is a rule to begin with.
type example struct{ Title, Link string }

var examples = []struct{ title, cron, zone, from string }{
	{"weekdays at 08:30 in Berlin", "30 8 * * 1-5", "Europe/Berlin", ""},
	{"02:30 in New York, across a DST change", "30 2 * * *", "America/New_York", "2027-03-13T00:00"},
	{"last weekday of the month", "0 18 LW * *", "UTC", ""},
	{"every ten seconds of the working hours", "*/10 * 9-17 * * 1-5", "Europe/London", ""},
}

func (c *Console) showPlayground(v *visit) (page, error) {
	view := playgroundView{
		Kind: v.param("kind"), Cron: v.param("cron"), Interval: v.param("interval"), Once: v.param("once"), Zone: v.param("zone"),
		Jitter: v.param("jitter"), DST: v.param("dst"), From: v.param("from"), Start: v.param("start"), End: v.param("end"),
		Zones: cronexpr.Zones(), Viewer: v.zone.String(),
	}
	if view.Kind == "" {
		view.Kind = "cron"
	}
	if view.Zone == "" {
		view.Zone = v.zone.String()
	}
	for _, e := range examples {
		view.Examples = append(view.Examples, example{e.title, v.with("kind", "cron", "cron", e.cron, "zone", e.zone, "from", e.from, "interval", "", "once", "")})
	}
	req, problems := v.previewOf(&view)
	if len(problems) > 0 {
		view.Tried, view.Fails = true, &failure{Title: "Invalid request", Violations: problems}
	} else if req != nil {
		view.Tried = true
		resp, err := c.schedules.PreviewSchedule(v.Context(), req)
		if err != nil {
			f := failureOf(err)
			view.Fails = &f
		}
		view.Rule = v.rule(req)
		view.Fires = v.fireRows(resp.GetFires(), view.Zone)
	}
	for _, f := range view.Fires {
		if f.Note != "" {
			view.Notes++
		}
	}
	return page{name: "playground", title: "Preview", view: view}, nil
}

// previewOf is the request of the form; nil while the form is empty.
func (v *visit) previewOf(view *playgroundView) (*carillonv1.PreviewScheduleRequest, []violation) {
	var problems []violation
	req := &carillonv1.PreviewScheduleRequest{Timezone: &view.Zone, PageSize: previewShown}
	zone := v.zone
	if z, err := cronexpr.LoadLocation(view.Zone); err == nil {
		zone = z // otherwise the service reports the error
	}
	at := func(field, text string) *timestamppb.Timestamp {
		if text == "" {
			return nil
		}
		t, err := parseLocal(text, zone)
		if err != nil {
			problems = append(problems, violation{field, "is not a date and time; write 2026-03-08T02:30"})
			return nil
		}
		return timestamppb.New(t)
	}
	length := func(field, text string) *uint32 {
		ms, problem := milliseconds(text)
		if problem != "" {
			problems = append(problems, violation{field, problem})
		}
		return &ms
	}
	switch {
	case view.Kind == "cron" && view.Cron != "":
		req.CronExpr = &view.Cron
	case view.Kind == "interval" && view.Interval != "":
		req.IntervalMs = length("interval_ms", view.Interval)
	case view.Kind == "once" && view.Once != "":
		req.OnceAt = at("once_at", view.Once)
	default:
		return nil, nil
	}
	if view.Jitter != "" {
		req.JitterMs = length("jitter_ms", view.Jitter)
	}
	if view.DST != "" {
		req.Dst = &view.DST
	}
	req.From, req.StartAt, req.EndAt = at("from", view.From), at("start_at", view.Start), at("end_at", view.End)
	return req, problems
}

// milliseconds reads 15m, 1h30m, 90s, or a number of milliseconds.
func milliseconds(text string) (ms uint32, problem string) {
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return uint32(n), ""
	}
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	if err != nil || d < 0 || d/time.Millisecond > 1<<32-1 {
		return 0, "is not a duration; write 15m, 1h30m, 90s or milliseconds, at most 49 days"
	}
	return uint32(d / time.Millisecond), ""
}
