package dumps_test

import (
	"context"
	"errors"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/registrar"
)

// sentAgain sends every launched run to a launcher again, as a new leader may do,
// and writes the answers. The executor must not be called.
func (a *answers) sentAgain(store launcher.Store) {
	a.title("runs that are sent again")
	l := launcher.New(launcher.Options{
		Store: store, Workflows: workflow.None{}, Executor: nobody{}, Now: func() time.Time { return end }, Logger: mute,
		Spread: func(schedule.Key, time.Duration) time.Duration { return 0 }, Config: launcher.Config{Feedback: true},
	})
	definitions := make(map[string]map[int64]*schedule.Definition)
	for i := range a.runs {
		run := a.runs[i]
		if definitions[run.ScheduleID] == nil {
			definitions[run.ScheduleID] = a.definitions(run.ScheduleID)
		}
		launch := schedule.Launch{Run: run, Definition: definitions[run.ScheduleID][run.Revision]}
		if !sendable(&run) || launch.Definition == nil {
			continue
		}
		reply, err := l.Start(a.ctx, launch.StartRequest())
		a.say(a.called(run.Key), reply, err)
	}
}

// reportedAgain reports a run that ended and had two late reports. Only the first
// report of each status leaves an event.
func (a *answers) reportedAgain() {
	a.title("late reports")
	key := schedule.SlotKey("silent", mar1(0, 35))
	for _, status := range []schedule.Status{schedule.StatusStarted, schedule.StatusSuccess, schedule.StatusFailed, schedule.StatusFailed} {
		_, moved, err := a.users.Report(a.ctx, registrar.ReportInput{Key: key, Status: status})
		a.say(string(status)+" moved", moved, err)
		events, err := a.ListEvents(a.ctx, "silent", 0, page)
		a.say("  events", len(events), err)
	}
}

// sendable reports whether the run was launched and is no longer LAUNCHING. A call of
// a LAUNCHING run may be open, and the launcher would wait for it.
func sendable(r *schedule.Run) bool {
	return r.Status != schedule.StatusPlanned && r.Status != schedule.StatusLaunching && !r.ClaimedAt.IsZero()
}

func (a *answers) definitions(scheduleID string) map[int64]*schedule.Definition {
	revisions, err := a.ListRevisions(a.ctx, scheduleID, 0, page)
	if err != nil {
		a.Fatal(err)
	}
	found := make(map[int64]*schedule.Definition)
	for i := range revisions {
		found[revisions[i].Revision] = &revisions[i].Definition
	}
	return found
}

// nobody is an executor that must not be called.
type nobody struct{}

var errCalled = errors.New("THE EXECUTOR WAS CALLED")

func (nobody) Run(context.Context, launcher.Call) (schedule.Outcome, error) {
	return schedule.Outcome{}, errCalled
}

func (nobody) Cancel(context.Context, schedule.CancelRequest) error { return errCalled }

func (nobody) GetByKey(context.Context, schedule.RunRef) (schedule.Outcome, error) {
	return schedule.Outcome{}, schedule.ErrNotFound
}
