package registrar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/registrar"
)

// shared is a registrar that two owners use.
type shared struct {
	*registrar.Registrar
	versions *workflow.Owned // as launchers load them
	now      time.Time
}

// sharedStore is the store that all of them use.
type sharedStore interface {
	registrar.ScheduleStore
	registrar.RunStore
	registrar.WorkflowStore
	registrar.ShareStore
	workflow.Versions
	registrar.GrantStore
}

func newShared(l sharedStore) *shared {
	s := &shared{now: noon, versions: workflow.NewOwned(workflow.Options{Versions: l, AccessStore: l, CacheBytes: 1 << 20})}
	s.Registrar = registrar.New(registrar.Options{
		Schedules: l, Runs: l, Workflows: l, Shares: l, Grants: l, Now: func() time.Time { return s.now }, Logger: quiet,
	})
	// Some workflows are stored for all owners, one is given to bob only, and owners may store
	// workflows with the same names.
	ctx := auth.NewContext(context.Background(), auth.Identity{Subject: "ci", Roles: []auth.Role{auth.Compiler}})
	for _, id := range []string{"w-both", "w-bob", "w-ada"} {
		if _, err := s.PutWorkflow(ctx, registrar.WorkflowInput{WorkflowID: id, Version: 2, DAG: json.RawMessage(`{"nodes":["all"]}`)}); err != nil {
			panic(err)
		}
	}
	for _, share := range []registrar.ShareInput{{WorkflowID: "w-both", AllOwners: true}, {WorkflowID: "w-bob", UserID: "bob"}} {
		if _, err := s.ShareWorkflow(ctx, share); err != nil {
			panic(err)
		}
	}
	return s
}

func inMemory() *shared { return newShared(memory.New(memory.Options{})) }

// move is one call of one owner. Both use the same few ids.
type move struct {
	owner, call      string
	target           string // the schedule or run, such as "a1"
	workflow, userID string
	n                int
}

var moveCalls = []string{
	"upsert", "upsert", "upsert", "upsert", "get", "list", "pause", "resume", "delete", "trigger", "trigger", "trigger", "run", "run", "run", "runs", "cancel", "retry",
	"events", "revisions", "explain", "explain_reading", "put", "put", "workflow", "workflow", "workflows", "load", "load", "deploy", "apply", "preview",
	"grant", "grant", "see grant", "grants", "revoke", "granted", "granted", "with grant",
}

func drawMove(t *rapid.T) move {
	return move{
		owner: rapid.SampledFrom([]string{"ada", "bob"}).Draw(t, "owner"), call: rapid.SampledFrom(moveCalls).Draw(t, "call"),
		target:   rapid.SampledFrom([]string{"s1", "s2", "s2", "w.t"}).Draw(t, "target"),
		workflow: rapid.SampledFrom([]string{"w-ada", "w-bob", "w-both"}).Draw(t, "workflow"),
		userID:   rapid.SampledFrom([]string{"", "", "ada", "bob"}).Draw(t, "user"), n: rapid.IntRange(1, 3).Draw(t, "n"),
	}
}

// play makes the call and returns all of its answer as text.
func (s *shared) play(m move) string {
	ctx := auth.NewContext(context.Background(), auth.Identity{Subject: m.owner, Owner: m.owner, Accounts: []string{"acme"}, Roles: []auth.Role{auth.User}, Via: auth.ViaJWT})
	answer, err := s.make(ctx, m)
	if err != nil {
		return "error: " + unnamed(err.Error(), m.owner)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return err.Error()
	}
	return unnamed(string(text), m.owner)
}

// hashed matches hashes of stored ids: keys of runs, ids of grants.
var hashed = regexp.MustCompile(`[0-9a-f]{24,64}|\[[0-9]+(,[0-9]+){31}\]`)

// unnamed removes owner prefixes of stored ids, and what depends on them, from an answer.
func unnamed(text, owner string) string {
	// One in 300 keys looks like that of a job.
	text = strings.Replace(text, "; if it was put into a queue with history: failed, it may have succeeded: such a queue keeps only failures, and counts successes by the minute", "", 1)
	return hashed.ReplaceAllString(strings.ReplaceAll(text, owner+":", ""), "#")
}

