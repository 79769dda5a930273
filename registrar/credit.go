package registrar

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/schedule"
)

// CreditGate asks the billing service. It is called only when a schedule or a grant is created;
// the executor checks the cost of runs.
type CreditGate interface {
	// Ask returns an error if there is no answer. It takes two seconds at most.
	Ask(ctx context.Context, q CreditQuestion) (CreditAnswer, error)
}

// CreditQuestion asks whether an account can pay for a model, or with Grant
// whether a user may create a grant on the account.
type CreditQuestion struct {
	BillingAccountID string // of the grant; empty: the schedule has none
	UserID           string
	WorkflowID       string
	Model            string // input.model; empty with Grant
	Grant            bool
}

// CreditAnswer is the answer.
type CreditAnswer struct {
	Payable  bool // or free
	MayGrant bool // of a question with Grant
	Message  string
}

// Limits of one deploy: concurrent questions, total time, and retries after concurrent changes of
// the same schedules.
const (
	creditAsks  = 8
	creditTime  = 10 * time.Second
	creditTries = 4 // transactions: the first finds the questions
)

// errUnasked ends a transaction that needs an answer first.
var errUnasked = schedule.Explain(schedule.ErrUnavailable, "the same schedules are being changed by others; try again")

// credit holds the answers for one call. The transaction finds the questions and is retried with
// the answers, so a repeat of an accepted call and a call refused for another reason ask nothing.
type credit struct {
	answers map[CreditQuestion]CreditAnswer
	open    map[CreditQuestion]bool // that the last transaction had no answer to
}

// paid refuses the i-th input if its account cannot pay. A new question is noted for errUnasked.
func (all *upserts) paid(found schedule.ChangeInput, i int) error {
	if all.credit == nil || !all.needsCredit(found.Schedule, i) {
		return nil
	}
	q := all.question(found, i)
	switch a, asked := all.credit.answers[q]; {
	case !asked:
		all.credit.open[q] = true
	case !a.Payable:
		return unpayable(all.definitions[i].ScheduleID, q, a.Message)
	}
	return nil
}

// unasked is errUnasked if a question has no answer yet.
func (all *upserts) unasked() error {
	if all.credit == nil || len(all.credit.open) == 0 {
		return nil
	}
	return errUnasked
}

func (all *upserts) question(found schedule.ChangeInput, i int) CreditQuestion {
	d := &all.definitions[i]
	q := CreditQuestion{UserID: d.UserID, WorkflowID: d.WorkflowID, Model: modelOf(d.Input)}
	if found.Grant != nil && found.Grant.UserID == d.UserID {
		q.BillingAccountID = found.Grant.BillingAccountID
	}
	return q
}

// needsCredit reports whether the i-th input is a new schedule with a model, or an edit that
// changes the cost of its runs or the account.
func (all *upserts) needsCredit(current *schedule.Schedule, i int) bool {
	d := &all.definitions[i]
	model := modelOf(d.Input)
	switch {
	case model == "":
		return false
	case current == nil || !current.Alive():
		return true
	}
	return current.WorkflowID != d.WorkflowID || current.ExecutionGrantID != d.ExecutionGrantID || modelOf(current.Input) != model
}

// askOpen asks the open questions, several at once, and keeps the answers.
func (r *Registrar) askOpen(ctx context.Context, c *credit) error {
	bounded, cancel := context.WithTimeout(ctx, creditTime)
	defer cancel()
	asked := make([]CreditQuestion, 0, len(c.open))
	for q := range c.open {
		asked = append(asked, q)
	}
	replies := make([]CreditAnswer, len(asked))
	group, groupCtx := errgroup.WithContext(bounded)
	group.SetLimit(creditAsks)
	for i, q := range asked {
		group.Go(func() (err error) {
			replies[i], err = r.ask(groupCtx, q)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, q := range asked {
		c.answers[q] = replies[i]
	}
	return nil
}

// ask asks one question; without an answer, CREDIT_GATE_DOWN decides.
func (r *Registrar) ask(ctx context.Context, q CreditQuestion) (CreditAnswer, error) {
	a, err := r.credit.Ask(ctx, q)
	switch {
	case err == nil:
		return a, nil
	case r.cfg.CreditDownOpen && !q.Grant && ctx.Err() == nil: // a grant's account is not checked later
		r.log.WarnContext(ctx, "credit gate unavailable: allowed", "billing_account_id", q.BillingAccountID, "workflow_id", q.WorkflowID, "err", err)
		return CreditAnswer{Payable: true}, nil
	}
	r.log.WarnContext(ctx, "credit gate unavailable: refused", "billing_account_id", q.BillingAccountID, "workflow_id", q.WorkflowID, "err", err)
	if q.Grant {
		return CreditAnswer{}, schedule.Explain(schedule.ErrUnavailable,
			"the billing service cannot be asked whether user_id %s may use billing_account_id %s; try again", schedule.Quote(q.UserID), schedule.Quote(q.BillingAccountID))
	}
	return CreditAnswer{}, schedule.Explain(schedule.ErrUnavailable,
		"the billing service cannot be asked whether %s can pay for model %s; try again", payer(q), schedule.Quote(q.Model))
}

func unpayable(scheduleID string, q CreditQuestion, message string) error {
	why := fmt.Sprintf("schedule %s: %s cannot pay for model %s", schedule.Quote(scheduleID), payer(q), schedule.Quote(q.Model))
	if message != "" {
		why += ": " + message
	}
	return schedule.Explain(schedule.ErrUnpayable, "%s", why)
}

func payer(q CreditQuestion) string {
	if q.BillingAccountID == "" {
		return "owner " + schedule.Quote(q.UserID) + ", which has no grant and no billing account,"
	}
	return "billing account " + schedule.Quote(q.BillingAccountID)
}

// modelOf is the member model of an input, by its exact name; "" if absent. A value that is no
// string is returned as JSON: it must not count as free.
func modelOf(input json.RawMessage) string {
	var members map[string]json.RawMessage
	if len(input) == 0 || json.Unmarshal(input, &members) != nil {
		return ""
	}
	raw := strings.TrimSpace(string(members["model"]))
	var text string
	switch {
	case raw == "" || raw == "null":
		return ""
	case json.Unmarshal([]byte(raw), &text) == nil:
		return text
	}
	return raw
}
