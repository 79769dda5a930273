package registrar_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func groupInput(edits ...func(*registrar.GroupInput)) registrar.GroupInput {
	in := registrar.GroupInput{GroupID: "g", QueueID: "gpu", Runs: []registrar.QueuedInput{job(), job(withInput(`{"n":2}`))}}
	for _, edit := range edits {
		edit(&in)
	}
	return in
}

func (l *line) createGroup(in registrar.GroupInput) registrar.ChangedGroup {
	l.Helper()
	done, err := l.CreateGroup(l.Context(), in)
	if err != nil {
		l.Fatal(err)
	}
	return done
}

func TestAGroupIsMadeOnce(t *testing.T) {
	onQueues(t, func(l *line) {
		complete := job(withInput(`{"all":true}`))
		in := groupInput(func(in *registrar.GroupInput) { in.OnComplete, in.Webhook, in.Sealed = &complete, "billing", true })
		made := l.createGroup(in)
		g := made.Group
		if made.Repeated || len(made.Keys) != 2 || g.Members != 2 || g.Mode != schedule.GroupParallel || g.OnFailure != schedule.GroupContinue || g.QueueID != "gpu" || g.UserID != "ada" {
			l.Errorf("made %+v with %d runs", g, len(made.Keys))
		}
		if c := g.OnComplete; c == nil || string(c.Input) != `{"all":true}` || c.WorkflowID != "resize" || c.MaxAttempts < 1 {
			l.Errorf("the run at the end is %+v", c)
		}
		run, err := l.GetRun(l.Context(), made.Keys[1])
		if err != nil || run.Queue.GroupID != "g" || run.Queue.GroupSeq != 2 {
			l.Errorf("a member is %+v, %v", run, err)
		}
		l.now = l.now.Add(time.Hour)
		again := l.createGroup(in)
		if !again.Repeated || len(again.Keys) > 0 || again.Group.Members != 2 {
			l.Errorf("the same request again: %+v", again)
		}
		if _, err := l.CloseQueue(l.Context(), "gpu", "", "ada"); err != nil {
			l.Fatal(err)
		}
		if again := l.createGroup(in); !again.Repeated {
			l.Error("the same request again after the queue was closed makes another group")
		}
		in.Sealed = false
		if _, err := l.CreateGroup(l.Context(), in); !errors.Is(err, schedule.ErrExists) && !errors.Is(err, schedule.ErrPrecondition) {
			l.Errorf("another group under the id: %v", err)
		}
	})
}

func TestBadGroupsAreRefused(t *testing.T) {
	onQueues(t, func(l *line) {
		for _, c := range []struct {
			name  string
			edit  func(*registrar.GroupInput)
			field string
		}{
			{"no id", func(in *registrar.GroupInput) { in.GroupID = "" }, "group_id"},
			{"an id with a slash", func(in *registrar.GroupInput) { in.GroupID = "a/b" }, "group_id"},
			{"an unknown mode", func(in *registrar.GroupInput) { in.Mode = "serial" }, "mode"},
			{"an unknown on_failure", func(in *registrar.GroupInput) { in.OnFailure = "skip" }, "on_failure"},
			{"a bad run", func(in *registrar.GroupInput) { in.Runs[1].Version = 0 }, "runs[1].version"},
			{"a bad run at the end", func(in *registrar.GroupInput) { in.OnComplete = &registrar.QueuedInput{} }, "on_complete.schedule_id"},
			{"an unknown webhook", func(in *registrar.GroupInput) { in.Webhook = "nobody" }, "webhook"},
			{"another owner's queue", func(in *registrar.GroupInput) { in.UserID = "bob" }, "runs[0].user_id"},
			{"too many runs", func(in *registrar.GroupInput) { in.Runs = slices.Repeat(in.Runs, 2501) }, "runs"},
		} {
			_, err := l.CreateGroup(l.Context(), groupInput(c.edit))
			invalid, ok := errors.AsType[*schedule.InvalidError](err)
			if !ok || invalid.Violations[0].Field != c.field {
				l.Errorf("%s: got %v, want a refusal of %s", c.name, err, c.field)
			}
			if _, err := l.GetGroup(l.Context(), "g"); !errors.Is(err, schedule.ErrNotFound) {
				l.Errorf("%s: a group is left: %v", c.name, err)
			}
		}
		if _, err := l.CreateGroup(l.Context(), groupInput(func(in *registrar.GroupInput) { in.QueueID = "nobody" })); !errors.Is(err, schedule.ErrNotFound) {
			l.Errorf("an unknown queue: %v", err)
		}
	})
}

