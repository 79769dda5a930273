package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// accepted is the content of open/<key>.json: a run as it was handed over.
type accepted struct {
	Key          string          `json:"idempotency_key"`
	ScheduleID   string          `json:"schedule_id"`
	WorkflowID   string          `json:"workflow_id"`
	Version      int32           `json:"version"`
	UserID       string          `json:"user_id"`
	ScheduledFor time.Time       `json:"scheduled_for"`
	Trigger      string          `json:"trigger"`
	Attempt      int32           `json:"attempt"`
	RunTimeout   time.Duration   `json:"run_timeout_ns"`
	Input        json.RawMessage `json:"input"`
	Events       json.RawMessage `json:"events,omitempty"` // of a run of a consumer
	State        json.RawMessage `json:"state"`            // of the schedule; null: none was kept
	DAG          json.RawMessage `json:"dag"`
	AcceptedAt   time.Time       `json:"accepted_at"`
}

// Result is the content of result.json: how a run ended.
type Result struct {
	RunID        string          `json:"run_id"`
	WorkflowID   string          `json:"workflow_id"`
	Version      int32           `json:"version"`
	Status       schedule.Status `json:"status"`
	ErrorCode    string          `json:"error_code,omitempty"`
	ErrorMessage string          `json:"error_message,omitempty"`
	ExitCode     *int32          `json:"exit_code,omitempty"` // of the step that failed first, where it is a command
	StartedAt    time.Time       `json:"started_at,omitzero"`
	CompletedAt  time.Time       `json:"completed_at"`
	Steps        []StepResult    `json:"steps,omitempty"`
	Commit       *committed      `json:"commit,omitempty"` // of a success
}

// StepResult is how one step ended.
type StepResult struct {
	ID          string    `json:"id"`
	Status      string    `json:"status"`         // SUCCESS, FAILED or SKIPPED
	Code        int       `json:"code,omitempty"` // exit code or HTTP status of the last attempt
	Attempts    int       `json:"attempts"`
	Message     string    `json:"message,omitempty"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
}

// folders holds the files of the guarantee; doc.go has their order.
type folders struct {
	runs string // DATA_DIR/runs
	work string // DATA_DIR/work
}

func (f folders) run(key schedule.Key) string {
	name := key.String()
	return filepath.Join(f.runs, name[:2], name)
}

// workOf is the folder that the runs of one owner's workflow share,
// work/owners/<user_id>/<workflow_id>: owners never see each other's files, even if
// they use the same workflow. For runs without an owner it is work/<workflow_id>. ok
// is false if the ids cannot name a folder.
func (f folders) workOf(userID, workflowID string) (path string, ok bool) {
	owner, ok := schedule.OwnerPath(userID)
	if !ok || !schedule.ValidID(workflowID) || workflowID == "." || workflowID == ".." || workflowID == schedule.OwnersFolder {
		return "", false
	}
	return filepath.Join(f.work, filepath.FromSlash(owner), workflowID), true
}

func (f folders) openDir() string { return filepath.Join(f.runs, "open") }

func (f folders) open(key schedule.Key) string {
	return filepath.Join(f.openDir(), key.String()+".json")
}

// accept records durably that a run was accepted.
func (f folders) accept(key schedule.Key, a accepted) error {
	content, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("write down the accepted run: %w", err)
	}
	if err := writeDurably(f.open(key), content); err != nil {
		return fmt.Errorf("write down the accepted run: %w", err)
	}
	return nil
}

// loadAccepted reads what accept wrote; fs.ErrNotExist: it is not open.
func (f folders) loadAccepted(key schedule.Key) (accepted, error) {
	var a accepted
	content, err := os.ReadFile(f.open(key))
	if err != nil {
		return a, fmt.Errorf("read the accepted run: %w", err)
	}
	if err := json.Unmarshal(content, &a); err != nil {
		return a, fmt.Errorf("read the accepted run %s: %w", key, err)
	}
	return a, nil
}

// markerForm is the content of a marker, for people and for endLeftovers.
const markerForm = "%s pid %d session %d\n"

// noSession is an unknown session; 0 is a real one.
const noSession = -1

// begin creates the run's folder and its marker. fs.ErrExist: it has begun before, in
// this process or an earlier one, and must not begin again.
func (f folders) begin(key schedule.Key, now time.Time) error {
	dir := f.run(key)
	for _, d := range []string{filepath.Dir(dir), dir, filepath.Join(dir, "files"), filepath.Join(dir, "logs")} {
		if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make the run's folder: %w", err)
		}
	}
	marker, err := os.OpenFile(filepath.Join(dir, "started"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("mark the run as begun: %w", err)
	}
	_, err = fmt.Fprintf(marker, markerForm, now.UTC().Format(time.RFC3339Nano), os.Getpid(), ownSession())
	err = errors.Join(err, marker.Sync(), marker.Close())
	// The marker counts only once every folder on the way to it is durable too.
	for d := dir; err == nil && len(d) >= len(f.runs); d = filepath.Dir(d) {
		err = syncDir(d)
	}
	if err != nil {
		return fmt.Errorf("mark the run as begun: %w", err)
	}
	return nil
}

// begun reports whether the marker exists, and in which Unix session the run began.
func (f folders) begun(key schedule.Key) (yes bool, session int, err error) {
	content, err := os.ReadFile(filepath.Join(f.run(key), "started"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, noSession, nil
	}
	if err != nil {
		return false, noSession, fmt.Errorf("look for the run's marker: %w", err)
	}
	var at string
	var pid int
	// An empty marker, left by a crash, is one too.
	if _, err := fmt.Sscanf(string(content), markerForm, &at, &pid, &session); err != nil {
		session = noSession
	}
	return true, session, nil
}

// finish records the result durably.
func (f folders) finish(key schedule.Key, r *Result) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the run's result: %w", err)
	}
	dir := f.run(key)
	if err := os.MkdirAll(dir, 0o700); err != nil { // a run that is cancelled before it began has none
		return fmt.Errorf("write the run's result: %w", err)
	}
	if err := writeDurably(filepath.Join(dir, "result.json"), append(content, '\n')); err != nil {
		return fmt.Errorf("write the run's result: %w", err)
	}
	return nil
}

// result reads the result of a run; nil: it has not ended, or is unknown.
func (f folders) result(key schedule.Key) (*Result, error) {
	content, err := os.ReadFile(filepath.Join(f.run(key), "result.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the run's result: %w", err)
	}
	var r Result
	if err := json.Unmarshal(content, &r); err != nil {
		return nil, fmt.Errorf("read the run's result %s: %w", key, err)
	}
	return &r, nil
}

// close removes the file of an open run. If a crash undoes this, the end is reported
// twice.
func (f folders) close(key schedule.Key) error {
	if err := os.Remove(f.open(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("close the run: %w", err)
	}
	return nil
}

// openKeys lists the runs that are open.
func (f folders) openKeys() ([]schedule.Key, error) {
	entries, err := os.ReadDir(f.openDir())
	if err != nil {
		return nil, fmt.Errorf("list open runs: %w", err)
	}
	keys := make([]schedule.Key, 0, len(entries))
	for _, entry := range entries {
		name, isJSON := strings.CutSuffix(entry.Name(), ".json")
		key, err := schedule.ParseKey(name)
		if !isJSON || err != nil {
			continue // half-written by a crash, or not ours
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// writeDurably replaces a file atomically, also if the host crashes.
func writeDurably(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
