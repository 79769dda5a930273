package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/executor"
)

// The words for how a step ended.
const (
	stepSuccess = "SUCCESS"
	stepFailed  = "FAILED"
	stepSkipped = "SKIPPED"
)

// scene holds what the steps of one run share.
type scene struct {
	call    accepted
	key     schedule.Key
	dag     *DAG
	runDir  string // runs/<2 hex>/<key>
	workDir string // see folders.workOf
	base    []string
	log     *runLog
}

// execute runs the DAG. Its folder and marker exist already.
func (e *Executor) execute(ctx context.Context, r *activeRun) *Result {
	began := e.cfg.Now().UTC()
	s := scene{call: r.call, key: r.key, dag: r.dag, runDir: e.files.run(r.key), log: r.log}
	s.workDir, _ = e.files.workOf(r.call.UserID, r.call.WorkflowID) // it was safe when it was accepted
	var result *Result
	if err := s.prepare(e.files.work, e.account); err != nil {
		result = e.ended(r.key, r.call, schedule.StatusFailed, "not_begun", err.Error())
	} else {
		s.base = e.baseEnv(&s)
		result = e.outcome(ctx, r, e.steps(ctx, &s))
		result.commit(r.key, s.files())
	}
	result.StartedAt = began
	return result
}

// prepare creates the files and folders of the run, for the user of the commands.
func (s *scene) prepare(work string, as *account) error {
	if err := os.MkdirAll(s.workDir, 0o700); err != nil {
		return fmt.Errorf("make the workflow's folder: %w", err)
	}
	for above := filepath.Dir(s.workDir); len(above) > len(work); above = filepath.Dir(above) {
		if err := as.passes(above); err != nil {
			return fmt.Errorf("make the workflow's folder: %w", err)
		}
	}
	input := filepath.Join(s.runDir, "input.json")
	if err := os.WriteFile(input, s.call.Input, 0o600); err != nil {
		return fmt.Errorf("write the input: %w", err)
	}
	files := []string{s.workDir, s.files(), input}
	if s.call.Events != nil {
		events := s.eventsFile()
		if err := os.WriteFile(events, s.call.Events, 0o600); err != nil {
			return fmt.Errorf("write the events: %w", err)
		}
		files = append(files, events)
	}
	if err := os.WriteFile(s.stateFile(), s.call.State, 0o600); err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	files = append(files, s.stateFile())
	if err := errors.Join(as.passes(filepath.Dir(s.runDir), s.runDir), as.owns(files...)); err != nil {
		return fmt.Errorf("hand the run's folders over to the user of the commands: %w", err)
	}
	return nil
}

// eventsFile is the file of the events of a consumer's run.
func (s *scene) eventsFile() string { return filepath.Join(s.runDir, "events.json") }

// stateFile is the file of the schedule's state.
func (s *scene) stateFile() string { return filepath.Join(s.runDir, "state.json") }

// files is the folder for the files of the run.
func (s *scene) files() string { return filepath.Join(s.runDir, "files") }

// outcome derives the run's result from those of its steps: stopped from outside,
// else the first failed step without continue_on_error, else success.
func (e *Executor) outcome(ctx context.Context, r *activeRun, steps []StepResult) *Result {
	result := e.ended(r.key, r.call, schedule.StatusSuccess, "", "")
	if failed := firstFailure(r.dag, steps); failed != nil {
		result = e.ended(r.key, r.call, schedule.StatusFailed, "step_failed", fmt.Sprintf("step %q %s", failed.ID, failed.Message))
		if step := r.dag.step(failed.ID); step.HTTP == nil && failed.Code > 0 {
			result.ExitCode = new(int32(failed.Code))
		}
	}
	// A stop after the last step has succeeded changes nothing.
	if ctx.Err() != nil && !allSucceeded(steps) {
		result = e.stopped(ctx, r)
	}
	result.Steps = steps
	return result
}

