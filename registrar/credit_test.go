package registrar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/registrar"
)

// bank is a billing service with preset answers; it records the questions.
type bank struct {
	mu      sync.Mutex
	asked   []registrar.CreditQuestion
	refuses string // a model
	vouches string // for this user
	down    error
}

func (b *bank) Ask(_ context.Context, q registrar.CreditQuestion) (registrar.CreditAnswer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, q)
	return registrar.CreditAnswer{Payable: q.Model != b.refuses, MayGrant: q.Grant && q.UserID == b.vouches, Message: "top up first"}, b.down
}

func withModel(model string) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) {
		in.Definition.Input = json.RawMessage(`{"model": ` + model + `, "n": 1}`)
	}
}

func newBankRig(t *testing.T, b *bank, config registrar.Config) *rig {
	r := newRig(t, config, func(o *registrar.Options) { o.Credit = b })
	r.grant("g")
	r.grant("g2", func(in *registrar.GrantInput) { in.BillingAccountID = "other" })
	return r
}

func TestTheGateIsAskedWhenItMatters(t *testing.T) {
	paid := hourly(named("g"), withModel(`"gpt"`))
	for _, tc := range []struct {
		name   string
		before *registrar.UpsertInput
		upsert registrar.UpsertInput
		asks   int
	}{
		{name: "a new schedule with a model", upsert: paid, asks: 1},
		{name: "a new schedule without input", upsert: hourly(named("g"), func(in *registrar.UpsertInput) { in.Definition.Input = nil })},
		{name: "a new schedule without a model", upsert: hourly(named("g"))},
		{name: "a model that is null", upsert: hourly(named("g"), withModel("null"))},
		{name: "an empty model", upsert: hourly(named("g"), withModel(`""`))},
		{name: "a model of another name", upsert: hourly(named("g"), func(in *registrar.UpsertInput) { in.Definition.Input = json.RawMessage(`{"Model":"gpt"}`) })},
		{name: "a model that is no text", upsert: hourly(named("g"), withModel(`{"id":"gpt"}`)), asks: 1},
		{name: "the same again", before: &paid, upsert: paid},
		{name: "an edit of the timing", before: &paid, upsert: hourly(named("g"), withModel(`"gpt"`), func(in *registrar.UpsertInput) { in.Definition.CronExpr = "30 * * * *" })},
		{name: "an edit of the model", before: &paid, upsert: hourly(named("g"), withModel(`"gpt-2"`)), asks: 1},
		{name: "an edit of the grant", before: &paid, upsert: hourly(named("g2"), withModel(`"gpt"`)), asks: 1},
		{name: "an edit of the rest of the input", before: &paid, upsert: hourly(named("g"), func(in *registrar.UpsertInput) { in.Definition.Input = json.RawMessage(`{"model":"gpt","n":2}`) })},
		{name: "a model that goes", before: &paid, upsert: hourly(named("g"))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &bank{}
			r := newBankRig(t, b, registrar.Config{})
			if tc.before != nil {
				r.upsert(*tc.before)
				b.asked = nil
			}
			r.upsert(tc.upsert)
			if len(b.asked) != tc.asks {
				t.Errorf("it was asked %v, want %d questions", b.asked, tc.asks)
			}
		})
	}
}

func TestTheGateIsAskedAboutTheAccountOfTheGrant(t *testing.T) {
	b := &bank{}
	r := newBankRig(t, b, registrar.Config{})
	r.upsert(hourly(named("g2"), withModel(`"gpt"`)))
	if want := (registrar.CreditQuestion{BillingAccountID: "other", UserID: "u", WorkflowID: "w", Model: "gpt"}); b.asked[0] != want {
		t.Errorf("it was asked %+v, want %+v", b.asked[0], want)
	}
	r.upsert(hourly(bring(), withModel(`"gpt"`)))
	if b.asked[1].BillingAccountID != "acme" {
		t.Errorf("of a grant that comes along it was asked %+v", b.asked[1])
	}
}

func TestWhoCannotPayGetsNoSchedule(t *testing.T) {
	b := &bank{refuses: "gpt"}
	r := newBankRig(t, b, registrar.Config{})
	_, err := r.Upsert(r.Context(), hourly(named("g"), withModel(`"gpt"`)))
	if !errors.Is(err, schedule.ErrUnpayable) || !strings.Contains(err.Error(), "acme") || !strings.Contains(err.Error(), "top up first") {
		t.Errorf("got %v, want ErrUnpayable that names the account and says what the billing service said", err)
	}
	if len(r.page.schedules) != 0 {
		t.Error("the schedule was written")
	}
	_, err = r.Upsert(r.Context(), hourly(bring(), withModel(`"gpt"`)))
	if !errors.Is(err, schedule.ErrUnpayable) || len(r.page.grants) != 2 {
		t.Errorf("got %v and %d grants; the grant that came along must not stay", err, len(r.page.grants))
	}
	r.upsert(hourly(named("g"), withModel(`"free"`)))
}

