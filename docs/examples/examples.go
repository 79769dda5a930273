// Package examples holds workflows that run on any Debian machine as it comes,
// and deploys them, so that the first minute shows something real. README.md
// explains them and the DAG of the local executor.
package examples

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

//go:embed *.json
var files embed.FS

// Workflow is one example: the DAG of its file.
type Workflow struct {
	WorkflowID string
	Version    int32
	DAG        []byte
}

// Workflows lists the examples by name.
func Workflows() ([]Workflow, error) {
	names, err := fs.Glob(files, "*.json") // sorted
	if err != nil {
		return nil, fmt.Errorf("list the examples: %w", err)
	}
	out := make([]Workflow, 0, len(names))
	for _, name := range names {
		dag, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read an example: %w", err)
		}
		var head struct {
			WorkflowID string `json:"workflow_id"`
			Version    int32  `json:"version"`
		}
		if err := json.Unmarshal(dag, &head); err != nil {
			return nil, fmt.Errorf("read the example %s: %w", name, err)
		}
		out = append(out, Workflow{WorkflowID: head.WorkflowID, Version: head.Version, DAG: dag})
	}
	return out, nil
}

// Deploy deploys the examples for userID and counts their schedules. A repeat changes
// nothing. An example that the user has changed or replaced is left alone.
func Deploy(ctx context.Context, conn grpc.ClientConnInterface, userID string) (schedules int, err error) {
	workflows, err := Workflows()
	if err != nil {
		return 0, err
	}
	client := carillonv1.NewWorkflowServiceClient(conn)
	for _, w := range workflows {
		newer, err := hasNewer(ctx, client, userID, w)
		if err != nil {
			return schedules, fmt.Errorf("look for %s: %w", w.WorkflowID, err)
		}
		if newer {
			continue
		}
		answer, err := client.DeployWorkflow(ctx, &carillonv1.DeployWorkflowRequest{
			WorkflowId: w.WorkflowID, Version: w.Version, UserId: userID, Dag: w.DAG,
		}, grpc.WaitForReady(true))
		if status.Code(err) == codes.AlreadyExists {
			continue
		}
		if err != nil {
			return schedules, fmt.Errorf("deploy %s: %w", w.WorkflowID, err)
		}
		schedules += len(answer.GetSchedules())
	}
	return schedules, nil
}

// hasNewer: deploying the example's version over it would take the schedules
// back.
func hasNewer(ctx context.Context, client carillonv1.WorkflowServiceClient, userID string, w Workflow) (bool, error) {
	list, err := client.ListWorkflowVersions(ctx, &carillonv1.ListWorkflowVersionsRequest{WorkflowId: w.WorkflowID, UserId: userID}, grpc.WaitForReady(true))
	if status.Code(err) == codes.NotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	versions := list.GetWorkflowVersions() // newest first
	return len(versions) > 0 && versions[0].GetVersion() > w.Version, nil
}
