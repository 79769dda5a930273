package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/output"
	"github.com/carillon/carillon/internal/private"
	"github.com/carillon/carillon/internal/result"
	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/executor"
)

// Defaults of Config.
const (
	DefaultConcurrency     = 8
	DefaultStepConcurrency = 4
	DefaultStopGrace       = 5 * time.Second
)

// Config configures the executor. Only Dir is required.
type Config struct {
	Dir             string            // DATA_DIR
	BaseURL         string            // this Carillon's own address; steps see it as CARILLON_URL
	Environment     string            // ENVIRONMENT; steps see it as CARILLON_ENVIRONMENT
	Concurrency     int               // runs at once, others wait; 0: DefaultConcurrency
	StepConcurrency int               // steps at once in one run; 0: DefaultStepConcurrency
	ShutdownGrace   time.Duration     // how long running commands may go on after ctx of Serve has ended; 0: they are stopped at once
	StopGrace       time.Duration     // between SIGTERM and SIGKILL; 0: DefaultStopGrace
	Egress          safehttp.Policy   // where HTTP steps may go in addition to the public internet: ALLOW_EGRESS
	PassEnv         []string          // variables of this process that steps may see, in addition to PATH, HOME and the like
	User            string            // LOCAL_EXECUTOR_USER: the user of the commands; "": the user of this process
	Logs            LogStore          // where the output of steps is kept for all processes; nil: in files only
	Mask            *output.Masker    // secrets in the output; nil: known forms only
	Reporter        launcher.Reporter // nil: ends are kept in files and not reported
	Log             *slog.Logger      // nil: silent
	Now             func() time.Time  // nil: time.Now
}

// Executor runs DAGs on this machine. It is safe for concurrent use. Until Serve is
// called, runs are accepted and wait.
type Executor struct {
	cfg     Config
	files   folders
	account *account // the user of the commands; nil: the user of this process
	lock    *os.File
	client  *http.Client
	wake    chan struct{} // capacity 1: the queue has grown

	mu         sync.Mutex
	stopping   bool
	runs       map[schedule.Key]*activeRun
	queue      []*activeRun
	unreported []*activeRun // ended under an earlier process
}

// activeRun is a run in memory. The fields after a channel are written before the
// channel is closed, and read after.
type activeRun struct {
	key schedule.Key

	accepted chan struct{}
	call     accepted
	dag      *DAG
	log      *runLog // nil until it begins
	err      error   // it was not accepted

	done   chan struct{}
	result *Result

	cancelled bool                    // guarded by Executor.mu
	cancel    context.CancelCauseFunc // guarded by Executor.mu; nil until it runs
}

var (
	_ launcher.Executor = (*Executor)(nil)

	errCancelled   = errors.New("the run was cancelled")
	errInterrupted = errors.New("carillon was stopped")
	errOnlyAsked   = errors.New("the key was only asked about")
)

// New prepares the folders and claims them for this process.
func New(cfg Config) (*Executor, error) {
	if cfg.Dir == "" {
		return nil, schedule.Invalid("DATA_DIR", cfg.Dir, "is empty", "name a folder")
	}
	dir, err := filepath.Abs(cfg.Dir) // steps run in folders of their own
	if err != nil {
		return nil, fmt.Errorf("local executor: %w", err)
	}
	cfg.Dir = dir
	if cfg.Concurrency <= 0 {
		cfg.Concurrency = DefaultConcurrency
	}
	if cfg.StepConcurrency <= 0 {
		cfg.StepConcurrency = DefaultStepConcurrency
	}
	if cfg.StopGrace <= 0 {
		cfg.StopGrace = DefaultStopGrace
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("component", "local")
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	as, err := findAccount(cfg.User)
	if err != nil {
		return nil, err
	}
	files := folders{runs: filepath.Join(dir, "runs"), work: filepath.Join(dir, "work")}
	for _, d := range []string{files.openDir(), files.work} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("local executor: %w", err)
		}
	}
	for _, d := range []string{files.runs, files.openDir(), files.work} {
		if err := private.File(d); err != nil {
			return nil, fmt.Errorf("local executor: %w", err)
		}
	}
	lock, err := claimFolder(filepath.Join(files.runs, "lock"))
	if err != nil {
		return nil, fmt.Errorf("local executor: %s: %w", dir, err)
	}
	files.sweep()
	if err := errors.Join(as.passes(dir, files.runs, files.work), as.probe(files.work)); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("local executor: %w", err)
	}
	return &Executor{
		cfg: cfg, files: files, account: as, lock: lock, client: cfg.Egress.NewClient(safehttp.Options{}),
		wake: make(chan struct{}, 1), runs: make(map[schedule.Key]*activeRun),
	}, nil
}