func TestAGateThatIsDownIsTheOperatorsChoice(t *testing.T) {
	for _, open := range []bool{false, true} {
		b := &bank{down: errors.New("connection refused")}
		r := newBankRig(t, b, registrar.Config{CreditDownOpen: open})
		_, err := r.Upsert(r.Context(), hourly(named("g"), withModel(`"gpt"`)))
		if open && err != nil || !open && !errors.Is(err, schedule.ErrUnavailable) {
			t.Errorf("CREDIT_GATE_DOWN open=%t: got %v", open, err)
		}
		r.upsert(hourly(named("g"))) // without a model it is not even asked
	}
}

func TestADeployAsksEachQuestionOnceAndIsRefusedWhole(t *testing.T) {
	b := &bank{}
	r := newBankRig(t, b, registrar.Config{})
	deploy := func() error {
		var triggers []registrar.UpsertInput
		for _, id := range []string{"w.a", "w.b", "w.c"} {
			in := hourly(named("g"), withModel(`"gpt"`))
			if in.Definition.ScheduleID = id; id == "w.c" {
				in.Definition.Input = json.RawMessage(`{"model":"big"}`)
			}
			triggers = append(triggers, in)
		}
		_, err := r.DeployWorkflow(r.Context(), registrar.DeployInput{WorkflowID: "w", Version: 1, UserID: "u", DAG: []byte(`{}`), Triggers: triggers})
		return err
	}
	b.refuses = "big"
	if err := deploy(); !errors.Is(err, schedule.ErrUnpayable) || !strings.Contains(err.Error(), "w.c") || len(r.page.schedules) != 0 {
		t.Errorf("got %v and %d schedules", err, len(r.page.schedules))
	}
	b.refuses, b.asked = "", nil
	if err := deploy(); err != nil || len(b.asked) != 2 {
		t.Errorf("got %v, asked %v; want two questions for three schedules", err, b.asked)
	}
}

func TestAChangeThatComesBetweenIsAskedAboutToo(t *testing.T) {
	b := &bank{}
	r := newBankRig(t, b, registrar.Config{})
	paid := func(model string) registrar.DeployInput {
		in := registrar.DeployInput{WorkflowID: "w", Version: 1, UserID: "u", DAG: []byte(`{}`)}
		for id, model := range map[string]string{"w.a": model, "w.b": `"big"`} {
			one := hourly(named("g"), withModel(model))
			one.Definition.ScheduleID = id
			in.Triggers = append(in.Triggers, one)
		}
		return in
	}
	if _, err := r.DeployWorkflow(t.Context(), paid(`"gpt"`)); err != nil {
		t.Fatal(err)
	}
	b.asked = nil
	// At first only one of the two costs another account or model than before; while the gate is
	// asked about it, another caller deletes the other.
	looks := 0
	r.page.beforeChange = func() {
		if looks++; looks == 2 {
			s := *r.page.schedules["w.b"]
			s.DeletedAt = noon
			r.page.schedules["w.b"] = &s
		}
	}
	if _, err := r.DeployWorkflow(t.Context(), paid(`"gpt-2"`)); err != nil {
		t.Fatal(err)
	}
	if len(b.asked) != 2 || b.asked[0].Model != "gpt-2" || b.asked[1].Model != "big" {
		t.Errorf("it was asked %v, want also for the schedule that is new after all", b.asked)
	}
}

// The account may be empty by the time of the repeat, but the client must learn that its first
// call succeeded.
func TestARepeatOfAnAcceptedCallAsksNothing(t *testing.T) {
	b := &bank{}
	r := newBankRig(t, b, registrar.Config{})
	one := hourly(named("g"), withModel(`"gpt"`))
	one.Definition.ScheduleID = "w.a"
	deploy := registrar.DeployInput{WorkflowID: "w", Version: 1, UserID: "u", DAG: []byte(`{}`), RequestID: "r1", Triggers: []registrar.UpsertInput{one}}
	if _, err := r.DeployWorkflow(t.Context(), deploy); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), "w.a", ""); err != nil {
		t.Fatal(err)
	}
	b.asked, b.refuses = nil, "gpt"
	if _, err := r.DeployWorkflow(t.Context(), deploy); err != nil || len(b.asked) != 0 {
		t.Errorf("it was asked %v and answered %v, want the repeat recognised", b.asked, err)
	}
	deploy.RequestID = "r2"
	if _, err := r.DeployWorkflow(t.Context(), deploy); !errors.Is(err, schedule.ErrUnpayable) {
		t.Errorf("another deploy: %v, want ErrUnpayable", err)
	}
}