func firstFailure(dag *DAG, steps []StepResult) *StepResult {
	var first *StepResult
	for i := range steps {
		if steps[i].Status == stepFailed && !dag.Steps[i].ContinueOnError && (first == nil || steps[i].CompletedAt.Before(first.CompletedAt)) {
			first = &steps[i]
		}
	}
	return first
}

func allSucceeded(steps []StepResult) bool {
	for i := range steps {
		if steps[i].Status != stepSuccess {
			return false
		}
	}
	return true
}

// steps runs each step as soon as its needs have ended, at most StepConcurrency at
// once. After a failure no step begins; running ones may end.
func (e *Executor) steps(ctx context.Context, s *scene) []StepResult {
	results := make([]StepResult, len(s.dag.Steps))
	for i := range s.dag.Steps {
		results[i] = StepResult{ID: s.dag.Steps[i].ID, Status: stepSkipped}
	}
	begun := make([]bool, len(results))
	ended := make(map[string]*StepResult, len(results))
	ends := make(chan int)
	var group sync.WaitGroup
	defer group.Wait()
	running, failed := 0, false
	for {
		for i := range s.dag.Steps {
			if running >= e.cfg.StepConcurrency || failed || ctx.Err() != nil {
				break
			}
			if begun[i] || !ready(&s.dag.Steps[i], ended) {
				continue
			}
			begun[i] = true
			running++
			env := s.stepEnv(e, &s.dag.Steps[i], ended)
			group.Go(func() {
				results[i] = e.step(ctx, s, &s.dag.Steps[i], env)
				ends <- i
			})
		}
		if running == 0 {
			return results
		}
		i := <-ends
		running--
		ended[results[i].ID] = &results[i]
		failed = failed || results[i].Status == stepFailed && !s.dag.Steps[i].ContinueOnError
	}
}

func ready(step *Step, ended map[string]*StepResult) bool {
	for _, need := range step.Needs {
		if ended[need] == nil {
			return false
		}
	}
	return true
}

// attempt is the result of one attempt of a step; an empty message means success.
type attempt struct {
	code    int
	message string
}

// step runs one step with its retries.
func (e *Executor) step(ctx context.Context, s *scene, step *Step, env []string) StepResult {
	result := StepResult{ID: step.ID, Status: stepFailed, StartedAt: e.cfg.Now().UTC()}
	mask := e.cfg.Mask.With(secretsOf(env)...)
	log, err := openStepLog(filepath.Join(s.runDir, "logs", step.ID+".log"), s.log.open(step.ID, mask))
	if err != nil {
		result.Message, result.CompletedAt = err.Error(), e.cfg.Now().UTC()
		return result
	}
	defer log.close()
	for {
		result.Attempts++
		log.note("attempt %d, %s", result.Attempts, e.cfg.Now().UTC().Format(time.RFC3339))
		a := e.attempt(ctx, s, step, env, log)
		result.Code = a.code
		if a.message == "" {
			log.note("ended well")
			result.Status, result.Message = stepSuccess, ""
			break
		}
		result.Message = executor.Text(mask.Mask(a.message), executor.MaxMessage)
		log.note("%s", result.Message)
		if result.Attempts > step.Retries || ctx.Err() != nil {
			break
		}
		if pause(ctx, step.retryDelay()); ctx.Err() != nil {
			break
		}
	}
	result.CompletedAt = e.cfg.Now().UTC()
	return result
}

// attempt runs a step once, within its timeout.
func (e *Executor) attempt(ctx context.Context, s *scene, step *Step, env []string, log *stepLog) attempt {
	timeout := step.timeout(s.call.RunTimeout)
	errTimeout := fmt.Errorf("did not end within %s", timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	var a attempt
	if step.HTTP != nil {
		a = e.call(ctx, s, step.HTTP, env, log)
	} else {
		a = e.command(ctx, s, step, env, log)
	}
	if a.message == "" || ctx.Err() == nil {
		return a
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimeout):
		a.message = cause.Error() + tail(log)
	case errors.Is(cause, errCancelled):
		a.message = "was ended: " + errCancelled.Error()
	default:
		a.message = "was ended: " + errInterrupted.Error()
	}
	return a
}