// Close unlocks the folders. Serve must have returned.
func (e *Executor) Close() error {
	e.client.CloseIdleConnections()
	return e.lock.Close()
}

// Run accepts a run and answers ENQUEUED; it begins when a concurrent run ends. A
// known key is answered with its state.
func (e *Executor) Run(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	for {
		r, first, err := e.enter(call.Key)
		if err != nil {
			return schedule.Outcome{}, err
		}
		if first {
			e.accept(r, call)
			return r.outcome()
		}
		select {
		case <-r.accepted:
		case <-ctx.Done():
			return schedule.Outcome{}, ctx.Err()
		}
		if !errors.Is(r.err, errOnlyAsked) {
			return r.outcome()
		}
	}
}

// enter finds the run of a key, or adds it; first: the caller must accept it.
func (e *Executor) enter(key schedule.Key) (r *activeRun, first bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r, known := e.runs[key]; known {
		return r, false, nil
	}
	if e.stopping {
		return nil, false, fmt.Errorf("local executor: %w: it is stopping", launcher.ErrNotSent)
	}
	r = newActiveRun(key)
	e.runs[key] = r
	return r, true, nil
}

func newActiveRun(key schedule.Key) *activeRun {
	return &activeRun{key: key, accepted: make(chan struct{}), done: make(chan struct{})}
}

// accept accepts a key that this process has not seen, or answers from its files.
func (e *Executor) accept(r *activeRun, call launcher.Call) {
	defer close(r.accepted)
	known, err := e.earlier(r.key)
	if err == nil && known != nil {
		r.finish(known)
		e.forget(r)
		return
	}
	if err == nil {
		r.dag, err = Parse(call.DAG)
		if err != nil {
			err = &launcher.Refusal{Code: string(schedule.CodeDAGInvalid), Message: executor.Text(err.Error(), executor.MaxMessage)}
		}
	}
	if _, ok := e.files.workOf(call.UserID, call.WorkflowID); err == nil && !ok {
		err = &launcher.Refusal{Code: string(schedule.CodeWorkflowIDUnsafe), Message: "workflow_id " + schedule.Quote(call.WorkflowID) +
			" of owner " + schedule.Quote(call.UserID) + " cannot name a folder; name the workflow otherwise"}
	}
	if err == nil {
		r.call = e.acceptedOf(call)
		err = e.files.accept(r.key, r.call)
	}
	if err != nil {
		r.err = err
		e.forget(r)
		return
	}
	e.enqueue(r)
}

// earlier is the result of a key that began under an earlier process: its own, or
// lost. nil: nothing of it has run.
func (e *Executor) earlier(key schedule.Key) (*Result, error) {
	known, err := e.files.result(key)
	if err != nil || known != nil {
		return known, err
	}
	begun, session, err := e.files.begun(key)
	if err != nil || !begun {
		return nil, err
	}
	// The next run may begin when this one has ended: end what is left of it.
	endLeftovers(key.String(), session)
	// Without its call, its workflow is unknown.
	call, err := e.files.loadAccepted(key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lost := e.ended(key, call, schedule.StatusFailed, string(schedule.CodeLost), "the process ended while it ran")
	return lost, e.files.finish(key, lost)
}

func (e *Executor) acceptedOf(call launcher.Call) accepted {
	input := call.Input
	if input == nil {
		input = json.RawMessage("null")
	}
	state := call.State.Value
	if state == nil {
		state = json.RawMessage("null")
	}
	timeout := call.RunTimeout
	if timeout <= 0 {
		timeout = schedule.DefaultRunTimeout
	}
	var events json.RawMessage
	if call.Events != nil {
		var err error
		if events, err = json.Marshal(call.Events.Bodies()); err != nil {
			panic("the data of an event are not JSON: " + err.Error()) // the registrar has checked them
		}
	}
	return accepted{
		Key: call.Key.String(), ScheduleID: call.ScheduleID, WorkflowID: call.WorkflowID, Version: call.Version,
		UserID: call.UserID, ScheduledFor: call.ScheduledFor.UTC(), Trigger: string(call.Trigger), Attempt: call.Attempt,
		RunTimeout: timeout, Input: input, Events: events, State: state, DAG: call.DAG, AcceptedAt: e.cfg.Now().UTC(),
	}
}

// enqueue adds the run to the queue of Serve.
func (e *Executor) enqueue(r *activeRun) {
	e.mu.Lock()
	e.queue = append(e.queue, r)
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default: // it is awake already
	}
}

