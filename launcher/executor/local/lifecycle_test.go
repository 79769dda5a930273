package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/executor/local"
)

// awaitGone waits until a process has ended.
func awaitGone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(testTimeout)
	for {
		// A zombie that nobody reaps has ended too.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
		if errors.Is(err, os.ErrNotExist) && syscall.Kill(n, 0) != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("process %d still runs after %s", n, testTimeout)
		}
	}
}

func TestARunIsReportedFromBeginningToEnd(t *testing.T) {
	s := stage(t, local.Config{})
	call := callOf(0, shell("exit 4"))
	s.play(t, call)
	reports := s.of(call.Key)
	last := reports[len(reports)-1]
	want := report{call.Key, schedule.StatusFailed, call.Key.String()[:16], "step_failed", `step "only" ended with exit code 4`}
	if last != want {
		t.Errorf("last report: %+v, want %+v", last, want)
	}
	for _, r := range reports[:len(reports)-1] {
		if r != (report{key: call.Key, status: schedule.StatusStarted, runID: want.runID}) {
			t.Errorf("earlier report: %+v, want STARTED", r)
		}
	}
}

func TestHeartbeatsKeepALongRunAlive(t *testing.T) {
	s := stage(t, local.Config{})
	call := callOf(0, shell("mkfifo gate; echo up > ready; cat gate"))
	call.RunTimeout = 300 * time.Millisecond // a heartbeat each 100 ms
	call.DAG = []byte(`{"steps":[{"id":"only","timeout_ms":60000,"shell":"mkfifo gate; cat gate"}]}`)
	s.run(t, call)
	s.await(t, "fourth STARTED", func() bool { return len(s.of(call.Key)) >= 4 })
	if err := s.Cancel(t.Context(), schedule.CancelRequest{Key: call.Key}); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.of(call.Key) {
		if r.status != schedule.StatusStarted {
			t.Errorf("reported %+v, want STARTED alone: Cancel's answer is the end", r)
		}
	}
}

func TestAKeyIsRunOnce(t *testing.T) {
	s := stage(t, local.Config{})
	call := callOf(0, shell("echo effect >> effects"))
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if o, err := s.Run(t.Context(), call); err != nil || !o.OK() || o.RunID == "" {
				t.Errorf("Run() = %+v, %v", o, err)
			}
			if o, err := s.GetByKey(t.Context(), schedule.RunRef{Key: call.Key}); err != nil || !o.OK() {
				t.Errorf("GetByKey() = %+v, %v", o, err)
			}
		})
	}
	group.Wait()
	s.end(t, call.Key)
	want := schedule.Outcome{Status: schedule.StatusSuccess, RunID: call.Key.String()[:16], TraceID: call.Key.String()[:32]}
	for name, ask := range map[string]func() (schedule.Outcome, error){
		"Run":      func() (schedule.Outcome, error) { return s.Run(t.Context(), call) },
		"GetByKey": func() (schedule.Outcome, error) { return s.GetByKey(t.Context(), schedule.RunRef{Key: call.Key}) },
	} {
		if o, err := ask(); err != nil || o != want {
			t.Errorf("%s after the end = %+v, %v, want %+v", name, o, err, want)
		}
	}
	if got := read(t, s.work("effects")); got != "effect\n" {
		t.Errorf("effects: %q, want one", got)
	}
}

func TestOwnersOfOneWorkflowDoNotSeeEachOthersFiles(t *testing.T) {
	s := stage(t, local.Config{})
	script := shell(`test ! -e mine; echo "$CARILLON_USER_ID" > mine; test "$(ls "$CARILLON_WORK_DIR")" = mine`)
	for n, user := range []string{"ada", "bob", "auth0|carl", ""} {
		call := callOf(n, script)
		call.UserID = user
		if r := s.play(t, call); r.status != schedule.StatusSuccess {
			t.Errorf("the run of owner %q: %+v, want SUCCESS", user, r)
		}
	}
	for folder, want := range map[string]string{"owners/ada/w": "ada\n", "owners/bob/w": "bob\n", "owners/auth0%7Ccarl/w": "auth0|carl\n", "w": "\n"} {
		if got := read(t, filepath.Join(s.dir, "work", folder, "mine")); got != want {
			t.Errorf("%s holds %q, want %q", folder, got, want)
		}
	}
}

