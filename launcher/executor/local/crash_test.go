package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/executor/local"
)

// The commands of the run that is killed: a shell, what it waits for, and one
// that has made a session of its own.
const crashScript = "echo effect >> effects; setsid sleep 600 & echo $! > daemon; sleep 600 & echo $! > child; echo $$ > pid; wait; echo late >> effects"

// serveUntilKilled is the process that crash tests kill: one run has begun,
// one waits.
func serveUntilKilled(dir string) {
	e, err := local.New(local.Config{Dir: dir, Concurrency: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for n, script := range []string{crashScript, "echo second >> effects"} {
		if _, err := e.Run(context.Background(), callOf(n, shell(script))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	_ = e.Serve(context.Background())
}

func TestAKillLosesNoKeyAndRunsNoneTwice(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CRASH_DIR="+dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(awaitFile(t, filepath.Join(dir, "work", "owners", "u", "w", "pid")))
	_ = cmd.Process.Kill() // SIGKILL: nothing is tidied up
	_ = cmd.Wait()
	awaitGone(t, pid)

	begun, waiting := callOf(0, shell(crashScript)), callOf(1, shell("echo second >> effects"))
	s := rehearse(t, local.Config{Dir: dir, Now: func() time.Time { return time.Now() }})
	// Sent again before anything is recovered: the key is honoured all the same.
	o, err := s.Run(t.Context(), begun)
	if err != nil || o.Status != schedule.StatusFailed || o.Reason != schedule.ReasonLost || o.ErrorCode != "lost" {
		t.Errorf("Run of the key that was begun = %+v, %v, want FAILED lost", o, err)
	}
	if o, err := s.GetByKey(t.Context(), schedule.RunRef{Key: waiting.Key}); err != nil || o.Status != schedule.StatusEnqueued {
		t.Errorf("GetByKey of the key that waits = %+v, %v, want ENQUEUED", o, err)
	}
	s.serve(t)
	if r := s.end(t, begun.Key); r.status != schedule.StatusFailed || r.code != "lost" || r.message != "the process ended while it ran" {
		t.Errorf("reported %+v, want FAILED lost", r)
	}
	if r := s.end(t, waiting.Key); r.status != schedule.StatusSuccess {
		t.Errorf("reported %+v, want SUCCESS", r)
	}
	awaitGone(t, strings.TrimSpace(read(t, s.work("child"))))
	daemon, err := strconv.Atoi(strings.TrimSpace(read(t, s.work("daemon"))))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(daemon, syscall.SIGKILL); err != nil {
		t.Errorf("what made a session of its own is gone: %v", err)
	}
	if got := read(t, s.work("effects")); got != "effect\nsecond\n" {
		t.Errorf("effects: %q, want each once", got)
	}
	if err := s.Recover(t.Context()); err != nil {
		t.Errorf("Recover once more: %v", err)
	}
}

func TestFilesThatCannotBeReadStopNobodyElse(t *testing.T) {
	dir := t.TempDir()
	s := rehearse(t, local.Config{Dir: dir})
	s.stop()
	broken := callOf(0, "").Key
	for name, content := range map[string]string{broken.String() + ".json": "{", ".new-123": "half", "README": "not a run"} {
		if err := os.WriteFile(filepath.Join(dir, "runs", "open", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := stage(t, local.Config{Dir: dir})
	if r := next.play(t, callOf(1, shell("true"))); r.status != schedule.StatusSuccess {
		t.Errorf("reported %+v, want SUCCESS", r)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs", "open", ".new-123")); err == nil {
		t.Error("the half-written file is still there")
	}
}