// forget removes the run from memory; its files stay.
func (e *Executor) forget(r *activeRun) {
	e.mu.Lock()
	delete(e.runs, r.key)
	e.mu.Unlock()
}

// GetByKey returns the state of a key.
func (e *Executor) GetByKey(ctx context.Context, ref schedule.RunRef) (schedule.Outcome, error) {
	r, first, err := e.enter(ref.Key)
	if err != nil {
		return schedule.Outcome{}, err
	}
	if first {
		return e.ask(r)
	}
	select {
	case <-r.accepted:
		return r.outcome()
	case <-ctx.Done():
		return schedule.Outcome{}, ctx.Err()
	}
}

// ask answers from the files. It enters the key while it reads them: a run that
// began at that moment would look lost.
func (e *Executor) ask(r *activeRun) (schedule.Outcome, error) {
	defer close(r.accepted)
	defer e.forget(r)
	r.err = errOnlyAsked
	known, err := e.earlier(r.key)
	if err != nil {
		return schedule.Outcome{}, err
	}
	if known != nil {
		return known.outcome(r.key), nil
	}
	if _, err := e.files.loadAccepted(r.key); err == nil {
		return enqueued(r.key), nil
	}
	return schedule.Outcome{}, fmt.Errorf("local executor: %w: key %s", schedule.ErrNotFound, r.key)
}

// outcome answers a call about the run; r.accepted is closed.
func (r *activeRun) outcome() (schedule.Outcome, error) {
	if r.err != nil {
		return schedule.Outcome{}, r.err
	}
	select {
	case <-r.done:
		return r.result.outcome(r.key), nil
	default:
		return enqueued(r.key), nil
	}
}

func enqueued(key schedule.Key) schedule.Outcome {
	return schedule.Outcome{Status: schedule.StatusEnqueued, RunID: runID(key), TraceID: executor.TraceID(key)}
}

func (r *activeRun) finish(result *Result) {
	r.result = result
	close(r.done)
}

func (r *Result) outcome(key schedule.Key) schedule.Outcome {
	o := schedule.Outcome{Status: r.Status, RunID: r.RunID, TraceID: executor.TraceID(key), ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage}
	if r.Status == schedule.StatusFailed {
		o.Reason = schedule.ReasonWorkflowFailed
		if r.ErrorCode == string(schedule.CodeLost) {
			o.Reason = schedule.ReasonLost
		}
		if r.ErrorCode == string(schedule.CodeCommitInvalid) {
			o.FailureClass = schedule.ClassLogic
		}
	}
	commit, err := r.Commit.of(key)
	result.Enter(&o, commit, err)
	return o
}

// runID is the executor's name of a run: the first 16 digits of the key.
func runID(key schedule.Key) string { return key.String()[:16] }

func (e *Executor) ended(key schedule.Key, call accepted, status schedule.Status, code, message string) *Result {
	return &Result{
		RunID: runID(key), WorkflowID: call.WorkflowID, Version: call.Version, Status: status,
		ErrorCode: code, ErrorMessage: executor.Text(message, executor.MaxMessage), CompletedAt: e.cfg.Now().UTC(),
	}
}
