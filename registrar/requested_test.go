package registrar_test

import (
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func TestARunSaysWhoAskedForIt(t *testing.T) {
	onQueues(t, func(l *line) {
		asked := func(what string, key schedule.Key, want string) {
			l.Helper()
			if got := l.run(key).RequestedBy; got != want {
				l.Errorf("%s was requested by %q, want %q", what, got, want)
			}
		}
		job := func(edits ...func(*registrar.QueuedInput)) registrar.EnqueueInput {
			return registrar.EnqueueInput{QueueID: "gpu", Runs: []registrar.QueuedInput{job(edits...)}, Actor: "carl"}
		}
		run := l.enqueue(job()).Keys[0]
		asked("a job", run, "carl")
		if _, err := l.CancelRun(l.Context(), registrar.CancelInput{Key: run, Actor: "dora"}); err != nil {
			l.Fatal(err)
		}
		asked("a job that somebody cancels", run, "carl")
		again, err := l.RetryRun(l.Context(), registrar.RetryInput{Key: run, Actor: "emil"})
		if err != nil {
			l.Fatal(err)
		}
		asked("its retry by hand", again.Key, "emil")
		byHand, err := l.Trigger(l.Context(), registrar.TriggerInput{ScheduleID: again.ScheduleID, OverlapPolicy: schedule.OverlapAllow, Actor: "fred"})
		if err != nil {
			l.Fatal(err)
		}
		asked("a run by hand", byHand.Key, "fred")

		made := l.createGroup(groupInput(func(in *registrar.GroupInput) {
			in.Actor, in.OnComplete = "gina", &registrar.QueuedInput{ScheduleID: again.ScheduleID}
		}))
		asked("a member of a group", made.Keys[0], "gina")
		if by := made.Group.OnComplete.RequestedBy; by != "gina" {
			l.Errorf("its on_complete run will be requested by %q", by)
		}
		added, err := l.AddToGroup(l.Context(), registrar.AddInput{GroupID: "g", Runs: job().Runs, Actor: "hans"})
		if err != nil {
			l.Fatal(err)
		}
		asked("a member that was added", added.Keys[0], "hans")
		if _, err := l.CancelGroup(l.Context(), "g"); err != nil {
			l.Fatal(err)
		}
		retried, err := l.RetryGroup(l.Context(), registrar.RetryGroupInput{GroupID: "g", NewGroupID: "h", Actor: "ines"})
		if err != nil {
			l.Fatal(err)
		}
		asked("a member of the group that retries it", retried.Keys[0], "ines")
		if by := retried.Group.OnComplete.RequestedBy; by != "ines" {
			l.Errorf("its on_complete run will be requested by %q", by)
		}
	})
}