func TestWhatCannotRunIsRefusedForGood(t *testing.T) {
	s := stage(t, local.Config{})
	climbing, among, above := callOf(1, shell("true")), callOf(3, shell("true")), callOf(4, shell("true"))
	climbing.WorkflowID, among.WorkflowID, above.UserID = "..", "owners", ".."
	for _, c := range []struct {
		name, want string
		call       launcher.Call
	}{
		{"no steps", "dag_invalid", callOf(0, `{"steps":[]}`)},
		{"a workflow that is the folder above", "workflow_id_unsafe", climbing},
		{"a workflow that is the folder of owners", "workflow_id_unsafe", among},
		{"an owner that is the folder above", "workflow_id_unsafe", above},
	} {
		call := c.call
		_, err := s.Run(t.Context(), call)
		var refusal *launcher.Refusal
		if !errors.As(err, &refusal) || refusal.Code != c.want {
			t.Errorf("%s: Run() = %v, want a refusal %s", c.name, err, c.want)
		}
		if _, err := s.GetByKey(t.Context(), schedule.RunRef{Key: call.Key}); !errors.Is(err, schedule.ErrNotFound) {
			t.Errorf("GetByKey() = %v, want ErrNotFound", err)
		}
	}
	none := callOf(2, "")
	none.DAG = nil
	var refusal *launcher.Refusal
	if _, err := s.Run(t.Context(), none); !errors.As(err, &refusal) {
		t.Errorf("Run without a DAG = %v, want a refusal", err)
	}
}

func TestNoMoreThanTheBoundRunAtOnce(t *testing.T) {
	s := stage(t, local.Config{Concurrency: 2})
	const runs = 8
	keys := make([]schedule.Key, runs)
	for i := range runs {
		// mkdir is the test-and-set of the shell: a third at once finds neither free.
		call := callOf(i, shell("if mkdir a 2>/dev/null; then p=a; else mkdir b; p=b; fi; sleep 0.02; rmdir $p"))
		s.run(t, call)
		keys[i] = call.Key
	}
	for _, key := range keys {
		if r := s.end(t, key); r.status != schedule.StatusSuccess {
			t.Errorf("reported %+v, want SUCCESS", r)
		}
	}
}

func TestCancelEndsAllOfARun(t *testing.T) {
	tests := []struct {
		name   string
		script string
		grace  time.Duration
	}{
		{name: "on SIGTERM", script: "sleep 600 & echo $! > pid; wait", grace: time.Minute},
		{name: "by SIGKILL after the grace", script: "trap '' TERM; sleep 600 & echo $! > pid; wait; while :; do sleep 600; done", grace: 50 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := stage(t, local.Config{StopGrace: tt.grace})
			call := callOf(0, shell(tt.script))
			s.run(t, call)
			pid := strings.TrimSpace(awaitFile(t, s.work("pid")))
			if err := s.Cancel(t.Context(), schedule.CancelRequest{Key: call.Key}); err != nil {
				t.Fatalf("Cancel() = %v", err)
			}
			awaitGone(t, pid)
			o, err := s.GetByKey(t.Context(), schedule.RunRef{Key: call.Key})
			if err != nil || o.Status != schedule.StatusFailed || o.ErrorCode != "cancelled" {
				t.Errorf("GetByKey() = %+v, %v, want FAILED cancelled", o, err)
			}
			if err := s.Cancel(t.Context(), schedule.CancelRequest{Key: call.Key}); err != nil {
				t.Errorf("a second Cancel() = %v, want it confirmed", err)
			}
		})
	}
}