func (s *shared) make(ctx context.Context, m move) (any, error) {
	request := fmt.Sprint("r", m.n)
	stored, err := s.ScheduleID(ctx, m.target)
	if err != nil {
		return nil, err
	}
	key := schedule.ManualKey(stored, request)
	definition := schedule.Definition{ScheduleID: fmt.Sprint("s", m.n%2+1), WorkflowID: m.workflow, Version: 1, UserID: m.userID, IntervalMS: uint32(m.n) * 60_000}
	switch m.call {
	case "upsert":
		return s.Upsert(ctx, registrar.UpsertInput{Definition: definition, Actor: m.owner})
	case "get":
		return s.Get(ctx, m.target, 2)
	case "list":
		found, err := s.List(ctx, schedule.ScheduleFilter{UserID: m.userID, Limit: 50})
		short := func(v registrar.View) string { return strings.TrimPrefix(v.Schedule.ScheduleID, m.owner+":") }
		slices.SortFunc(found, func(a, b registrar.View) int { return strings.Compare(short(a), short(b)) })
		return found, err
	case "pause":
		return s.Pause(ctx, registrar.PauseInput{ScheduleID: m.target, Actor: m.owner})
	case "resume":
		return s.Resume(ctx, registrar.ResumeInput{ScheduleID: m.target, Actor: m.owner})
	case "delete":
		return nil, s.Delete(ctx, m.target, m.owner)
	case "trigger":
		return s.Trigger(ctx, registrar.TriggerInput{ScheduleID: m.target, RequestID: request, OverlapPolicy: schedule.OverlapAllow, Actor: m.owner})
	case "run":
		return s.GetRun(ctx, key)
	case "runs":
		f := schedule.RunFilter{UserID: m.userID, Limit: 50, Statuses: []schedule.Status{schedule.StatusPlanned, schedule.StatusCancelled}}
		if m.n == 1 {
			f.ScheduleID = m.target
		}
		return s.ListRuns(ctx, f)
	case "cancel":
		return s.CancelRun(ctx, registrar.CancelInput{Key: key, Actor: m.owner})
	case "retry":
		return s.RetryRun(ctx, registrar.RetryInput{Key: key, RequestID: request, Actor: m.owner})
	}
	return s.makeMore(ctx, m, definition)
}

func (s *shared) makeMore(ctx context.Context, m move, definition schedule.Definition) (any, error) {
	dag := json.RawMessage(fmt.Sprintf(`{"nodes":[%q]}`, m.owner))
	switch m.call {
	case "events":
		events, err := s.Events(ctx, m.target, 0, 50)
		for i := range events {
			events[i].ID = 0 // they count all owners' events
		}
		return events, err
	case "revisions":
		return s.Revisions(ctx, m.target, 0, 50)
	case "explain", "explain_reading":
		at := noon.Add(time.Duration(m.n) * time.Minute)
		a, err := s.Explain(ctx, m.target, at)
		if m.call == "explain_reading" {
			a, err = s.ExplainReading(ctx, m.target, at.Format(time.DateTime))
		}
		for _, e := range []*schedule.Event{a.Range, a.PlanFailure} {
			if e != nil {
				e.ID = 0
			}
		}
		return a, err
	case "put":
		return s.PutWorkflow(ctx, registrar.WorkflowInput{WorkflowID: m.workflow, Version: int32(m.n), UserID: m.userID, DAG: dag})
	case "workflow":
		return s.GetWorkflow(ctx, m.userID, m.workflow, int32(m.n))
	case "workflows":
		return s.ListWorkflows(ctx, m.userID, schedule.WorkflowFilter{WorkflowID: m.workflow, Limit: m.n})
	case "load":
		loaded, err := s.versions.LoadDAG(ctx, m.owner, m.workflow, int32(m.n))
		return string(loaded), err
	case "deploy":
		definition.ScheduleID, definition.WorkflowID = "w.t", m.workflow
		return s.DeployWorkflow(ctx, registrar.DeployInput{
			WorkflowID: m.workflow, Version: 1, UserID: m.userID, DAG: dag, RequestID: fmt.Sprint("d", m.n), Adopt: true, Actor: m.owner,
			Triggers: []registrar.UpsertInput{{Definition: definition}}, Fields: []string{"dag.triggers[0]."},
		})
	case "apply":
		return s.ApplySchedules(ctx, registrar.ApplyInput{
			Set: "shared", Prune: true, AllowEmpty: true, DryRun: m.n == 3, Adopt: true, RequestID: fmt.Sprint("a", m.n), Actor: m.owner,
			Workflows: []registrar.WorkflowInput{{WorkflowID: m.workflow, Version: 1, UserID: m.userID, DAG: dag, Field: "workflows[0]."}},
			Schedules: []registrar.UpsertInput{{Definition: definition}}, Fields: []string{"schedules[0]."},
		})
	case "grant", "see grant", "grants", "revoke", "granted", "with grant":
		return s.makeWithGrant(ctx, m, definition)
	case "preview":
		fires, _, err := s.Preview(ctx, registrar.PreviewInput{ScheduleID: m.target, Count: 3})
		return fires, err
	}
	panic(m.call)
}