func TestARefusedCallAsksNothing(t *testing.T) {
	b := &bank{refuses: "gpt"}
	r := newBankRig(t, b, registrar.Config{})
	theirs := hourly(func(in *registrar.UpsertInput) { in.Definition.UserID = "somebody-else" })
	r.upsert(theirs)
	var invalid *schedule.InvalidError
	for name, want := range map[string]func(error) bool{
		"s":    func(err error) bool { return errors.Is(err, schedule.ErrExists) },
		"mine": func(err error) bool { return errors.As(err, &invalid) },
	} {
		in := hourly(named("g"), withModel(`"gpt"`))
		if in.Definition.ScheduleID = name; name == "mine" {
			in.Definition.ExecutionGrantID = "no-such"
		}
		if _, err := r.Upsert(t.Context(), in); !want(err) || len(b.asked) != 0 {
			t.Errorf("upsert of %s: it was asked %v and answered %v", name, b.asked, err)
		}
	}
}

// asAda is a call of the owner ada, who has the workflow w.
func asAda(t *testing.T, l sharedStore, b *bank) (*registrar.Registrar, context.Context) {
	t.Helper()
	ctx := auth.NewContext(t.Context(), auth.Identity{Subject: "ada", Owner: "ada", Roles: []auth.Role{auth.User}})
	o := registrar.Options{Schedules: l, Runs: l, Workflows: l, Shares: l, Grants: l, Credit: b, Now: func() time.Time { return noon }, Logger: quiet}
	o.Config.CreditDownOpen = true
	r := registrar.New(o)
	if _, err := r.PutWorkflow(ctx, registrar.WorkflowInput{WorkflowID: "w", Version: 1, DAG: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	return r, ctx
}

func TestTheGateIsAskedWhetherAUserMayUseAnAccount(t *testing.T) {
	vouched := registrar.CreditQuestion{BillingAccountID: "other", UserID: "ada", WorkflowID: "w", Grant: true}
	for _, tc := range []struct {
		name    string
		vouches string
		down    error
		account string
		scope   string
		want    error
		asks    []registrar.CreditQuestion
	}{
		{name: "the owner's account needs no question", account: "ada", scope: "w"},
		{name: "the gate vouches for her", vouches: "ada", account: "other", scope: "w", asks: []registrar.CreditQuestion{vouched}},
		{name: "the gate vouches for somebody else", vouches: "bob", account: "other", scope: "w", want: schedule.ErrForbidden, asks: []registrar.CreditQuestion{vouched}},
		{name: "the gate is down, and CREDIT_GATE_DOWN is open", down: errors.New("down"), account: "other", scope: "w", want: schedule.ErrUnavailable, asks: []registrar.CreditQuestion{vouched}},
		{name: "a workflow that is not hers is refused without asking", vouches: "ada", account: "other", scope: "theirs", want: schedule.ErrForbidden},
	} {
		for _, along := range []bool{false, true} {
			t.Run(fmt.Sprint(tc.name, " along=", along), func(t *testing.T) {
				b := &bank{vouches: tc.vouches, down: tc.down}
				r, ctx := asAda(t, memory.New(memory.Options{}), b)
				in := registrar.GrantInput{BillingAccountID: tc.account, Scopes: []string{"graph:execute:" + tc.scope}, RequestID: "r"}
				create := func() error {
					if !along {
						_, err := r.CreateGrant(ctx, in)
						return err
					}
					in.RequestID = ""
					_, err := r.Upsert(ctx, registrar.UpsertInput{Grant: &in, Definition: schedule.Definition{ScheduleID: "s", WorkflowID: tc.scope, Version: 1, CronExpr: "@daily"}})
					return err
				}
				if err := create(); !errors.Is(err, tc.want) || !slices.Equal(b.asked, tc.asks) {
					t.Fatalf("%v after the questions %+v; want %v after %+v", err, b.asked, tc.want, tc.asks)
				}
				if tc.want != nil {
					return
				}
				b.vouches, b.asked = "", nil
				if err := create(); err != nil || len(b.asked) > 0 {
					t.Errorf("the same again: %v after the questions %+v, want nothing asked", err, b.asked)
				}
			})
		}
	}
}

func TestADryRunDoesNotAskForTheAccount(t *testing.T) {
	b := &bank{down: errors.New("down")}
	r, ctx := asAda(t, memory.New(memory.Options{}), b)
	_, err := r.ApplySchedules(ctx, registrar.ApplyInput{Set: "x", DryRun: true, Fields: []string{"schedules[0]."}, Schedules: []registrar.UpsertInput{{
		Grant:      &registrar.GrantInput{BillingAccountID: "other", Scopes: []string{"graph:execute:w"}},
		Definition: schedule.Definition{ScheduleID: "s", WorkflowID: "w", Version: 1, CronExpr: "@daily"},
	}}})
	if err != nil || len(b.asked) > 0 {
		t.Errorf("%v after the questions %+v", err, b.asked)
	}
}