func TestCancelOfARunThatWaits(t *testing.T) {
	s := rehearse(t, local.Config{}) // nothing is served yet
	waiting := callOf(0, shell("touch ran"))
	s.run(t, waiting)
	if err := s.Cancel(t.Context(), schedule.CancelRequest{Key: waiting.Key}); err != nil {
		t.Fatalf("Cancel() = %v", err)
	}
	if err := s.Cancel(t.Context(), schedule.CancelRequest{Key: callOf(9, "").Key}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("Cancel of an unknown key = %v, want ErrNotFound", err)
	}
	s.serve(t)
	if r := s.play(t, callOf(1, shell("true"))); r.status != schedule.StatusSuccess {
		t.Errorf("the next one: %+v, want SUCCESS", r)
	}
	if _, err := os.Stat(s.work("ran")); err == nil {
		t.Error("the cancelled run has run")
	}
	if o, err := s.Run(t.Context(), waiting); err != nil || o.ErrorCode != "cancelled" {
		t.Errorf("Run of the cancelled key = %+v, %v, want FAILED cancelled", o, err)
	}
}

func TestCancelGivesUpWhenItsCallerDoes(t *testing.T) {
	s := stage(t, local.Config{StopGrace: 300 * time.Millisecond})
	call := callOf(0, shell("trap '' TERM; echo up > ready; while :; do sleep 1; done"))
	s.run(t, call)
	awaitFile(t, s.work("ready"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Cancel(ctx, schedule.CancelRequest{Key: call.Key}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Cancel() = %v, want its deadline", err)
	}
	if err := s.Cancel(t.Context(), schedule.CancelRequest{Key: call.Key}); err != nil {
		t.Errorf("asked again, Cancel() = %v, want it confirmed", err)
	}
}

func TestAStopInterruptsWhatRunsAndKeepsWhatWaits(t *testing.T) {
	dir := t.TempDir()
	s := stage(t, local.Config{Dir: dir, Concurrency: 1})
	running, waiting := callOf(0, shell("echo $$ > pid; sleep 600")), callOf(1, shell("echo ran > second"))
	s.run(t, running)
	pid := strings.TrimSpace(awaitFile(t, s.work("pid")))
	s.run(t, waiting)
	s.stop()
	awaitGone(t, pid)
	if r := s.end(t, running.Key); r.status != schedule.StatusFailed || r.code != "interrupted" {
		t.Errorf("reported %+v, want FAILED interrupted", r)
	}
	if _, err := s.Run(t.Context(), callOf(2, shell("true"))); !errors.Is(err, launcher.ErrNotSent) {
		t.Errorf("Run after the stop = %v, want ErrNotSent", err)
	}
	next := stage(t, local.Config{Dir: dir})
	if r := next.end(t, waiting.Key); r.status != schedule.StatusSuccess {
		t.Errorf("the waiting one after a restart: %+v, want SUCCESS", r)
	}
}

func TestAStopLetsACommandEndWithinTheShutdownGrace(t *testing.T) {
	s := stage(t, local.Config{ShutdownGrace: time.Minute})
	call := callOf(0, shell("echo up > ready; until [ -e go ]; do sleep 0.01; done; echo done > ended"))
	s.run(t, call)
	awaitFile(t, s.work("ready"))
	stopped := make(chan struct{})
	go func() { s.stop(); close(stopped) }()
	for err := error(nil); !errors.Is(err, launcher.ErrNotSent); { // until it refuses new runs
		_, err = s.GetByKey(t.Context(), schedule.RunRef{Key: callOf(1, shell("true")).Key})
	}
	if err := os.WriteFile(s.work("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-stopped
	if r := s.end(t, call.Key); r.status != schedule.StatusSuccess {
		t.Errorf("reported %+v, want SUCCESS", r)
	}
}

func TestACommandThatIsStillThereAfterTheShutdownGraceIsInterrupted(t *testing.T) {
	s := stage(t, local.Config{ShutdownGrace: 50 * time.Millisecond})
	call := callOf(0, shell("echo $$ > pid; sleep 600"))
	s.run(t, call)
	pid := strings.TrimSpace(awaitFile(t, s.work("pid")))
	s.stop()
	awaitGone(t, pid)
	if r := s.end(t, call.Key); r.status != schedule.StatusFailed || r.code != "interrupted" {
		t.Errorf("reported %+v, want FAILED interrupted", r)
	}
}

func TestARunThatWaitedTooLongIsNotBegun(t *testing.T) {
	now := noon
	s := rehearse(t, local.Config{Now: func() time.Time { return now }})
	call := callOf(0, shell("touch ran"))
	s.run(t, call)
	now = now.Add(call.RunTimeout)
	s.serve(t)
	if r := s.end(t, call.Key); r.status != schedule.StatusFailed || r.code != "not_begun_in_time" {
		t.Errorf("reported %+v, want FAILED not_begun_in_time", r)
	}
	if _, err := os.Stat(s.work("ran")); err == nil {
		t.Error("it has run")
	}
}

func TestReportsAreRepeatedUntilTheyAreTaken(t *testing.T) {
	dir := t.TempDir()
	s := stage(t, local.Config{Dir: dir})
	s.setRefuse(schedule.ErrUnavailable)
	call := callOf(0, shell("true"))
	s.run(t, call)
	awaitResult(t, s, call.Key)
	s.stop() // the last try fails too

	next := stage(t, local.Config{Dir: dir})
	if r := next.end(t, call.Key); r.status != schedule.StatusSuccess {
		t.Errorf("after a restart: %+v, want SUCCESS", r)
	}
	next.stop()
	third := stage(t, local.Config{Dir: dir})
	if r := third.play(t, callOf(1, shell("true"))); r.status != schedule.StatusSuccess {
		t.Fatalf("reported %+v, want SUCCESS", r)
	}
	if got := third.of(call.Key); len(got) != 0 {
		t.Errorf("what was taken is reported again: %+v", got)
	}
}

func TestAReportThatNobodyWantsIsNotRepeated(t *testing.T) {
	for _, refusal := range []error{schedule.ErrNotFound, schedule.ErrRunIDMismatch, schedule.Invalid("f", "v", "p", "h")} {
		s := stage(t, local.Config{})
		s.setRefuse(fmt.Errorf("report: %w", refusal))
		call := callOf(0, shell("true"))
		s.run(t, call)
		open := filepath.Join(s.dir, "runs", "open", call.Key.String()+".json")
		s.await(t, "closed run", func() bool { _, err := os.Stat(open); return errors.Is(err, os.ErrNotExist) })
		s.stop()
	}
}

// awaitResult waits until a run has ended.
func awaitResult(t *testing.T, s *show, key schedule.Key) {
	t.Helper()
	s.await(t, "result", func() bool {
		o, err := s.GetByKey(t.Context(), schedule.RunRef{Key: key})
		return err == nil && o.Status.Terminal()
	})
}

func TestPruneRemovesWhatHasEndedLongAgo(t *testing.T) {
	s := stage(t, local.Config{Concurrency: 1})
	ended, running := callOf(0, shell("true")), callOf(1, shell("echo up > ready; sleep 600"))
	s.play(t, ended)
	s.run(t, running)
	awaitFile(t, s.work("ready"))
	if n, err := s.Prune(t.Context(), time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("Prune(an hour ago) = %d, %v, want 0", n, err)
	}
	s.await(t, "run without its memory", func() bool {
		n, err := s.Prune(t.Context(), time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	if _, err := os.Stat(s.runDir(ended.Key)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ended run's folder: %v, want it gone", err)
	}
	if _, err := os.Stat(s.runDir(running.Key)); err != nil {
		t.Errorf("the running one's folder: %v, want it kept", err)
	}
}
