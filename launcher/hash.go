package launcher

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// requestHash is sha256 over the canonical JSON of what makes two requests of
// one key the same: never attempt, epoch, trace or DAG, for a redelivery is
// the same request.
func requestHash(req schedule.StartRequest) ([32]byte, error) {
	input := req.Input
	if len(input) == 0 {
		input = json.RawMessage("null")
	}
	raw, err := json.Marshal(map[string]any{
		"schedule_id":        req.ScheduleID,
		"workflow_id":        req.WorkflowID,
		"version":            req.Version,
		"user_id":            req.UserID,
		"scheduled_for":      req.ScheduledFor.UTC().Format(time.RFC3339Nano),
		"trigger":            req.Trigger,
		"execution_grant_id": req.ExecutionGrantID,
		"input":              input,
	})
	if err != nil {
		return [32]byte{}, fmt.Errorf("input is not JSON: %w", err)
	}
	return schedule.CanonicalHash(raw)
}
