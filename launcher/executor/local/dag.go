package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// DAG is what the local executor reads of a workflow.
type DAG struct {
	Env   map[string]string // for every step
	Steps []Step
}

// Step is one command or HTTP call.
type Step struct {
	ID    string   `json:"id"`
	Needs []string `json:"needs"` // ids of steps that must have ended first

	Run   []string  `json:"run"`   // a program and its arguments, or
	Shell Script    `json:"shell"` // a script for /bin/sh -eu, or
	HTTP  *HTTPCall `json:"http"`  // a call

	Env             map[string]string `json:"env"`
	Dir             string            `json:"dir"`        // relative to the work folder, which is also the default
	TimeoutMS       int64             `json:"timeout_ms"` // of one attempt; 0: the run timeout, 30 s for a call
	Retries         int               `json:"retries"`    // more attempts after the first
	RetryDelayMS    int64             `json:"retry_delay_ms"`
	ContinueOnError bool              `json:"continue_on_error"` // its failure is not the run's
}

// step finds a step by its id.
func (d *DAG) step(id string) *Step {
	i := slices.IndexFunc(d.Steps, func(s Step) bool { return s.ID == id })
	return &d.Steps[i]
}

// Script is a shell script: in JSON one string, or a list of its lines.
type Script string

// UnmarshalJSON reads either form.
func (s *Script) UnmarshalJSON(raw []byte) error {
	var lines []string
	if json.Unmarshal(raw, &lines) == nil {
		*s = Script(strings.Join(lines, "\n"))
		return nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("shell is neither a string nor a list of lines")
	}
	*s = Script(text)
	return nil
}

// HTTPCall is a step that makes one request. ${NAME} in url, headers and body
// is replaced from the step's environment.
type HTTPCall struct {
	Method       string            `json:"method"` // default GET, POST with a body
	URL          string            `json:"url"`
	Headers      map[string]string `json:"headers"`
	Body         json.RawMessage   `json:"body"`          // a string is sent as it is, anything else as JSON
	ExpectStatus []int             `json:"expect_status"` // default: any 2xx
	SaveAs       string            `json:"save_as"`       // a file in the run's folder
}

// Limits of a DAG, in addition to schedule.MaxDAGBytes.
const (
	MaxSteps       = 200
	MaxStepID      = 64
	MaxRetries     = 100
	MaxStepTimeout = schedule.MaxRunTimeout
	MaxRetryDelay  = time.Hour
)

// Parse reads and checks a DAG. The error is a *schedule.InvalidError that lists
// every problem.
func Parse(raw []byte) (*DAG, error) {
	if len(raw) > schedule.MaxDAGBytes {
		return nil, schedule.Invalid("dag", fmt.Sprintf("%d bytes", len(raw)), fmt.Sprintf("is more than %d", schedule.MaxDAGBytes), "store large files elsewhere")
	}
	var outer struct {
		Env   map[string]string `json:"env"`
		Steps []json.RawMessage `json:"steps"`
	}
	if err := json.Unmarshal(raw, &outer); err != nil {
		return nil, schedule.Invalid("dag", string(raw), "is not a DAG: "+err.Error(), `write {"steps": [{"id": "hello", "shell": "echo hello"}]}`)
	}
	var bad schedule.Collect
	dag := &DAG{Env: outer.Env}
	if len(outer.Steps) == 0 || len(outer.Steps) > MaxSteps {
		bad.Note("steps", fmt.Sprintf("has %d entries", len(outer.Steps)), fmt.Sprintf("give 1 to %d", MaxSteps))
		return nil, bad.Err()
	}
	for i, rawStep := range outer.Steps {
		step, err := decodeStep(rawStep)
		if err != nil {
			bad.Note(fmt.Sprintf("steps[%d]", i), "is not a step: "+err.Error(), "docs/examples/README.md lists the members")
		}
		dag.Steps = append(dag.Steps, step)
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	check(&bad, dag)
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return dag, nil
}

// decodeStep is strict: an unknown member is a misspelt one.
func decodeStep(raw json.RawMessage) (Step, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var step Step
	if err := dec.Decode(&step); err != nil {
		return Step{}, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return Step{}, fmt.Errorf("there is text after it")
	}
	return step, nil
}

// timeout bounds one attempt. Without it a hung command would keep its run, and the
// schedule, in flight without end.
func (s *Step) timeout(runTimeout time.Duration) time.Duration {
	switch {
	case s.TimeoutMS > 0:
		return time.Duration(s.TimeoutMS) * time.Millisecond
	case s.HTTP != nil:
		return min(30*time.Second, runTimeout)
	}
	return runTimeout
}

func (s *Step) retryDelay() time.Duration {
	if s.RetryDelayMS > 0 {
		return time.Duration(s.RetryDelayMS) * time.Millisecond
	}
	return time.Second
}
