package schedule

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// expectFlags adds the flags of expectations.
func expectFlags(f *pflag.FlagSet, req *carillonv1.UpsertScheduleRequest) {
	e := func() *carillonv1.Expectation {
		if req.Expect == nil {
			req.Expect = &carillonv1.Expectation{}
		}
		return req.Expect
	}
	f.Func("expect-start", "alert if a run has not started this `DURATION` after its run_at", func(s string) error { return command.Millis(&e().StartWithinMs)(s) })
	f.Func("expect-finish", "alert if a run has not succeeded this `DURATION` after its run_at", func(s string) error { return command.Millis(&e().FinishWithinMs)(s) })
	f.Func("expect-success", "alert if no run has succeeded for this `DURATION`", func(s string) error { return command.Millis(&e().SuccessEveryMs)(s) })
	f.Func("alert-after", "`NUMBER` of consecutive misses before an alert (default 1)", func(s string) error { return command.Uint32(&e().AlertAfter)(s) })
	f.Func("on-failure", "`WORD`: alert or ignore when runs fail (default: what DEFAULT_EXPECT says)", func(s string) error { return command.Text(&e().OnFailure)(s) })
	f.Func("remind-every", "remind of an open alert every `DURATION` (default: never)", func(s string) error { return command.Millis(&e().RemindEveryMs)(s) })
}

// expectText describes expectations.
func expectText(e *carillonv1.Expectation) string {
	var parts []string
	add := func(words string, ms *uint32) {
		if ms != nil {
			parts = append(parts, words+" "+render.Millis(*ms))
		}
	}
	if e == nil {
		return ""
	}
	add("start within", e.StartWithinMs)
	add("finish within", e.FinishWithinMs)
	add("success every", e.SuccessEveryMs)
	if word := e.GetOnFailure(); word != "" {
		parts = append(parts, word+" failures")
	}
	if e.GetAlertAfter() > 1 {
		parts = append(parts, fmt.Sprintf("alert after %d consecutive misses", e.GetAlertAfter()))
	}
	add("remind every", e.RemindEveryMs)
	return strings.Join(parts, ", ")
}

// writeExpectations writes the state of each expectation.
func writeExpectations(p *render.Page, states []*carillonv1.ExpectationState) {
	if len(states) == 0 {
		return
	}
	rows := make([][]string, len(states))
	for i, e := range states {
		late := ""
		if e.GetLate() > 0 {
			late = fmt.Sprintf("%d consecutive, since %s", e.GetLate(), p.When(e.GetLateSince()))
		}
		rows[i] = []string{e.GetKind(), e.GetStatus(), late, p.When(e.GetMetAt()), e.GetAlertId(), p.When(e.GetJudgedAt())}
	}
	p.Table([]string{"expectation", "status", "misses", "last met", "alert", "checked"}, rows)
	p.Line("")
}
