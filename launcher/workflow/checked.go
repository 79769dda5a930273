package workflow

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
)

// Checked returns dag, or a *schedule.InvalidError if it is no DAG. Other programs write
// files and objects: an executor must not get half of one.
func Checked(name string, dag []byte) ([]byte, error) {
	problem := ""
	if len(dag) > schedule.MaxDAGBytes {
		problem = fmt.Sprintf("has more than %d bytes", schedule.MaxDAGBytes)
	} else if problem = rawjson.Problem(dag, schedule.MaxJSONDepth); problem == "" && !bytes.HasPrefix(bytes.TrimSpace(dag), []byte("{")) {
		problem = "is no JSON object"
	}
	if problem != "" {
		return nil, &schedule.InvalidError{Violations: []schedule.Violation{{
			Field: "dag", Problem: name + " " + problem, Hint: "versions are immutable: put a new one",
		}}}
	}
	return dag, nil
}

// Fallback asks the second store for versions that the first does not hold.
type Fallback struct{ First, Second Versions }

// LoadDAG returns schedule.ErrNotFound if neither holds it.
func (f Fallback) LoadDAG(ctx context.Context, userID, workflowID string, version int32) ([]byte, error) {
	dag, err := f.First.LoadDAG(ctx, userID, workflowID, version)
	if errors.Is(err, schedule.ErrNotFound) {
		return f.Second.LoadDAG(ctx, userID, workflowID, version)
	}
	return dag, err
}
