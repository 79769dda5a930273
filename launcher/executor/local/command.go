package local

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// command runs a program and waits until its process group has ended. When ctx ends,
// the group gets SIGTERM, and SIGKILL after the grace.
func (e *Executor) command(ctx context.Context, s *scene, step *Step, env []string, log *stepLog) attempt {
	argv := step.Run
	if step.Shell != "" {
		argv = []string{"/bin/sh", "-eu", "-c", string(step.Shell), step.ID}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = env
	cmd.Dir = s.workDir
	if filepath.IsAbs(step.Dir) {
		cmd.Dir = step.Dir
	} else if step.Dir != "" {
		cmd.Dir = filepath.Join(s.workDir, step.Dir)
	}
	cmd.SysProcAttr = e.account.attributes(ownGroup())
	cmd.Cancel = func() error { return terminateGroup(cmd.Process) }
	cmd.WaitDelay = e.cfg.StopGrace
	out, err := newCapture(log, log.stderr())
	if err != nil {
		return attempt{code: 127, message: "could not be started: " + err.Error()}
	}
	cmd.Stdout, cmd.Stderr = out.stdout.write, out.stderr.write
	var copies sync.WaitGroup
	defer copies.Wait()
	copies.Go(out.stdout.copy)
	copies.Go(out.stderr.copy)
	// The kernel ends the child with the OS thread that forked it (see
	// ownGroup), so this goroutine keeps its thread until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	out.handedOver()
	if err != nil {
		return attempt{code: 127, message: "could not be started: " + err.Error()}
	}
	_ = cmd.Wait() // ProcessState has the details
	// Children of a step end with it: otherwise they would still work after the run
	// has ended or was cancelled. They have the grace to stop.
	if ctx.Err() != nil {
		out.within(e.cfg.StopGrace, &copies)
	}
	killGroup(cmd.Process)
	out.within(lastWords, &copies)
	code := cmd.ProcessState.ExitCode()
	switch {
	case code == 0:
		return attempt{}
	case code > 0:
		return attempt{code: code, message: fmt.Sprintf("ended with exit code %d%s", code, tail(log))}
	}
	return attempt{code: code, message: fmt.Sprintf("was ended (%s)%s", cmd.ProcessState, tail(log))}
}