// makeWithGrant is about grants. Both owners use the same ids.
func (s *shared) makeWithGrant(ctx context.Context, m move, definition schedule.Definition) (any, error) {
	in := registrar.GrantInput{GrantID: "g-" + m.target, UserID: m.userID, BillingAccountID: "acme", Scopes: []string{"graph:execute:" + m.workflow}, Actor: m.owner}
	switch m.call {
	case "grant":
		return s.CreateGrant(ctx, in)
	case "see grant":
		return s.GetGrant(ctx, schedule.GrantRef{GrantID: "g-" + m.target})
	case "grants":
		found, err := s.ListGrants(ctx, schedule.GrantFilter{UserID: m.userID, Limit: 50})
		slices.SortStableFunc(found, func(a, b schedule.Grant) int { return a.CreatedAt.Compare(b.CreatedAt) }) // derived ids are hashes
		return found, err
	case "revoke":
		return s.RevokeGrant(ctx, registrar.RevokeInput{Grant: schedule.GrantRef{GrantID: "g-" + m.target}, Actor: m.owner})
	case "granted":
		definition.ExecutionGrantID = "g-" + m.target
		return s.Upsert(ctx, registrar.UpsertInput{Definition: definition, Actor: m.owner})
	}
	in.GrantID, in.UserID = "", ""
	return s.Upsert(ctx, registrar.UpsertInput{Definition: definition, Grant: &in, Actor: m.owner})
}

// drawMoves are the calls of both owners, in order.
var drawMoves = rapid.SliceOfN(rapid.Custom(drawMove), 30, 80)

// tellsNothing fails where ada is answered differently with bob and without him.
func tellsNothing(t rapid.TB, moves []move, both, alone *shared) {
	for i, m := range moves {
		both.now, alone.now = noon.Add(time.Duration(i)*time.Second), noon.Add(time.Duration(i)*time.Second)
		got := both.play(m)
		if m.owner != "ada" {
			continue
		}
		if want := alone.play(m); got != want {
			t.Fatalf("move %d, %+v:\nwith bob:    %s\nwithout him: %s", i, m, got, want)
		}
		if strings.Contains(got, `"UserID":"bob"`) || strings.Contains(got, `"user_id":"bob"`) {
			t.Fatalf("move %d, %+v: %s", i, m, got)
		}
	}
}

func TestAnOwnerCannotTellWhetherThereIsAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tellsNothing(t, drawMoves.Draw(t, "moves"), inMemory(), inMemory())
	})
}

func TestNoStoreRevealsAnotherOwner(t *testing.T) {
	for kind := range stores {
		for seed := range 20 {
			t.Run(fmt.Sprint(kind, " ", seed), func(t *testing.T) {
				t.Parallel()
				tellsNothing(t, drawMoves.Example(seed), newShared(open(t, kind)), newShared(open(t, kind)))
			})
		}
	}
}