func TestMembersJoinAGroupUntilItIsSealed(t *testing.T) {
	onQueues(t, func(l *line) {
		l.createGroup(groupInput(func(in *registrar.GroupInput) { in.Mode = schedule.GroupSequential }))
		add := registrar.AddInput{GroupID: "g", RequestID: "more", Runs: []registrar.QueuedInput{job()}}
		for n, repeated := range []bool{false, true} {
			done, err := l.AddToGroup(l.Context(), add)
			if err != nil || done.Repeated != repeated || len(done.Keys) != 1 || done.Group.Members != 3 {
				l.Errorf("call %d: %+v, %v", n, done, err)
			}
		}
		one := l.enqueue(registrar.EnqueueInput{GroupID: "g", Runs: []registrar.QueuedInput{job()}})
		run, err := l.GetRun(l.Context(), one.Keys[0])
		if err != nil || run.Queue.State != schedule.QueueChained || run.Queue.GroupSeq != 4 {
			l.Errorf("a run that names the group is %+v, %v", run, err)
		}
		if _, err := l.UpsertQueue(l.Context(), registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "other", UserID: "ada"}}); err != nil {
			l.Fatal(err)
		}
		for name, in := range map[string]registrar.EnqueueInput{
			"another queue": {QueueID: "other", GroupID: "g", Runs: []registrar.QueuedInput{job()}},
			"no such group": {GroupID: "nobody", Runs: []registrar.QueuedInput{job()}},
			"a bad id":      {GroupID: "a b", Runs: []registrar.QueuedInput{job()}},
		} {
			if _, err := l.tryEnqueue(in); err == nil {
				l.Errorf("%s is accepted", name)
			}
		}
		if g, err := l.SealGroup(l.Context(), "g"); err != nil || !g.Sealed || g.Members != 4 {
			l.Errorf("sealed %+v, %v", g, err)
		}
		add.RequestID = "late"
		if _, err := l.AddToGroup(l.Context(), add); !errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), "sealed") {
			l.Errorf("a member for a sealed group: %v", err)
		}
		if done, err := l.AddToGroup(l.Context(), registrar.AddInput{GroupID: "g", RequestID: "more", Runs: add.Runs}); err != nil || !done.Repeated {
			l.Errorf("a repeat after the seal: %+v, %v", done, err)
		}
	})
}

func TestAChainedRunIsExplainedUpdatedAndNotMoved(t *testing.T) {
	onQueues(t, func(l *line) {
		made := l.createGroup(groupInput(func(in *registrar.GroupInput) { in.Mode = schedule.GroupSequential }))
		why, err := l.ExplainRun(l.Context(), made.Keys[1])
		if err != nil || len(why.BlockedBy) != 1 || why.BlockedBy[0].What != "predecessor" || !slices.Equal(why.BlockedBy[0].UsedBy, made.Keys[:1]) {
			l.Errorf("it is explained by %+v, %v", why.BlockedBy, err)
		}
		if text := strings.Join(why.Lines, "\n"); !strings.Contains(text, "member 2 of the sequential group g") || !strings.Contains(text, made.Keys[0].String()) {
			l.Errorf("the sentences are\n%s", text)
		}
		priority := int32(7)
		run, err := l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: made.Keys[1], Priority: &priority})
		if err != nil || run.Queue.State != schedule.QueueChained || run.Priority != 7 {
			l.Errorf("updated %+v, %v", run, err)
		}
		if _, err := l.MoveRuns(l.Context(), registrar.MoveInput{Keys: made.Keys[1:], To: registrar.MoveFirst}); !errors.Is(err, schedule.ErrPrecondition) {
			l.Errorf("it is moved: %v", err)
		}
	})
}

func TestAQueueWithAGroupIsDeletedByForceOnly(t *testing.T) {
	onQueues(t, func(l *line) {
		l.createGroup(groupInput(func(in *registrar.GroupInput) { in.Runs = nil }))
		if _, err := l.DeleteQueue(l.Context(), registrar.DeleteQueueInput{QueueID: "gpu"}); !errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), `group "g"`) {
			l.Errorf("it is deleted: %v", err)
		}
		complete := job()
		l.createGroup(groupInput(func(in *registrar.GroupInput) {
			in.GroupID, in.Mode, in.OnComplete, in.Sealed = "h", schedule.GroupSequential, &complete, true
		}))
		if _, err := l.DeleteQueue(l.Context(), registrar.DeleteQueueInput{QueueID: "gpu", Force: true}); err != nil {
			l.Fatal(err)
		}
		for _, id := range []string{"g", "h"} {
			if g, err := l.GetGroup(l.Context(), id); err != nil || g.State != schedule.GroupCancelled {
				l.Errorf("group %s is %+v, %v", id, g, err)
			}
		}
	})
}

func TestAGroupIsCancelledAndRetried(t *testing.T) {
	onQueues(t, func(l *line) {
		made := l.createGroup(groupInput(func(in *registrar.GroupInput) { in.Sealed, in.Mode = true, schedule.GroupSequential }))
		if _, err := l.RetryGroup(l.Context(), registrar.RetryGroupInput{GroupID: "g", NewGroupID: "h"}); !errors.Is(err, schedule.ErrPrecondition) {
			l.Errorf("a group that runs is retried: %v", err)
		}
		for range 2 {
			if g, err := l.CancelGroup(l.Context(), "g"); err != nil || g.State != schedule.GroupCancelled || g.Cancelled != 2 {
				l.Errorf("cancelled %+v, %v", g, err)
			}
		}
		if _, err := l.AddToGroup(l.Context(), registrar.AddInput{GroupID: "g", Runs: []registrar.QueuedInput{job()}}); !errors.Is(err, schedule.ErrPrecondition) {
			l.Errorf("a member for an ended group: %v", err)
		}
		for n, repeated := range []bool{false, true} {
			done, err := l.RetryGroup(l.Context(), registrar.RetryGroupInput{GroupID: "g", NewGroupID: "h"})
			if err != nil || done.Repeated != repeated || done.Group.Members != 2 || done.Group.RetryOf != "g" || !done.Group.Sealed {
				l.Fatalf("retry %d: %+v, %v", n, done, err)
			}
			if !repeated {
				run, err := l.GetRun(l.Context(), done.Keys[1])
				if err != nil || run.RetryOf != made.Keys[1] || run.Queue.State != schedule.QueueChained || run.Queue.GroupID != "h" || string(run.Input) != `{"n":2}` {
					l.Errorf("its second run is %+v, %v", run, err)
				}
			}
		}
		if g, err := l.GetGroup(l.Context(), "g"); err != nil || g.Cancelled != 2 || g.Members != 2 {
			l.Errorf("the old group is %+v, %v", g, err)
		}
		for _, in := range []registrar.RetryGroupInput{{GroupID: "g", NewGroupID: "g"}, {GroupID: "g"}, {GroupID: "nobody", NewGroupID: "x"}} {
			if _, err := l.RetryGroup(l.Context(), in); err == nil {
				l.Errorf("%+v is accepted", in)
			}
		}
	})
}

func TestAGroupIsItsOwners(t *testing.T) {
	onQueues(t, func(l *line) {
		l.createGroup(groupInput())
		bob := auth.NewContext(l.Context(), auth.Identity{Subject: "bob", Owner: "bob"})
		for name, call := range map[string]func(context.Context) error{
			"get":    func(ctx context.Context) error { _, err := l.GetGroup(ctx, "g"); return err },
			"seal":   func(ctx context.Context) error { _, err := l.SealGroup(ctx, "g"); return err },
			"cancel": func(ctx context.Context) error { _, err := l.CancelGroup(ctx, "g"); return err },
			"add": func(ctx context.Context) error {
				_, err := l.AddToGroup(ctx, registrar.AddInput{GroupID: "g", Runs: []registrar.QueuedInput{job()}})
				return err
			},
			"retry": func(ctx context.Context) error {
				_, err := l.RetryGroup(ctx, registrar.RetryGroupInput{GroupID: "g", NewGroupID: "h"})
				return err
			},
		} {
			if err := call(bob); !errors.Is(err, schedule.ErrNotFound) {
				l.Errorf("%s by another owner: %v", name, err)
			}
		}
		if found, err := l.ListGroups(bob, schedule.GroupFilter{}); err != nil || len(found) > 0 {
			l.Errorf("another owner lists %d groups, %v", len(found), err)
		}
		ada := auth.NewContext(l.Context(), auth.Identity{Subject: "ada", Owner: "ada"})
		if found, err := l.ListGroups(ada, schedule.GroupFilter{}); err != nil || len(found) != 1 || found[0].QueueID != "gpu" {
			l.Errorf("its owner lists %+v, %v", found, err)
		}
	})
}
